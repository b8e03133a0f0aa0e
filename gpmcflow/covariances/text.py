"""Covariance expressions as text: ``matern32(age, bmi, ard=True) + categorical(sex) + linear(dose, sd=5.0)``.

Positional names are columns (in quotes where they are no Python names), parameters go by keyword: numbers,
names of the given hyperpriors, ``prior('gamma', on='natural', a=2.0)``, ``shared('ell', ...)``, or tuples of
these. The text is read as a syntax tree of calls, ``+`` and ``*``; nothing in it is executed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NoReturn

from gpmcflow.covariances.expressions import Covariance
from gpmcflow.covariances.leaves import LEAVES
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.parameters.hyperpriors import Hyperprior, hyperprior
from gpmcflow.parameters.parameter import Parameter

_KINDS = {"ard": (bool, "True or False"), "name": (str, "a text in quotes")}
MOST_TERMS = 200  # of a covariance, each of which is computed for every pair of rows
_SHOWN = "calls of covariances, + and *, such as 'matern32(age) + linear(dose, sd=5.0)'"


KNOWN = ("graph", "correlation")  # parameters whose value may be the name of a file's content


def parse_covariance(
    text: str,
    priors: Mapping[str, Any] | None = None,
    where: str = "covariance",
    known: Mapping[str, Any] | None = None,
) -> Covariance:
    """Read a covariance expression from text, as configs hold it.

    Positional arguments are columns (in quotes where they are no Python names), parameters go by keyword:
    numbers, names of hyperpriors in ``priors``, ``prior('gamma', on='natural', a=2.0)``,
    ``shared('ell', ...)``, or tuples of these. A number beside ``*`` is a fixed factor, beside ``+`` the
    variance of a constant. The text is read as a syntax tree of calls, ``+`` and ``*``; nothing in it is
    executed.

    Parameters
    ----------
    text:
        The expression.
    priors:
        Hyperpriors, or mappings of their fields, by the names that the text has for them.
    where:
        What messages of errors begin with.
    known:
        Graphs and correlations by the names that the text has for them, as in ``areal(ward, graph=edges)``.

    Returns
    -------
    The covariance, as the same expression in Python gives it.

    Raises
    ------
    InputError:
        For text that holds anything else, with the part of it that cannot be read.

    Examples
    --------
    >>> import gpmcflow as gp
    >>> gp.parse_covariance("matern32(age, bmi, ard=True) + linear(dose, sd=5.0)")
    Matern32(ard=True, columns=('age', 'bmi')) + Linear(sd=5.0, columns=('dose',))
    """
    if not isinstance(priors or {}, Mapping):
        raise InputError(
            f"{where}: priors are {priors!r}; allowed: a mapping of names to hyperpriors"
        )
    named = {key: hyperprior(value, f"priors.{key}") for key, value in (priors or {}).items()}
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = getattr(error, "msg", error)
        raise InputError(f"{where}: {text!r} cannot be read ({why}); allowed: {_SHOWN}") from None
    terms = sum(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") in LEAVES
        for node in ast.walk(tree)
    )
    if terms > MOST_TERMS:
        raise InputError(f"{where}: found {terms} terms; allowed: at most {MOST_TERMS}")
    try:
        return _Reader(text, named, where, known or {}).expression(tree)
    except RecursionError:
        raise InputError(
            f"{where}: numbers and brackets are nested too deeply; allowed: {_SHOWN}"
        ) from None


def parse_setting(text: str, where: str) -> Any:
    """Setting of a parameter, as `setting_text` writes it: a number, ``prior(..)`` or ``shared(..)``."""
    return _Reader(text, {}, where).value(ast.parse(text.strip(), mode="eval").body)


class _Reader:
    def __init__(
        self,
        text: str,
        priors: Mapping[str, Hyperprior | float],
        where: str,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        self.text, self.priors, self.where, self.known = text, priors, where, known or {}

    def expression(self, node: ast.AST) -> Covariance:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            left, right = self.operand(node.left), self.operand(node.right)
            if isinstance(left, Covariance) or isinstance(right, Covariance):
                combined = operator.add if isinstance(node.op, ast.Add) else operator.mul
                return self.made(combined, left, right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self.leaf(node.func.id, node)
        self.refuse(node, _SHOWN)

    def operand(self, node: ast.AST) -> Any:
        """A covariance, or a number beside + and *."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        return self.expression(node)

    def leaf(self, name: str, node: ast.Call) -> Covariance:
        if name not in LEAVES:
            raise unknown_name(f"{self.where}: covariance", name, LEAVES)
        kind = LEAVES[name]
        columns = tuple(self.column(argument) for argument in node.args)
        allowed = [f.name for f in fields(kind) if f.name != "columns"]
        settings = {}
        for keyword in node.keywords:
            if keyword.arg not in allowed:
                raise unknown_name(f"{self.where}: {name}: parameter", str(keyword.arg), allowed)
            if keyword.arg in settings:
                raise InputError(
                    f"{self.where}: {name}: {keyword.arg} is given twice; give it once"
                )
            named = keyword.arg in KNOWN and isinstance(keyword.value, ast.Name)
            value = self.file(name, keyword) if named else self.value(keyword.value)
            settings[keyword.arg] = value
            wanted, words = _KINDS.get(keyword.arg, (object, ""))
            if not isinstance(value, wanted):
                raise InputError(
                    f"{self.where}: {name}: {keyword.arg} is {value!r}; allowed: {words}"
                )
        return self.made(kind, columns=columns or None, **settings)

    def file(self, leaf: str, keyword: ast.keyword) -> Any:
        """A graph or a correlation by its name."""
        name, key = keyword.value.id, keyword.arg  # type: ignore[attr-defined]
        if name not in self.known:
            there = ", ".join(self.known) or "none"
            raise InputError(
                f"{self.where}: {leaf}: {key}={name} names no file; there are: {there}; in a config write "
                f"{key}s: {{{name}: a_file.csv}} under data"
            )
        return self.known[name]

    def made(self, kind: Callable, *arguments: Any, **settings: Any) -> Any:
        try:
            return kind(*arguments, **settings)
        except (InputError, OverflowError) as error:
            raise InputError(f"{self.where}: {error}") from None

    def column(self, node: ast.AST) -> str | int:
        if isinstance(node, ast.Name):
            return node.id
        value: Any = getattr(node, "value", None)
        if isinstance(node, ast.Constant) and type(value) in (str, int):
            return value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            place = self.column(node.operand)
            return -place if isinstance(place, int) else self.refuse(node, "a place or a name")
        self.refuse(node, "names of columns first, then parameters by keyword")

    def value(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bool):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self.value(node.operand)
            return -number if isinstance(number, (int, float)) else self.refuse(node, "a number")
        if isinstance(node, ast.Tuple):
            return tuple(self.value(element) for element in node.elts)
        if isinstance(node, ast.Name):
            if node.id not in self.priors:
                raise unknown_name(f"{self.where}: hyperprior", node.id, self.priors)
            return self.priors[node.id]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            arguments = [self.value(argument) for argument in node.args]
            settings = {str(k.arg): self.value(k.value) for k in node.keywords}
            if node.func.id == "prior" and len(arguments) == 1:
                scale = settings.pop("on", "log")
                if not all(isinstance(number, (int, float)) for number in settings.values()):
                    self.refuse(node, "numbers for the parameters of a distribution")
                return self.made(Hyperprior, arguments[0], settings, scale)
            if node.func.id == "shared" and len(arguments) == 2 and not settings:
                return self.made(Parameter, *arguments)
        self.refuse(
            node, "a number, the name of a hyperprior, prior(..), shared(..), or a tuple of these"
        )

    def refuse(self, node: ast.AST, allowed: str) -> NoReturn:
        part = ast.get_source_segment(self.text.strip(), node) or self.text
        raise InputError(f"{self.where}: {part!r}; allowed: {allowed}")
