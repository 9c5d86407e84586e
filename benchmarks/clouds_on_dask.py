"""One layer of tokens in a Zarr store, on a local cluster of two workers with 2 GiB each: softmax and hardmax.

    python benchmarks/clouds_on_dask.py 100_000_000
    python benchmarks/clouds_on_dask.py 10_000_000 3 softmax

makes the store in a temporary folder (8 d bytes for each token, and twice as much for the store of each run) and prints
the CPU time of the workers for each token, the least of three runs, beside that of one process at a million tokens,
which allocates memory as the workers do; the peaks of their memory; and how far sampled tokens are from direct sums.
The folder is where TMPDIR says. On the disk of a virtual machine that has given unused memory back, writing costs
several times as much as in a folder in memory, such as /dev/shm, as the host has to find memory for what is written. It
fails if a worker was restarted, as those are that need too much memory, or if a sample is wrong by more than 1e-10.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from memory import peak
from numpy.typing import NDArray

import attnflow as af
from attnflow.engines import fused

Array = NDArray[np.float64]

MOTION, CHUNK, ALONE, SAMPLE, RUNS = af.Layers(gamma=0.5), 2_000_000, 1_000_000, 16, 3
LAWS: dict[str, af.Law] = {"softmax": af.Softmax(beta=1.0), "hardmax": af.Hardmax()}
# Dask asks workers to give memory back whenever they can, and new memory costs more than half of the time here. Nor
# should each thread of a worker, of which Zarr has some, keep memory of its own.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": 1 << 30, "MALLOC_MMAP_THRESHOLD_": 1 << 30, "MALLOC_ARENA_MAX": 1}


def written(path: Path, n: int, d: int) -> None:
    """Write n normal tokens to a Zarr store, one chunk after the other; random digits are not worth compressing."""
    import dask
    import zarr

    store: Any = zarr.create_array(path, shape=(n, d), chunks=(CHUNK, d), dtype="float64", compressors=None)
    tokens = af.tokens.gaussian(n=n, d=d, seed=0, chunks=CHUNK)
    with dask.config.set(scheduler="synchronous"):
        for k in range(tokens.numblocks[0]):
            store.blocks[k] = tokens.blocks[k].compute()


def chunks(path: Path) -> Iterator[Array]:
    """Yield the chunks of a store."""
    import zarr

    store: Any = zarr.open_array(path, mode="r")
    for first in range(0, store.shape[0], CHUNK):
        yield np.asarray(store[first : first + CHUNK])


def direct_softmax(queries: Array, path: Path) -> Array:
    """Return what queries hear, by direct sums over one chunk after the other."""
    mean, log_total = np.zeros(queries.shape), np.full(len(queries), -np.inf)
    for keys in chunks(path):
        part, log_part = fused.softmax(queries, keys, keys, None, 1.0)
        log_all = np.logaddexp(log_total, log_part)
        mean = np.exp(log_total - log_all)[:, None] * mean + np.exp(log_part - log_all)[:, None] * part
        log_total = log_all
    return mean


def direct_hardmax(queries: Array, path: Path) -> Array:
    """Return what queries hear: here no two tokens tie."""
    mean, best = np.zeros(queries.shape), np.full(len(queries), -np.inf)
    for keys in chunks(path):
        part, top, _ = fused.top(queries, keys, keys, np.ones(len(keys)), np.zeros(len(queries)), 0.0)
        mean[top > best], best = part[top > best], np.maximum(top, best)
    return mean


def alone(law: af.Law, d: int, stored: bool) -> float:
    """Return the CPU time for each token of one layer of a million tokens in one process, written to a store or not."""
    x, times = af.tokens.gaussian(n=ALONE, d=d, seed=0), []
    for _ in range(4):
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "run.zarr" if stored else None
            begin = time.process_time()
            af.simulate(x, law, MOTION, until=1, record=[1], store=store)
            times.append(time.process_time() - begin)
    return min(times) / ALONE


def alone_as_workers(law: af.Law, d: int) -> list[float]:
    """Return both times of one process that allocates memory as the workers do."""
    environment = os.environ | {name: str(value) for name, value in MEMORY.items()}
    command = [sys.executable, __file__, "alone", str(d), law.name]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return [float(value) for value in said.split()]


def warmed(law: af.Law, d: int) -> None:
    """Load, or compile, what a worker needs."""
    import dask

    with dask.config.set(scheduler="synchronous"), tempfile.TemporaryDirectory() as folder:
        x = af.tokens.gaussian(n=20_000, d=d, seed=0, chunks=10_000)
        af.simulate(x, law, MOTION, until=1, store=Path(folder) / "run.zarr")


def on_workers(client: Any, function: Callable[[], Any]) -> list[Any]:
    """Return what a function without arguments returns in each worker."""
    return [value for _, value in sorted(client.run(function).items())]


def layer(client: Any, law: af.Law, start: Path, sample: NDArray[np.int64]) -> tuple[str, float]:
    """Run one layer from a store to a store; return what it took, and the error of some tokens."""
    import dask.array

    x = dask.array.from_zarr(str(start))
    n, d = x.shape
    client.run(warmed, law, d)
    processes, store, took = on_workers(client, os.getpid), start.with_name("run.zarr"), []
    for _ in range(RUNS):
        shutil.rmtree(store, ignore_errors=True)
        before, begin = on_workers(client, time.process_time), time.time()
        run = af.simulate(x, law, MOTION, until=1, record=[1], store=store)
        took.append(((sum(on_workers(client, time.process_time)) - sum(before)) / n, time.time() - begin))
    cpu, seconds = min(took)
    if on_workers(client, os.getpid) != processes:
        raise SystemExit(f"{law.name}: a worker was restarted")
    queries = x[sample].compute()
    direct = (direct_softmax if law.exponents is not None else direct_hardmax)(queries, start)
    final: Any = run.final
    error = float(np.abs(final[sample].compute() - (queries + direct) / 2).max())
    peaks = " and ".join(f"{value:.0f}" for value in on_workers(client, peak))
    one, stored = alone_as_workers(law, d)
    return (
        f"{law.name}, {n:,} tokens, d = {d}: {seconds:.1f} s, CPU {1e9 * cpu:.0f} ns for each token; one process at "
        f"{ALONE:,}: {1e9 * one:.0f} ns in memory, {1e9 * stored:.0f} ns to a store, ratios {cpu / one:.2f} and "
        f"{cpu / stored:.2f}; peaks of memory {peaks} MB; error {error:.1e}"
    ), error


def main(n: int, d: int, names: list[str]) -> None:
    """Run one layer of each law and print what it took."""
    import dask
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "2 GiB"}
    memory = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in MEMORY.items()}
    with (
        dask.config.set(memory),
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(**options, dashboard_address=":0") as cluster,
    ):
        client: Any = Client(cluster)
        start = Path(folder) / "tokens.zarr"
        written(start, n, d)
        sample = np.sort(np.random.default_rng(1).integers(0, n, SAMPLE))
        for name in names:
            sentence, error = layer(client, LAWS[name], start, sample)
            print(sentence, flush=True)
            if not error < 1e-10:
                raise SystemExit(f"{name}: wrong by {error:.1e}")
        client.close()


if __name__ == "__main__":
    given = dict(enumerate(sys.argv))
    if given.get(1) == "alone":
        print(*(alone(LAWS[sys.argv[3]], int(sys.argv[2]), stored) for stored in (False, True)))
    else:
        main(int(given.get(1, "100_000_000")), int(given.get(2, "2")), sys.argv[3:] or list(LAWS))
