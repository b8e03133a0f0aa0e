"""A user's own Python function as a covariance."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpmcflow.covariances.given import GivenLeaf
from gpmcflow.errors import InputError
from gpmcflow.execution.digest import text_digest
from gpmcflow.parameters.parameter import Entry, checked_setting

STEP = 1e-5  # of the central differences in the log of a parameter


@dataclass(frozen=True, repr=False)
class PythonCovariance(GivenLeaf):
    """Covariance given by a Python function of your own.

    k(X, X2) = function(X, X2, parameters), which has to be positive semidefinite. Slower than the package's
    own covariances, and not part of a config's text. For worker processes both functions have to be
    picklable.

    Attributes
    ----------
    function:
        Called with rows of X (n, p) and X2 (m, p), of its columns, and {name: value} of its parameters in
        their own units; returns a matrix (n, m).
    given:
        Its positive parameters by name: numbers or hyperpriors.
    gradient:
        Called in the same way, returns {name: derivative by the log of that parameter (n, m)}; without it
        central differences are taken.
    columns:
        Columns of X it depends on, by name or place; by default all that hold numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "python".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior; for a matrix of another shape,
        when the function is called.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> def brownian(X, X2, parameters):
    ...     return parameters["rate"] * np.minimum(X, X2.T)
    >>> gp.PythonCovariance(brownian, {"rate": 2.0})(np.array([1.0, 3.0]))
    array([[2., 2.],
           [2., 6.]])
    """

    function: Callable
    given: Mapping[str, Any] = field(default_factory=dict)
    gradient: Callable | None = None

    term, has_amplitude = "python", False

    def __post_init__(self) -> None:
        super().__post_init__()
        checked = {
            key: checked_setting(value, f"PythonCovariance: {key}")
            for key, value in self.given.items()
        }
        object.__setattr__(self, "given", checked)

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """None that is a field of its own."""
        return ()

    def entries(self, columns: Sequence[str]) -> tuple[Entry, ...]:
        """Parameters in the order of ``given``, in their own units."""
        return tuple(Entry(key, value) for key, value in self.given.items())

    def __hash__(self) -> int:
        return hash((self.function, tuple(self.given), self.columns, self.name))

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        code = function_digest(self.function, self.gradient)[:12]
        return f"PythonCovariance({name}, {self.given!r}, columns={self.columns!r}, code={code})"

    def __str__(self) -> str:
        raise InputError(
            "PythonCovariance: a function has no text; take covariances with a name in a config"
        )

    def matrix(self, X: np.ndarray, X2: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Its values at the logs of its parameters. Raises `InputError` for a matrix of another shape."""
        values = np.asarray(self.function(X, X2, self._named(own)), dtype=np.float64)
        if values.shape != (len(X), len(X2)):
            raise InputError(
                f"{self!r}: the function gives shape {values.shape}; allowed: {(len(X), len(X2))}"
            )
        return values

    def slopes(self, X: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
        """Derivatives by the logs of its parameters, (n, n) each."""
        if self.gradient is not None:
            values = self.gradient(X, X, self._named(own))
            return [np.asarray(values[key], dtype=np.float64) for key in self.given]
        steps = STEP * np.eye(len(own))
        return [
            (self.matrix(X, X, own + h) - self.matrix(X, X, own - h)) / (2.0 * STEP) for h in steps
        ]

    def _named(self, own: np.ndarray) -> dict[str, float]:
        return dict(zip(self.given, np.exp(own).tolist(), strict=True))


def function_digest(*functions: Any) -> str:
    """SHA-256 of what functions do: code, constants, defaults, closures, arguments of a partial."""
    parts = []
    for function in functions:
        code = getattr(function, "__code__", None)
        if code is not None:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            inner = [c for c in code.co_consts if not hasattr(c, "co_code")]
            parts.append(
                repr((code.co_code.hex(), inner, code.co_names, function.__defaults__, cells))
            )
        elif isinstance(function, functools.partial):
            arguments = repr((function.args, sorted(function.keywords.items())))
            parts.append(function_digest(function.func) + arguments)
        else:
            parts.append(repr((type(function).__qualname__, getattr(function, "__dict__", None))))
    return text_digest(*parts)
