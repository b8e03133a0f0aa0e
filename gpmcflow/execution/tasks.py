"""The task Dask runs: advance one block by one segment, in memory or on disk."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpmcflow.execution.blocks import Arrays, Program, check_carry, check_outputs
from gpmcflow.execution.randomness import ChainGenerators, chain_generators
from gpmcflow.execution.segment_files import (
    BlockFolder,
    fault,
    identity_of,
    read_arrays,
    read_if_whole,
    write_arrays,
)
from gpmcflow.execution.state_folder import RunIdentity
from gpmcflow.execution.threads import pin_blas

log = logging.getLogger(__name__)
_STATE = "generator_state"


@dataclass(frozen=True)
class SegmentTask:
    """Where a segment stands: its chains and draws, its random key, its folder if it has one."""

    chains: tuple[int, int]
    index: int
    start: int
    stop: int
    segment_length: int
    seed: int
    key: tuple[str | int, ...]
    folder: str | None = None


class ProgramBox:
    """Holds a program in a Dask graph, where a bare tuple or callable would be taken for a task.

    With it goes the identity of its files, for tasks that write some.
    """

    def __init__(self, program: Program, identity: RunIdentity | None = None):
        self.program = program
        self.identity = identity


@dataclass
class Segment:
    """A segment in memory: its outputs, and the carry and generator states after it."""

    carry: Arrays
    state: np.ndarray
    outputs: Arrays


@dataclass
class SegmentFile:
    """A segment on disk. `restored` says that it was there already; acceptance is nan if not known.

    `remarks` tell of damaged files; the main process logs them, as a worker has no log.
    """

    path: str
    restored: bool
    acceptance: float = field(default=float("nan"))
    remarks: tuple[str, ...] = ()


def advance_segment(
    box: ProgramBox, previous: Segment | SegmentFile | None, *, task: SegmentTask
) -> Segment | SegmentFile:
    """Return the segment that follows `previous` (None before the first one of a block)."""
    pin_blas()
    if task.folder is not None:
        return _advance_on_disk(box, task)
    if previous is None:
        carry, rng = _begin(box.program, task)
    else:
        # A copy, as a program may change its carry in place and Dask may run a task twice.
        carry = {name: array.copy() for name, array in previous.carry.items()}
        rng = ChainGenerators.from_state(previous.state, range(*task.chains))
    carry, outputs = _advance(box.program, rng, carry, task.start, task.stop)
    return Segment(carry, rng.state, outputs)


def advance_and_tell(
    box: ProgramBox, previous: Segment | SegmentFile | None, *, task: SegmentTask
) -> Segment | SegmentFile:
    """Do as `advance_segment` does and log its remarks: for graphs that others compute."""
    segment = advance_segment(box, previous, task=task)
    if isinstance(segment, SegmentFile):
        for remark in segment.remarks:
            log.warning(remark)
    return segment


def damaged_files(*, files: list[tuple[str, str]]) -> list[bool]:
    """Return for each (path, identity) whether its file, read in full, is not what was written."""
    return [fault(Path(path), identity) is not None for path, identity in files]


def take_output(segment: Segment | SegmentFile, *, name: str) -> np.ndarray:
    """Return one output of a segment."""
    if isinstance(segment, Segment):
        return segment.outputs[name]
    return read_output(path=segment.path, name=name)


def read_output(*, path: str, name: str) -> np.ndarray:
    """Return one output of a segment file."""
    return read_arrays(Path(path), [name])[name]


def mean_acceptance(outputs: Arrays) -> float:
    """Return the mean of the output `acceptance_rate`, nan without it."""
    rates = outputs.get("acceptance_rate")
    if rates is None or not np.isfinite(rates).any():
        return float("nan")
    return float(np.mean(rates, where=np.isfinite(rates)))


def _begin(program: Program, task: SegmentTask) -> tuple[Arrays, ChainGenerators]:
    rng = chain_generators(task.seed, *task.key, chains=range(*task.chains))
    return check_carry(program.start(rng), len(rng)), rng


def _advance(
    program: Program, rng: ChainGenerators, carry: Arrays, start: int, stop: int
) -> tuple[Arrays, Arrays]:
    carry, outputs = program.advance(rng, carry, start, stop)
    outputs = check_outputs(outputs, program.outputs(), len(rng), stop - start)
    return check_carry(carry, len(rng)), outputs


def _advance_on_disk(box: ProgramBox, task: SegmentTask) -> SegmentFile:
    folder, program, remarks = BlockFolder(task.folder), box.program, []
    path = folder.segment(task.index)
    identity = box.identity.of_file("segment", task.chains, task.start, task.stop)
    wrong = fault(path, identity)
    if wrong is None:
        known = "acceptance_rate" in program.outputs()
        rates = read_arrays(path, ["acceptance_rate"]) if known else {}
        return SegmentFile(str(path), True, mean_acceptance(rates))
    if path.exists():
        # the last segment of a run of fewer draws is shorter, which is no fault
        shorter = {
            box.identity.of_file("segment", task.chains, task.start, stop)
            for stop in range(task.start + 1, task.stop)
        }
        if identity_of(path) not in shorter:
            remarks.append(f"{path}: {wrong}; it is computed again.")
    carry, rng = _carry_before(box, task, folder, remarks)
    carry, outputs = _advance(program, rng, carry, task.start, task.stop)
    # The checkpoint goes first: a whole segment then always means that one can go on from it.
    checkpoint_identity = box.identity.of_file("checkpoint", task.chains, 0, task.stop)
    checkpoint = {f"carry:{name}": array for name, array in carry.items()} | {_STATE: rng.state}
    write_arrays(folder.checkpoint(task.index), checkpoint, checkpoint_identity)
    write_arrays(path, outputs, identity)
    folder.drop_checkpoints_before(task.index)
    return SegmentFile(str(path), False, mean_acceptance(outputs), tuple(remarks))


def _carry_before(
    box: ProgramBox, task: SegmentTask, folder: BlockFolder, remarks: list[str]
) -> tuple[Arrays, ChainGenerators]:
    """Return the carry and generators before a segment, from the nearest sound checkpoint.

    The segments between that checkpoint and this one are computed again and not kept: they are
    whole on disk, or their own tasks would have run before.
    """
    carry = rng = None
    following = 0
    for index in reversed(range(task.index)):
        path = folder.checkpoint(index)
        if not path.exists():
            continue
        stop = (index + 1) * task.segment_length
        identity = box.identity.of_file("checkpoint", task.chains, 0, stop)
        arrays, wrong = read_if_whole(path, identity)
        if wrong is None:
            rng = ChainGenerators.from_state(arrays.pop(_STATE), range(*task.chains))
            carry = {name.removeprefix("carry:"): array for name, array in arrays.items()}
            following = index + 1
            break
        remarks.append(f"{path}: {wrong}; an earlier one is used.")
    if carry is None:
        carry, rng = _begin(box.program, task)
    for index in range(following, task.index):
        start = index * task.segment_length
        carry, _ = _advance(box.program, rng, carry, start, start + task.segment_length)
    return carry, rng
