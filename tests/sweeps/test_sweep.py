"""Sweeps against a plain loop over the grid; cells that fail; stores that go on."""

from __future__ import annotations

import functools
import itertools
import json
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray
from numpy.typing import NDArray
from refusals import refused

import attnflow as af
from attnflow.sweeps import cells, listening, shipping
from attnflow.sweeps.cells import KEY
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.outcome import Outcome

OVER = {"a": [0, 1, 2], "b": {"from": 1.0, "to": 2.0, "count": 5}}


def cell(a: int, b: float, rng: np.random.Generator) -> dict[str, Any]:
    if a == 1 and b == 1.5:
        raise ValueError("the cell is poisoned")
    return {"product": a * b, "drawn": rng.random(3)}


def by_hand(a: int, b: float, place: tuple[int, ...], seed: int = 0) -> tuple[float, NDArray[np.float64]]:
    return a * b, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(KEY, *place))).random(3)


def test_it_is_a_loop_over_the_grid(tmp_path: Path) -> None:
    found = af.sweep(cell, OVER, on="here", store=tmp_path / "s.zarr")
    assert found.product.dims == ("a", "b")
    assert found.drawn.dims == ("a", "b", "drawn_0")
    assert found.b.values.tolist() == [1.0, 1.25, 1.5, 1.75, 2.0]
    for place in itertools.product(range(3), range(5)):
        a, b = [0, 1, 2][place[0]], 1.0 + place[1] / 4
        if place == (1, 2):
            assert "the cell is poisoned" in str(found.failed.values[place])
            assert np.isnan(found.product.values[place])
            assert np.isnan(found.drawn.values[place]).all()
        else:
            product, drawn = by_hand(a, b, place)
            assert found.failed.values[place] == ""
            assert found.product.values[place] == product
            assert (found.drawn.values[place] == drawn).all()
    with xarray.open_zarr(tmp_path / "s.zarr", consolidated=False) as stored:
        assert (stored.product == found.product).sum() == 14
        assert stored.finished.values.all()


def test_a_store_is_never_computed_again_and_refuses_another_sweep(tmp_path: Path) -> None:
    log = tmp_path / "ran"

    def ran() -> list[str]:
        return log.read_text().split()

    def noted(a: float) -> float:
        with log.open("a") as file:
            file.write(f"{a}\n")
        if log.read_text().split() == ["1", "2"]:
            raise RuntimeError("not now")
        return 2 * a

    def same(a: float) -> float:
        return 3 * a

    first = af.sweep(noted, {"a": [1, 2, 3]}, on="here", store=tmp_path / "s.zarr")
    assert np.isnan(first.noted.values[1])
    assert af.sweep(noted, {"a": [1, 2, 3]}, on="here", store=tmp_path / "s.zarr").identical(first)
    assert ran() == ["1", "2", "3"]
    again = af.sweep(noted, {"a": [1, 2, 3]}, on="here", store=tmp_path / "s.zarr", retry_failed=True)
    assert again.noted.values.tolist() == [2, 4, 6]
    assert again.failed.values.tolist() == ["", "", ""]
    assert ran() == ["1", "2", "3", "2"]
    with refused(r"what differs is the function, the seed \(0 there, 1 here\): choose"):
        af.sweep(same, {"a": [1, 2, 3]}, on="here", store=tmp_path / "s.zarr", seed=1)
    with refused("what differs is the axes: choose"):
        af.sweep(noted, {"a": [1, 2, 4]}, on="here", store=tmp_path / "s.zarr")


def test_a_store_belongs_to_measurements_and_to_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(k: int) -> Any:
        return af.simulate([[1.0], [0.0]], af.Hardmax(), af.Layers(gamma=0.5), until=k)

    def swept(tol: float) -> Any:
        measure = {"name": "clusters", "tol": tol}
        return af.sweep(run, {"k": [1]}, measure=measure, on="here", store=tmp_path / "s.zarr")

    assert swept(0.1).clusters.values.tolist() == [2]
    with refused("what differs is the measurements"):
        swept(0.9)
    monkeypatch.setattr(af, "__version__", "0.0")
    with refused(r"what differs is the version of attnflow \(.* there, 0.0 here\)"):
        swept(0.1)


def test_generators_of_cells_are_no_others() -> None:
    over = {"k": [0, 1]}
    mine = functools.partial(lambda k, rng: rng.random(), rng=np.random.default_rng(3))
    assert af.sweep(mine, over, on="here").value.values.tolist() == np.random.default_rng(3).random(2).tolist()
    found = af.sweep(lambda k, rng: rng.standard_normal((4, 2)), over, on="here").value.values[0]
    assert (found != af.tokens.gaussian(n=4, d=2, seed=0, chunks=4).compute()).all()


def test_whole_numbers_beyond_64_bits_are_texts(tmp_path: Path) -> None:
    found = af.sweep(lambda k: k / 2**63, {"k": [2**63, -1]}, on="here", store=tmp_path / "s.zarr")
    assert found.sel(k=str(2**63)).value.item() == 1.0


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({}, "axes of the sweep"),
        ({"a": [], "b": [1]}, "no values"),
        ({"a/b": [1]}, "an axis is named 'a/b'"),
        ({"..": [1]}, "an axis is named '..'"),
        ({"a\\b": [1]}, "an axis is named"),
        ({"a\nb": [1]}, "an axis is named"),
        ({"zarr.json": [1]}, "an axis is named 'zarr.json'"),
        ({"failed": [1]}, "an axis is named 'failed', as a part of the Dataset"),
        ({"point": {"design": "random", "count": 3, "finished": [0, 1]}}, "an axis is named 'finished'"),
        ({"a": 3}, "expected a list of values"),
        ({"a": [1], "b": [1], "c": [1]}, "no parameter of the cell"),
        ({"a": [1]}, "needs 'b'"),
        ({"a": [np.nan], "b": [1]}, "finite"),
        ({"a": {"from": 0, "to": 1, "count": 3, "scale": "log"}, "b": [1]}, "above 0"),
        ({"a": [1, 2.0, 2], "b": [1]}, "'a' has the value 2.0 more than once"),
        ({"point": {"design": "random", "count": 3, "a": [1, 2, 3]}, "b": [1]}, "expected two ends"),
        ({"point": {"design": "random", "count": 3, "a": {"from": 0, "to": 1, "scale": "log"}}, "b": [1]}, "above 0"),
        ({"point": {"design": "random", "count": 3, "a": {"from": 0, "to": 1, "whole": 3}}, "b": [1]}, "true or false"),
        ({"a": {"from": 0, "too": 1}, "b": [1]}, "too"),
        ({"point": {"design": "sobol", "count": 3, "a": [0, 1]}, "b": [1]}, "latin_hypercube"),
        ({"point": {"design": "random", "count": 3, "a": [1, 0]}, "b": [1]}, "smaller"),
        ({"point": {"design": "random", "count": 3, "a": [0, 1]}, "a": [1]}, "two axes"),
    ],
)
def test_axes_that_are_none(over: Any, words: str) -> None:
    with refused(words):
        af.sweep(cell, over, on="here")


@pytest.mark.parametrize("design", ["latin_hypercube", "random"])
def test_designs_of_whole_numbers_and_of_logarithms(design: str) -> None:
    n, beta = {"from": 1, "to": 4, "whole": True}, {"from": 0.01, "to": 100.0, "scale": "log"}
    k = {"from": 1, "to": 7, "scale": "log", "whole": True}
    grid = Grid({"point": {"design": design, "count": 400, "n": n, "beta": beta, "k": k}}).axes["point"]
    assert all(type(one) is int for one in grid["n"] + grid["k"])
    # A Latin hypercube has exactly its share in each part; independent draws stray by a few standard deviations.
    near = {"latin_hypercube": 1, "random": 50}[design]
    assert np.abs(np.bincount(grid["n"]) - [0, 100, 100, 100, 100]).max() <= near
    assert np.abs(np.histogram(np.log10(grid["beta"]), 4, (-2, 2))[0] - 100).max() <= near
    # From 1 to 8, of which 8 is no part, a third of the logarithms each lies below 2, 4 and 8.
    assert np.abs(np.histogram(grid["k"], [1, 2, 4, 8])[0] - 400 / 3).max() <= near


def test_it_warns_if_all_cells_fail() -> None:
    with pytest.warns(UserWarning, match="all 2 cells failed, the first at a=1: .*not today") as told:
        af.sweep(never, {"a": [1, 2]}, on="here")
    assert told[0].filename == __file__


def never(a: int) -> None:
    raise RuntimeError("not today")


def test_a_latin_hypercube_has_one_point_in_each_row_and_column() -> None:
    over = {"point": {"design": "latin_hypercube", "count": 16, "a": [-1.0, 1.0], "b": [0.0, 8.0]}}
    found = af.sweep(lambda a, b: a + b, over, on="here")
    assert found.value.dims == ("point",)
    assert sorted(np.floor((found.a.values + 1) * 8).tolist()) == list(range(16))
    assert sorted(np.floor(found.b.values * 2).tolist()) == list(range(16))
    assert (found.value.values == found.a.values + found.b.values).all()


def test_functions_without_a_signature_are_taken_as_they_are() -> None:
    """Python does not say what `max` takes: it is called, and gets no generator."""
    grid = Grid({"beta": [1.0]})
    cells.check_function(max, grid)
    assert not cells.wants_rng(max, grid)


def test_whole_numbers_fit_a_first_cell_of_fractions() -> None:
    found = Outcome({"a": np.array(3)}).fitted({"a": ((), "<f8")})
    assert (found.failed, found.values["a"].dtype.str, float(found.values["a"])) == ("", "<f8", 3.0)


def test_modules_that_were_there_before_are_put_back() -> None:
    other = ModuleType("json")
    with shipping._found_by_imports({"json": other, "only here": other}):
        assert sys.modules["json"] is sys.modules["only here"] is other
    assert sys.modules["json"] is json
    assert "only here" not in sys.modules


def test_what_a_cell_logs_is_kept_as_plain_text() -> None:
    log, wrong = logging.getLogger("a cell"), logging.makeLogRecord({"msg": "%d", "args": ("x",), "levelno": 40})
    log.setLevel(logging.DEBUG)
    with listening.listening(logging.WARNING):
        log.info("too quiet")
        try:
            raise ValueError("inside")
        except ValueError:
            log.exception("it failed")
        listening._log.handle(wrong)
        assert sys.stderr.encoding is not None or hasattr(sys.stderr, "fileno")
        said = listening.said()
    (record,) = [one for one in said if isinstance(one, logging.LogRecord)]
    assert record.getMessage() == "it failed"
    assert "ValueError: inside" in str(record.exc_text)
    assert "Logging error" in "".join(one[1] for one in said if isinstance(one, tuple))


def test_without_xarray_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with refused("a sweep returns an xarray.Dataset: pip install 'attnflow.cluster.'"):
        af.sweep(lambda beta: beta, over={"beta": [1.0]}, on="here")
