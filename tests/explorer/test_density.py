"""Many tokens: their density on the stage, against NumPy, and how they travel to the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from larger import details, larger
from modules import importing
from test_stage import SETUP, SHOW, SHOWN, SVG, parts

import attnflow as af
from attnflow.explorer.applicable_claims import check_applicable
from attnflow.explorer.overlays import overlays_of
from attnflow.explorer.protocol import Session, encoded
from attnflow.explorer.run_stream import run
from attnflow.explorer.state import MANY, MOST_FRAMES, MOST_TOKENS, RUN_BYTES, State, arguments, read
from attnflow.runs.recording import Every

pytestmark = details

Page = Any
ONES = "[0, 1, 2, 3, 4, 5, 6, 7]"
# Many tokens as they come from the server, without rows.
FLAT = """async ([n, d, frames, overlays, show]) => {
    const id = ++window.id;
    const numbers = frames.map((frame) => Float32Array.from(frame.flat()));
    store.open({ state: { tokens: { cloud: 'gaussian', n, d, seed: 0 }, motion: { name: 'layers' } }, view: { show } });
    player.clear(id, n, d);
    for (const [k, frame] of numbers.entries()) player.append({ id, first: k, count: 1, times: [k] }, frame);
    player.done = true;
    store.put('run', { id, n, d, tokens: numbers[0], discrete: true, until: frames.length - 1 });
    store.first = { run: id, frame: 0, ...overlays };
    store.put('overlays', { run: id, frame: 0, ...overlays });
    store.notify('player');
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    with importing() as page:
        page.emulate_media(reduced_motion="reduce")
        page.evaluate(SETUP, {"layers": "space"})
        yield page


def counted(page: Page) -> tuple[Any, dict[str, float]]:
    """Return the counts of the picture, row by row from the top, and its grid."""
    found = page.evaluate("(() => { const c = stage.density(); return { ...c, counts: [...c.counts] }; })()")
    return np.reshape(found.pop("counts"), (found["rows"], found["columns"])), found


def pixels(page: Page, x: Any) -> Any:
    """Return where all tokens are, in pixels of the picture, from where some of them are: the map is affine."""
    some = page.evaluate(f"{ONES}.map((i) => stage.place(i)).map(({{ x, y }}) => [x, y])")
    known = np.column_stack([x, np.ones(len(x))])
    return known @ np.linalg.lstsq(known[:8], np.array(some) - [40, 30], rcond=None)[0]


def histogram(at: Any, grid: dict[str, float]) -> Any:
    edges = [grid["side"] * np.arange(grid[name] + 1) for name in ("rows", "columns")]
    return np.histogram2d(at[:, 1], at[:, 0], edges)[0]


@pytest.mark.parametrize("d", [2, 3])
def test_a_density_counts_the_tokens_in_each_square(opened: Page, d: int) -> None:
    x = np.random.default_rng(d).standard_normal((1500, d))
    given = {"tokens": x.tolist(), "frames": [x.tolist()], "overlays": {}, "motion": "layers", "show": SHOWN}
    opened.evaluate(SHOW, given)
    counts, grid = counted(opened)
    assert counts.sum() == 1500
    assert np.array_equal(counts, histogram(pixels(opened, x), grid))
    assert len(parts(opened)["density"].findall(f"{SVG}image")) == 1
    words = [text.text for text in parts(opened)["legend"].iter(f"{SVG}text")]
    assert "tokens per px², log scale" in words
    assert "0" in words
    if d == 2:
        # Closer, tokens outside the picture do not count.
        opened.evaluate("store.setView({ camera: { x: 0.3, y: 0.2, zoom: 1.1 } })")
        counts, grid = counted(opened)
        at = pixels(opened, x)
        inside = ((at >= 0) & (at < [800, 500])).all(axis=1)
        assert 100 < inside.sum() < 1400
        assert np.array_equal(counts, histogram(at, grid))
        # The last squares reach beyond the picture by less than their side.
        assert inside.sum() <= counts.sum() <= inside.sum() + 60


def test_smoothing_keeps_the_sum(opened: Page) -> None:
    x = np.random.default_rng(5).normal(size=(900, 2))
    ask = """async (xy) => { const m = await import('/page/density.js');
        const counted = m.countPoints(m.emptyCounts(800, 500, 4), xy, 900);
        return [[...counted.counts], [...m.smoothed(counted, 900).counts]]; }"""
    sharp, soft = (np.reshape(one, (125, 200)) for one in opened.evaluate(ask, (250 + 30 * x).ravel().tolist()))
    assert sharp.sum() == 900
    assert soft.sum() == pytest.approx(900, rel=1e-5)
    rows, columns = np.mgrid[:125, :200]
    for place in (rows, columns):
        middle = (place * sharp).sum() / 900
        assert (place * soft).sum() / 900 == pytest.approx(middle, abs=1e-3)
        # It is as wide as before and as the three means together, each over 2 r + 1 = 5 squares.
        wider = ((place - middle) ** 2 * (soft - sharp)).sum() / 900
        assert wider == pytest.approx(3 * (5**2 - 1) / 12, rel=1e-3)


def test_the_scale_is_perceptual(opened: Page) -> None:
    ask = """async () => { const [m, c] = [await import('/page/density.js'), await import('/page/colours.js')];
        return [[c.LIGHT, c.DARK].map((tone) => [...m.shadesOf(tone)]),
                [0, 1, 3, 10, 100].map((count) => m.onScale(count, 100))]; }"""
    (light, dark), heights = opened.evaluate(ask)
    # From one token in a square on the scale is a logarithm.
    assert heights == pytest.approx((np.log1p([0, 1, 3, 10, 100]) / np.log(101)).tolist())
    for shades, sign in ((light, -1), (dark, 1)):
        rgba = np.reshape(shades, (256, 4))
        assert rgba[0, 3] == 0
        assert (np.diff(rgba[:, 3]) >= 0).all()
        # The luminance goes one way.
        linear = np.where((part := rgba[1:, :3] / 255) <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
        luminance = linear @ [0.2126, 0.7152, 0.0722]
        assert (sign * np.diff(luminance) > -1e-3).all()
        assert sign * (luminance[-1] - luminance[0]) > 0.5


def test_on_the_line_each_column_counts_the_tokens_at_its_time(opened: Page) -> None:
    x = np.random.default_rng(1).standard_normal((1200, 1))
    frames = np.array([x * 0.6**k for k in range(5)])
    given = {"tokens": x.tolist(), "frames": frames.tolist(), "overlays": {}, "motion": "layers", "show": SHOWN}
    opened.evaluate(SHOW, given)
    counts, grid = counted(opened)
    assert (counts.sum(axis=0) == 1200).all()
    rows = np.array(opened.evaluate("[0, 1].map((i) => stage.place(i).y)")) - 30
    scale = (rows[1] - rows[0]) / (x[1, 0] - x[0, 0])
    edges = grid["top"] + grid["side"] * np.arange(grid["rows"] + 1)
    width = 800 - 58 - 22
    for column in (0, 100, 250, grid["columns"] - 1):
        t = min(max((column + 0.5) * grid["side"] / width, 0), 1) * 4
        k = min(int(t), 3)
        now = frames[k] + (t - k) * (frames[k + 1] - frames[k])
        there = np.histogram(rows[0] + scale * (now - x[0]), edges)[0]
        # A token on an edge may be counted on either side.
        assert np.abs(counts[:, column] - there).sum() <= 2
    assert "trails" not in parts(opened)


def test_very_many_tokens_have_marks_but_no_dots_and_are_not_edited(opened: Page) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6000, 2)).astype(np.float32).astype(float)
    x[5000:] = [0.5, 0.25]
    state = read({"tokens": x[:7].tolist(), "law": {"name": "softmax", "beta": "inf"},
                  "motion": {"name": "layers", "gamma": 0.5}, "until": 9})  # fmt: skip
    look = overlays_of(x, 0, state, ["hull", "cells", "leaders"])
    assert "labels" not in look
    assert "follows" not in look
    opened.evaluate(FLAT, [6000, 2, [x.tolist(), (x / 2).tolist()], look, SHOWN])
    counts, grid = counted(opened)
    assert counts.sum() == 6000
    assert np.array_equal(counts, histogram(pixels(opened, x), grid))
    drawn = parts(opened)
    assert len(drawn["tokens"]) == len(set(look["hull"]) | set(look["leaders"])) < 60
    assert len(drawn["leaders"]) == len(look["leaders"])
    assert len(drawn["cells"]) == sum(len(cell["polygon"]) > 2 for cell in look["cells"])
    # A thousand in one place are a disc there.
    (clump,) = drawn["clumps"]
    at = pixels(opened, x)[-1]
    assert np.hypot(float(clump.get("cx", "")) - at[0], float(clump.get("cy", "")) - at[1]) < 2 * grid["side"]
    # Where tokens go is shown by a few.
    opened.evaluate("(player.seek(1), store.notify('player'))")
    lines = sum(path.get("d", "").count("M") for path in parts(opened)["trails"])
    assert 0 < lines <= 64
    said = opened.evaluate("""() => { window.said = []; stage.say = (sentence) => said.push(sentence);
        canvas.focus(); }""")
    opened.mouse.dblclick(400, 280)
    opened.keyboard.press("n")
    opened.keyboard.press("Delete")
    said = opened.evaluate("said")
    assert said
    assert set(said) == {"These are 6,000 tokens: single ones are edited of at most 5,000, take fewer."}
    assert opened.evaluate("store.state.tokens.n") == 6000


def many(n: int, d: int, until: float = 3, **changes: Any) -> State:
    tokens = {"cloud": "gaussian", "n": n, "d": d, "seed": 4}
    law = {"name": "softmax", "beta": "inf"}
    return read({"tokens": tokens, "law": law, "motion": {"name": "layers", "gamma": 0.5}, "until": until, **changes})


def heard(state: State) -> list[tuple[dict[str, Any], bytes]]:
    """Return the answers to a run of a state as a page takes them apart."""
    found = []
    for answer in run({"id": 5, "state": state.data, "want": ["hull", "leaders"]}, Session(), lambda: False):
        body = encoded(answer)
        if isinstance(body, bytes) and isinstance(answer, tuple):
            length = int.from_bytes(body[:4], "little")
            assert (4 + length) % 8 == 0
            found.append((answer[0], body[4 + length :]))
        elif isinstance(answer, dict):
            found.append((answer, b""))
    return found


@pytest.mark.parametrize(("n", "steps"), [(MANY + 1, 3), pytest.param(MOST_TOKENS, 60, marks=larger)])
def test_many_tokens_travel_in_float32_within_a_budget(n: int, steps: int) -> None:
    state = many(n, 2, steps)
    told = heard(state)
    (start, tokens), *_ = told
    assert start["kind"] == "start"
    assert start["type"] == "float32"
    assert "tokens" not in start
    assert np.array_equal(np.frombuffer(tokens, "<f4").reshape(n, 2), state.tokens.astype(np.float32))
    chunks = [(about, body) for about, body in told if about["kind"] == "frames"]
    assert {about["type"] for about, _ in chunks} == {"float32"}
    assert sum(len(body) for _, body in chunks) <= RUN_BYTES
    ended = next(about for about, _ in told if about["kind"] == "end")
    if "wall clock" in ended["stopped"]:
        pytest.skip("this machine is too slow for the whole run")
    assert ended["ends_with"] is None
    last = np.frombuffer(chunks[-1][1], "<f4").reshape(-1, n, 2)[-1]
    assert np.array_equal(last, af.simulate(**arguments(state)).final.astype(np.float32))
    assert sum(about["count"] for about, _ in chunks) == steps + 1


def test_few_tokens_travel_as_they_are() -> None:
    state = many(30, 2)
    (start, _), *told = heard(state)
    assert np.array_equal(start["tokens"], state.tokens)
    assert {about["type"] for about, body in told if body} == {"float64"}


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [24, MANY, MOST_TOKENS])
def test_the_frames_of_a_run_have_room(n: int, d: int) -> None:
    for until, clock in ((20_000, "linear"), (20_000, "log"), (7, "linear")):
        for motion in ({"name": "layers", "gamma": 0.5}, {"name": "flow"}):
            law = {"name": "softmax", "beta": 1}
            state = many(n, d, until, clock=clock, motion=motion, law=law)
            rule: Any = state.record
            if isinstance(rule, Every):
                frames = -(-until // rule.k) + 1
            else:
                found = rule.chosen(until, state.motion.discrete) if hasattr(rule, "chosen") else rule
                frames = len({0, *np.asarray(found).tolist(), until})
            assert frames <= state.most_frames <= MOST_FRAMES
            assert frames * state.tokens.size * np.dtype(state.precision).itemsize <= RUN_BYTES


def test_claims_of_very_many_tokens_are_answered_in_one_sentence() -> None:
    answers = list(check_applicable(many(MOST_TOKENS, 2)))
    verdicts = [answer for answer in answers if answer["kind"] == "verdict"]
    assert len(verdicts) > 3
    for verdict in verdicts:
        assert verdict["outcome"] == "undecided"
        assert "200000 tokens" in verdict["because"]


def test_overlays_of_very_many_tokens() -> None:
    n = 20_000
    state = many(n, 2)
    found = overlays_of(state.tokens, 0, state, ["hull", "cells", "leaders", "limits", "quiescent", "attention"])
    assert set(found["why"]) == {"quiescent", "attention"}
    assert all("at most" in reason and "\n" not in reason for reason in found["why"].values())
    scores = state.tokens @ state.tokens[found["hull"]].T
    assert found["leaders"] == np.unique(np.array(found["hull"])[scores.argmax(axis=1)]).tolist()
    space = many(n, 3)
    assert "cells" in overlays_of(space.tokens, 0, space, ["cells"])["why"]
