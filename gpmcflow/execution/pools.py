"""Where tasks run: in this process, in threads, in processes, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from gpmcflow.errors import InputError, ResourceError, unknown_name
from gpmcflow.execution.threads import pin_blas

_LOCAL = ("synchronous", "threads", "processes")


@dataclass(frozen=True)
class Workers:
    """A scheduler with what it runs on. Made by `workers`; give it to `run` as its scheduler."""

    scheduler: str
    pool: Executor | None = None
    client: Any = None

    def compute(self, graph: dict, keys: list, finished: Callable[[Any, Any], None]) -> None:
        """Run `keys` of a graph; call `finished(key, value)` in this process after each task.

        On a cluster `finished` is called for `keys` alone, elsewhere for every task on the way, and
        before its value goes to the tasks that depend on it.
        """
        if self.client is not None:
            _compute_on_cluster(self.client, graph, keys, finished)
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


def _compute_on_cluster(
    client: Any, graph: dict, keys: list, finished: Callable[[Any, Any], None]
) -> None:
    from distributed import as_completed

    futures = client.get(graph, keys, sync=False)
    completed = as_completed(futures, loop=client.loop, with_results=True)
    del futures  # so that the cluster can forget each result once it is here
    for future, value in completed:
        finished(future.key, value)


@contextlib.contextmanager
def workers(scheduler: Any = "synchronous", n_workers: int = 1) -> Iterator[Workers]:
    """Keep one pool of workers alive over many calls of `run`.

    `scheduler` is "synchronous", "threads", "processes" (fresh ones, by spawn, each with one BLAS
    thread), the address of a Dask scheduler, a `distributed.Client`, or a `Workers` (passed on).
    The last three ignore `n_workers`. Raises `InputError` for another one, `ResourceError` when no
    scheduler answers at the address. A script that uses "processes" needs the `__main__` guard.
    """
    if isinstance(scheduler, Workers):
        yield scheduler
        return
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise InputError(f"run: n_workers is {n_workers!r}, allowed are integers >= 1.")
    pin_blas()
    if type(scheduler).__module__.startswith("distributed."):
        yield Workers("distributed", client=scheduler)
    elif isinstance(scheduler, str) and "://" in scheduler:
        client = _connect(scheduler)
        with client:
            yield Workers("distributed", client=client)
    elif scheduler == "synchronous":
        yield Workers("synchronous")
    elif scheduler in _LOCAL:
        pool = _pool(scheduler, n_workers)
        try:
            yield Workers(scheduler, pool=pool)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    else:
        raise unknown_name("run: scheduler", str(scheduler), (*_LOCAL, "tcp://host:port"))


def _pool(scheduler: str, n_workers: int) -> Executor:
    if scheduler == "threads":
        return ThreadPoolExecutor(n_workers, initializer=pin_blas)
    context = multiprocessing.get_context("spawn")  # fork is not safe beside BLAS threads
    return ProcessPoolExecutor(n_workers, mp_context=context, initializer=pin_blas)


def _connect(address: str) -> Any:
    from distributed import Client

    try:
        return Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        text = " ".join(str(error).split())
        raise ResourceError(
            f"run: no Dask scheduler answers at {address} ({text}); start one, or mend the address."
        ) from error
