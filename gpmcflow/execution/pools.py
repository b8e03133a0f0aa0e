"""Where tasks run: in this process, in threads, in processes, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.context import ForkContext, ForkProcess, SpawnContext, SpawnProcess
from typing import Any

from gpmcflow.errors import InputError, ResourceError, unknown_name
from gpmcflow.execution import cluster
from gpmcflow.execution.signals import deaf_children
from gpmcflow.execution.threads import pin_blas

log = logging.getLogger(__name__)
_LOCAL = ("synchronous", "threads", "processes")
CAN_FORK = sys.platform == "linux"  # elsewhere libraries of the system do not stand it
_forked = ContextVar("forked", default=False)


@dataclass(frozen=True)
class Workers:
    """A scheduler with what it runs on. Made by `workers`; give it to `run` as its scheduler."""

    scheduler: str
    pool: _Threads | _Processes | None = None
    client: Any = None

    def compute(
        self,
        graph: dict,
        keys: list,
        finished: Callable[[Any, Any], None],
        notify: cluster.Told = lambda _: None,
    ) -> None:
        """Run `keys` of a graph; call `finished(key, value)` in this process after each task.

        On a cluster `finished` is called for `keys` alone, elsewhere for every task on the way, and
        before its value goes to the tasks that depend on it; `told` as `cluster.compute` does.
        """
        if self.client is not None:
            cluster.compute(self.client, graph, keys, finished, notify)
            return
        import dask.local
        import dask.multiprocessing
        import dask.threaded

        def posttask(key, value, dsk, state, worker_id):
            finished(key, value)

        callbacks = [(None, None, None, posttask, None)]
        if self.scheduler == "synchronous":
            dask.local.get_sync(graph, keys, callbacks=callbacks)
        elif self.scheduler == "threads":
            dask.threaded.get(graph, keys, pool=self.pool, callbacks=callbacks)
        else:
            # One task at a time: Dask's bundles of six would put several blocks on one worker.
            options = {"chunksize": 1, "optimize_graph": False, "callbacks": callbacks}
            try:
                dask.multiprocessing.get(graph, keys, pool=self.pool, **options)
            except BrokenProcessPool as error:
                raise ResourceError(
                    "a worker process died: was it out of memory (use fewer workers, or fewer "
                    'chains per block), or does the script lack `if __name__ == "__main__":`?'
                ) from error

    def settle(self) -> None:
        """Wait for the tasks that are under way here, after an error or a signal in `compute`."""
        if self.pool is not None:
            wait(self.pool.under_way.copy())


@contextlib.contextmanager
def workers(scheduler: Any = "synchronous", n_workers: int = 1) -> Iterator[Workers]:
    """Keep one pool of workers alive over many runs.

    A script that uses "processes" needs the guard ``if __name__ == "__main__":``; its workers go when their
    parent goes, however it ends.

    Parameters
    ----------
    scheduler:
        "synchronous", "threads", "processes" (each with one BLAS thread; fresh ones, by spawn, outside of
        `forked_workers`), the address of a Dask scheduler, its scheduler file (a path that ends in .json), a
        `distributed.Client`, or a `Workers` (passed on). The last four ignore ``n_workers``.
    n_workers:
        Threads or processes, 1 or more.

    Returns
    -------
    A context manager that gives `Workers`, for `Execution.scheduler`, and ends them.

    Raises
    ------
    InputError:
        For another scheduler, or a wrong number of workers.
    UnavailableError:
        When no scheduler answers; it is waited for a second, longer inside `gpmcflow.execution.patience`.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.GPModel(np.arange(4.0), np.ones(4), gp.Matern32(1.0, 1.0), gp.Poisson())
    >>> with gp.workers("threads", 2) as pool:
    ...     how = gp.Execution(scheduler=pool)
    ...     runs = [gp.sample(model, gp.EllipticalSlice(), n_chains=1, n_draws=9, seed=seed, execution=how)
    ...             for seed in (1, 2)]
    >>> [run.sizes["draw"] for run in (run.posterior for run in runs)]
    [9, 9]
    """
    if isinstance(scheduler, Workers):
        yield scheduler
        return
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise InputError(f"run: workers is {n_workers!r}, allowed are integers >= 1.")
    pin_blas()
    if type(scheduler).__module__.startswith("distributed."):
        yield Workers("distributed", client=scheduler)
    elif isinstance(scheduler, str) and ("://" in scheduler or scheduler.endswith(".json")):
        with cluster.connected(scheduler) as client:
            yield Workers("distributed", client=client)
    elif scheduler == "synchronous":
        if n_workers > 1:
            log.warning(
                "run: workers is %d, but scheduler 'synchronous' runs one block after another; give "
                "scheduler='processes'", n_workers,
            )  # fmt: skip
        yield Workers("synchronous")
    elif scheduler in _LOCAL:
        pool = _pool(scheduler, n_workers)
        try:
            yield Workers(scheduler, pool=pool)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    else:
        raise unknown_name(
            "run: scheduler", str(scheduler), (*_LOCAL, "tcp://host:port", "FILE.json")
        )


class _UnderWay(Executor):
    """For an executor: knows the tasks it has not finished, and starts workers deaf to signals."""

    under_way: set[Future]

    def submit(self, *arguments: Any, **options: Any) -> Future:
        with deaf_children(), _safe_path():  # a worker starts when there is a task for it
            future = super().submit(*arguments, **options)
        self.under_way.add(future)
        future.add_done_callback(self.under_way.discard)
        return future


class _Threads(_UnderWay, ThreadPoolExecutor):
    pass


class _Processes(_UnderWay, ProcessPoolExecutor):
    pass


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Keep processes that the block starts from importing modules of the working folder by chance.

    Python looks there first for what it needs before it has the parent's path, such as a `random.py`.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


@contextlib.contextmanager
def forked_workers() -> Iterator[None]:
    """Let processes of pools that are made inside begin as copies of this one, which has loaded all modules.

    On Linux, and where no other thread is alive that might hold a lock for ever in the copy; else they are
    spawned, at the cost of loading all modules again. For programs whose libraries are known: a fork is not
    safe beside the threads of some.
    """
    token = _forked.set(True)
    try:
        yield
    finally:
        _forked.reset(token)


class _Spawned(SpawnProcess):
    def terminate(self) -> None:
        """End at once: a broken pool terminates its other workers, which are deaf to SIGTERM."""
        self.kill()


class _Forked(ForkProcess):
    def terminate(self) -> None:
        """As a spawned one."""
        self.kill()


class _SpawnContext(SpawnContext):
    Process = _Spawned


class _ForkContext(ForkContext):
    Process = _Forked


def _pool(scheduler: str, n_workers: int) -> _Threads | _Processes:
    pool: _Threads | _Processes
    if scheduler == "threads":
        pool = _Threads(n_workers, initializer=pin_blas)
    else:
        with deaf_children(), _safe_path():
            resource_tracker.ensure_running()
        fork = CAN_FORK and _forked.get() and threading.active_count() == 1
        context = _ForkContext() if fork else _SpawnContext()
        pool = _Processes(n_workers, mp_context=context, initializer=_start_worker)
    pool.under_way = set()
    return pool


def _start_worker() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pin_blas()


def _end_with_parent() -> None:
    """End when the parent was killed: else a worker would wait for its next task for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
