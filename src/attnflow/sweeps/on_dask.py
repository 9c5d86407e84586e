"""The workers of a Dask cluster. Dask ships the cells, and runs those of a lost worker elsewhere."""

from __future__ import annotations

import importlib.util
import logging
import queue
import time
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from attnflow.core import progress
from attnflow.core.inputs import InputError
from attnflow.sweeps.outcome import Batch
from attnflow.sweeps.places import Done, Work
from attnflow.sweeps.shipping import computed, packed, same

# Batches at the scheduler, in all and for each worker: clusters that grow when there is work look at what waits.
LEAST, AHEAD = 32, 8
# Seconds between two looks at the cluster while nothing comes back, and between two counts of its workers.
LOOK, COUNT = 0.2, 1.0
# Seconds to wait for a result: others are not kept waiting for one that was lost.
PATIENCE = 2.0
# A payload of more bytes travels once to each worker, not with each batch.
LARGE = 100_000


class OnDask:
    """The workers that a client knows."""

    def __init__(self, client: Any, work: Work) -> None:
        self.client, self.level = client, logging.getLogger().level
        self.payload: Any = packed(work)
        self._counted, self._workers, self._waits = -COUNT, 0, False
        if len(self.payload) > LARGE:
            with self._answered(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Dask's advice on large payloads
                self.payload = client.submit(same, self.payload, pure=False)
                if self.workers:
                    client.replicate([self.payload])

    @property
    def workers(self) -> int:
        """How many cells can run at once, one for each worker; 0 as long as no worker is there."""
        now = time.monotonic()
        if now >= self._counted + COUNT or not self._workers:
            with self._answered():
                self._workers = len(self.client.nthreads())
            self._counted = now
            if not self._workers and not self._waits:
                progress.note(f"no workers at {self._address}: waiting for them")
            self._waits = not self._workers
            progress.tick()
        return self._workers

    @property
    def link(self) -> str | None:
        """The address of Dask's own dashboard, which needs bokeh."""
        return self.client.dashboard_link if importlib.util.find_spec("bokeh") is not None else None

    def run(self, batches: Iterable[list[int]]) -> Generator[Done, None, None]:
        """Yield batches as they are done."""
        waiting, running, done = iter(batches), dict[Any, list[int]](), queue.SimpleQueue[Any]()
        try:
            while True:
                while len(running) < max(LEAST, AHEAD * self.workers) and (cells := next(waiting, None)) is not None:
                    future = self._submitted(cells)
                    running[future] = cells
                    future.add_done_callback(done.put)
                if not running:
                    return
                try:
                    future = done.get(timeout=LOOK)
                except queue.Empty:
                    progress.tick()
                    if self.client.status != "running":
                        raise self._gone() from None
                    continue
                try:
                    batch = self._result(future)
                except TimeoutError:
                    # Its worker died before it gave the result away, and another computes it again.
                    future.add_done_callback(done.put)
                else:
                    yield running.pop(future), batch
        finally:
            if running:
                with suppress(Exception):  # the scheduler may be gone
                    self.client.cancel(list(running))

    def _submitted(self, cells: list[int]) -> Any:
        with self._answered():
            return self.client.submit(computed, self.payload, cells, self.level, pure=False)

    def _result(self, future: Any) -> Batch | None:
        from distributed import KilledWorker

        with self._answered():
            try:
                batch: Batch = future.result(timeout=PATIENCE)
            except KilledWorker:
                return None
            except TimeoutError:
                if future.status == "finished":  # it is large, and under way
                    return self._result(future)
                raise
            except Exception as error:
                if future.status != "error":
                    raise self._gone() from None
                raise InputError(
                    f"the workers cannot run the cell ({type(error).__name__}: {error}): install there what is "
                    "installed here, and upload modules of your own with client.upload_file"
                ) from error
        return batch

    @property
    def _address(self) -> str:
        return str(getattr(self.client.scheduler, "address", None) or "its address")

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Say it in one sentence if the scheduler does not answer."""
        from concurrent.futures import CancelledError

        try:
            yield
        except InputError:
            raise
        except (OSError, RuntimeError, CancelledError):
            if self.client.status == "running":
                raise
            raise self._gone() from None

    def _gone(self) -> InputError:
        return InputError(
            f"the scheduler at {self._address} is gone: start it again, and repeat the call with the same store; only "
            "what is missing runs"
        )
