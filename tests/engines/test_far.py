"""Softmax sums far from the origin: to the rounding of the result itself, whatever the offset up to 1e8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from larger import leave_tree_to_larger

import attnflow as af
from attnflow import engines
from attnflow.core.inputs import Array
from attnflow.engines import centring
from attnflow.laws import Sources

SOFTMAX = ("dense", "fused", "blocked", "tree", "separable", "fast")
OFFSETS = (1e2, 1e4, 1e6, 1e8)
RNG = np.random.default_rng(3)
X = {d: RNG.standard_normal((90, d)) for d in (1, 2, 3, 12)}
B = {d: np.eye(d) + 0.2 * RNG.standard_normal((d, d)) for d in X}
W = RNG.uniform(0.1, 5.0, 90)
# No cloud here has a smaller one.
DIAMETER = 4.0

pytestmark = pytest.mark.skipif(
    bool(np.finfo(np.longdouble).eps > 1e-18), reason="the reference needs floats longer than float64"
)


def reference(queries: Array, keys: Array, values: Array, masses: Any, gain: float) -> tuple[Any, Any]:
    """Return sum_j P_ij v_j - v_0 and log sum_j w_j e^{g s_ij} in long doubles, from differences of the floats."""
    q, k, v = (part.astype(np.longdouble) for part in (queries, keys, values))
    s = np.longdouble(gain) * (q @ (k - k[0]).T)
    top = s.max(axis=1, keepdims=True)
    w = np.exp(s - top) * (1 if masses is None else masses.astype(np.longdouble))
    total = w.sum(axis=1, keepdims=True)
    return w @ (v - v[0]) / total, (top + np.log(total))[:, 0] + np.longdouble(gain) * (q @ k[0])


def error(found: Array, origin: Array, exact: Any) -> float:
    """Return the largest error of means, beyond the rounding of their coordinates, over the least diameter."""
    off = np.abs(found.astype(np.longdouble) - origin.astype(np.longdouble) - exact)
    return float((off - 1.01 * np.spacing(np.abs(found)) / 2).max()) / DIAMETER


def test_the_example_that_was_wrong() -> None:
    x = np.random.default_rng(0).standard_normal((60, 2))
    for offset, beta, allowed in ((1e6, 5e-6, 1e-10), (1e8, 5e-8, 8e-9)):
        moved = x + offset
        exact, _ = reference(moved, moved, moved, None, beta)
        found = af.Softmax(beta=beta).attend(moved)
        assert np.abs((found - moved[0]) - exact.astype(float)).max() < allowed


@pytest.mark.parametrize("engine", SOFTMAX)
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("d", X)
def test_means_and_totals_of_every_engine(engine: str, offset: float, d: int) -> None:
    leave_tree_to_larger(engine, d)
    if engine == "separable" and d > 3:
        pytest.skip("in up to three dimensions")
    direction = np.cos(np.arange(d) + 0.3)
    x = X[d] + offset * direction
    for beta, form, masses in (
        (4.0, None, None),
        (40.0, None, W),
        (-4.0, B[d], W),
        (4.0, B[d], None),
        (1e4, None, None),
    ):
        law = af.Softmax(beta=beta / offset, B=form)
        queries = np.sign(beta) * (x if form is None else x @ form.T)
        exact, log_total = reference(queries, x, x, masses, abs(beta) / offset)
        heard = law.hear(x, masses=masses, engine=engine)
        assert error(heard.mean, x[0], exact) < 1e-10
        assert heard.log_total is not None
        np.testing.assert_allclose(heard.log_total, log_total.astype(float), rtol=1e-13, atol=1e-9)


@pytest.mark.parametrize("engine", SOFTMAX)
def test_values_and_queries_of_their_own(engine: str) -> None:
    """As in the moving frame of a rescaled flow: what is heard is not where it is heard."""
    keys, values, queries = X[2] + 1e6, X[2] @ B[2] - 1e7, X[2][:40] * 3
    for k, v in ((keys, values), (X[2], values), (keys, X[2] @ B[2])):
        heard = af.Softmax(beta=0.7).listen(queries, 0, Sources(k, v, W, 2.0, engine))
        exact, log_total = reference(queries, k, v, W, 1.4)
        assert error(heard.mean, v[0], exact) < 1e-10
        assert heard.log_total is not None
        np.testing.assert_allclose(heard.log_total, log_total.astype(float), rtol=1e-13)


@pytest.mark.parametrize("engine", ["dense", "fused", "blocked"])
def test_all_tokens_at_one_place_stay_there(engine: str) -> None:
    x = np.tile([[1e8 / 3, -1e7 / 7]], (50, 1))
    np.testing.assert_array_equal(af.Softmax(beta=2.0).hear(x, engine=engine).mean, x)


def test_weights_are_exact_to_rounding() -> None:
    x = X[2] + 1e8
    s = np.longdouble(4e-8) * (x.astype(np.longdouble) @ (x.astype(np.longdouble) - x[0]).T)
    w = np.exp(s - s.max(axis=1, keepdims=True)) * W
    np.testing.assert_allclose(
        af.Softmax(beta=4e-8).weights(x, masses=W), (w / w.sum(axis=1)[:, None]).astype(float), rtol=1e-12
    )


def layers(x: Array, form: Any, beta: float, masses: Any, steps: int, gamma: float) -> Array:
    """Return the states of averaging layers, each rounded to float64."""
    states = []
    for _ in range(steps):
        queries = x if form is None else x @ form.T
        exact, _ = reference(queries, x, x, masses, beta)
        y = x.astype(np.longdouble)
        x = (y + np.longdouble(gamma) * (exact + y[0] - y)).astype(float)
        states.append(x)
    return np.array(states)


@pytest.mark.parametrize("form", [None, B[2]], ids=["I", "B"])
@pytest.mark.parametrize("offset", OFFSETS)
def test_the_compiled_loop_of_layers(form: Any, offset: float) -> None:
    x = X[2][:20] + offset
    for masses in (None, W[:20]):
        expected = layers(x, form, 4 / offset, masses, 12, 0.25)
        run = af.simulate(x, af.Softmax(beta=4 / offset, B=form), af.Layers(gamma=0.25), until=12, masses=masses)
        assert np.abs(run.tokens[1:] - expected).max() < 1e-11 + 8 * np.spacing(2 * offset)
        many = af.ensemble(x[None], af.Softmax(beta=4 / offset, B=form), af.Layers(gamma=0.25), until=12, masses=masses)
        assert np.abs(many.final[0] - expected[-1]).max() < 1e-11 + 8 * np.spacing(2 * offset)


def test_a_run_far_away_does_not_depend_on_how_it_is_cut() -> None:
    x, law, motion = X[2][:20] + 1e6, af.Softmax(beta=4e-6), af.Layers(gamma=0.25)
    whole = af.simulate(x, law, motion, until=40)
    assert af.simulate(x, law, motion, until=7).final.tobytes() == whole.tokens[7].tobytes()
    # A state between two recorded ones is computed again from the first of them.
    assert af.simulate(x, law, motion, until=40, record=[5, 40]).at(7).tobytes() == whole.tokens[7].tobytes()


def test_systems_of_an_ensemble_have_centres_of_their_own() -> None:
    far = np.stack([X[2][:20] + offset for offset in (0.0, 1e3, 1e6)])
    betas = np.array([1.0, 4e-3, 4e-6])
    many = af.ensemble(far, af.Softmax(beta=betas, B=B[2]), af.Layers(gamma=1.0), until=1)
    for x, beta, final in zip(far, betas, many.final, strict=True):
        exact, _ = reference(x @ B[2].T, x, x, None, beta)
        assert error(final, x[0], exact) < 1e-10


def test_arrays_of_other_libraries() -> None:
    jax = pytest.importorskip("jax")
    x = X[3] + 1e6
    exact, _ = reference(x, x, x, None, 4e-6)
    with jax.enable_x64(True):
        # Compiled as a whole: operation by operation each would be compiled by itself.
        found = np.asarray(jax.jit(af.Softmax(beta=4e-6).attend)(jax.numpy.asarray(x)))
        assert error(found, x[0], exact) < 1e-10

        def spread(at: Any) -> Any:
            heard = af.Softmax(beta=4e-6).attend(at)
            return ((heard - heard.mean(axis=0)) ** 2).sum()

        gradient = np.asarray(jax.jit(jax.grad(spread))(jax.numpy.asarray(x)))
    step = 1e-2 * np.eye(len(x), 3)[:, ::-1] * np.linspace(1, 2, len(x))[:, None]
    difference = (_spread(x + step) - _spread(x - step)) / 2
    np.testing.assert_allclose((gradient * step).sum(), difference, rtol=1e-3)


def _spread(x: Array) -> float:
    exact, _ = reference(x, x, x, None, 4e-6)
    return float(((exact - exact.mean(axis=0)) ** 2).sum())


@pytest.mark.parametrize("engine", SOFTMAX)
def test_near_the_origin_not_a_bit_changes(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = X[2] + [3.0, -5.0]
    found = af.Softmax(beta=3.0, B=B[2]).hear(x, masses=W, engine=engine)
    monkeypatch.setattr(centring, "NEAR", 1e300)
    before = af.Softmax(beta=3.0, B=B[2]).hear(x, masses=W, engine=engine)
    assert found.mean.tobytes() == before.mean.tobytes()
    assert found.log_total is not None
    assert before.log_total is not None
    assert found.log_total.tobytes() == before.log_total.tobytes()


def test_the_report_names_who_sums_far_away_too() -> None:
    x = np.random.default_rng(0).standard_normal((5000, 2)) + 1e6
    run = af.simulate(x, af.Softmax(beta=1e-6), af.Layers(gamma=0.5), until=1)
    assert run.report == {"engine": "separable"}
    assert engines.choose("auto", "softmax", 5000, 5000, 2) == "fast"
