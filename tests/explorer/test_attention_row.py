"""Whom tokens hear, influences and how much leaders are heard, against `law.weights` and brute force over all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.core.inputs import InputError
from attnflow.explorer import attention_row, overlays
from attnflow.explorer.attention_row import about_row, row_of
from attnflow.explorer.overlays import overlays_of
from attnflow.explorer.protocol import Session
from attnflow.explorer.run_stream import no_frames_yet, simulate_into
from attnflow.explorer.state import State, read
from attnflow.explorer.worker import answers

CLOUD = {"cloud": "gaussian", "n": 20, "d": 2, "seed": 3}
SPHERE = {"cloud": "sphere", "n": 12, "d": 3, "seed": 1}
TIES = [[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0], [0.5, 0.0], [0.0, -0.2]]
HARD = {"name": "softmax", "beta": "inf"}
LAYERS = {"name": "layers", "gamma": 0.2}
STATES: dict[str, dict[str, Any]] = {
    "softmax": {"tokens": CLOUD, "law": {"name": "softmax", "beta": 2}, "motion": LAYERS},
    "hardmax with ties": {"tokens": TIES, "law": HARD, "motion": LAYERS},
    "localmax": {"tokens": CLOUD, "law": {"name": "localmax", "delta": 2.5}, "motion": LAYERS},
    "causal": {"tokens": CLOUD, "law": {"name": "softmax", "beta": 1, "causal": True}, "motion": LAYERS},
    "sphere": {"tokens": SPHERE, "law": {"name": "softmax", "beta": 3}, "motion": {"name": "sphere-flow"}},
}
MORE: dict[str, dict[str, Any]] = {
    "positions": {"tokens": CLOUD, "law": {"name": "softmax", "beta": 1, "alibi": 0.3}, "motion": LAYERS},
    "moving frame": {
        "tokens": CLOUD,
        "law": {"name": "softmax", "beta": 1},
        "motion": {"name": "rescaled-flow", "V": [[1.0, 0.3], [0.0, -0.4]]},
    },
    "rows that need all": {"tokens": CLOUD, "law": {"name": "sinkhorn", "beta": 1}, "motion": LAYERS},
    "no probabilities": {"tokens": CLOUD, "law": {"name": "linear"}, "motion": {"name": "flow"}},
}


def state(name: str) -> State:
    return read({"until": 4, **(STATES | MORE)[name]})


def matrix(of: State, x: Any, t: float) -> Any:
    return of.law.weights(of.motion.seen(x, t), t)


def unfolded(row: dict[str, Any], n: int) -> Any:
    """Return the weights of a row for all tokens."""
    found = np.zeros(n)
    found[row["heard"]] = row["weights"]
    return found


@pytest.mark.parametrize("name", [*STATES, *MORE])
def test_a_row_is_that_of_the_matrix_of_the_law(name: str) -> None:
    shown = state(name)
    x, t = shown.tokens + 0.05, 2
    P = matrix(shown, x, t)
    for i in range(len(x)):
        found = about_row(x, t, shown, i)
        np.testing.assert_allclose(unfolded(found, len(x)), P[i], rtol=0, atol=1e-12)
        sizes = np.abs(found["weights"])
        assert (np.diff(sizes) <= 0).all()
        assert (sizes > 0).all()
        np.testing.assert_allclose(found["mean"], sum(p * y for p, y in zip(P[i], x, strict=True)), atol=1e-12)
        if found["carry"] is not None:
            largest = np.sort(P[i])[::-1]
            assert largest[: found["carry"]].sum() >= 0.9 - 1e-9 > largest[: found["carry"] - 1].sum() - 1e-9
    assert (about_row(x, t, shown, 0)["carry"] is None) == (name == "no probabilities")
    assert about_row(x, t, shown, 0)["turned"] == (name == "moving frame")


def test_of_many_tokens_the_strongest_are_told_and_the_sum_of_the_others() -> None:
    many = read({"tokens": {**CLOUD, "n": 2000}, "law": {"name": "softmax", "beta": 0.5}, "motion": LAYERS, "until": 1})
    found, P = about_row(many.tokens, 0, many, 7), row_of(many.tokens, 0, many, 7)
    assert found["weights"] == np.sort(P)[::-1][: attention_row.MOST_HEARD].tolist()
    assert found["rest"][0] == 2000 - attention_row.MOST_HEARD
    assert np.isclose(sum(found["weights"]) + found["rest"][1], 1.0)


def test_what_cannot_be_told_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, session = state("softmax"), Session()
    session.last = kept = no_frames_yet(3, shown)
    simulate_into(kept, lambda: False)

    def told(**message: Any) -> dict[str, Any]:
        found: Any = list(answers({"id": 9, "do": "row", "run": 3, **message}, 0, session, lambda: False))
        assert len(found) == 1
        return found[0]

    assert told(frame=2, token=4)["heard"]
    assert "ask for one from 0 to 19" in told(frame=2, token=20)["why"]
    assert "ask for one" in told(frame=2, token=-1)["why"]
    for wrong in (None, "x", 1.5, True):
        refused = told(frame=2, token=wrong)
        assert refused["kind"] == "refused"
        assert "expected a whole number" in refused["sentence"]
    assert "only run 3 is here" in told(run=4, frame=0, token=0)["sentence"]
    assert "has" in told(frame=999, token=0)["sentence"]
    monkeypatch.setattr(attention_row, "MOST_PAIRS", 5)
    with pytest.raises(InputError, match="at most 5 tokens"):
        row_of(state("rows that need all").tokens, 0, state("rows that need all"), 0)


@pytest.mark.parametrize("name", ["softmax", "hardmax with ties", "causal", "moving frame", "no probabilities"])
@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.5])
def test_influences_are_those_above_the_threshold(name: str, threshold: float) -> None:
    shown = state(name)
    P = matrix(shown, shown.tokens, 1)
    found = overlays_of(shown.tokens, 1, shown, ["influence"], threshold)["influence"]
    n = len(P)
    brute = {(i, j): P[i, j] for i in range(n) for j in range(n) if i != j and abs(P[i, j]) > threshold}
    assert dict(zip(zip(found["from"], found["to"], strict=True), found["weights"], strict=True)) == brute
    assert found["count"] == len(brute)
    assert (np.diff(np.abs(found["weights"])) <= 0).all()
    if name in ("softmax", "causal"):
        measured = af.measure.influence(shown.law, shown.tokens, 1, threshold)
        assert brute.keys() == {tuple(edge) for edge in measured.tolist()}


def test_of_too_many_influences_the_strongest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlays, "MOST_INFLUENCES", 30)
    shown = state("softmax")
    found = overlays_of(shown.tokens, 0, shown, ["influence"], 0.0)["influence"]
    P = matrix(shown, shown.tokens, 0)
    np.fill_diagonal(P, -1.0)
    assert found["count"] == 20 * 19
    assert found["weights"] == np.sort(P, axis=None)[::-1][:30].tolist()
    monkeypatch.setattr(overlays, "MOST_PAIRS", 10)
    told = overlays_of(shown.tokens, 0, shown, ["influence", "leaders"], 0.1)
    assert "at most 10 tokens" in told["why"]["influence"]
    assert told["leaders"]
    assert told["heard"] is None


@pytest.mark.parametrize("name", ["softmax", "hardmax with ties", "moving frame"])
def test_with_leaders_comes_how_much_each_token_is_heard(name: str) -> None:
    shown = state(name)
    found = overlays_of(shown.tokens, 1, shown, ["leaders"])
    columns = matrix(shown, shown.tokens, 1).sum(axis=0) / len(shown.tokens)
    assert found["leaders"]
    np.testing.assert_allclose(found["heard"], columns, rtol=0, atol=1e-12)


def test_scores_beyond_float64_are_refused() -> None:
    one = read({
        "tokens": [[1.0], [-1.0]], "law": {"name": "softmax", "beta": 1.0},
        "motion": {"name": "layers", "gamma": 0.5}, "until": 1,
    })  # fmt: skip
    with pytest.raises(InputError, match="the scores of these tokens leave the range of float64: divide the tokens"):
        row_of(np.array([[1e200], [-1e200]]), 0, one, 0)
