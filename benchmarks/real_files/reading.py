"""What `gpmcflow new` made of a file, read from the config that it wrote.

The outcome, units and coordinates are keys of `data:`; groups and seasons stand in the covariances; what
becomes of a column that no key names stands in its comment, `# column: what was found -> what is done`.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpmcflow.errors import InputError, InputErrors

ROW_NAMES = "row names"  #: stands for the first column, whatever its header
HEADING = "the columns"  #: what was found -> what is done
REFUSED = "refused"
#: a kind of outcome by words beside `target:` or `outcome:`, where a nearer model stands in for its own
OUTCOME_WORDS = {
    "survival": r"survival|censor|time to (an )?event|status",
    "grades": r"\bgrades?\b|ordered|ordinal",
    "classes": r"\bclasses\b|several categories|unordered",
    "share": r"\bshares?\b|proportion|between 0 and 1",
    "positive": r"\blog(arithm)?\b|positive amount|skewed",
}
OUTCOME_NAMES = {
    "amounts": "positive", "ordinal": "grades", "ordered": "grades", "categorical": "classes",
    "shares": "share", "proportion": "share",
}  # fmt: skip
#: a use by the first words of the comment's second half
DONE = {
    r"not used|dropped|left out": "dropped",
    r"coordinate|place": "coordinates",
    r"the number of trials|trials": "trials",
    r"effort|exposure": "exposure",
    r"status|event|censor": "status",
    r"[^;]*\bgroups?\b": "group",
    r"(as )?(days|date|months|quarters|hours|time)\b": "date",
    r"one column each|.*\bcounts as 1|.*= ?1\b|1 (if|for|where)|a column .missing|categor": "category",
    r"as it is|middle value|(a )?number|parsed": "number",
}
#: keys of `data:` that say what a column is for
KEYS = {
    "drop": "dropped", "categorical": "category", "coordinates": "coordinates", "trials": "trials",
    "exposure": "exposure", "status": "status", "event": "status", "groups": "group", "group": "group",
}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """The reading of a file: kind of outcome, use of each column, periods of the seasons offered."""

    outcome: str
    uses: dict[str, str] = field(default_factory=dict)
    seasons: list[float] = field(default_factory=list)
    message: str = ""  #: why the file was refused


def read_file(csv: bytes, target: str) -> Reading:
    """Run `gpmcflow new` on a file in a temporary folder and return the reading in its config."""
    from gpmcflow.pipeline.new import new

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("file.csv").write_bytes(csv)
        try:
            new("file.csv", target)
        except (InputError, InputErrors) as error:
            return Reading(REFUSED, message=str(error).replace(os.sep.join([folder, ""]), ""))
        text = Path("file.yaml").read_text(encoding="utf-8")
    return read_config(text, target)


def read_config(text: str, target: str) -> Reading:
    """Return the reading that a config states."""
    config = yaml.safe_load(text)
    data = config["data"]
    commented = _commented_uses(text, target)
    uses = dict(commented)
    covariances = " ".join(_covariances(config.get("models", {})))
    for name in re.findall(r"group\(\s*[\"']?([^\"',()]+)", covariances):
        uses[name.strip()] = "group"
    for key, use in KEYS.items():
        for name in _names(data.get(key)):
            uses[name] = use
    uses |= {name: use for name, use in commented.items() if use == "status"}
    periods = [float(period) for period in re.findall(r"period\s*=\s*([\d.]+)", covariances)]
    return Reading(_outcome(text, data, config.get("likelihood")), uses, periods)


def _outcome(text: str, data: dict[str, Any], likelihood: Any) -> str:
    if read := re.search(r"^  # read as (\w+)", text, re.MULTILINE):
        return read[1]
    if "status" in data or "event" in data:
        return "survival"
    if "positive" in data and "outcome" not in data:
        return "binary"
    stated = str(data.get("outcome", ""))
    stated = OUTCOME_NAMES.get(stated, stated)
    if stated != "real":
        return stated
    words = [
        line for line in text.splitlines() if re.match(r"\s*(outcome|transform|log)\s*:", line)
    ]
    words += re.findall(r"^\s*#\s*outcome\b.*$", text, re.MULTILINE)
    stands_in = " ".join(re.sub(r";? or counts", "", line).partition("#")[2] for line in words)
    for kind, pattern in OUTCOME_WORDS.items():
        if re.search(pattern, stands_in, re.IGNORECASE):
            return kind
    if str(likelihood) in ("gamma", "log_normal", "lognormal") or data.get("transform") == "log":
        return "positive"
    return stated


def _commented_uses(text: str, target: str) -> dict[str, str]:
    uses = {}
    for line in text.splitlines():
        match = re.match(r"\s*# (.+) -> (.+)$", line)
        if match is None:
            continue
        found, done = match.groups()
        name = found.partition(": ")[0]
        if name not in (target, HEADING):
            uses[name] = next((use for words, use in DONE.items() if re.match(words, done)), done)
    return uses


def _covariances(models: Any) -> list[str]:
    values = models.values() if isinstance(models, dict) else []
    return [
        str(model.get("covariance", "") if isinstance(model, dict) else model) for model in values
    ]


def _names(value: Any) -> Sequence[str]:
    if value is None:
        return []
    return [str(name) for name in value] if isinstance(value, list | dict) else [str(value)]
