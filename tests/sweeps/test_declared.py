"""The declared form of a sweep against `simulate`, cell by cell; ensembles whose systems do not see each other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.app.declared import DeclaredCells
from attnflow.app.sweep import cells_of
from attnflow.runs import ensembles
from attnflow.sweeps.outcome import Outcome

RUN: dict[str, Any] = {
    "until": 12.0,
    "tokens": {"cloud": "sphere", "n": 8, "d": 2},
    "law": {"name": "softmax"},
    "motion": {"name": "sphere-flow", "rtol": 1e-9},
}
LAYERS: dict[str, Any] = RUN | {"until": 15, "motion": {"name": "layers", "gamma": 0.3}}
X = af.tokens.polygon(5)
OVER: dict[str, Any] = {"beta": [0.5, 4.0, 20.0], "seed": {"count": 5}}


def swept(run: Any = RUN, over: Any = OVER, measure: Any = ("diameter",), **options: Any) -> Any:
    return af.sweep(run=run, over=over, measure=measure, on="here", **options)


def declared_cells(run: Any, over: Any, measure: Any = ("diameter",)) -> DeclaredCells:
    found = cells_of(None, over, run, measure, 0)
    assert isinstance(found, DeclaredCells)
    return found


def bits(outcomes: list[Outcome]) -> list[Any]:
    return [(outcome.failed, {name: value.tobytes() for name, value in outcome.values.items()}) for outcome in outcomes]


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many systems each ensemble had that was tried."""
    sizes: list[int] = []
    first = ensembles.independent

    def counted(tokens: Any, *args: Any, **options: Any) -> Any:
        sizes.append(len(tokens))
        return first(tokens, *args, **options)

    monkeypatch.setattr("attnflow.app.declared.independent", counted)
    return sizes


@pytest.mark.parametrize("run", [RUN, LAYERS])
def test_it_is_simulate_for_each_cell(run: dict[str, Any]) -> None:
    found = swept(run, measure=["diameter", "energy", "summary"])
    assert found.diameter.dims == ("beta", "seed")
    motion = af.SphereFlow() if run is RUN else af.Layers(gamma=0.3)
    for i, beta in enumerate(OVER["beta"]):
        for seed in (0, 3):
            one = af.simulate(af.tokens.sphere(n=8, d=2, seed=seed), af.Softmax(beta=beta), motion, until=run["until"])
            assert abs(found.diameter.values[i, seed] - af.measure.diameter(one.final)) < 1e-7
            assert np.isclose(found.energy.values[i, seed], af.measure.energy(one.final, beta), rtol=1e-6)
            assert found.summary_clusters.values[i, seed] == af.measure.summary(one).clusters


def test_cells_move_together_and_have_the_same_bits_in_any_batch(moved: list[int]) -> None:
    cells = declared_cells(RUN, OVER, ["diameter", "energy", "clusters"])
    whole = bits(cells(range(15)))
    assert moved == [15]
    assert bits([cells([k])[0] for k in range(15)]) == whole
    sevens = [part for k in range(0, 15, 7) for part in bits(cells(range(k, min(15, k + 7))))]
    assert sevens == whole
    shuffled = np.random.default_rng(0).permutation(15)
    assert [bits(cells(shuffled.tolist()))[k] for k in np.argsort(shuffled)] == whole


def test_what_differs_otherwise_moves_apart(moved: list[int]) -> None:
    over = {"tokens.n": [4, 6], "motion.rtol": [1e-6, 1e-8], "until": [3.0, 4.0], "seed": [0, 1, 2]}
    cells = declared_cells(RUN, over)
    whole = bits(cells(range(24)))
    assert moved == [3] * 8
    assert bits([cells([k])[0] for k in range(24)]) == whole


def test_a_failed_system_does_not_take_down_its_neighbours(moved: list[int]) -> None:
    growing = RUN | {"until": 200, "motion": {"name": "residual", "V": [[1.0, 0.0], [0.0, 1.0]], "dt": 1.0}}
    cells = declared_cells(growing, {"tokens.file": [(scale * X).tolist() for scale in (1.0, 1e95, 1e95, 2.0)]})
    whole = cells(range(4))
    assert moved[0] == 4
    assert [bool(outcome.failed) for outcome in whole] == [False, True, True, False]
    assert "left the range of float64" in whole[1].failed
    assert bits([cells([k])[0] for k in range(4)]) == bits(whole)
    named = declared_cells(RUN, {"law.beta": [1.0, "oops(", 2.0]})(range(3))
    assert ["oops" in outcome.failed for outcome in named] == [False, True, False]


def test_large_clouds_and_long_flows_on_the_sphere_are_simulated(moved: list[int]) -> None:
    circle = {"cloud": "sphere", "n": 4, "d": 2}
    usa = {"name": "sphere-flow", "rtol": 1e-6, "normalized": False}
    long = RUN | {"tokens": circle, "law": {"name": "softmax", "beta": 16.0}}
    for run in (long | {"until": 1e12}, long | {"motion": usa}, LAYERS | {"until": 2, "tokens": circle | {"n": 1025}}):
        (found,) = declared_cells(run, {"seed": [1]})([0])
        assert not found.failed
    assert moved == []
    declared_cells(long | {"motion": usa, "law": {"name": "softmax", "beta": 1.0}}, {"seed": [1]})([0])
    assert moved == [1]


def end(run: af.Trajectory) -> float:
    return float(run.times[-1])


@pytest.mark.parametrize(
    ("change", "measure", "expected"),
    [
        ({"stop": {"clusters": 1, "tol": 0.1}}, [end], lambda run: end(run)),
        ({"record": [1.0, 2.0]}, ["diameter"], lambda run: af.measure.diameter(run.final)),
        ({"engine": "dense"}, ["diameter"], lambda run: af.measure.diameter(run.final)),
        ({"law": {"name": "hardmax"}, "motion": {"name": "hardmax-flow"}}, ["diameter"], None),
        ({"law": {"name": "softmax", "beta": "1 + t"}}, ["diameter"], lambda run: af.measure.diameter(run.final)),
        ({}, ["merge_times"], None),
        ({"motion": {"name": "jumps", "gamma": 0.5}, "until": 40}, ["diameter"], None),
    ],
)
def test_what_ensembles_cannot_do_is_simulated(
    change: dict[str, Any], measure: Any, expected: Callable[[Any], float] | None, moved: list[int]
) -> None:
    run = RUN | change
    over = {"tokens.n": [5], "seed": [2, 3]}
    cells = declared_cells(run, over, measure)
    found = cells(range(2))
    assert not any(outcome.failed for outcome in found)
    assert bits([cells([1])[0]]) == bits(found[1:])
    assert not any(size > 1 for size in moved) or "law" in change
    if expected is not None:
        one = cells.function(**{"tokens.n": 5, "seed": 3})
        assert next(iter(found[1].values.values())) == expected(one)


def test_whole_tables_names_and_designs_vary() -> None:
    run = {key: value for key, value in LAYERS.items() if key != "law"}
    over = {"law": ["hardmax", {"name": "softmax", "beta": 3.0}], "seed": [1]}
    found = swept(run, over)
    x = af.tokens.sphere(n=8, d=2, seed=1)
    for k, law in enumerate((af.Hardmax(), af.Softmax(beta=3.0))):
        one = af.simulate(x, law, af.Layers(gamma=0.3), until=15)
        assert abs(found.diameter.values[k, 0] - af.measure.diameter(one.final)) < 1e-12
    design = {"point": {"design": "latin_hypercube", "count": 4, "beta": [0.1, 9.0], "gamma": [0.1, 0.9]}}
    found = swept(LAYERS, design)
    for k in range(4):
        law, motion = af.Softmax(beta=found.beta.values[k]), af.Layers(gamma=found.gamma.values[k])
        one = af.simulate(af.tokens.sphere(n=8, d=2, seed=0), law, motion, until=15)
        assert abs(found.diameter.values[k] - af.measure.diameter(one.final)) < 1e-12


def test_random_runs_have_a_seed_and_files_are_read_before_they_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = LAYERS | {"motion": {"name": "jumps", "gamma": 0.5}}
    assert swept(chain, {"beta": [1.0, 2.0]}).identical(swept(chain, {"beta": [1.0, 2.0]}))
    assert not swept(chain, {"beta": [1.0]}, seed=1).diameter.equals(swept(chain, {"beta": [1.0]}).diameter)
    monkeypatch.chdir(tmp_path)
    for name, scale in (("a.csv", 1.0), ("b.csv", 2.0)):
        np.savetxt(name, scale * af.tokens.polygon(5), delimiter=",")
    cells = declared_cells(LAYERS | {"tokens": {"file": "a.csv"}}, {"file": ["a.csv", "b.csv"], "beta": [0.0]})
    before = cells.identity
    (tmp_path / "a.csv").unlink()
    (tmp_path / "b.csv").unlink()
    one, two = (outcome.values["diameter"] for outcome in cells(range(2)))
    assert np.isclose(two, 2 * one)
    np.savetxt("a.csv", 3 * af.tokens.polygon(5), delimiter=",")
    np.savetxt("b.csv", 2 * af.tokens.polygon(5), delimiter=",")
    assert declared_cells(LAYERS | {"tokens": {"file": "a.csv"}}, {"file": ["a.csv", "b.csv"]}).identity != before


@pytest.mark.parametrize(
    ("run", "over", "options", "words"),
    [
        (RUN, {"betta": [1.0]}, {}, "is 'beta' meant"),
        (RUN, {"name": [1.0]}, {}, "say law.name or motion.name"),
        (RUN, {"beta": [1.0], "law.beta": [2.0]}, {}, "another axis"),
        (RUN, {"beta": [1.0], "law": ["softmax"]}, {}, "another axis"),
        (RUN, {"beta": [1.0]}, {"measure": ()}, "what is measured"),
        (RUN | {"output": {}}, {"beta": [1.0]}, {}, "'output'"),
        (RUN | {"stop": {"seconds": 1}}, {"beta": [1.0]}, {}, "depend on the machine"),
        (RUN | {"seed": 3}, {"beta": [1.0]}, {"seed": 1}, "leave one of them out"),
        (RUN | {"law": {"name": "softmaxx"}}, {"until": [1.0]}, {}, "no law 'softmaxx'"),
        (RUN | {"law": {"name": "sotfmax"}}, {"beta": [1.0]}, {}, "no law 'sotfmax' .is 'softmax' meant.., expected"),
        (RUN | {"motion": {"name": "spherelayers"}}, {"dt": [1.0]}, {}, "is 'sphere-layers' meant"),
        (RUN, {"tokens.cloud": ["sphere", "gausian"]}, {}, "is 'gaussian' meant"),
        (RUN, {"motion.beta": [1.0]}, {}, "is 'law.beta' meant"),
        (RUN | {"until": "thirty"}, {"beta": [1.0, 2.0]}, {}, "until is 'thirty', expected a number"),
        (LAYERS | {"until": 4.5}, {"beta": [1.0, 2.0]}, {}, "until is 4.5, but Layers moves in steps"),
        (RUN | {"tokens": {"cloud": "sphere", "n": 4.5, "d": 2}}, {"beta": [1.0]}, {}, "n is 4.5, expected a whole"),
        (RUN | {"seed": -1}, {"beta": [1.0]}, {}, "seed is -1, expected"),
        (RUN | {"record": "often"}, {"beta": [1.0]}, {}, "record is 'often', expected"),
        (RUN | {"engine": "steam"}, {"beta": [1.0]}, {}, "engine is 'steam', expected"),
        (RUN, {"p": {"design": "random", "count": 3, "n": [4, 32]}}, {}, "the design 'p' draws real numbers for 'n'"),
        ("run.toml", {"until": [1.0]}, {}, "expected a dictionary"),
        (None, {"until": [1.0]}, {}, "needs a cell"),
    ],
)
def test_refusals(run: Any, over: Any, options: dict[str, Any], words: str) -> None:
    with refused(words):
        swept(run, over, **options)


@pytest.mark.usefixtures("all_threads")
def test_one_thread_where_numba_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    asked: list[int] = []

    def pool(count: int) -> ThreadPoolExecutor:
        asked.append(count)
        return ThreadPoolExecutor(count)

    monkeypatch.setattr(ensembles, "ThreadPoolExecutor", pool)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        declared_cells(LAYERS, OVER)([0])
    finally:
        numba.set_num_threads(before)
    declared_cells(LAYERS, OVER)([0])
    assert asked == [1, before]


def test_systems_that_cannot_move_together_move_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ensembles of more than two fail: they are halved, and the numbers are those of before."""
    usual, first, sizes = swept(), ensembles.independent, list[int]()

    def failing(tokens: Any, *args: Any, **options: Any) -> Any:
        sizes.append(len(tokens))
        if len(tokens) > 2:
            raise RuntimeError("too many")
        return first(tokens, *args, **options)

    monkeypatch.setattr("attnflow.app.declared.independent", failing)
    found = swept()
    assert max(sizes) > 2 >= min(sizes)
    np.testing.assert_array_equal(found.diameter, usual.diameter)
