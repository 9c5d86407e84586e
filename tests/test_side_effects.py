"""Importing attnflow, or any part of it, changes nothing that other code of the process can see."""

from __future__ import annotations

import os
import subprocess
import sys

# The libraries themselves are loaded first: what they do to the process is theirs.
STATE = """
import decimal, faulthandler, gc, importlib, locale, logging, os, pkgutil, random, signal, sys, threading, warnings
import flint, matplotlib.pyplot, numba, numpy, scipy.linalg, scipy.optimize, scipy.spatial, threadpoolctl

def state():
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    loggers = [logging.root, *(logging.getLogger(name) for name in ("matplotlib", "numba", "distributed"))]
    return {
        **{f"variable {name}": value for name, value in os.environ.items()},
        "folder": os.getcwd(),
        "path": list(sys.path),
        "warnings": list(warnings.filters),
        "signals": signals,
        "logging": [(one.level, list(one.handlers), one.propagate, one.disabled) for one in loggers],
        "errors of NumPy": numpy.geterr(),
        "printing of NumPy": numpy.get_printoptions(),
        "generator of NumPy": str(numpy.random.get_state()),
        "generator of Python": random.getstate(),
        **{f"Matplotlib's {name}": value for name, value in matplotlib.rcParams.items()},
        "backend of Matplotlib": matplotlib.get_backend(),
        "figures": matplotlib.pyplot.get_fignums(),
        "threads of Numba": numba.get_num_threads(),
        "threads of BLAS": [(one["filepath"], one["num_threads"]) for one in threadpoolctl.threadpool_info()],
        "precision of balls": flint.ctx.prec,
        "decimals": str(decimal.getcontext()),
        "locale": locale.setlocale(locale.LC_ALL),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook, faulthandler.is_enabled()),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "threads": threading.active_count(),
    }

def compare(before, what):
    after = state()
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert not changed, f"{what} changes {sorted(changed)}"

before = state()
"""
IMPORTS = """
import attnflow
compare(before, "import attnflow")
for found in pkgutil.walk_packages(attnflow.__path__, "attnflow."):
    if not found.name.endswith("__main__") and found.name != "attnflow.explorer.beside_notebook":
        importlib.import_module(found.name)
compare(before, "importing every part of attnflow")
attnflow.measure.wasserstein([[0.0, 0.0]], [[1.0, 0.0]])
names = [name for name in os.environ if f"variable {name}" not in before]
assert not names, names
"""


def test_no_import_changes_anything_of_the_process() -> None:
    """`import attnflow` does not, and neither do its parts that are loaded at need, such as engines and figures."""
    words = [sys.executable, "-c", STATE + IMPORTS]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_an_import_warns_of_nothing_and_loads_no_plotting() -> None:
    program = "import os, sys; before = dict(os.environ); import attnflow; assert before == dict(os.environ); "
    program += "print(*sys.modules)"
    words = [sys.executable, "-W", "error", "-X", "warn_default_encoding", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not {"matplotlib", "numba", "zarr", "starlette", "flint", "jax", "torch"} & set(done.stdout.split())
    assert not done.stderr
