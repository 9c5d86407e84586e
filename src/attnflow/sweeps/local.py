"""A Dask cluster of this machine alone: one process with one compiled thread for each core."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Compiled code of a worker uses one core: its neighbours use the others. The sweep itself says how far it is.
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# Run in each worker as it starts. Ctrl-C reaches all processes of a terminal: the one that called ends, and closes the
# workers, without a report of what they were doing.
PRELUDE = """import logging, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
"""
ENVIRONMENT = {**ONE_THREAD, "ATTNFLOW_PROGRESS": "off"}

_guard = threading.Lock()
# What the script is called, hidden while there are clusters, and the number of these.
_hidden: dict[str, Any] = {}
_clusters = 0


@contextmanager
def local_cluster(most: int) -> Iterator[Any]:
    """Yield a cluster of at most this number of workers, which is closed afterwards."""
    import dask
    from dask.system import CPU_COUNT
    from distributed import LocalCluster

    with _script_hidden(), _silent():
        # A batch that has killed two workers is taken apart.
        with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
            cluster = LocalCluster(
                n_workers=max(1, min(CPU_COUNT, most)),
                threads_per_worker=1,
                processes=True,
                env=ENVIRONMENT,
                preload=[PRELUDE],
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
        with cluster:
            yield cluster


@contextmanager
def _silent() -> Iterator[None]:
    """Keep the reports of the parts of a cluster to themselves, whose worth is for those who look after one."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Hide the user's script from multiprocessing, which would run it again in each worker.

    Functions of the script travel by value, so that a worker need not know it, and a script needs no
    ``if __name__ == "__main__"``. Workers that died are started again at any time: it is hidden until the last cluster
    of the process is closed.
    """
    global _clusters
    main = sys.modules["__main__"]
    with _guard:
        if not _clusters:
            _hidden.update({name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)})
            for name in _hidden:
                delattr(main, name)
            main.__spec__ = None
        _clusters += 1
    try:
        yield
    finally:
        with _guard:
            _clusters -= 1
            if not _clusters:
                for name, value in _hidden.items():
                    setattr(main, name, value)
                _hidden.clear()
