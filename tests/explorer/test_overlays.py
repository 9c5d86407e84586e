"""Overlays against brute force over all tokens, closed forms, and the library's own measurements."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial import ConvexHull

import attnflow as af
from attnflow.explorer.overlays import OVERLAYS, overlays_of
from attnflow.explorer.state import State, read

HARD = {"name": "softmax", "beta": "inf"}
LAYERS = {"name": "layers", "gamma": 0.5}
SQUARE = [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.2]]


def shown(tokens: Any = SQUARE, law: Any = HARD, motion: Any = LAYERS, until: float = 9) -> State:
    return read({"tokens": tokens, "law": law, "motion": motion, "until": until})


def gaussian(n: int = 30, d: int = 2, seed: int = 0) -> dict[str, Any]:
    return {"cloud": "gaussian", "n": n, "d": d, "seed": seed}


def at(state: State, *want: str, t: float = 0, x: Any = None) -> dict[str, Any]:
    return overlays_of(state.tokens if x is None else x, t, state, want)


def area(polygon: Any) -> float:
    """Half the sum of cross products, positive if corners come counter-clockwise."""
    p = np.asarray(polygon)
    q = np.roll(p, -1, axis=0)
    return 0.5 * float((p[:, 0] * q[:, 1] - q[:, 0] * p[:, 1]).sum())


def inside(polygon: Any, rng: np.random.Generator, count: int) -> Any:
    """Random points inside a convex polygon, away from its sides."""
    p = np.asarray(polygon)
    weights = rng.dirichlet(np.ones(len(p)), count)
    return 0.98 * weights @ p + 0.02 * p.mean(axis=0)


# The hull


def test_the_hull_in_the_plane_is_qhulls_counter_clockwise() -> None:
    state = shown(gaussian(80))
    found = at(state, "hull")["hull"]
    assert set(found) == set(ConvexHull(state.tokens).vertices.tolist())
    assert area(state.tokens[found]) > 0
    assert abs(area(state.tokens[found]) - ConvexHull(state.tokens).volume) < 1e-12


def test_the_hull_of_a_line_is_its_ends_and_that_of_a_cube_has_its_twelve_edges() -> None:
    line = shown([[0.3], [-2.0], [5.0], [1.0]])
    assert set(at(line, "hull")["hull"]) == {1, 2}
    corners = [[a, b, c] for a in (0.0, 1.0) for b in (0.0, 1.0) for c in (0.0, 1.0)]
    found = at(shown([[0.5, 0.5, 0.5], *corners]), "hull")
    assert set(found["hull"]) == set(range(1, 9))
    pairs = {tuple(sorted(edge)) for edge in found["edges"]}
    one_apart = {
        (i + 1, j + 1) for i in range(8) for j in range(i) if np.abs(np.subtract(corners[i], corners[j])).sum() == 1
    }
    assert pairs == {tuple(sorted(pair)) for pair in one_apart}


# Cells


FORMS = [None, [[2.0, 0.5], [0.5, 1.0]], [[1.0, -2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]]


@pytest.mark.parametrize("B", FORMS, ids=["identity", "positive", "turned", "negative"])
@pytest.mark.parametrize("seed", [0, 1])
def test_cells_say_who_has_the_top_score_of_all_tokens_and_fill_a_box(B: Any, seed: int) -> None:
    state = shown(gaussian(40, seed=seed), {**HARD, "B": B})
    found, x = at(state, "cells"), state.tokens
    matrix = np.eye(2) if B is None else np.array(B)
    rng = np.random.default_rng(seed)
    for cell in found["cells"]:
        points = inside(cell["polygon"], rng, 50)
        assert ((points @ matrix.T @ x.T).argmax(axis=1) == cell["vertex"]).all()
    corners = np.concatenate([cell["polygon"] for cell in found["cells"]])
    low, high = corners.min(axis=0), corners.max(axis=0)
    assert (low < x.min(axis=0)).all()
    assert (high > x.max(axis=0)).all()
    assert np.isclose(sum(area(cell["polygon"]) for cell in found["cells"]), np.prod(high - low), rtol=1e-9)
    owners = [found["cells"][k]["vertex"] for k in found["labels"]]
    assert owners == (x @ matrix.T @ x.T).argmax(axis=1).tolist()


def test_in_a_moving_frame_cells_are_those_of_the_scores_that_the_law_compares() -> None:
    V, B, t = [[1.0, 0.3], [0.0, -0.4]], [[1.0, 0.2], [0.2, 2.0]], 1.5
    state = shown(gaussian(30), {"name": "softmax", "beta": 2.0, "B": B}, {"name": "rescaled-flow", "V": V})
    E, x = expm(t * np.array(V)), state.tokens
    y = x @ E.T
    top = (y @ np.array(B).T @ y.T).argmax(axis=1)
    assert (top != (x @ np.array(B).T @ x.T).argmax(axis=1)).any()  # the frame matters
    found = at(state, "cells", "leaders", t=t)
    assert found["follows"] == top.tolist()
    for cell in found["cells"]:
        p = inside(cell["polygon"], np.random.default_rng(0), 40)
        assert (((p @ E.T) @ np.array(B).T @ y.T).argmax(axis=1) == cell["vertex"]).all()


def test_discrete_frames_count_steps() -> None:
    V, dt, k = [[1.0, 0.0], [0.0, 0.2]], 0.5, 4
    state = shown(gaussian(30), HARD, {"name": "rescaled-layers", "V": V, "dt": dt})
    y = state.tokens @ np.linalg.matrix_power(np.eye(2) + dt * np.array(V), k).T
    assert at(state, "leaders", t=k)["follows"] == (y @ y.T).argmax(axis=1).tolist()


def test_negative_beta_follows_the_lowest_score() -> None:
    state = shown(gaussian(25), {"name": "softmax", "beta": -2.0})
    assert at(state, "leaders")["follows"] == (state.tokens @ state.tokens.T).argmin(axis=1).tolist()


@pytest.mark.parametrize("d", [1, 3])
def test_off_the_plane_cells_have_labels_and_no_polygons(d: int) -> None:
    state = shown(gaussian(40, d))
    found = at(state, "cells")
    top = (state.tokens @ state.tokens.T).argmax(axis=1)
    assert [found["cells"][k]["vertex"] for k in found["labels"]] == top.tolist()
    assert all(cell["polygon"] == [] for cell in found["cells"])


# Limits, leaders, quiescent sets, clusters, attention


def test_the_limits_of_a_square_are_its_corners_the_middles_of_its_sides_and_its_centre() -> None:
    found = at(shown(), "limits")["limits"]
    points = {tuple(np.round(p, 9)) for p in found["points"]}
    assert points == {(a, b) for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)}
    attracting = [p for p, yes in zip(found["points"], found["attracting"], strict=True) if yes]
    assert sorted(attracting) == sorted(SQUARE[:4])


@pytest.mark.parametrize(
    ("law", "d"),
    [(HARD, 2), ({"name": "softmax", "beta": 3.0}, 3), ({"name": "localmax", "delta": 0.0}, 1)],
    ids=["hardmax", "softmax", "localmax"],
)
def test_leaders_are_those_that_are_weighed_most(law: Any, d: int) -> None:
    state = shown(gaussian(50, d), law)
    measured = af.measure.leaders(state.law, state.tokens)
    found = at(state, "leaders")
    assert found["follows"] == measured.index.tolist()
    assert found["leaders"] == measured.distinct.tolist()


def test_quiescent_sets_are_the_smallest_that_hear_nobody_else() -> None:
    state = shown(gaussian(12), {"name": "localmax", "delta": 0.3})
    heard = state.law.weights(state.tokens) > 0
    reach = np.linalg.matrix_power(heard.astype(float) + np.eye(12), 12) > 0
    # A token is in a smallest closed set if everybody it reaches reaches it back.
    final = [i for i in range(12) if all(reach[j, i] for j in np.flatnonzero(reach[i]))]
    expected = sorted({tuple(np.flatnonzero(reach[i]).tolist()) for i in final})
    found = at(state, "quiescent")["quiescent"]
    assert sorted(tuple(group["members"]) for group in found) == expected


def test_attention_is_the_matrix_of_the_law_up_to_128_tokens_and_means_of_blocks_beyond() -> None:
    state = shown(gaussian(128), {"name": "softmax", "beta": 2.0})
    found = at(state, "attention")["attention"]
    assert found["size"] == 128
    assert found["rows"] == state.law.weights(state.tokens).tolist()
    state = shown(gaussian(300), {"name": "softmax", "beta": 2.0})
    P, found = state.law.weights(state.tokens), at(state, "attention")["attention"]
    ends = [300 * k // 128 for k in range(129)]
    means = [[P[a:b, c:e].mean() for c, e in pairwise(ends)] for a, b in pairwise(ends)]
    assert found["size"] == 128
    assert np.allclose(found["rows"], means, rtol=1e-12)


def test_attention_in_a_moving_frame_is_that_of_the_tokens_as_the_law_sees_them() -> None:
    state = shown(gaussian(10), {"name": "softmax", "beta": 1.0}, {"name": "rescaled-flow"})
    found = at(state, "attention", t=0.7)["attention"]["rows"]
    assert np.allclose(found, af.Softmax().weights(np.exp(0.7) * state.tokens), rtol=1e-12)


# What is missing, and why


SPHERE = {"cloud": "sphere", "n": 12, "d": 2, "seed": 0}
MISSING = [
    (shown(gaussian(), {"name": "hegselmann-krause", "eps": 1.0}), ("cells", "leaders", "limits"), "distances"),
    (shown(gaussian(), {"name": "softmax", "beta": 0.0}), ("cells", "leaders", "limits"), "alike"),
    (shown(gaussian(), {"name": "softmax", "beta": 2.0}), ("quiescent",), "one set"),
    (shown(SPHERE, {"name": "softmax", "beta": 1.0}, {"name": "sphere-flow"}), ("limits",), "sphere"),
    (shown(gaussian(), {"name": "softmax", "beta": 1.0}, {"name": "flow"}), ("limits",), "grow"),
    (shown(gaussian(), HARD, {"name": "layers", "V": [[1, 0], [0, 2]]}), ("limits",), "identity"),
    (shown(gaussian(), HARD, {"name": "layers", "gamma": 0.5, "sigma": 0.1}), ("limits",), "noise"),
    (shown(gaussian(), {**HARD, "B": [[0, 1], [-1, 0]]}), ("limits",), "positive definite"),
    (shown(gaussian(), {"name": "localmax", "delta": 0.2}), ("limits",), "anywhere"),
    (shown({**SPHERE, "n": 150}), ("cells", "limits"), "vertices"),
    (shown({**SPHERE, "n": 350, "d": 3}), ("hull", "limits"), "vertices"),
    (shown(gaussian(1200)), ("quiescent", "attention"), "1200"),
    (shown(), ("shadows",), "shadows"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "missing", "words"), MISSING)
def test_what_is_missing_is_explained(state: State, missing: tuple[str, ...], words: str) -> None:
    found = overlays_of(state.tokens, 0, state, [*OVERLAYS, *missing])
    assert set(missing) <= set(found["why"])
    for name in missing:
        assert name not in found
        assert words in found["why"][name]
        assert "\n" not in found["why"][name]


def test_only_what_is_wanted_comes() -> None:
    assert at(shown()) == {"kind": "overlays", "why": {}}
    assert set(at(shown(), "leaders")) == {"kind", "leaders", "follows", "heard", "why"}


DEGENERATE = [
    [[0.0, 0.0]], [[1.0, 2.0]] * 5, [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [[3.0], [3.0]],
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[1e6, 1e6], [1e6, -1e6], [1e-6, 0.0]],
    [[1.0, 0.0], [1.0, 1e-13], [1.0, -1e-13], [0.0, 0.0]],
]  # fmt: skip


@pytest.mark.parametrize("tokens", DEGENERATE)
@pytest.mark.parametrize("law", [HARD, {"name": "softmax", "beta": 4.0}, {"name": "localmax", "delta": 0.1}])
def test_any_cloud_gives_plain_numbers(tokens: Any, law: Any) -> None:
    state = shown(tokens, law)
    text = json.dumps(overlays_of(state.tokens, 3, state, OVERLAYS), allow_nan=False)
    assert json.loads(text)["why"].keys() <= {"limits", "quiescent", "cells", "hull"}


def test_long_times_of_a_moving_frame_stay_finite() -> None:
    motion = {"name": "rescaled-flow", "V": [[1.0, 0.0], [0.0, -0.5]]}
    state = shown(gaussian(20), {"name": "softmax", "beta": 1.0}, motion, until=1e4)
    found = overlays_of(state.tokens, 1e4, state, OVERLAYS)
    json.dumps(found, allow_nan=False)
    # Only the growing coordinate is left: tokens follow the farthest on their side.
    first = state.tokens[:, 0]
    assert found["follows"] == np.where(first > 0, first.argmax(), first.argmin()).tolist()


def test_looking_needs_no_plotting_library() -> None:
    code = "import sys\nfrom attnflow.explorer import applicable_claims, overlays\nprint('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_nobody_is_followed_where_several_are_heard_alike() -> None:
    """The middle hears all corners, a point of an axis two of them; with B = 0 all are heard alike everywhere."""
    square = [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.0, 0.0], [0.5, 0.0], [0.5, 0.1]]
    given = {"tokens": square, "motion": {"name": "layers", "gamma": 0.5}, "until": 9}
    hard = read({**given, "law": {"name": "softmax", "beta": "inf"}})
    found = overlays_of(hard.tokens, 0, hard, ["cells", "leaders"])
    assert found["follows"] == [0, 1, 2, 3, -1, -1, 0]
    assert found["leaders"] == [0, 1, 2, 3]
    assert [found["labels"][i] for i in (4, 5)] == [-1, -1]
    assert found["cells"][found["labels"][6]]["vertex"] == 0
    flat = read({**given, "law": {"name": "softmax", "beta": 1.0, "B": [[0, 0], [0, 0]]}})
    assert set(overlays_of(flat.tokens, 0, flat, ["cells", "leaders"])["why"]) == {"cells", "leaders"}


def test_limits_are_refused_where_tokens_end_elsewhere() -> None:
    given = {"tokens": [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], "motion": {"name": "layers", "gamma": 0.5}, "until": 9}
    laws = {"0.8 + 0 * t": False, "1 / (t + 1)": True}
    for delta, shown in laws.items():
        state = read({**given, "law": {"name": "localmax", "delta": delta}})
        assert ("limits" in overlays_of(state.tokens, 0, state, ["limits"])) == shown
    fleeing = read({**given, "law": {"name": "softmax", "beta": -4.0}})
    assert "beta is negative" in overlays_of(fleeing.tokens, 0, fleeing, ["limits"])["why"]["limits"]


def test_a_bias_is_not_overlooked() -> None:
    """Cells, leaders and limits are those of scores without a bias; the attention matrix knows it."""
    state = replace(shown(), law=af.Hardmax(b=[3.0, 2.0]))
    found = at(state, "cells", "leaders", "limits", "attention")
    assert set(found["why"]) == {"cells", "leaders", "limits"}
    assert all("the law has a bias b" in sentence for sentence in found["why"].values())
    assert np.argmax(found["attention"]["rows"], axis=1).tolist() == [0] * 5
