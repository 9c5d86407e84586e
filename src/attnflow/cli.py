"""The command line: `attnflow simulate`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SIMULATE = """\
Simulate tokens under a law of attention, from flags, from a TOML file, or from a file with flags on top.

  attnflow simulate --cloud gaussian --n 200 --d 2 --law softmax --beta 9 --motion layers --gamma 0.1 --until 500
  attnflow simulate --tokens cloud.csv --law hardmax --motion layers --gamma "2 / (t + 2)" --until 100
  attnflow simulate run.toml --beta 20 --store run.zarr --plot run.png

Numbers may be formulas in t; matrices are lists such as "[[1, 0], [0, 2]]", or .csv and .npy files. A store records
the configuration, the versions and the seed with the run; an interrupted run goes on when the command is repeated.
"""
EXAMPLE = """\
a TOML file:

  until = 500
  seed = 0

  [tokens]
  cloud = "gaussian"    # or uniform, sphere, polygon, grid, orthogonal; or file = "cloud.csv"
  n = 200
  d = 2

  [law]
  name = "softmax"      # or hardmax, localmax, hegselmann-krause, heads
  beta = 9.0

  [motion]
  name = "layers"       # or residual, rescaled-layers, sphere-layers, flow, rescaled-flow, sphere-flow
  gamma = 0.1

  [output]
  store = "run.zarr"
"""
# flag: (table, key, help)
FLAGS = {
    "cloud": ("tokens", "cloud", "gaussian, uniform, sphere, polygon, grid or orthogonal"),
    "tokens": ("tokens", "file", "a .csv or .npy file with one token per row"),
    "n": ("tokens", "n", "number of tokens"),
    "d": ("tokens", "d", "dimension"),
    "k": ("tokens", "k", "corners of the polygon, or grid points per axis"),
    "low": ("tokens", "low", "lower end of the cube (uniform, grid)"),
    "high": ("tokens", "high", "upper end of the cube (uniform, grid)"),
    "law": ("law", "name", "softmax, hardmax, localmax or hegselmann-krause"),
    "beta": ("law", "beta", "inverse temperature (softmax)"),
    "B": ("law", "B", "matrix of the scores <B x_i, x_j>"),
    "delta": ("law", "delta", "alignment slack (localmax)"),
    "threshold": ("law", "threshold", "additive, relative or normalized (localmax)"),
    "ties": ("law", "ties", "tokens, points, first or error (hardmax)"),
    "eps": ("law", "eps", "confidence radius (hegselmann-krause)"),
    "motion": (
        "motion",
        "name",
        "layers, residual, rescaled-layers, sphere-layers, flow, rescaled-flow, sphere-flow",
    ),
    "gamma": ("motion", "gamma", "step size in (0, 1] (layers)"),
    "alpha": ("motion", "alpha", "gamma = alpha / (1 + alpha) (layers)"),
    "V": ("motion", "V", "value matrix"),
    "dt": ("motion", "dt", "time step (residual, rescaled-layers, sphere-layers)"),
    "rtol": ("motion", "rtol", "relative tolerance (flows)"),
    "normalized": ("motion", "normalized", "true for SA, false for USA (sphere-flow)"),
    "until": (None, "until", "number of steps, or time"),
    "seed": (None, "seed", "seed of everything random"),
    "record": (None, "record", "record every k-th step, or at a list of times"),
    "masses": (None, "masses", "masses of the tokens, a list or a file"),
    "engine": (None, "engine", "auto, dense or fused"),
    "converged": ("stop", "converged", "stop when no token moves faster than this fraction of the cloud"),
    "clusters": ("stop", "clusters", "stop when at most so many clusters are left"),
    "tol": ("stop", "tol", "distance that joins tokens to a cluster"),
    "seconds": ("stop", "seconds", "stop after so many seconds"),
    "store": ("output", "store", "Zarr store to write the run to"),
    "plot": ("output", "plot", "picture to draw: .png, .svg or .pdf"),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="attnflow",
        description="The laboratory for self-attention dynamics: tokens as interacting particles.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    simulate = commands.add_parser(
        "simulate",
        help="let tokens move under a law of attention",
        description=SIMULATE,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    simulate.add_argument("config", nargs="?", type=Path, metavar="FILE.toml", help="a configuration")
    for flag, (_, _, text) in FLAGS.items():
        simulate.add_argument(f"--{flag}", metavar="X", help=text)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, or 2 after one sentence on standard error."""
    parser = _parser()
    given = parser.parse_args(arguments)
    from attnflow import InputError, __version__

    if given.version:
        print(f"attnflow {__version__}")
        return 0
    if given.command is None:
        parser.print_help()
        return 0
    try:
        return _simulate(vars(given))
    except InputError as error:
        print(f"attnflow: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("attnflow: interrupted; a run with a store goes on when the command is repeated", file=sys.stderr)
        return 130


def _simulate(given: dict[str, Any]) -> int:
    from attnflow import config, measure, watch
    from attnflow.simulate import simulate
    from attnflow.storage import Store, opened

    settings = config.read(given["config"]) if given["config"] else config.Config({}, Path())
    for flag, (table, key, _) in FLAGS.items():
        if given[flag] is not None:
            place = settings.data if table is None else settings.data.setdefault(table, {})
            place[key] = _value(given[flag])
    arguments, output = settings.arguments, settings.output
    store = Path(output["store"]) if "store" in output else None
    if store is not None and store.exists() and "results" in opened(store, "r").attrs["attnflow"]:
        print(
            f"attnflow: {store} holds a finished run: choose another name, or remove it first",
            file=sys.stderr,
        )
        return 2
    if sys.stderr.isatty():
        arguments["watch"].append(watch.Progress())
    begin = time.perf_counter()
    run = simulate(**arguments, store=store)
    seconds = time.perf_counter() - begin
    if store is not None:
        Store(store, opened(store, "r+")).annotate(config=settings.text())
    if "plot" in output:
        from attnflow.figures import save

        save(run.plot(), output["plot"])
    end = measure.summary(run)
    rows = {
        "tokens": f"{run.tokens.shape[1]} in dimension {run.tokens.shape[2]}",
        "law": run.law,
        "motion": run.motion,
        "engine": run.report["engine"],
        "clusters": end.clusters,
        "leaders": "-" if end.leaders is None else end.leaders,
        "rank": "-" if end.rank is None else end.rank,
        "stopped": end.stopped,
        "recorded": f"{len(run)} states",
        "time": f"{seconds:.2f} s",
        **output,
    }
    for name, value in rows.items():
        print(f"{name:<10}{value}")
    return 0


def _value(text: str) -> Any:
    """Read numbers, lists and true/false as such; all else is a name, a formula or a file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
