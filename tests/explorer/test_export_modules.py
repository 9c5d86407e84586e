"""Names of files, moments of movies and strips of words, as the page computes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from modules import importing

Page = Any
LAYERS = {"name": "layers", "gamma": 0.1}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with importing() as page:
        yield page


def ask(page: Page, module: str, body: str, given: Any = None) -> Any:
    """Return what a JavaScript expression says, with the module as `m` and what is given as `g`."""
    return page.evaluate(f"async (g) => {{ const m = await import('/page/{module}.js'); return ({body}); }}", given)


def name(page: Page, law: Any, motion: Any = LAYERS, t: float = 12, n: int = 24, timed: bool = True) -> str:
    given = [{"state": {"law": law, "motion": motion}}, t, n, timed]
    player = "{ count: 1, n: g[2], time: () => g[1] }"
    return str(ask(page, "file_names", f"m.fileName(g[0], {player}, 'png', {{ timed: g[3] }})", given))


@pytest.mark.parametrize(
    ("law", "motion", "t", "said"),
    [
        ({"name": "softmax", "beta": 4}, LAYERS, 12, "softmax-beta-4-layers-gamma-0.1-n24-t12.png"),
        ({"name": "softmax", "beta": "inf"}, {"name": "flow"}, 0.25, "hardmax-flow-n24-t0.25.png"),
        ({"name": "softmax", "beta": "2/(1+t)", "causal": True}, {"name": "flow"}, 1e12,
         "softmax-beta-causal-flow-n24-t1e12.png"),
        ({"name": "softmax", "beta": -2.5}, {"name": "jumps", "gamma": 1e-7}, 3.14159,
         "softmax-beta-minus-2.5-jumps-gamma-1e-minus-7-n24-t3.142.png"),
        ({"name": "../../Etc pass;wd$"}, {"name": "?"}, 0, "etc-pass-wd-n24-t0.png"),
    ],
)  # fmt: skip
def test_names_say_what_is_in_a_file(page: Page, law: Any, motion: Any, t: float, said: str) -> None:
    assert name(page, law, motion, t) == said


def test_names_are_short_and_safe(page: Page) -> None:
    crowded = {"name": "softmax", "beta": 1.23456789e-8, "causal": True, "window": 123456, "rope": 0.1, "alibi": 0.3}
    busy = {"name": "sphere-layers", "dt": 0.00123, "norm": "mix", "tau": 0.5, "sigma": 0.123}
    for given in (name(page, crowded, busy, 1.5e300, 200_000), name(page, {"name": "x" * 300}, {"name": "é/ü"})):
        assert len(given) <= 80
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*\.png", given)
        assert ".." not in given
    assert name(page, {"name": "softmax", "beta": 4}, timed=False) == "softmax-beta-4-layers-gamma-0.1-n24.png"


PLAN = """async ([times, clock]) => {
    const [{ createPlayer }, m] = [await import('/page/player.js'), await import('/page/movie_plan.js')];
    const player = createPlayer();
    player.clear(1, 1, 1);
    player.append({ id: 1, first: 0, count: times.length, times }, Float64Array.from(times));
    Object.assign(player, { done: true, clock });
    const plan = m.planOf(player);
    return [plan, m.halved(plan, Math.min(3, plan.length)), m.RATE];
}"""


@pytest.mark.parametrize("clock", ["linear", "log"])
@pytest.mark.parametrize("times", [[0], [0, 1], range(61), np.linspace(0, 3, 240), range(600)])
def test_a_movie_shows_its_run_evenly_from_the_first_frame_to_the_last(page: Page, times: Any, clock: str) -> None:
    times = [float(t) for t in times]
    plan, fewer, rate = page.evaluate(PLAN, [times, clock])
    places = np.array([one["position"] for one in plan])
    assert (places[0], places[-1]) == (0, len(times) - 1)
    assert (np.diff(places) > 0).all()
    seconds = min(max(0.12 * len(times), 4), 8)
    for one in (plan, fewer):
        assert sum(moment["repeat"] for moment in one) == round(seconds * rate)
        assert one[-1]["position"] == len(times) - 1
    assert len(plan) <= 200
    assert len(fewer) <= 3 + len(plan) / 2 + 1
    if len(times) >= 75:
        # Overlays are known of whole frames: where these are many, no others are shown.
        assert (places == places.round()).all()
    if clock == "linear" and len(times) > 1:
        shown = np.repeat(np.interp(places, np.arange(len(times)), times), [one["repeat"] for one in plan])
        wanted = np.linspace(times[0], times[-1], len(shown) - round(0.15 * seconds * rate))
        step = max(times[-1] / len(wanted), (times[1] - times[0]))
        assert np.abs(shown[: len(wanted)] - wanted).max() <= step


def test_lines_break_between_words_that_do_not_belong_together(page: Page) -> None:
    said = "24 tokens, 5 clusters so far; 3 leaders; nothing has moved by more than 6 × 10⁻⁴ for 188 steps"
    lines = ask(page, "caption_strip", "m.linesOf(g, 9, (text) => text.length <= 16)", said)
    assert " ".join(lines) == said
    assert all(not line.startswith(("tokens", "clusters", "leaders", "×", "10", "steps")) for line in lines)
    cut = ask(page, "caption_strip", "m.linesOf(g, 2, (text) => text.length <= 16)", said)
    assert cut == [lines[0], f"{lines[1]} …"]


@pytest.mark.parametrize("width", [320, 660, 1280])
def test_the_words_of_a_strip_are_inside_of_it_and_apart(page: Page, width: int) -> None:
    caption = {
        "law": "Softmax, β = 4, masks (causal, window = 8) · averaging layers, γ = 0.1, noise (σ = 0.1)",
        "time": "step 1.25 × 10⁹",
        "said": "24 tokens, 5 clusters so far; 3 leaders; 2 quiescent sets; nothing has moved for 10⁹ steps",
    }
    strip = ask(page, "caption_strip", "m.stripOf(g[0], g[1])", [caption, width])
    heights = [one["y"] for one in strip["words"] if one["role"] != "time"]
    assert all(12 <= one["y"] <= strip["height"] - 12 for one in strip["words"])
    assert all(0 < one["x"] < width for one in strip["words"])
    assert min(np.diff(heights)) > 15
    assert " ".join(one["text"] for one in strip["words"] if one["role"] == "law") == caption["law"]
    assert " ".join(one["text"] for one in strip["words"] if one["role"] == "said") == caption["said"]
    # In a movie the strip does not jump.
    given = [caption, {**caption, "said": "24 tokens", "time": "step 1"}, width]
    first, other = ask(
        page, "caption_strip", "[0, 1].map((k) => m.stripOf(g[k], g[2], m.linesInMovie(g[2])).height)", given
    )
    assert first == other


def test_messages_with_a_picture_are_read_as_they_were_written(page: Page) -> None:
    body = """(() => { const { header, payload } = m.decode(m.encode(g[0], Uint8Array.from(g[1]).buffer));
        return [header, [...payload], m.encode(g[0], new ArrayBuffer(0)).byteLength % 8]; })()"""
    for given in ({"id": 1, "do": "frame"}, {"id": 123456, "do": "frame", "movie": 9}):
        assert ask(page, "socket", body, [given, [1, 2, 255]]) == [given, [1, 2, 255], 0]
