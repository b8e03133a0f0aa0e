"""Formulas that docstrings have as plain text, such as k = s^2 exp(-r^2 / 2), as TeX.

A formula is a run of words that are letters, names of `WORDS`, numbers, operators and brackets, with a
relation among them. Whatever is in doubt, such as brackets that do not close, stays as it is typed.
"""

from __future__ import annotations

import re

GREEK = (
    "alpha beta delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi omega Phi"
)
FUNCTIONS = "exp log sin min max det sum prod int"
SYMBOLS = {name: "\\" + name for name in (*GREEK.split(), *FUNCTIONS.split())} | {
    "eps": r"\epsilon",
    "inf": r"\infty",
    "logit": r"\mathrm{logit}",
    "tr": r"\mathrm{tr}",
    "diag": r"\mathrm{diag}",
    "sqrt": r"\sqrt",
    "hat": "",
    "du": r"\,du",
    "df": r"\,df",
    "dtheta": r"\,d\theta",
}
WORDS = [
    "mean",
    "mix",
    "noise_sd",
    "noise",
    "shape",
    "span",
    "start",
    "step",
    "intercept",
    "slope",
    "rest",
]
OPERATORS = {
    "->": r"\to ",
    "<=": r"\le ",
    ">=": r"\ge ",
    "!=": r"\ne ",
    "~": r"\sim ",
    "..": r"\ldots ",
    "...": r"\ldots ",
    "*": r"{*}",
    "{": r"\{",
    "}": r"\}",
}
RELATION = re.compile(r"(?<![=!<>])=|(?<= )[~<>](?= )|<=|>=|->")
PIECE = re.compile(
    r"[A-Za-z]+_sd|[A-Za-z]+|\d+e-?\d+|\d+(?:\.\d+)?|->|<=|>=|!=|\.\.\.?|_[A-Za-z]{0,2}\*{1,2}[A-Za-z]?|."
)
PAIRS = {")": "(", "]": "[", "}": "{"}


def is_name(letters: str) -> bool:
    """Whether letters stand for something in a formula."""
    return letters in SYMBOLS or letters in WORDS or bool(re.fullmatch("[A-Za-z]|GP", letters))


def is_math(word: str) -> bool:
    """Whether a word, without the punctuation at its end, can be part of a formula."""
    word = word.rstrip(",.;:")
    if not re.fullmatch(r"[\w'()\[\]{}|^+\-*/=<>!,.]+|~|", word):
        return False
    names = re.findall(r"_?[A-Za-z]+", re.sub(r"[A-Za-z]+_sd", "s", re.sub(r"\de-?\d", "1", word)))
    subscripts = [name[1:] for name in names if name[0] == "_"]
    others = [name for name in names if name[0] != "_"]
    return all(map(is_name, others)) and all(len(name) < 3 or is_name(name) for name in subscripts)


def balanced(text: str) -> bool:
    """Whether all brackets close, in order; a bar between blanks is that of a condition."""
    stack: list[str] = []
    for c in text:
        if c in PAIRS.values():
            stack.append(c)
        elif c in PAIRS and (not stack or stack.pop() != PAIRS[c]):
            return False
    return not stack and text.replace(" | ", "").count("|") % 2 == 0


def closing(pieces: list[str], at: int) -> int:
    """Place of the bracket that closes the one at a place."""
    depth = 0
    for k in range(at, len(pieces)):
        depth += (pieces[k] in "([{") - (pieces[k] in ")]}")
        if depth == 0:
            return k
    return len(pieces) - 1


def tex(text: str) -> str:
    """A formula of plain text as TeX."""
    pieces, out, k = PIECE.findall(text), [], 0
    while k < len(pieces):
        piece, after = pieces[k], pieces[k + 1] if k + 1 < len(pieces) else ""
        if piece in ("^", "_", "sqrt"):
            first = k + 1 + (piece == "^" and after == "-")
            last = closing(pieces, first) if pieces[first] in "({" else first
            index = piece == "_" and after.isdigit() and last + 1 < len(pieces)
            last += index and pieces[last + 1].isalpha()  # eta_1i
            inner = pieces[k + 1 : last + 1]
            inner = inner[1:-1] if inner[0] in "({" else inner
            out.append((r"\sqrt" if piece == "sqrt" else piece) + "{" + tex("".join(inner)) + "}")
            k = last
        elif piece[0] == "_":  # K_*n
            out.append("_{" + piece[1:].replace("*", "{*}") + "}")
        elif piece == "*" and out:  # y*
            out.append("^{*}")
        elif re.fullmatch(r"\d+e-?\d+", piece):
            digits, _, power = piece.partition("e")
            out.append(("" if digits == "1" else digits + r"\cdot ") + "10^{" + power + "}")
        elif piece.isdigit() and k and pieces[k - 1].isalpha():  # p0
            out.append("_{" + piece + "}")
        elif piece in WORDS or piece.endswith("sd"):
            out.append(r"\mathrm{" + piece.replace("_", r"\_") + "}")
        elif piece == "G" and after == "(" and pieces[k - 2 : k - 1] == ["log"]:
            out.append(r"\Gamma ")
        elif piece.isalpha():
            name = SYMBOLS.get(piece, piece)
            hat = pieces[k + 1 : k + 3] == ["-", "hat"]
            out.append(r"\hat{" + name + "}" if hat else name + " " * name.startswith("\\"))
            k += 2 * hat
        elif piece == " " and pieces[k - 1] not in FUNCTIONS.split():
            factors = re.match(r"[\w'}]", pieces[k - 1][-1]) and re.match(r"\w", after)
            out.append(r"\, " if factors else " ")
        else:
            out.append(OPERATORS.get(piece, piece))
        k += 1
    return "".join(out)


def formulas(text: str) -> list[tuple[int, int]]:
    """Where the formulas of a paragraph begin and end."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    found: list[tuple[int, int]] = []
    first = 0
    while first < len(words):
        last = first
        while last < len(words) and is_math(text[slice(*words[last])]):
            last += 1
            so_far = text[words[first][0] : words[last - 1][1]]
            if so_far[-1] in ".;:" and so_far[-2:-1] != "." and balanced(so_far):
                break
        if last > first:
            found += _between_commas(
                text, words[first:last], text[words[last - 1][1] :].lstrip()[:12]
            )
        first = max(last, first + 1)
    return found


def _between_commas(text: str, words: list[tuple[int, int]], after: str) -> list[tuple[int, int]]:
    """The parts of a run that are formulas: with a relation, and brackets that close."""
    parts, begin = [], words[0][0]
    for k, (_, end) in enumerate(words):
        raw = text[begin:end]
        if k < len(words) - 1 and not (raw.endswith(",") and balanced(raw)):
            continue
        own = raw.rstrip(",.;:")
        goes_on = own == raw and re.match(r"\S*[_^{(=*]", after)  # by something unknown
        lead = re.match(r"(?:a|of|A|I|mean(?= \w+ =)) (?=[A-Za-z])", own)
        shift = lead.end() if lead else 0
        shown = own[shift:]
        whole = balanced(shown) and not goes_on and not re.search(r"^[=<>~]|[-=+/<>~]$", shown)
        if whole and RELATION.search(shown):
            parts.append((begin + shift, begin + len(own)))
        if k < len(words) - 1:
            begin = words[k + 1][0]
    return parts
