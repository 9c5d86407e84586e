"""Tokens in space that turn by themselves, near and far; runs in a moving frame; charts that need a logarithm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from larger import details
from modules import importing
from test_stage import SETUP, SHOW, SHOWN, SVG, parts

from attnflow.catalogue import entries

pytestmark = details

Page = Any
# The stage of these tests covers the button.
CLICK = "document.getElementById('orbit').click()"


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    with importing() as page:
        motions: Any = entries("motion")
        page.evaluate(SETUP, {name: motion.surface for name, motion in motions.items()})
        page.evaluate("""async () => { const fit = document.createElement('button'); document.body.append(fit);
            (await import('/page/orbit.js')).createOrbitButton(fit, store, stage); }""")
        yield page


def shown(page: Page, x: Any, motion: str = "layers") -> None:
    given = {"tokens": x.tolist(), "frames": [x.tolist()] * 3, "overlays": {}, "motion": motion, "show": SHOWN}
    page.evaluate(SHOW, given)


def test_the_room_turns_until_the_user_turns_it(opened: Page) -> None:
    page = opened
    page.emulate_media(reduced_motion="no-preference")
    shown(page, np.random.default_rng(0).standard_normal((9, 2)))
    button = page.locator("#orbit")
    assert button.is_hidden()
    x = np.random.default_rng(0).standard_normal((9, 3))
    shown(page, x)
    before = page.evaluate("stage.place(0)")
    page.evaluate(CLICK)
    assert button.get_attribute("aria-pressed") == "true"
    page.wait_for_function("(before) => Math.abs(stage.place(0).x - before.x) > 1", arg=before)
    # The link does not change while it turns, and has what is seen when it stops.
    assert page.evaluate("store.view.camera") is None
    at = page.evaluate("(() => { stage.orbit.stop(); const { x, y } = stage.place(0); return [x, y]; })()")
    camera = page.evaluate("store.view.camera")
    assert camera["yaw"] > -1.02
    assert button.get_attribute("aria-pressed") == "false"
    assert page.evaluate("(() => { const { x, y } = stage.place(0); return [x, y]; })()") == pytest.approx(at)
    # A hand at an empty place stops it.
    page.evaluate(CLICK)
    page.wait_for_function("(x) => stage.orbit.turning && Math.abs(stage.place(0).x - x) > 1", arg=at[0])
    page.mouse.move(60, 60)
    page.mouse.down()
    page.mouse.move(90, 60)
    page.mouse.up()
    assert not page.evaluate("stage.orbit.turning")
    assert button.get_attribute("aria-pressed") == "false"


def test_nothing_turns_for_who_asks_for_less_motion(opened: Page) -> None:
    page = opened
    page.emulate_media(reduced_motion="no-preference")
    shown(page, np.random.default_rng(0).standard_normal((9, 3)))
    page.evaluate("stage.orbit.start()")
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_function("() => !stage.orbit.turning")
    page.evaluate("stage.orbit.start()")
    assert not page.evaluate("stage.orbit.turning")
    assert page.locator("#orbit").is_disabled()
    page.evaluate("stage.fit()")


def test_near_tokens_are_larger_and_stronger(opened: Page) -> None:
    x = np.random.default_rng(3).standard_normal((12, 3))
    shown(opened, x)
    discs = list(parts(opened)["tokens"])
    # They are drawn from the farthest to the nearest.
    sizes = [float(disc.get("r", "")) for disc in discs]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 1.3 * sizes[0]
    pale = [sum(int(disc.get("fill", "")[k : k + 2], 16) for k in (1, 3, 5)) for disc in discs]
    assert pale == sorted(pale, reverse=True)
    assert pale[0] > pale[-1]


def test_tokens_in_a_moving_frame_are_called_z(opened: Page) -> None:
    x = np.random.default_rng(4).standard_normal((6, 3))
    said = {}
    motions: Any = entries("motion")
    for name, motion in motions.items():
        opened.evaluate("(name) => store.setState({ motion: { name } })", name)
        shown(opened, x, name)
        drawn = parts(opened)
        note = [text.text for text in drawn["frame"].iter(f"{SVG}text")] if "frame" in drawn else []
        assert bool(note) == (getattr(motion.make, "moving_frame", None) is True)
        if "room" in drawn:
            letter = "z" if note else "x"
            assert f"{letter}₁" in [text.text for text in drawn["room"].iter(f"{SVG}text")]
        if note:
            said[name] = note[0]
    assert said["rescaled-flow"] == "zᵢ = e⁻ᵗⱽ xᵢ"
    assert said["rescaled-layers"] == "zᵢ = (I + dt V)⁻ᵏ xᵢ"
    opened.evaluate("store.setState({ motion: { name: 'rescaled-flow' } })")
    assert "shown as z_i = e^{-t V} x_i" in opened.evaluate("stage.describe()")


CASES: dict[str, tuple[list[float], bool, bool, str | None]] = {
    "exponential decay": (np.exp(-np.linspace(0, 9, 30)).tolist(), False, True, None),
    "decay to 0": ([*np.exp(-np.linspace(0, 9, 30)), 0.0, 0.0], False, True, "0"),
    "decay to rounding": ([*np.exp(-np.linspace(0, 9, 30)), 3e-17], False, True, "≈ 0"),
    "growth": (np.exp(np.linspace(0, 50, 30)).tolist(), False, True, None),
    "even growth from 0": (np.linspace(0, 1, 30).tolist(), False, False, None),
    "a merge": ([3.0, 2.9, 2.8, 0.0, 0.0], False, False, None),
    "values that cross 0": ([1e3, 10.0, 0.1, -2.0], False, False, None),
    "few clusters": ([24, 12, 3], True, False, None),
    "many clusters": ([5000, 800, 30, 3], True, True, None),
    "nothing": ([0.0, 0.0], False, False, None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_chart_has_a_logarithm_where_it_must(opened: Page, name: str) -> None:
    values, whole, log, zero = CASES[name]
    ask = """async ([values, whole]) => { const m = await import('/page/charts.js');
        const scale = m.scaleOf(values, whole); return [scale, values.map((value) => m.heightOf(scale, value))]; }"""
    scale, heights = opened.evaluate(ask, [values, whole])
    assert scale["log"] == log
    assert scale.get("zero") == zero
    assert np.all(np.isfinite(heights))
    assert 0 <= min(heights) <= max(heights) <= 1
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(np.array(heights)[order]) >= 0)
    if log:
        seen = np.array(values) > 1e-14 * np.maximum.accumulate(values)
        # Equal factors are equal steps; what is 0 lies apart, below.
        steps = np.diff(np.array(heights)[seen]) / np.diff(np.log(np.array(values)[seen]))
        assert np.allclose(steps, steps[0])
        assert np.all(np.array(heights)[~seen] == 0)
        assert zero is None or np.array(heights)[seen].min() > 0.1
