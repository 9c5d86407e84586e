"""Parameter studies: `sweep` calls a function at every point of a grid, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import attnflow
from attnflow.core.inputs import InputError, location, quoted, whole
from attnflow.measure.by_name import Measurement
from attnflow.sweeps.cells import Cells, Measure, check_function
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.identity import digest, language
from attnflow.sweeps.results import Results
from attnflow.sweeps.running import Sweep
from attnflow.sweeps.where import place_of


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

    `cell(**parameters)` returns a number, an array, a dictionary of them, or a run of which `measure` is taken: a list
    of measurements, each a name such as "clusters", a table with options, ``{"name": "clusters", "tol": 0.1}``, or a
    function of the run; or a dictionary that names them. The page "From a laptop to a cluster" lists which number each
    one gives. `over` names the axes: lists of values, ``{"from": 1, "to": 9,
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
            missing = results.claim(retry_failed)
            with place_of(on, cells, len(missing)) as place:
                Sweep(grid, results, place).run(missing)
        return results.dataset()
    finally:
        results.close()


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
