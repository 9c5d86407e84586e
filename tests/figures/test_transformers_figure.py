"""Pictures of transformers layer by layer show what is measured, and null models as bands over their seeds."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow import figures
from attnflow.figures.transformers import PANELS

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")
LAYERS, N = 3, 7


def run(seed: int, layers: int = LAYERS) -> af.Trajectory:
    """A run of a transformer with random weights."""
    rng = np.random.default_rng(seed)
    Q, K, V = rng.standard_normal((3, 2, 4, 8))
    block = af.Block(af.Attention(Q, K, V, rng.standard_normal((2, 8, 4))), norms=af.Norm("rms", eps=0.0))
    return af.simulate(np.random.default_rng(9).standard_normal((N, 8)), af.Transformer([block] * layers))


def unit(x: Any) -> Any:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_panels_are_the_measurements_of_each_layer_by_their_formulas() -> None:
    found = run(0)
    axes: Any = figures.by_layer(found).axes
    curves = [ax.lines[0].get_ydata() for ax in axes]
    assert [len(curve) for curve in curves] == [LAYERS + 1] * 2 + [LAYERS] * 4
    law: Any = found.law
    P = [law.weights(np.sqrt(8) * unit(found.tokens[k]), k) for k in range(LAYERS)]
    for k, x in enumerate(found.tokens):
        cosines = unit(x) @ unit(x).T
        assert curves[0][k] == pytest.approx((cosines.sum() - N) / (N * N - N))
        p = np.linalg.svd(x, compute_uv=False)
        p /= p.sum()
        assert curves[1][k] == pytest.approx(np.exp(-(p * np.log(p)).sum()))
    for k, heads in enumerate(P):
        norms = [np.linalg.norm(one) ** 2 / np.linalg.norm(one, 2) ** 2 for one in heads]
        assert curves[2][k] == pytest.approx(np.mean(norms))
        assert curves[3][k] == pytest.approx(-(heads * np.log(heads)).sum() / (2 * N) / np.log(N))
        assert curves[4][k] == np.mean([len(set(one.argmax(axis=1))) for one in heads])
        assert curves[5][k] == pytest.approx(heads.mean(axis=1).max())


def test_panels_whose_numbers_differ_widely_are_logarithmic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here what differs at all differs widely; shares between 0 and 1 stay on an even axis."""
    monkeypatch.setattr("attnflow.figures.transformers.WIDE", 1.0)
    axes: Any = figures.by_layer(run(0)).axes
    assert [ax.get_yscale() for ax in axes] == ["log" if wide else "linear" for wide in PANELS.values()]


def test_bands_hold_all_seeds_of_a_null_model() -> None:
    nulls = [run(seed) for seed in (1, 2, 3)]
    axes: Any = figures.by_layer(run(0), {"others": nulls, "one": nulls[:1]}, name="this").axes
    values = np.array([af.measure.mean_cosine(one) for one in nulls])
    band = next(mark for mark in axes[0].collections if mark.get_gid() == "band others")
    corners = band.get_paths()[0].vertices
    for k in range(LAYERS + 1):
        there = corners[corners[:, 0] == k][:, 1]
        assert (there.min(), there.max()) == pytest.approx((values[:, k].min(), values[:, k].max()))
    lines = {line.get_gid(): line for line in axes[0].lines}
    assert lines["median others"].get_ydata() == pytest.approx(np.median(values, axis=0))
    # In the key, the run comes first.
    key = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    assert key[0] == "this"
    assert lines["run"].get_color() != lines["median others"].get_color()


@pytest.mark.parametrize("diagonal", [False, True])
def test_histograms_count_the_pairs_that_they_name(diagonal: bool) -> None:
    found = run(0)
    figure: Any = figures.cosine_histograms({"this": found, "null": run(1)}, layers=[0, 3], diagonal=diagonal)
    for ax, k in zip(figure.axes, (0, 3), strict=True):
        cosines = unit(found.tokens[k]) @ unit(found.tokens[k]).T
        cosines = cosines.ravel() if diagonal else cosines[~np.eye(N, dtype=bool)]
        counts, edges = np.histogram(np.clip(cosines, -1, 1), np.linspace(-1, 1, 51))
        (filled,) = [mark for mark in ax.patches if mark.get_gid() == "histogram 0"]
        shares, places, _ = filled.get_data()
        assert places == pytest.approx(edges)
        assert shares[counts > 0] == pytest.approx((counts / counts.sum())[counts > 0])
        # Where there is no pair, the histogram is at the lower edge of the panel.
        assert (shares[counts == 0] == ax.get_ylim()[0]).all()
        (mean,) = [line for line in ax.lines if line.get_gid() == "mean"]
        assert mean.get_xdata()[0] == pytest.approx(cosines.mean())
        assert ("all" in ax.get_xlabel()) == diagonal
    assert [ax.get_title() for ax in figure.axes] == ["start", "after 3 layers"]


def test_leaders_of_a_run_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, leaders = [], af.measure.leaders

    def counted(*given: Any) -> Any:
        asked.append(given)
        return leaders(*given)

    monkeypatch.setattr(af.measure, "leaders", counted)
    figures.by_layer(run(0), {"null": [run(1), run(2)]})
    assert len(asked) == 3


def test_what_is_refused() -> None:
    with refused("runs names no run"):
        figures.cosine_histograms({})
    with refused("a layer is 4"):
        figures.cosine_histograms({"this": run(0)}, layers=[4])
    wrong: list[Any] = [[], 3, run(1)]
    for one in wrong[:2]:
        with refused("expected a list of states"):
            figures.cosine_histograms({"this": run(0)}, layers=one)
    for one in wrong:
        with refused("'null' came with no list of runs"):
            figures.by_layer(run(0), {"null": one})
    with refused("the runs of 'null' have 2 and 3 layers"):
        figures.by_layer(run(0), {"null": [run(1), run(1, 2)]})
    with refused("expected runs by name"):
        figures.by_layer(run(0), [run(1)])  # type: ignore[arg-type]
    with refused("expected what simulate"):
        figures.by_layer(run(0), {"null": [np.eye(3)]})  # type: ignore[list-item]


def test_the_stream_has_directions_and_is_filmed(tmp_path: Any) -> None:
    found = figures.stream(run(0))
    assert np.linalg.norm(found.tokens, axis=-1) == pytest.approx(np.ones((LAYERS + 1, N)))
    assert found.animate(tmp_path / "stream.gif", seconds=0.1).path.stat().st_size > 0
