"""Run one test over many cheap cases: a test per case takes longer to collect and report than to run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable


def for_each(names: str, cases: Iterable) -> Callable[[Callable], Callable]:
    """Call a test for each case in turn, and name the case that fails; fixtures are shared by all.

    ``names`` and ``cases`` are as for ``pytest.mark.parametrize``.
    """
    keys, cases = [name.strip() for name in names.split(",")], list(cases)
    assert cases, "no case to test"

    def decorate(test: Callable) -> Callable:
        signature = inspect.signature(test)
        fixtures = [p for name, p in signature.parameters.items() if name not in keys]

        @functools.wraps(test)
        def run(**given: object) -> None:
            for case in cases:
                values = [case] if len(keys) == 1 else case
                try:
                    test(**dict(zip(keys, values, strict=True)), **given)
                except BaseException as error:
                    error.add_note(f"{names}: {case!r}")
                    raise

        run.__signature__ = signature.replace(parameters=fixtures)
        return run

    return decorate
