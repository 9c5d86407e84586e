"""`attnflow sweep`: a sweep from a TOML file, its store, its picture, and what it says."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow import figures
from attnflow.app import config
from attnflow.app.sweep import cells_of, results_of
from attnflow.catalogue import check_keys
from attnflow.core.inputs import InputError
from attnflow.sweeps.grid import AXIS
from attnflow.sweeps.study import plan, run_missing

# Keys of a file that do not belong to the run.
OWN = ("measure", "over", "output")


def run_file(given: dict[str, Any]) -> int:
    """Run the sweep of a file, or tell what it would take; return 1 if some cells failed, else 0."""
    path: Path = given["file"]
    data = config.table_of(path)
    output = _output(data, given, path)
    run = {key: value for key, value in data.items() if key not in OWN}
    cells = cells_of(None, axes(data.get("over")), run, data.get("measure"), 0, path.parent)
    if output["plot"] is not None:
        figures.destination(output["plot"])
    results = results_of(cells, output["store"])
    if given["dry_run"]:
        print(_rows(plan(cells, results, given["on"], given["retry_failed"]) | {"store": output["store"]}))
        return 0
    begin = time.perf_counter()
    found = run_missing(cells, results, given["on"], given["retry_failed"]).dataset()
    rows: dict[str, Any] = {"cells": cells.grid.said}
    for name, values in results.values.items():
        if values.dtype.kind == "f":
            rows[name] = _range(values.reshape(len(cells.grid), -1))
    failed = [cell for cell, sentence in enumerate(found.failed.values.ravel().tolist()) if sentence]
    if failed:
        first = f"{cells.grid.label(failed[0])}: {found.failed.values.ravel()[failed[0]]}"
        rows["failed"] = f"{len(failed)}, the first at {first}"
    rows |= {"time": f"{time.perf_counter() - begin:.2f} s", "store": output["store"]}
    if output["plot"] is not None and len(failed) < len(cells.grid):
        try:
            figures.save(figures.sweep(found), output["plot"])
            rows["plot"] = output["plot"]
        except InputError as error:
            rows["plot"] = f"none: {error}"
    print(_rows(rows), flush=True)
    return int(bool(failed))


def axes(over: Any) -> Any:
    """Return the axes that a table names; TOML reads law.beta = [...] as a table [over.law].

    >>> axes({"law": {"beta": [1.0, 2.0]}, "seed": {"count": 3}})
    {'law.beta': [1.0, 2.0], 'seed': {'count': 3}}
    """
    if isinstance(over, list):
        raise InputError("[over] is a list: write [over] in single brackets, and each axis below it as name = values")
    if not isinstance(over, dict):
        raise InputError("the file has no axes: add a table [over], such as beta = {from = 1, to = 9, count = 5}")
    found: dict[str, Any] = {}
    for name, axis in over.items():
        nested = isinstance(axis, dict) and not set(axis) & {*AXIS, "design"}
        found |= {f"{name}.{key}": value for key, value in axis.items()} if nested else {name: axis}
    return found


def _range(values: NDArray[np.float64]) -> str:
    """Return where the values of all cells, one row for each, are, and how many cells have none.

    >>> _range(np.array([[1.0], [2.0], [np.nan]]))
    '1 to 2, mean 1.5; 1 of 3 cells gave no finite number'
    """
    finite = np.isfinite(values)
    good, lacking = values[finite], len(values) - np.count_nonzero(finite.all(axis=1))
    if not good.size:
        return f"none of {len(values)} cells gave a finite number"
    said = f"; {lacking} of {len(values)} cells gave no finite number" if lacking else ""
    return f"{good.min():.6g} to {good.max():.6g}, mean {good.mean():.6g}{said}"


def _output(data: dict[str, Any], given: dict[str, Any], path: Path) -> dict[str, str | None]:
    """Return where results and picture go: as flags say, or the file, or by the file's own name in this folder."""
    said = data.get("output", {})
    if not isinstance(said, dict):
        raise InputError(f"'output' is {said!r}, expected a table [output]")
    check_keys(said, ("store", "plot"), "[output]")
    store = given["output"] or said.get("store") or f"{path.stem}.zarr"
    plot = given["plot"] or said.get("plot") or f"{path.stem}.png"
    return {"store": str(store), "plot": None if given["no_plot"] else str(plot)}


def _rows(rows: dict[str, Any]) -> str:
    width = max(10, *(len(name) + 1 for name in rows))
    return "\n".join(f"{name:<{width}}{value}" for name, value in rows.items())
