"""Parameter studies: `sweep` calls a function at every point of a grid, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attnflow
from attnflow import measure as measurements
from attnflow.core.inputs import InputError, location, quoted, whole
from attnflow.sweeps.cells import Cells, Measure, check_function
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.identity import digest, language
from attnflow.sweeps.places import place_of
from attnflow.sweeps.results import Results
from attnflow.sweeps.running import Sweep


def sweep(
    cell: Callable[..., Any] | None = None,
    over: Mapping[str, Any] | None = None,
    *,
    measure: Any = None,
    store: Any = None,
    on: Any = None,
    seed: int = 0,
    retry_failed: bool = False,
) -> Any:
    """Call a function at every point of a grid, and return an `xarray.Dataset` with the axes as dimensions.

    `cell(**parameters)` returns a number, an array, a dictionary of them, or a run of which `measure` is taken: names
    of `attnflow.measure`, or functions of the run. `over` names the axes: lists of values, ``{"from": 1, "to": 9,
    "count": 5, "scale": "log"}``, ``{"count": 20}`` for 0 to 19, or designs, points that vary several parameters at
    once, ``"point": {"design": "latin_hypercube", "count": 64, "seed": 0, "beta": [0.1, 9.0], "gamma": [0.0, 1.0]}``
    (or "random").

    `on` is where it runs: None for processes on this machine, one for each core; the address of a Dask scheduler, or
    a `dask.distributed.Client`; "here" for this process.

    A cell that takes `rng` gets a generator that depends on `seed` and on its place in the grid alone. So the Dataset
    has the same bits for any number of workers. Cells that fail are data: NaN, and a sentence in the variable
    `failed`; ``retry_failed=True`` runs those again. With `store`, results go to a Zarr store as they come; if the call
    is killed, the same call runs what is missing.

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

    References
    ----------
    McKay, Beckman, Conover, *A comparison of three methods for selecting values of input variables in the analysis of
    output from a computer code* (Technometrics 21, 1979), for Latin hypercubes.
    """
    if cell is None or over is None:
        raise InputError("a sweep needs a cell, a function, and over, the axes of its grid: give both")
    grid = Grid(over)
    check_function(cell, grid)
    seed = whole(seed, "seed", least=0)
    cells = Cells(cell, grid, measures_of(measure), seed)
    about = {
        "cell": f"{cells.name} {digest(cell)[:16]}",
        "grid": digest(grid.axes),
        "measure": digest(cells.measures),
        "seed": seed,
        "version of attnflow": attnflow.__version__,
        "version of Python": language(),
    }
    results = Results(grid, about, None if store is None else location(store, "store"))
    try:
        missing = results.missing(retry_failed)
        if len(missing):
            with place_of(on, cells) as place:
                Sweep(grid, results, place).run(missing)
        return results.dataset()
    finally:
        results.close()


def measures_of(measure: Any) -> dict[str, Measure]:
    """Return functions of a run by name, from names of `attnflow.measure`, functions, or a dictionary of functions."""
    if measure is None:
        return {}
    if isinstance(measure, Mapping):
        named = {str(name): function for name, function in measure.items()}
    else:
        if isinstance(measure, str) or callable(measure):
            measure = [measure]
        named = {part if isinstance(part, str) else getattr(part, "__name__", "value"): part for part in measure}
    return {name: _measure(part) for name, part in named.items()}


def _measure(part: Any) -> Measure:
    if isinstance(part, str):
        function: Any = getattr(measurements, part, None)
        if function is None:
            raise InputError(f"there is no measurement {part!r}, expected one of {', '.join(measurements.__all__)}")
        return function
    if not callable(part):
        raise InputError(f"measure has {quoted(part)}, expected a name of attnflow.measure, or a function of a run")
    return part
