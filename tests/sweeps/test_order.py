"""What a sweep returns depends neither on the order of its cells, nor on batches, workers, deaths and repetitions."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attnflow.sweeps import running
from attnflow.sweeps.cells import Cells
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.outcome import Batch
from attnflow.sweeps.places import Done
from attnflow.sweeps.results import Results
from attnflow.sweeps.running import Sweep

GRID = Grid({"a": range(5), "b": range(7)})


class Anywhere:
    """Workers that give batches back in any order, take any time, die with innocent cells, and lose their client."""

    link = None

    def __init__(self, work: Cells, chance: random.Random, deaths: float, calls: float) -> None:
        self.work, self.chance, self.deaths, self.calls = work, chance, deaths, calls
        self.workers = chance.choice([1, 2, 20])
        self.ran: list[int] = []

    def run(self, batches: Iterable[list[int]]) -> Generator[Done, None, None]:
        waiting, running = iter(batches), list[list[int]]()
        while True:
            while len(running) < 3 * self.workers and (batch := next(waiting, None)) is not None:
                running.append(batch)
            if not running:
                return
            cells = running.pop(self.chance.randrange(len(running)))
            if self.chance.random() < self.calls:
                raise KeyboardInterrupt
            if len(cells) > 1 and self.chance.random() < self.deaths:
                yield cells, None
                continue
            self.ran += cells
            outcomes = self.work(cells)
            took = 10.0 ** self.chance.uniform(-4, 1.5)
            yield cells, Batch(outcomes, took, 0, str(self.chance.randrange(self.workers)))


def strange(a: int, b: int, rng: np.random.Generator) -> dict[str, Any]:
    """Fails first; then its shapes, types, names and their order differ from cell to cell."""
    if a == 0 and b < 3:
        raise ValueError("too early")
    if a == 1:
        return {"other": rng.random()}
    if b == 5:
        return {"second": np.random.random(), "first": rng.random(2)}  # noqa: NPY002
    if b == 6 and a > 2:
        return {"first": rng.random(3), "second": 1.0}
    return {"first": rng.random(2), "second": 1j if (a, b) == (3, 3) else float("nan")}


def plain(a: int, b: int, rng: np.random.Generator) -> float:
    return a + b * rng.random() + random.random()


def swept(
    cells: Cells, chance: random.Random, deaths: float = 0.0, calls: float = 0.0, store: Path | None = None
) -> Any:
    """The Dataset, called again as long as the client dies; with a store no cell runs again that was in it."""
    while True:
        results = Results(GRID, {"sweep": "this"}, store)
        place = Anywhere(cells, chance, deaths, calls)
        before = set(np.flatnonzero(results.known).tolist())
        try:
            Sweep(GRID, results, place).run(results.claim(retry_failed=False))
        except KeyboardInterrupt:
            continue
        else:
            return results.dataset()
        finally:
            results.close()
            if cells.function is plain:
                assert before.isdisjoint(place.ran)
                assert len(set(place.ran)) == len(place.ran)


def in_order(cells: Cells) -> Any:
    """The Dataset of a plain loop."""
    results = Results(GRID, {"sweep": "this"}, None)
    for k in range(len(GRID)):
        results.take([k], cells([k]))
    return results.dataset()


def same_bits(one: Any, other: Any) -> bool:
    return list(one.data_vars) == list(other.data_vars) and all(
        one[name].dtype == other[name].dtype and one[name].values.tobytes() == other[name].values.tobytes()
        for name in one.data_vars
    )


EXPECTED = {function: in_order(Cells(function, GRID, {}, 5)) for function in (plain, strange)}


def test_a_plain_loop_lets_the_first_cell_that_does_not_fail_decide() -> None:
    assert list(EXPECTED[strange].data_vars) == ["first", "second", "failed"]
    failed = EXPECTED[strange].failed.values
    assert "too early" in str(failed[0, 0])
    assert failed[1, 0] == "it returned other, and the first cell first, second: return the same names always"
    assert failed[3, 6] == "first has shape (3,), and (2,) in the first cell: return one shape always"
    assert failed[3, 3] == "second is complex, and real in the first cell: return complex numbers always"
    assert failed[2, 5] == ""
    assert failed[0, 4] == ""  # NaN is no failure
    assert np.isnan(EXPECTED[strange].second.values[0, 4])


@given(st.integers(0, 2**32), st.sampled_from([plain, strange]), st.sampled_from([0.0, 0.3]))
def test_order_batches_workers_and_deaths_do_not_matter(seed: int, function: Any, deaths: float) -> None:
    assert same_bits(swept(Cells(function, GRID, {}, 5), random.Random(seed), deaths), EXPECTED[function])


@settings(max_examples=settings.get_profile("attnflow").max_examples // 12)
@given(st.integers(0, 2**32), st.sampled_from([plain, strange]))
def test_nor_do_clients_that_die(seed: int, function: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = swept(Cells(function, GRID, {}, 5), random.Random(seed), 0.1, 0.05, Path(folder, "s.zarr"))
        assert same_bits(found, EXPECTED[function])
        stored = Results(GRID, {"sweep": "this"}, Path(folder, "s.zarr"))
        assert stored.known.all()
        assert same_bits(stored.dataset(), EXPECTED[function])


def test_a_cell_that_kills_its_worker_is_the_only_one_that_fails() -> None:
    class Poisoned(Anywhere):
        def run(self, batches: Iterable[list[int]]) -> Generator[Done, None, None]:
            for cells, batch in super().run(batches):
                yield cells, None if 17 in cells else batch

    cells = Cells(plain, GRID, {}, 5)
    results = Results(GRID, {"sweep": "this"}, None)
    Sweep(GRID, results, Poisoned(cells, random.Random(1), 0.2, 0.0)).run(results.claim(retry_failed=False))
    assert np.flatnonzero(results.failed != "").tolist() == [17]
    assert results.failed.ravel()[17] == running.POISON
    expected = EXPECTED[plain].plain.values.copy()
    expected.ravel()[17] = np.nan
    assert results.values["plain"].tobytes() == expected.tobytes()


def test_the_first_batch_of_a_worker_may_compile_for_a_minute() -> None:
    cells = Cells(plain, GRID, {}, 0)
    for worker, divided in (("second", False), ("first", True)):
        sweep = Sweep(GRID, Results(GRID, {"sweep": "this"}, None), Anywhere(cells, random.Random(0), 0.0, 0.0))
        sweep.take([0], Batch(cells([0]), 60.0, 0, "first"))
        assert sweep.results.box is None
        sweep.take([1], Batch(cells([1]), 60.0, 0, worker))
        assert (sweep.results.box is not None) == divided
