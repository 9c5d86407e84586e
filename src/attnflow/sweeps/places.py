"""Where the cells of a sweep run: in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import functools
import importlib.util
import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from attnflow.core import progress
from attnflow.core.inputs import InputError, quoted
from attnflow.sweeps.outcome import Batch, Outcome

HERE = "here"
# Batches that wait at the scheduler, for each worker.
AHEAD = 8
# Seconds between two looks at what has been done.
LOOK = 0.2
# Seconds to wait for the answer of a scheduler.
ANSWER = 10.0
# Compiled code of a worker uses one core: its neighbours use the others.
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

Work = Callable[[Iterable[int]], list[Outcome]]
# Some cells, and what came back; None if they have killed their workers.
Done = tuple[list[int], Batch | None]


class Place(Protocol):
    """A place where batches of cells can run."""

    @property
    def workers(self) -> int:
        """How many cells can run at once."""

    @property
    def link(self) -> str | None:
        """The address of a page that shows the workers."""

    def run(self, batches: Iterable[list[int]]) -> Iterator[Done]:
        """Yield batches as they are done, in any order."""


def timed(work: Work, cells: list[int]) -> Batch:
    """Return the outcomes of some cells, with what they took."""
    begun = time.perf_counter()
    outcomes = work(cells)
    return Batch(outcomes, time.perf_counter() - begun, _most_memory())


def _most_memory() -> int:
    """Return the most bytes this process has held; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


class Here:
    """The process that calls: one batch after another, with all cores for compiled code."""

    workers = 1
    link = None

    def __init__(self, work: Work) -> None:
        self.work = work

    def run(self, batches: Iterable[list[int]]) -> Iterator[Done]:
        """Yield batches in order."""
        for cells in batches:
            yield cells, timed(self.work, cells)


class OnDask:
    """The workers of a Dask cluster. Dask ships the cells, and runs those of a lost worker elsewhere."""

    def __init__(self, client: Any, work: Work) -> None:
        self.client, self.payload = client, _shipped(work)
        while not self.workers:
            progress.note(f"waiting for workers at {client.scheduler.address}")
            client.sync(_one_worker, client)

    @property
    def workers(self) -> int:
        """How many cells can run at once."""
        return sum(self.client.nthreads().values())

    @property
    def link(self) -> str | None:
        """The address of Dask's own dashboard, which needs bokeh."""
        return self.client.dashboard_link if importlib.util.find_spec("bokeh") is not None else None

    def run(self, batches: Iterable[list[int]]) -> Iterator[Done]:
        """Yield batches as they are done."""
        from distributed import TimeoutError, wait

        waiting, running = deque(batches), dict[Any, list[int]]()
        try:
            while waiting or running:
                while waiting and len(running) < AHEAD * max(1, self.workers):
                    cells = waiting.popleft()
                    running[self.client.submit(_computed, self.payload, cells, pure=False)] = cells
                try:
                    done = wait(list(running), timeout=LOOK, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    progress.tick()
                    done = [future for future in running if future.status in ("cancelled", "lost")]
                for future in done:
                    yield running.pop(future), self._result(future)
        finally:
            for future in running:
                future.cancel(reason="the sweep has ended", msg=None)

    def _result(self, future: Any) -> Batch | None:
        from distributed import KilledWorker

        if future.status == "finished":
            batch: Batch = future.result()
            return batch
        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker):
            return None
        if error is None:
            raise InputError(
                f"the scheduler at {self.client.scheduler.address} is gone: start it again, and repeat the call with "
                "the same store; only what is missing runs"
            )
        raise InputError(
            f"the workers cannot run the cell ({type(error).__name__}: {error}): install there what is installed here, "
            "and upload modules of your own with client.upload_file"
        ) from error


async def _one_worker(client: Any) -> None:
    await client._wait_for_workers(1)


def _shipped(work: Work) -> bytes:
    """Return the work as bytes; functions of modules that are not installed travel by value."""
    import cloudpickle

    with ExitStack() as stack:
        module = sys.modules.get(getattr(getattr(work, "function", work), "__module__", None) or "")
        if module is not None and module.__name__ != "__main__" and not _installed(module):
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        try:
            shipped: bytes = cloudpickle.dumps(work)
        except Exception as error:
            raise InputError(
                f"the cell cannot be sent to workers ({error}): make open files and locks inside it, or use on='here'"
            ) from None
        return shipped


def _installed(module: Any) -> bool:
    file = getattr(module, "__file__", None) or ""
    name = module.__name__.partition(".")[0]
    return name in ("attnflow", *sys.stdlib_module_names) or "site-packages" in file or not file


@functools.lru_cache(maxsize=4)
def _unpacked(payload: bytes) -> Work:
    work: Work = pickle.loads(payload)
    return work


def _computed(payload: bytes, cells: list[int]) -> Batch:
    """Run on a worker: compute some cells with one compiled thread."""
    work = _unpacked(payload)
    if "numba" in sys.modules:
        sys.modules["numba"].set_num_threads(1)
    return timed(work, cells)


@contextmanager
def place_of(on: Any, work: Work) -> Iterator[Place]:
    """Yield the place that `on` says: None for a cluster of this machine's own, which is closed afterwards."""
    if on == HERE and isinstance(on, str):
        yield Here(work)
        return
    try:
        from distributed import Client
    except ImportError:
        raise InputError("a sweep runs on Dask: pip install 'attnflow[cluster]', or use on='here'") from None
    if isinstance(on, Client):
        if on.asynchronous:
            raise InputError("on is an asynchronous client: give one made with asynchronous=False")
        yield OnDask(on, work)
    elif on is None:
        with _local() as cluster, Client(cluster) as client:
            yield OnDask(client, work)
    else:
        with _client(Client, on) as client:
            yield OnDask(client, work)


def _client(kind: Any, on: Any) -> Any:
    if not isinstance(on, str) and not hasattr(on, "scheduler_address"):
        raise InputError(f"on is {quoted(on)}, expected None, 'here', the address of a scheduler, or a Dask client")
    try:
        return kind(on, timeout=ANSWER)
    except (OSError, ValueError, TypeError):
        raise InputError(
            f"no Dask scheduler answers at {on}: start one with `dask scheduler`, or give on=None"
        ) from None


@contextmanager
def _local() -> Iterator[Any]:
    """Yield a cluster of one process for each core.

    Functions of the user's script travel by value. So a worker need not run the script, as multiprocessing would have
    it do, and a script needs no ``if __name__ == "__main__"``.
    """
    import logging

    import dask
    from distributed import LocalCluster

    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    # A batch that has killed two workers is taken apart.
    settings = {"distributed.scheduler.allowed-failures": 1}
    dashboard = ":0" if importlib.util.find_spec("bokeh") is not None else None
    for name in hidden:
        delattr(main, name)
    main.__spec__ = None
    try:
        with (
            dask.config.set(settings),
            LocalCluster(
                n_workers=os.cpu_count(),
                threads_per_worker=1,
                processes=True,
                env=ONE_THREAD,
                dashboard_address=dashboard,
                silence_logs=logging.ERROR,
            ) as cluster,
        ):
            yield cluster
    finally:
        for name, value in hidden.items():
            setattr(main, name, value)
