"""The presets of the explorer: all of them run, they are the runs of the gallery, and their notes tell the truth."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.explorer import applicable_claims as claims_panel
from attnflow.explorer import presets
from attnflow.explorer.applicable_claims import check_applicable
from attnflow.explorer.presets import FEWER, PRESETS, SHOWN, Preset
from attnflow.explorer.state import State, arguments, read
from attnflow.figures import gallery
from attnflow.serialise import describe

# Figures without a preset, and why.
EXCLUDED = {
    "claims/verdicts": "a table of claims, no run",
    "densities/clusters": "densities, no tokens",
    "densities/convergence": "errors of densities, no tokens",
    "densities/transitions": "stationary densities, no tokens",
    "emergence/coordinates": "128 dimensions",
    "emergence/low-rank": "80 dimensions",
    "emergence/vertices": "means over hundreds of starts, many of them in four dimensions",
    "fw/cells-raw-and-directions": "cells of one polygon, nothing moves",
    "fw/contours": "an energy over polygons, nothing moves",
    "fw/dominance": "a cone in a polygon, nothing moves",
    "laws/support": "weights of one row, nothing moves",
    "localmax/clusters": "means over 16 starts for each of 13 deltas and three sizes",
    "long-times/exits-of-polygons": "a thousand chains for each beta and polygon; long-times/exits has a preset",
    "noise/order": "500 tokens at four temperatures; learn/noisy is one run of fewer",
    "norm/mean-cosine": "32 dimensions, and new weights in each layer",
    "sphere/clusters": "means over 12 starts for each of 17 betas and six sizes",
    "sphere/phase-diagram": "means over 128 starts for each of 90 betas",
    "trained/attention": "weights of one head, nothing moves",
    "trained/by-layer": "256 dimensions, and trained weights",
    "trained/cosines": "256 dimensions, and trained weights",
    "trained/cosines-as-published": "256 dimensions, and trained weights",
    "trained/iterated": "256 dimensions, and trained weights",
    "trained/spectra": "eigenvalues of weights, nothing moves",
    "trained/stream": "256 dimensions, and trained weights",
}
# Figures whose runs are made by `ensemble` and by measurements, or with more tokens than the page shows.
OTHERWISE = {
    "fw/arrival", "fw/cells", "long-times/exits", "long-times/phases", "many-tokens/mean-field", "many-tokens/plane",
}  # fmt: skip
# Figures whose presets end earlier, when all is at rest.
EARLIER = {"causal/centres"}
NAMED = {preset.name: preset for preset in PRESETS}


@cache
def whole(name: str) -> af.Trajectory:
    """Return the run of a preset, for all tests that ask for it."""
    return af.simulate(**arguments(read(NAMED[name].state)), watch=[af.watch.WallClock(20.0)])


def figure_of(preset: Preset) -> str | None:
    """Return the figure that a preset belongs to."""
    return next((name for name in gallery.entries() if f"{preset.name}/".startswith(f"{name}/")), None)


def test_every_figure_that_is_a_run_has_a_preset() -> None:
    covered = {figure_of(preset) for preset in PRESETS} - {None}
    assert covered | EXCLUDED.keys() == gallery.entries().keys()
    assert not covered & EXCLUDED.keys()
    assert all(figure_of(preset) or preset.name.startswith("learn/") for preset in PRESETS)


def test_names_are_unique_and_papers_those_of_claims() -> None:
    assert len(NAMED) == len(PRESETS)
    papers = {claim.paper.short for claim in af.claims.all()}
    for preset in PRESETS:
        assert preset.paper in papers
        assert set(preset.view["show"]) == set(SHOWN)
        assert preset.note.endswith(".")
        assert ". " not in preset.note
        assert len(preset.note) < 180
    claims = {claim.id for claim in af.claims.all()}
    words = {word.strip(",;:.") for preset in PRESETS for word in preset.note.split() if "/" in word}
    assert words <= claims


def test_all_overlays_of_the_page_can_be_shown_by_presets_and_stories() -> None:
    page = (Path(presets.__file__).parent / "page" / "index.html").read_text(encoding="utf-8")
    assert tuple(re.findall(r'data-show="(\w+)"', page)) == SHOWN


def test_loading_them_runs_and_draws_nothing() -> None:
    code = (
        "import sys, attnflow, json; attnflow.simulate = None;"
        "from attnflow.explorer.presets import PRESETS;"
        "json.dumps([preset.data for preset in PRESETS], allow_nan=False);"
        "sys.exit('matplotlib' in sys.modules or 'numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_is_read_and_runs_to_its_end(preset: Preset) -> None:
    shown = read(json.loads(json.dumps(preset.state)))
    assert shown.data == preset.state
    found = whole(preset.name)
    assert found.stopped.endswith("as asked")
    assert len(found) > 10
    assert np.isfinite(found.final).all()


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_claims_of_each_are_computed_without_an_error(preset: Preset, monkeypatch: pytest.MonkeyPatch) -> None:
    if "ATTNFLOW_EXAMPLES" not in os.environ:  # the first part of each run; the whole of it takes half a minute
        short = {"MOST_STEPS": 6, "FEWEST_STEPS": 6, "LONGEST": 0.1, "DRAWS": 4, "EXACT_AT_ONCE": 0}
        for name, value in short.items():
            monkeypatch.setattr(claims_panel, name, value)
        monkeypatch.setattr(sys.modules["attnflow.claims.check"], "EXACT_AT_ONCE", 0)
        monkeypatch.setitem(claims_panel.SUBJECTS, "sphere/staircase", lambda state: {"until": 3.0})
    listed, *answers, done = check_applicable(read(preset.state))
    assert done == {"kind": "done"}
    assert {answer["claim"] for answer in answers} == {claim["claim"] for claim in listed["claims"]}
    # Neither a claim that fails nor the text of an exception is for readers of the panel.
    wrong = re.compile(r"cannot be checked here|Traceback|\b\w+(Error|Exception|Warning)\b|\bnan\b")
    assert [answer for answer in answers if wrong.search(answer["because"])] == []


def test_claims_of_a_run_beyond_64_bits_are_those_of_its_model() -> None:
    state = NAMED["long-times/exits"].state
    long, short = (check_applicable(read({**state, "until": until})) for until in (1e25, 1000))
    assert next(long)["claims"] == next(short)["claims"] != []
    shown = read(state)
    moments = claims_panel._moments(shown, af.Layers(gamma=lambda t: 0.1 / (1 + t)))
    assert moments == sorted(moments)
    assert (moments[0], moments[-1]) == (0, shown.until)
    assert all(isinstance(moment, int) for moment in moments)


class Enough(BaseException):
    """All runs of a figure have been seen: no error, which the gallery would explain."""


def same(shown: State, figure: gallery.Entry, call: tuple[Any, ...]) -> bool:
    """Say whether a figure simulated what a preset does, to the end or to the moment that the figure shows."""
    tokens, law, motion, until = call
    earlier = figure.name in EARLIER and shown.until < until
    return (
        np.array_equal(shown.tokens, np.asarray(tokens, dtype=np.float64))
        and describe(shown.law) == describe(law)
        and describe(shown.motion) == describe(motion)
        and (shown.until in (until, figure.parameters.get("until")) or earlier)
    )


@pytest.mark.parametrize("name", sorted({figure_of(p) or "" for p in PRESETS} - OTHERWISE - {""}))
def test_a_preset_is_the_run_of_its_figure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = gallery.named(name)
    wanted = [read(preset.state) for preset in PRESETS if figure_of(preset) == name]
    simulate = af.simulate

    def watched(tokens: Any, law: af.Law, motion: af.Motion, until: float, **options: Any) -> af.Trajectory:
        call = (tokens, law, motion, until)
        wanted[:] = [shown for shown in wanted if not same(shown, entry, call)]
        if not wanted:
            raise Enough
        return simulate(tokens, law, motion, until, **options)

    monkeypatch.setattr(af, "simulate", watched)
    with pytest.raises(Enough):
        entry.draw()


def test_presets_of_other_figures_have_their_parameters() -> None:
    plane, crowd = read(NAMED["many-tokens/plane"].state), read(NAMED["many-tokens/mean-field"].state)
    p, q = gallery.named("many-tokens/plane").parameters, gallery.named("many-tokens/mean-field").parameters
    assert (len(plane.tokens), len(crowd.tokens)) == (FEWER, FEWER)
    assert describe(plane.law) == describe(af.Softmax(beta=p["beta"]))
    assert describe(crowd.motion) == describe(af.RescaledLayers(dt=q["dt"]))
    # Of the two runs behind its figure this is the second.
    basins = read(NAMED["laws/basins"].state)
    assert describe(basins.law)["B"] == [list(row) for row in gallery.named("laws/basins").parameters["B"]]
    exits = read(NAMED["long-times/exits"].state)
    np.testing.assert_array_equal(exits.tokens, af.tokens.polygon(3))
    assert exits.until == int(1e25)


# What the notes say


LEFT = [np.cos(np.radians(185)), np.sin(np.radians(185))]


@pytest.mark.parametrize(
    ("name", "claim", "moves"),
    [
        ("learn/hemisphere", "sphere/hemisphere", {"holds": {}, "hypotheses not met": {6: LEFT}}),
        ("learn/generic", "fw/straight-lines", {"holds": {}, "hypotheses not met": {1: [1.1, 0.9]}}),
        (
            "learn/frank-wolfe",
            "fw/cluster-rate",
            {"violated": {}, "holds": {1: [-1.0]}, "hypotheses not met": {1: [0.5]}},
        ),
        ("localmax/lyapunov/directed-graph", "localmax/lyapunov/directed", {"violated": {}, "holds": {0: [2.0]}}),
    ],
)
def test_claims_of_the_panel_flip_where_the_note_says(
    name: str, claim: str, moves: dict[str, dict[int, list[float]]]
) -> None:
    preset = NAMED[name]
    assert claim in preset.note
    for outcome, dragged in moves.items():
        tokens = [dragged.get(i, row) for i, row in enumerate(preset.state["tokens"])]
        answers = check_applicable(read({**preset.state, "tokens": tokens}))
        assert next(a for a in answers if a["kind"] == "verdict" and a["claim"] == claim)["outcome"] == outcome


def run(name: str, **law: Any) -> af.Trajectory:
    if not law:
        return whole(name)
    state = NAMED[name].state
    return af.simulate(**arguments(read({**state, "law": {**state["law"], **law}})))


def test_delta_leads_from_hardmax_to_averaging() -> None:
    ends = {delta: run("learn/delta", delta=delta).final for delta in (0.0, 0.2, 0.6, 5.0)}
    assert [af.measure.clusters(x, 1e-3).count for x in ends.values()] == [6, 5, 4, 1]
    np.testing.assert_array_equal(ends[0.0], run("laws/side-by-side/hardmax").final)


def test_pre_aligns_more_slowly_than_post() -> None:
    state = NAMED["learn/normalised"].state
    pre = whole("learn/normalised")
    post = af.simulate(**arguments(read({**state, "motion": {"name": "sphere-flow", "norm": "post"}, "until": 20.0})))
    half, end = (af.measure.diameter(pre.at(t)) for t in (20.0, 40.0))
    assert 0.4 < end / half < 0.6
    assert end > 0.01
    assert af.measure.diameter(post.final) < 1e-3


def test_two_centres_stay_and_capture_all_others() -> None:
    found = run("causal/centres")
    first, third = found.tokens[0][0], found.tokens[0][2]
    np.testing.assert_array_equal(found.tokens[:, 0], np.broadcast_to(first, (len(found), 2)))
    assert np.linalg.norm(found.tokens[:, 2] - third, axis=1).max() < 1e-3
    away = np.linalg.norm(found.final[:, None] - [first, third], axis=2)
    assert away.min(axis=1).max() < 1e-3
    assert (np.bincount(away.argmin(axis=1)) > 10).all()


def test_noise_spreads_the_tokens_that_attention_gathers() -> None:
    state = NAMED["learn/noisy"].state
    ends = [af.simulate(**arguments(read({**state, "seed": seed}))).final for seed in (0, 1)]
    for x in ends:
        assert np.linalg.norm(x.mean(axis=0)) > 0.8
        assert af.measure.clusters(x, 1e-3).count > 40
    hot, cold = (read({**state, "motion": {**state["motion"], "kappa": kappa}}) for kappa in (1.0, 100.0))
    assert np.linalg.norm(af.simulate(**arguments(hot)).final.mean(axis=0)) < 0.3
    assert np.linalg.norm(af.simulate(**arguments(cold)).final.mean(axis=0)) > 0.98


def test_two_tokens_change_places_until_gamma_is_less_than_one() -> None:
    swapped = run("learn/exchange").tokens[..., 0]
    np.testing.assert_array_equal(swapped[1::2], swapped[:-1:2, ::-1])
    state = NAMED["learn/exchange"].state
    slower = read({**state, "motion": {"name": "layers", "gamma": 0.9}, "until": 100})
    assert np.ptp(af.simulate(**arguments(slower)).final) < 1e-9


def test_the_chain_arrives_stays_and_leaves() -> None:
    found = run("long-times/phases")
    corners = af.tokens.polygon(3)
    near = np.abs(found.tokens - np.concatenate([corners, corners])).max(axis=(1, 2)) < 0.08
    times = found.times.astype(float)
    assert times[near.argmax()] <= 30
    assert near[(times > 100) & (times < 1e5)].all()
    assert not near[-1]
    assert np.ptp(found.final, axis=0).max() < 1e-3


def test_nobody_moves_for_very_long() -> None:
    found = run("long-times/exits")
    moved = (found.tokens != found.tokens[0]).any(axis=(1, 2))
    assert 1e24 < found.times[moved.argmax()] < 1e25
    rate = {
        beta: af.measure.exit_times(found.tokens[0], af.Softmax(beta=beta), 0.1, 0.1, runs=2) for beta in (40.0, 30.0)
    }
    exact = [found.exact.median for found in rate.values() if found.exact is not None]
    assert exact[0] / exact[1] == pytest.approx(3.3e6, rel=0.01)


@pytest.mark.parametrize(("delta", "layer", "counts"), [("0.05", 60, (5, 5)), ("0.6", 10, (5, 4)), ("1", 60, (3, 3))])
def test_quiescent_sets_are_as_many_as_the_notes_say(delta: str, layer: int, counts: tuple[int, int]) -> None:
    found = whole(f"localmax/quiescent-sets/delta-{delta}")
    assert found.law is not None
    assert tuple(len(af.geometry.quiescent_sets(found.law, found.tokens[k], k)) for k in (layer - 1, layer)) == counts


def test_softmax_arrives_from_some_beta_on() -> None:
    corners = af.tokens.polygon(4)
    goal = np.concatenate([corners, corners])
    for beta, step in ((8.0, None), (20.0, 25), ("inf", 19)):
        away = np.linalg.norm(run("fw/arrival", beta=beta).tokens - goal, axis=2).max(axis=1)
        assert (np.flatnonzero(away <= 0.05)[:1].tolist() or [None])[0] == step
