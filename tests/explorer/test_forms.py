"""What the panels compute, in Chromium: handles of matrices against NumPy, beta's slider, numbers and formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from modules import importing

Page = Any


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with importing() as page:
        yield page


@pytest.fixture
def matrices() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    special = [np.eye(2), -np.eye(2), np.zeros((2, 2)), [[0, -1], [1, 0]], [[1, 2], [2, 1]], [[-1, 0], [0, 1]]]
    return np.array([*special, *rng.standard_normal((40, 2, 2))], dtype=float)


def test_the_handles_are_eigenvalues_and_angle(page: Page, matrices: np.ndarray[Any, Any]) -> None:
    ask = "async (all) => { const {parts} = await import('/page/forms.js'); return all.map((m) => parts(m)); }"
    for m, of in zip(matrices, page.evaluate(ask, matrices.tolist()), strict=True):
        symmetric = (m + m.T) / 2
        assert np.allclose(np.linalg.eigvalsh(symmetric), [of["second"], of["first"]])
        u = np.array([math.cos(of["angle"]), math.sin(of["angle"])])
        assert np.allclose(symmetric @ u, of["first"] * u)
        assert np.allclose((m - m.T) / 2, of["twist"] * np.array([[0, -1], [1, 0]]))


def test_handles_make_the_matrix_again(page: Page, matrices: np.ndarray[Any, Any]) -> None:
    ask = """async (all) => {
        const {parts, whole} = await import("/page/forms.js");
        return all.map((m) => whole(parts(m)));
    }"""
    assert np.allclose(page.evaluate(ask, matrices.tolist()), matrices, atol=1e-14)


def test_beta_runs_from_zero_to_infinity_on_one_slider(page: Page) -> None:
    ask = """async (places) => {
        const {valueAt, placeOf} = await import("/page/models.js");
        return places.map((s) => [valueAt(s, 4), placeOf(valueAt(s, 4), 4)]);
    }"""
    places = [0, 0.001, 0.25, 0.5, 0.75, 0.999, 1]
    for s, (beta, back) in zip(places, page.evaluate(ask, places), strict=True):
        assert beta == "inf" if s == 1 else beta == pytest.approx(4 * s / (1 - s), rel=5e-3)
        assert back == pytest.approx(s, abs=1e-3)
    assert page.evaluate("async () => (await import('/page/models.js')).placeOf('log(t + 2)', 4)") is None


@pytest.mark.parametrize(
    ("t", "discrete", "text"),
    [
        (0, True, "0"),
        (12, True, "12"),
        (999_999, True, "999999"),
        (2.5e24, True, "2.5 × 10²⁴"),
        (0, False, "0.00"),
        (3.14159, False, "3.14"),
        (42.16, False, "42.2"),
        (1e-5, False, "1 × 10⁻⁵"),
    ],
)
def test_times_are_written_as_people_do(page: Page, t: float, discrete: bool, text: str) -> None:
    ask = "async ([t, discrete]) => (await import('/page/timebar.js')).timeText(t, discrete)"
    assert page.evaluate(ask, [t, discrete]) == text


@pytest.mark.parametrize(
    ("plain", "markup"),
    [
        ("x_i' = V sum_j P_ij", "<i>x</i>_<i>i</i>|′ = <i>V</i> ∑_<i>j</i>| <i>P</i>_<i>ij</i>|"),
        ("a <= e^{-2 t} and A > 0", "a ≤ <i>e</i>^−2 <i>t</i>| and <i>A</i> &gt; 0"),
        ("<B x_i, x_j>", "⟨<i>B</i> <i>x</i>_<i>i</i>|, <i>x</i>_<i>j</i>|⟩"),
        ("known up to 7e-08", "known up to 7e-08"),
        ("forward Euler, well-known", "forward Euler, well-known"),
        ("gamma^t in (0, 1)", "<i>γ</i>^<i>t</i>| in (0, 1)"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=<i>x</i> onerror=alert(1)&gt;"),
    ],
)
def test_formulas_are_set(page: Page, plain: str, markup: str) -> None:
    """Indices are written _...| here and powers ^...|."""
    ask = """async (text) => {
        const {typeset} = await import("/page/mathtext.js");
        const line = document.createElement("p");
        line.append(...typeset(text));
        return line.innerHTML.replaceAll(/<.su[bp]>/g, "|").replaceAll("<sub>", "_").replaceAll("<sup>", "^");
    }"""
    assert page.evaluate(ask, plain) == markup


def test_fields_that_do_nothing_are_hidden_and_left_out(page: Page) -> None:
    shown = page.evaluate(
        """async () => {
          const {createStore} = await import("/page/store.js");
          const {createControls} = await import("/page/controls.js");
          const store = createStore();
          store.setState({motion: {name: "sphere-flow", norm: "post"}, tokens: {cloud: "sphere", n: 3, d: 2, seed: 0}});
          const place = document.createElement("div");
          document.body.replaceChildren(place);
          createControls(place, store);
          const seen = [];
          for (const [id, value] of [["motion-norm", "mix"], ["motion-tau", "2"], ["motion-norm", "post"]]) {
            const input = document.getElementById(id);
            input.value = value;
            input.dispatchEvent(new Event(input.type === "text" ? "input" : "change"));
            await new Promise((done) => setTimeout(done));
            const shown = (id) => document.getElementById(id).offsetParent !== null;
            const fields = ["motion-tau", "motion-alpha"].map(shown);
            seen.push([...fields, store.state.motion.tau]);
          }
          return seen;
        }"""
    )
    assert [one[:2] for one in shown] == [[True, False], [True, False], [False, False]]
    assert [tau for _, _, tau in shown[1:]] == [2, None]
