"""Arrays with named dimensions as one file: .npz for NumPy, .csv for tables, .nc for netCDF."""

from __future__ import annotations

import csv
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError

# Name of an array: the names of its dimensions, and the array. An array named like its only dimension holds the
# coordinates along that dimension.
Variables = Mapping[str, tuple[tuple[str, ...], NDArray[Any]]]

FILES = (".npz", ".csv", ".nc")
# The dimension whose entries are columns of a table, not rows.
COORDINATE = "coordinate"
# What the files say of themselves, as JSON, stands under this name.
ABOUT = "attnflow"
# Whole numbers of netCDF have 32 bits, its arrays 2 GiB.
NETCDF_WHOLE, NETCDF_BYTES = 2**31, 2**31
# ROWS rows of a table are written at once.
ROWS = 1 << 16
# An .npz file has the names of the attributes of a run, the others those of a dimension and its places.
_PLURAL = {"time": "times"}


def new_place(path: Path) -> Path:
    """Refuse a place that is taken, or that is in a folder that does not exist."""
    if path.exists():
        raise InputError(f"{path} exists already: choose another name, or remove it first")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: create it first")
    return path


def write(path: Path, variables: Variables, about: dict[str, Any]) -> None:
    """Write arrays to a new file of the kind that its ending names; it appears under its name only when it is whole.

    `about` is plain data that says what the arrays are; .csv has no place for it. `arrays_of` reads .npz and .nc.

    >>> import tempfile
    >>> variables = {"time": (("time",), np.array([0, 1])), "value": (("time",), np.array([0.5, 0.25]))}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder, "a.csv"), variables, {})
    ...     Path(folder, "a.csv").read_text().split()
    ['time,value', '0,0.5', '1,0.25']
    """
    kinds = {".npz": _write_npz, ".csv": _write_csv, ".nc": _write_netcdf}
    if path.suffix not in kinds:
        given = f"ends in {path.suffix}" if path.suffix else "has no ending"
        raise InputError(f"the file name {path.name!r} {given}, expected .zarr, .npz, .csv or .nc: choose one of these")
    with appears_whole(path, "written") as building:
        kinds[path.suffix](building, variables, about)


@contextmanager
def appears_whole(path: Path, verb: str) -> Iterator[Path]:
    """Yield where to build a new file or folder, which gets its own name only when it is whole."""
    building = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        new_place(path)
        yield building
        building.rename(path)
    except OSError as error:
        raise InputError(f"{path} cannot be {verb} ({error.strerror}): choose another place") from None
    finally:
        with suppress(OSError):  # a name that is too long for the disk
            if building.is_dir():
                shutil.rmtree(building, ignore_errors=True)
            else:
                building.unlink(missing_ok=True)


def arrays_of(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays of a file that `write` made, the same bits, and what they say of themselves."""
    if path.suffix == ".csv":
        raise InputError(
            f"{path} is a table, which does not say what was run: read it with pandas.read_csv, or save as .npz"
        )
    readers = {".npz": _read_npz, ".nc": _read_netcdf}
    if path.suffix not in readers:
        raise InputError(f"{path} is no store and no .npz or .nc file: give the path of a run saved by attnflow")
    try:
        arrays, text = readers[path.suffix](path)
        about = json.loads(text)
    except Exception:
        raise InputError(f"{path} is not a whole {path.suffix} file of attnflow: give another, or save again") from None
    return arrays, about


def dataset(variables: Variables, attributes: dict[str, Any]) -> Any:
    """Return the arrays as an `xarray.Dataset`."""
    try:
        import xarray
    except ImportError:
        raise InputError("this needs xarray: pip install 'attnflow[store]'") from None
    data: dict[str, Any] = {}
    places: dict[str, Any] = {}
    for name, (dimensions, array) in variables.items():
        (places if dimensions == (name,) else data)[name] = (dimensions, array)
    return xarray.Dataset(data, coords=places, attrs=attributes)


def table(variables: Variables) -> Any:
    """Return the arrays as a tidy `pandas.DataFrame`."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_pandas needs pandas: pip install 'attnflow[store]'") from None
    return pandas.DataFrame(columns(variables))


def columns(variables: Variables) -> dict[str, NDArray[Any]]:
    """Return the columns of a tidy table: a row for each entry of the array with most dimensions.

    The entries along "coordinate" are columns x0, x1...; arrays over some of the other dimensions are repeated.

    >>> tokens = np.array([[[1.0, 2.0]], [[3.0, 4.0]]])
    >>> times = np.array([0, 5])
    >>> for name, column in columns(
    ...     {"time": (("time",), times), "tokens": (("time", "token", "coordinate"), tokens)}
    ... ).items():
    ...     print(name, column)
    time [0 5]
    token [0 0]
    x0 [1. 3.]
    x1 [2. 4.]
    """
    main = max(variables, key=lambda name: len(variables[name][0]))
    dimensions, array = variables[main]
    rows = tuple(name for name in dimensions if name != COORDINATE)
    shape = tuple(size for name, size in zip(dimensions, array.shape, strict=True) if name != COORDINATE)
    table = {}
    for name, size in zip(rows, shape, strict=True):
        own = variables[name][1] if name in variables else np.arange(size)
        table[name] = _repeated(own, (name,), rows, shape)
    if COORDINATE in dimensions:
        last = np.moveaxis(array, dimensions.index(COORDINATE), -1)
        table |= {f"x{k}": last[..., k].ravel() for k in range(last.shape[-1])}
    else:
        table[main] = array.ravel()
    for name, (over, other) in variables.items():
        if name not in rows and name != main and set(over) <= set(rows):
            table[name] = _repeated(other, over, rows, shape)
    return table


def _repeated(
    array: NDArray[Any], over: tuple[str, ...], rows: tuple[str, ...], shape: tuple[int, ...]
) -> NDArray[Any]:
    """Return an array over some of the dimensions of the rows, once for each row."""
    sizes = dict(zip(over, array.shape, strict=True))
    return np.broadcast_to(array.reshape([sizes.get(name, 1) for name in rows]), shape).ravel()


def _write_npz(path: Path, variables: Variables, about: dict[str, Any]) -> None:
    # Whole numbers beyond int64 are kept as text, so that the file is read without pickle.
    arrays: dict[str, Any] = {
        _PLURAL.get(name, name): np.array([str(value) for value in array.tolist()]) if array.dtype == object else array
        for name, (_, array) in variables.items()
    }
    with path.open("xb") as file:
        np.savez(file, **{**arrays, ABOUT: np.array(json.dumps(about))})


def _read_npz(path: Path) -> tuple[dict[str, NDArray[Any]], str]:
    with np.load(path, allow_pickle=False) as saved:
        singular = {many: one for one, many in _PLURAL.items()}
        arrays = {singular.get(name, name): saved[name] for name in saved if name != ABOUT}
        text = str(saved[ABOUT])
    return {
        name: np.array([int(value) for value in array.tolist()], object) if array.dtype.kind == "U" else array
        for name, array in arrays.items()
    }, text


def _write_csv(path: Path, variables: Variables, about: dict[str, Any]) -> None:
    table = columns(variables)
    with path.open("x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        count = len(next(iter(table.values())))
        for first in range(0, count, ROWS):
            writer.writerows(zip(*(column[first : first + ROWS].tolist() for column in table.values()), strict=True))


def _write_netcdf(path: Path, variables: Variables, about: dict[str, Any]) -> None:
    known = {name: (over, _netcdf_numbers(array)) for name, (over, array) in variables.items()}
    types = {name: array.dtype.str for name, (_, array) in variables.items()}
    data = dataset(known, {ABOUT: json.dumps({**about, "types": types})})
    # Without this xarray would take NaN for a gap.
    gapless = {name: {"_FillValue": None} for name in known}
    data.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT", encoding=gapless)


def _netcdf_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers that netCDF holds exactly: whole ones beyond 32 bits as float64."""
    if array.nbytes >= NETCDF_BYTES:
        raise InputError("an array of a .nc file is smaller than 2 GiB, and this run is larger: save it as .zarr")
    if array.dtype.kind != "f" and array.size:
        largest = max(abs(int(array.min())), abs(int(array.max())))
        if largest > 2**53:
            raise InputError("a .nc file holds whole times up to 2**53, and this run goes beyond: save it as .npz")
        return array.astype(np.float64 if largest >= NETCDF_WHOLE else np.int32)
    return array


def _read_netcdf(path: Path) -> tuple[dict[str, NDArray[Any]], str]:
    from scipy.io import netcdf_file

    with netcdf_file(path, mmap=False) as saved:
        text = getattr(saved, ABOUT).decode()
        arrays = {name: variable.data for name, variable in saved.variables.items()}
    types = json.loads(text)["types"]
    return {name: np.asarray(array).astype(types[name]) for name, array in arrays.items()}, text
