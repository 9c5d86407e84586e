"""The words under a picture: the law, the time and one sentence, against what the library computes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from modules import importing

import attnflow as af
from attnflow.explorer.overlays import overlays_of
from attnflow.explorer.protocol import RunFrames
from attnflow.explorer.run_stream import no_frames_yet, series, simulate_into
from attnflow.explorer.state import State, read
from attnflow.figures.dashboard import MEASURED

Page = Any
SOFT = {"name": "softmax", "beta": 4}
LAYERS = {"name": "layers", "gamma": 0.1}

CAPTION = """async ({ state, run, times, frames, d, place, series, overlays, claims }) => {
    const [{ createPlayer }, { captionOf }] = [await import('/page/player.js'), await import('/page/caption.js')];
    const player = createPlayer();
    player.clear(5, frames[0].length / d, d);
    player.append({ id: 5, first: 0, count: times.length, times }, Float64Array.from(frames.flat()));
    Object.assign(player, { done: true, discrete: run.discrete });
    player.seek(place);
    const store = { state, run: { id: 5, state, ...run }, series: series && { id: 5, ...series }, overlays,
                    claims: new Map(claims.map((outcome, k) => [String(k), { verdict: { outcome } }])) };
    return captionOf(store, player);
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with importing() as page:
        yield page


@cache
def computed(text: str) -> tuple[State, RunFrames, dict[str, Any]]:
    """Return a state, the frames of its run, and what is measured of them."""
    state = read(json.loads(text))
    kept = no_frames_yet(5, state)
    return state, kept, series(kept, simulate_into(kept, stop=lambda: False))


def caption(page: Page, place: float, claims: tuple[str, ...] = (), **state: Any) -> tuple[dict[str, str], RunFrames]:
    """Return the caption of a run at a place among its frames, and the frames that the server has of it."""
    found, kept, measured = computed(json.dumps({"law": SOFT, "motion": LAYERS, "until": 60, **state}))
    k = int(place)
    t, x = kept.frame(k)
    seen = overlays_of(x, t, found, ["leaders", "quiescent"])
    given = {
        "state": found.data,
        "run": {"discrete": found.motion.discrete},
        "times": [float(t) for t in kept.times],
        "frames": [x.ravel().tolist() for x in kept.frames],
        "d": found.tokens.shape[1],
        "place": place,
        "series": measured,
        "overlays": {"run": 5, "frame": k, **seen},
        "claims": list(claims),
    }
    return page.evaluate(CAPTION, given), kept


def law_text(page: Page, law: dict[str, Any], motion: dict[str, Any]) -> str:
    module = "async (state) => (await import('/page/model_text.js')).modelText(state)"
    return str(page.evaluate(module, {"law": law, "motion": motion}))


def number(text: str) -> float:
    """Return a number as the page writes it, perhaps with a power of ten."""
    found = re.fullmatch(r"(?:([\d.]+) × |())10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if found is None:
        return float(text)
    return float(f"{found[1] or 1}e{found[3].translate(str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789'))}")


FLOW = {"name": "flow"}


@pytest.mark.parametrize(
    ("law", "motion", "said"),
    [
        (SOFT, LAYERS, "Softmax, β = 4 · averaging layers, γ = 0.1"),
        ({"name": "softmax"}, FLOW, "Softmax, β = 1 · flow"),
        ({"name": "softmax", "beta": "inf", "B": [[2, 0], [0, -1]]}, FLOW, "Hardmax, B = diag(2, −1) · flow"),
        ({"name": "softmax", "beta": "inf", "causal": True}, FLOW, "Hardmax, masks (causal) · flow"),
        ({"name": "softmax", "beta": 0}, FLOW, "Softmax, β = 0 (plain mean) · flow"),
        (
            {"name": "softmax", "beta": "1 + t**2", "causal": True, "window": 8, "graph": "two_groups"},
            {"name": "layers", "alpha": 0.5, "sigma": 0.1},
            "Softmax, β = 1 + t², masks (causal, window = 8, graph: two groups) · "
            "averaging layers, α = 0.5, noise (σ = 0.1)",
        ),
        (
            {"name": "localmax", "delta": 0.1, "threshold": "relative", "rope": 0.2},
            {"name": "sphere-flow", "V": [[0, -1], [1, 0]], "norm": "mix", "tau": 0.5, "normalized": False},
            "Localmax, δ = 0.1, threshold: relative, positions (rope = 0.2) · "
            "flow on the sphere, V = (0 −1; 1 0), not normalized, norm: mix, τ = 0.5",
        ),
        (
            {"name": "softmax", "beta": 2, "Q": [[1, 0]], "K": [[0, 1]]},
            {"name": "flow", "V": [[-1, 0], [0, -1]], "kappa": 5, "dt": 0.01},
            "Softmax, β = 2, Q, K · flow, V = −I, noise (κ = 5, dt = 0.01)",
        ),
        ({"name": "nobody"}, {"name": "Nothing"}, "nobody · nothing"),
    ],
)
def test_laws_and_motions_are_named_by_the_catalogue(
    page: Page, law: dict[str, Any], motion: dict[str, Any], said: str
) -> None:
    assert law_text(page, law, motion) == said


def test_the_sentence_counts_what_the_library_counts(page: Page) -> None:
    x0 = af.tokens.gaussian(24, 2, seed=103)
    run = af.simulate(x0, af.Softmax(4.0), af.Layers(gamma=0.1), until=60)
    clusters = next(one.of for one in MEASURED if one.title == "clusters")
    for k in (20, 40, 60):
        said, _ = caption(page, k, tokens={"cloud": "gaussian", "n": 24, "d": 2, "seed": 103})
        count = clusters(run, run.tokens[k], k)
        hull = af.geometry.hull(run.tokens[k]).vertices
        leaders = len(set((run.tokens[k] @ hull.T).argmax(axis=1).tolist()))
        end = "at the end" if k == 60 else "so far"
        assert said["law"] == "Softmax, β = 4 · averaging layers, γ = 0.1"
        assert said["time"] == f"step {k}"
        assert said["said"].split("; ")[:2] == [f"24 tokens, {count} clusters {end}", f"{leaders} leaders"]
    said, _ = caption(page, 0, tokens={"cloud": "gaussian", "n": 24, "d": 2, "seed": 103})
    assert said["said"].startswith("24 tokens at the start; ")


def test_tokens_that_met_are_within_what_is_said(page: Page) -> None:
    tokens = {"cloud": "gaussian", "n": 12, "d": 2, "seed": 1}
    said, kept = caption(page, 40, tokens=tokens, law={"name": "softmax", "beta": 0.1}, claims=("holds",))
    x = kept.frames[40]
    middle = (x.min(axis=0) + x.max(axis=0)) / 2
    far = np.linalg.norm(x - middle, axis=1).max()
    head, *_ = said["said"].split("; ")
    assert head.startswith("All 12 tokens are within ")
    bound = number(head.removeprefix("All 12 tokens are within ").removesuffix(" of one point"))
    assert far <= bound <= 2 * far
    said, _ = caption(page, 3, tokens=[[1.0, 2.0]] * 3)
    assert said["said"].startswith("All 3 tokens are at one point")


def test_rest_is_said_as_long_as_it_lasted(page: Page) -> None:
    tokens = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.4, 0.1]]
    law = {"name": "softmax", "beta": "inf"}
    said, kept = caption(page, 200, tokens=tokens, law=law, motion={"name": "layers", "gamma": 0.5}, until=200)
    x = np.stack(kept.frames)
    away = np.linalg.norm(x - x[-1], axis=2).max(axis=1)
    reach = np.linalg.norm(x[0], axis=1).max()
    # The first frame from which on no token was farther than a thousandth of the reach of the start.
    first = int(np.flatnonzero(away > 1e-3 * reach)[-1]) + 1
    *_, rest = said["said"].split("; ")
    assert rest.startswith("nothing has moved by more than ")
    assert rest.endswith(f" for {200 - first} steps")
    told = rest.removeprefix("nothing has moved by more than ").split(" for ")[0]
    assert away[first:].max() <= number(told) <= 1e-3 * reach
    moving, _ = caption(page, first, tokens=tokens, law=law, motion={"name": "layers", "gamma": 0.5}, until=200)
    assert "moved" not in moving["said"]
    assert moving["said"] == "5 tokens, 4 clusters so far; 4 leaders; 4 quiescent sets"


def test_a_flow_is_timed_in_t_and_a_cloud_that_flees_is_measured(page: Page) -> None:
    tokens = {"cloud": "gaussian", "n": 9, "d": 2, "seed": 2}
    said, kept = caption(page, 240, tokens=tokens, motion=FLOW, until=6)
    assert said["time"] == "t = 6.00"
    ends = (kept.frames[0], kept.frames[-1])
    spans = [np.linalg.norm(x - (x.min(axis=0) + x.max(axis=0)) / 2, axis=1).max() for x in ends]
    head = said["said"].split(" times as far apart as at the start")[0]
    told = number(head.rpartition("more than ")[2])
    assert told <= spans[1] / spans[0] <= 1.1 * told
    # Between two frames nothing is said that is known of frames only.
    said, _ = caption(page, 20.5, tokens=tokens, motion=FLOW, until=6)
    assert said["time"] == "t = 0.51"
    assert "leader" not in said["said"]


def test_verdicts_are_said_at_the_end(page: Page) -> None:
    tokens = {"cloud": "gaussian", "n": 9, "d": 2, "seed": 2}
    said, _ = caption(page, 60, tokens=tokens, claims=("holds", "undecided", "holds"))
    assert said["said"].endswith("; 2 claims hold")
    said, _ = caption(page, 60, tokens=tokens, claims=("holds", "violated"))
    assert said["said"].endswith("; 1 claim violated")
    said, _ = caption(page, 59, tokens=tokens, claims=("holds",))
    assert "claim" not in said["said"]


@pytest.mark.parametrize("value", [0.0032, 0.03, 1.0, 7e-9, 9.99, 0.1 + 0.2, 123456.0, 5e-324, 8.5e307])
def test_bounds_are_rounded_to_the_safe_side(page: Page, value: float) -> None:
    both = "async (x) => { const m = await import('/page/caption.js'); return [m.roundedUp(x), m.roundedDown(x)]; }"
    up, down = page.evaluate(both, value)
    assert 0.9 * value <= down <= value <= up <= 2 * value
