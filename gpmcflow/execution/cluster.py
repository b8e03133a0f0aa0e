"""Tasks on a Dask cluster, which may come late, lose its workers, or die."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputError, ResourceError, UnavailableError
from gpmcflow.execution.waiting import Waiting

log = logging.getLogger(__name__)
Told = Callable[[str | None], None]
_PAUSE = 0.1  # seconds between two looks for finished tasks, cut short by one that finishes
_LOOK_EVERY = 1.0  # seconds between two looks for workers, where no task finishes
_ANSWER = 5.0  # seconds in which a scheduler answers
_TRANSFER = 300.0  # seconds in which at least one of the results that are there comes here
# Of a cluster that dies their tracebacks tell at length what one line says.
_CHATTY = ("client", "core", "comm", "batched", "utils", "utils_comm")


@contextlib.contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """Give a `distributed.Client` of the scheduler of that address or file.

    Raises `UnavailableError` when none answers before `patience` is at its end, `InputError` for
    what is no address.
    """
    waiting = Waiting(f"the Dask scheduler at {scheduler}")
    with _quiet():
        while True:
            try:
                client = _connect(scheduler)
                break
            except UnavailableError:
                if waiting.over:
                    raise
            waiting.look()
            time.sleep(_LOOK_EVERY)
        try:
            yield client
        finally:
            with contextlib.suppress(OSError):
                client.close(timeout=_ANSWER)


def _connect(scheduler: str) -> Any:
    from distributed import Client, Security

    address = scheduler if "://" in scheduler else _address_in(scheduler)
    if address.startswith("tls://") and not Security().get_connection_args("client")["ssl_context"]:
        raise InputError(
            f"run: the Dask scheduler at {address} lets nobody in without its key; give it by export "
            "DASK_CONFIG=FOLDER/dask.yaml, as the scheduler has it."
        )
    if is_open(address):
        log.warning(
            "run: the Dask scheduler at %s asks nobody who they are: whoever reaches it can run code as you; "
            "use a tls:// address (docs: Dask workers as SLURM jobs)", address,
        )  # fmt: skip
    try:
        return Client(address, set_as_default=False)
    except ValueError as error:
        raise InputError(
            f"run: {address!r} is no address of a Dask scheduler ({_one_line(error)}); allowed: "
            "tls://host:port, tcp://host:port, or the path of a scheduler file."
        ) from error
    except OSError as error:
        raise UnavailableError(
            f"run: no Dask scheduler answers at {scheduler} ({_one_line(error)}); start one, or "
            "correct the address."
        ) from error


def is_open(address: str) -> bool:
    """Return whether others than the processes of this host may reach a scheduler, which asks for no key."""
    scheme, _, rest = address.partition("://")
    host = rest.rpartition(":")[0].strip("[]")
    own = host in ("localhost", "::1") or host.startswith("127.")
    return scheme == "tcp" and not own


def _address_in(path: str) -> str:
    try:
        return str(json.loads(Path(path).read_text(encoding="utf-8"))["address"])
    except FileNotFoundError:
        raise UnavailableError(
            f"run: there is no Dask scheduler file {path}; start a scheduler with "
            f"`dask scheduler --host 127.0.0.1 --scheduler-file {path}`, or correct the path."
        ) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UnavailableError(
            f"run: {path} is no Dask scheduler file ({_one_line(error)}); start a scheduler with "
            f"`dask scheduler --host 127.0.0.1 --scheduler-file {path}`, or correct the path."
        ) from error


def compute(
    client: Any, graph: dict, keys: list, finished: Callable[[Any, Any], None], notify: Told
) -> None:
    """Run `keys` of a graph; call `finished(key, value)` here for each of them, in any order.

    Where there is no worker, a line is logged each minute, a signal is heeded at once, and `notify` is
    called with what is waited for, and with None when that has come.

    Raises `UnavailableError` when the scheduler is lost, `ResourceError` when a task kills workers.
    """
    with _quiet():
        watch = _Watch(client, notify)
        try:
            _compute(client, graph, keys, finished, watch)
        finally:
            watch.end()


def _compute(
    client: Any, graph: dict, keys: list, finished: Callable[[Any, Any], None], watch: _Watch
) -> None:
    from distributed import KilledWorker, as_completed

    if client.status != "running":
        raise watch.gone()
    futures = client.get(graph, keys, sync=False)
    completed = as_completed(futures, loop=client.loop, with_results=True)
    del futures  # so that the cluster can forget each result once it is here
    undelivered = set(keys)
    while undelivered:
        batch = completed.next_batch(block=False)
        for future, value in batch:
            if future.status == "error":
                _, error, traceback = value
                if isinstance(error, KilledWorker):
                    raise ResourceError(
                        "workers of the Dask cluster died of one task: are they short of memory? "
                        "Give them more, or use fewer chains per block; then run again."
                    ) from error
                raise error.with_traceback(traceback)
            # A result may be here though the worker that made it has just been lost, and its task waits anew.
            if future.status == "cancelled" or isinstance(value, BaseException):
                raise watch.gone()
            watch.end()
            undelivered.discard(future.key)
            finished(future.key, value)
        if not batch:
            if completed.is_empty() or client.status != "running":
                raise watch.gone()
            watch.look(list(completed.futures))
            with completed.thread_condition:
                completed.thread_condition.wait(_PAUSE)


class _Watch:
    """Looks after a cluster while no task finishes: are there a scheduler and workers?"""

    def __init__(self, client: Any, notify: Told):
        self._client, self._scheduler, self._notify = client, client.scheduler, notify
        self._address = getattr(client.scheduler, "address", "?")
        self._waiting: Waiting | None = None
        self._on_the_way: float | None = None  # since when results that come are on their way
        self._next = time.monotonic() + _LOOK_EVERY

    def look(self, futures: list) -> None:
        """Look, once a second, at the cluster and at the futures that are to come.

        Raises `Stopped` if a signal has come and nothing is under way, `UnavailableError` when the
        scheduler was lost.
        """
        if time.monotonic() < self._next:
            return
        self._require(futures)
        lacking = self._lacking()
        self._next = time.monotonic() + _LOOK_EVERY
        if lacking is None:
            self._end_wait()
            return
        if self._waiting is None or self._waiting.what != lacking:
            self._waiting = Waiting(lacking)
            self._notify(lacking)
        self._waiting.look()

    def end(self) -> None:
        """Note that a result has come, or none is to come any more."""
        self._on_the_way = None
        self._end_wait()

    def gone(self) -> UnavailableError:
        """Return the error for a scheduler that was lost."""
        return UnavailableError(
            f"the Dask cluster at {self._address} is gone, or gave up the work; start it again, then "
            "give the same command again to go on."
        )

    def _require(self, futures: list) -> None:
        """Refuse results that never come: those on their way when something broke stay as they are."""
        states = {future.status for future in futures}
        if "finished" not in states:
            self._on_the_way = None
        elif self._on_the_way is None:
            self._on_the_way = time.monotonic()
        late = self._on_the_way is not None and time.monotonic() - self._on_the_way > _TRANSFER
        if late or "cancelled" in states:
            raise self.gone()

    def _end_wait(self) -> None:
        if self._waiting is not None:
            self._waiting = None
            self._notify(None)

    def _lacking(self) -> str | None:
        try:
            threads = self._client.sync(self._scheduler.ncores, callback_timeout=_ANSWER)
        except OSError:
            return f"an answer of the Dask scheduler at {self._address}"
        return None if threads else f"a worker of the Dask cluster at {self._address}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    import distributed  # noqa: F401 (it sets these levels when it is imported)

    names = [*(f"distributed.{name}" for name in _CHATTY), "tornado.application", "asyncio"]
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
