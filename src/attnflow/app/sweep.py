"""Parameter studies: `sweep` calls a function at every point of a grid, on this machine or on a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import attnflow
from attnflow.app.declared import DeclaredCells, declared
from attnflow.core.calls import fitting
from attnflow.core.identity import digest, language
from attnflow.core.inputs import InputError, location, quoted, whole
from attnflow.measure.by_name import Measurement
from attnflow.sweeps.cells import Cells, Measure, check_function
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.results import Results, xarray_library
from attnflow.sweeps.study import run_missing


@partial(fitting, name="sweep")
def sweep(
    cell: Callable[..., Any] | None = None,
    over: Mapping[str, Any] | None = None,
    *,
    run: Mapping[str, Any] | None = None,
    measure: Any = None,
    store: Any = None,
    on: Any = None,
    seed: int = 0,
    retry_failed: bool = False,
) -> Any:
    """Call a function at every point of a grid, and return an `xarray.Dataset` with the axes as dimensions.

    `cell(**parameters)` returns a number, an array, a dictionary of them, or a run of which `measure` is taken: a list
    of measurements, each a name such as "clusters", a table with options, ``{"name": "clusters", "tol": 0.1}``, or a
    function of the run; or a dictionary that names them. The page "From a laptop to a cluster" lists which number each
    name gives.

    `over` names the axes: lists of values, ``{"from": 1, "to": 9, "count": 5, "scale": "log"}``, ``{"count": 20}`` for
    0 to 19, or designs, points that vary several parameters at once, ``"point": {"design": "latin_hypercube", "count":
    64, "seed": 0, "beta": [0.1, 9.0], "gamma": [0.0, 1.0]}`` (or "random"). A design draws real
    numbers; ``"n": {"from": 4, "to": 32, "whole": True}`` draws whole ones, and ``{"from": 0.1, "to": 9.0, "scale":
    "log"}`` numbers whose logarithm is uniform.

    In place of a cell, `run` declares a run by plain data, as a configuration file of the command line does. The axes
    are then keys of it: "law.beta", "tokens.n", "until", "seed"; the last part, "beta", is enough where only one table
    has it, and "law" varies the whole table. Without a seed of its own each run has `seed`.

    Declared runs under softmax move together, as an `ensemble` and many times faster than one by one, if their
    parameters do not depend on time, if they are layers or flows of up to 1024 tokens (on the sphere up to a time of
    1000), and if only their first and last states are measured. Each has the same bits whatever runs beside it. It is
    the run of `simulate` up to rounding in layers. In flows both keep the error of each step within `rtol`, but choose
    their steps themselves: with ``until=30`` on the circle their tokens differ by about 1e-9 at ``rtol=1e-9`` and by
    about 1e-6 at ``rtol=1e-6``, and by more where tokens had to choose between clusters.

    `on` is where it runs: None for processes on this machine, one for each core; the address of a Dask scheduler, or
    a `dask.distributed.Client`; "here" for this process.

    A cell that takes `rng` gets a generator that depends on `seed` and on its place in the grid alone. So the Dataset
    has the same bits for any number of workers. Cells that fail are data: NaN, and a sentence in the variable
    `failed`; ``retry_failed=True`` runs those again. All cells must return the names and shapes of the first cell that
    did not fail, also those that run again. With `store`, results go to a Zarr store as they come; if the call is
    killed, the same call runs what is missing.

    Examples
    --------
    >>> import attnflow as af
    >>> def largest(beta, seed):
    ...     x = af.tokens.sphere(n=16, d=2, seed=seed)
    ...     run = af.simulate(x, af.Softmax(beta=beta), af.SphereFlow(rtol=1e-6), until=20.0)
    ...     return af.measure.clusters(run.final, tol=0.1).sizes.max()
    >>> found = sweep(largest, over={"beta": [1.0, 16.0], "seed": {"count": 3}}, on="here")
    >>> found.largest.dims, found.largest.mean("seed").values.tolist()
    (('beta', 'seed'), [16.0, 8.0])
    >>> run = {
    ...     "tokens": {"cloud": "sphere", "n": 16, "d": 2}, "law": {"name": "softmax"},
    ...     "motion": {"name": "sphere-flow", "rtol": 1e-6}, "until": 20.0,
    ... }
    >>> found = sweep(run=run, over={"beta": [1.0, 16.0], "seed": {"count": 3}}, measure=["clusters"], on="here")
    >>> found.clusters.values.tolist()
    [[1.0, 1.0, 1.0], [4.0, 5.0, 3.0]]

    References
    ----------
    McKay, Beckman, Conover, *A comparison of three methods for selecting values of input variables in the analysis of
    output from a computer code* (Technometrics 21, 1979), for Latin hypercubes.
    """
    cells = cells_of(cell, over, run, measure, seed)
    results = run_missing(cells, results_of(cells, store), on, retry_failed)
    if (results.failed != "").all():
        first = f"{cells.grid.label(0)}: {results.failed.flat[0]}"
        warnings.warn(f"all {len(cells.grid)} cells failed, the first at {first}", stacklevel=3)
    return results.dataset()


def cells_of(cell: Any, over: Any, run: Any, measure: Any, seed: Any, folder: Path = Path()) -> Cells:
    """Return the cells of a sweep of a function, or of a declared run whose files are in this folder."""
    if over is None or (cell is None) == (run is None):
        raise InputError(
            "a sweep needs a cell, a function, or run, a run that is declared, and over, the axes of its grid: give "
            "one of the first two, and the last"
        )
    grid, measures, number = Grid(over), measures_of(measure), whole(seed, "seed", least=0)
    if run is None:
        check_function(cell, grid)
        return Cells(cell, grid, measures, number)
    if not measures:
        raise InputError("the sweep does not say what is measured of each run: add measure, such as ['clusters']")
    return DeclaredCells(declared(run, grid, number, folder), grid, measures, number)


def results_of(cells: Cells, store: Any) -> Results:
    """Return the results of these cells as far as the store has them."""
    about = {
        "run" if isinstance(cells, DeclaredCells) else "function": f"{cells.name} {cells.identity[:16]}",
        "axes": digest(cells.grid.axes),
        "measurements": digest(cells.measures),
        "seed": cells.seed,
        "version of attnflow": attnflow.__version__,
        "version of Python": language(),
    }
    xarray_library()
    return Results(cells.grid, about, None if store is None else location(store, "store"))


def measures_of(measure: Any) -> dict[str, Measure]:
    """Return functions of a run by name, from a list or a dictionary of measurements.

    >>> list(measures_of(["diameter", {"name": "clusters", "tol": 0.1}]))
    ['diameter', 'clusters']
    """
    if measure is None:
        return {}
    if isinstance(measure, Mapping) and not isinstance(measure.get("name"), str):
        return {str(name): _measurement(part) for name, part in measure.items()}
    parts = measure if isinstance(measure, list | tuple) else [measure]
    named: dict[str, Measure] = {}
    for part in map(_measurement, parts):
        name = part.name if isinstance(part, Measurement) else getattr(part, "__name__", "value")
        name = name if name.isidentifier() else "value"
        if name in named:
            raise InputError(
                f"two measurements are named {name!r}: name them yourself, as in measure = {{fine = ..., coarse = ...}}"
            )
        named[name] = part
    return named


def _measurement(part: Any) -> Measure:
    if isinstance(part, str):
        return Measurement(part)
    if isinstance(part, Mapping):
        return Measurement(part.get("name", ""), {key: value for key, value in part.items() if key != "name"})
    if not callable(part):
        raise InputError(f"measure has {quoted(part)}, expected the name of a measurement, or a function of a run")
    return cast(Measure, part)
