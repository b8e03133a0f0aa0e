"""What a file on disk belongs to: a digest of all that decides the numbers in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpmcflow.execution.blocks import Program
from gpmcflow.storage.plain_json import canonical_json


@dataclass(frozen=True)
class RunIdentity:
    """The parts that all files of a run share, as canonical JSON, so that each is digested once.

    A program's own digest may read hundreds of megabytes, and a run has thousands of files.
    """

    key: str
    shared: str

    @classmethod
    def of(
        cls, program: Program, seed: int, key: tuple[str | int, ...], settings: Any
    ) -> RunIdentity:
        """Return the identity; raises `InputError` for settings that are no plain values."""
        canonical_json(settings)
        outputs = {
            name: [[int(n) for n in trailing], np.dtype(dtype).str]
            for name, (trailing, dtype) in program.outputs().items()
        }
        shared = {
            "outputs": outputs,
            "program": program.digest() if hasattr(program, "digest") else None,
            "seed": int(seed),
            "settings": settings,
        }
        plain = [part if isinstance(part, str) else int(part) for part in key]
        return cls(canonical_json(plain), canonical_json(shared)[1:-1])

    def of_file(self, kind: str, chains: tuple[int, int], start: int, stop: int) -> str:
        """Return `settings_digest` of all of it, for a file of draws start..stop-1 of these chains."""
        text = (
            f'{{"chains":[{chains[0]},{chains[1]}],"draws":[{start},{stop}],'
            f'"key":{self.key},"kind":"{kind}",{self.shared}}}'
        )
        return hashlib.sha256(text.encode()).hexdigest()
