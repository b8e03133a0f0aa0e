"""Docstrings of the public names: their sections, every parameter, examples that run as printed."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import gpmcflow
from gpmcflow import errors
from tests.each import for_each

PUBLIC = {name: getattr(gpmcflow, name) for name in gpmcflow.__all__}
PUBLIC = {name: value for name, value in PUBLIC.items() if callable(value)}
DOCUMENTED = PUBLIC | {
    **{f"plot.{name}": getattr(gpmcflow.plot, name) for name in gpmcflow.plot.__all__},
    "GPModel.at": gpmcflow.GPModel.at,
    "GPModel.joint_log_density": gpmcflow.GPModel.joint_log_density,
    "GPModel.theta_of": gpmcflow.GPModel.theta_of,
    "Hyperprior.log_uniform": gpmcflow.Hyperprior.log_uniform,
    "LatentGaussianModel.from_covariance": gpmcflow.LatentGaussianModel.from_covariance,
    "LatentGaussianModel.from_design": gpmcflow.LatentGaussianModel.from_design,
}
REFUSE_NOTHING = {"second_order_correction", "HeteroscedasticGaussian"}
ORDER = ["Parameters", "Attributes", "Returns", "Raises", "Examples"]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
each = for_each("name", sorted(DOCUMENTED))


def own_doc(thing: Callable) -> str:
    """Docstring of a function, or of a class itself, not of its base."""
    text = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    return inspect.cleandoc(text or "")


def sections(thing: Callable) -> dict[str, str]:
    """Text below each heading, in order; that before the first one is under ""."""
    parts = re.split(r"^(\w+)\n(-+)\n", own_doc(thing), flags=re.MULTILINE)
    titles, rules = parts[1::3], parts[2::3]
    assert [len(title) for title in titles] == [len(rule) for rule in rules]
    return {"": parts[0], **dict(zip(titles, parts[3::3], strict=True))}


def described(text: str) -> dict[str, str]:
    """What a section says of each name: lines "name, name:" and what is indented below."""
    found = re.findall(r"^([\w, ]+):\n((?:    .*\n?)+)", text, flags=re.MULTILINE)
    assert "".join(f"{names}:\n{body}" for names, body in found).strip() == text.strip(), text
    return {name: body.strip() for names, body in found for name in names.split(", ")}


def parameters(thing: Callable) -> list[str]:
    """Names in the signature; a protocol has none."""
    if getattr(thing, "_is_protocol", False):
        return []
    return [name for name in inspect.signature(thing).parameters if name != "self"]


def constructors(kind: type) -> Iterator[Callable]:
    """What is written out of how an object is made, not by dataclass."""
    for base in kind.__mro__:
        for method in ("__init__", "__post_init__"):
            function = vars(base).get(method)
            code = getattr(function, "__code__", None)
            if code is not None and code.co_filename == inspect.getfile(base):
                yield function


@each
def test_sections_in_their_order(name):
    thing = DOCUMENTED[name]
    found = sections(thing)
    summary, *more = found[""].splitlines()
    assert summary.endswith(".")
    assert summary[0].isupper()
    assert not more or more[0] == ""
    titles = [title for title in found if title]
    assert titles == [title for title in ORDER if title in titles]
    assert all(text.strip() for text in found.values())
    assert "Examples" in titles
    assert ("Returns" in titles) == (not inspect.isclass(thing))
    if parameters(thing):
        assert len({"Parameters", "Attributes"} & set(titles)) == 1


@each
def test_every_parameter_is_described_and_no_other(name):
    thing = DOCUMENTED[name]
    found = sections(thing)
    fields = described(found.get("Attributes", ""))
    arguments = described(found.get("Parameters", ""))
    assert all(
        re.match(r"\S.*\.$", text, flags=re.DOTALL) for text in (fields | arguments).values()
    )
    missing = set(parameters(thing)) - set(fields) - set(arguments)
    assert not missing
    assert set(arguments) <= set(parameters(thing))
    unknown = set(fields) - set(parameters(thing))
    source = inspect.getsource(thing) if unknown else ""
    assert all(re.search(rf"\b{field}\b", source.replace(own_doc(thing), "")) for field in unknown)


@each
def test_errors_are_told(name):
    thing = DOCUMENTED[name]
    told = described(sections(thing).get("Raises", ""))
    assert all(issubclass(getattr(errors, error), errors.GpmcflowError) for error in told)
    if not inspect.isclass(thing) or any(constructors(thing)):
        assert bool(told) == (name not in REFUSE_NOTHING)
    source = inspect.getsource(thing)
    for error in re.findall(r"raise (\w+Error)\(", source) if not inspect.isclass(thing) else ():
        assert error in told


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_examples_run_as_printed(name):
    thing = DOCUMENTED[name]
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(thing, name, globs={"__name__": "__main__"})
    assert test.examples
    assert any(example.want for example in test.examples)
    assert not any(doctest.SKIP in example.options for example in test.examples)
    runner, said = doctest.DocTestRunner(optionflags=FLAGS), []
    with np.printoptions(legacy=False, precision=8, suppress=False, linewidth=75):
        result = runner.run(test, out=said.append)
    assert result.failed == 0, "".join(said)


@each
def test_examples_print_nothing_that_numpy_versions_show_differently(name):
    outputs = [
        example.want for example in doctest.DocTestParser().get_examples(own_doc(DOCUMENTED[name]))
    ]
    assert not re.search(r"np\.\w+\(|dtype=", "".join(outputs))
