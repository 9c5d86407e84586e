"""Attention on the stage, in Chromium and in data, against `law.weights` and brute force over all pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import launch, serving
from test_page import settled, show

import attnflow as af
from attnflow.core.inputs import InputError
from attnflow.explorer import attention_row, overlays
from attnflow.explorer.attention_row import about_row, row_of
from attnflow.explorer.overlays import overlays_of
from attnflow.explorer.protocol import Session
from attnflow.explorer.run_stream import no_frames_yet, simulate_into
from attnflow.explorer.state import State, read
from attnflow.explorer.worker import answers

Page = Any

CLOUD = {"cloud": "gaussian", "n": 20, "d": 2, "seed": 3}
SPHERE = {"cloud": "sphere", "n": 12, "d": 3, "seed": 1}
TIES = [[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0], [0.5, 0.0], [0.0, -0.2]]
HARD = {"name": "softmax", "beta": "inf"}
LAYERS = {"name": "layers", "gamma": 0.2}
STATES: dict[str, dict[str, Any]] = {
    "softmax": {"tokens": CLOUD, "law": {"name": "softmax", "beta": 2}, "motion": LAYERS},
    "hardmax with ties": {"tokens": TIES, "law": HARD, "motion": LAYERS},
    "localmax": {"tokens": CLOUD, "law": {"name": "localmax", "delta": 0.8}, "motion": LAYERS},
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


# In data


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
    assert told["leaders_heard"] is None


@pytest.mark.parametrize("name", ["softmax", "hardmax with ties", "moving frame"])
def test_leaders_are_told_with_the_mean_of_their_columns(name: str) -> None:
    shown = state(name)
    found = overlays_of(shown.tokens, 1, shown, ["leaders"])
    columns = matrix(shown, shown.tokens, 1).sum(axis=0) / len(shown.tokens)
    assert found["leaders"]
    np.testing.assert_allclose(found["leaders_heard"], columns[found["leaders"]], rtol=0, atol=1e-12)


# On the page


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    with serving() as address, launch(viewport={"width": 1280, "height": 860}) as page:
        page.emulate_media(reduced_motion="reduce")
        page.goto(address)
        settled(page)
        yield page


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.mouse.move(2, 2)
    opened.evaluate("() => window.attnflow.stage.choose(-1)")
    yield opened
    assert not wrong


def point(page: Page, token: int) -> None:
    """Point at a token, and wait for what it hears."""
    place = page.evaluate("i => window.attnflow.stage.place(i)", token)
    page.mouse.move(place["x"], place["y"])
    heard(page, token)


def heard(page: Page, token: int) -> None:
    settled(page)
    page.wait_for_function(
        """i => {
            const {store, player, stage} = window.attnflow;
            return stage.looked() === i && store.row?.token === i && store.row.frame === player.frameIndex();
        }""",
        arg=token,
    )
    drawn(page)


def drawn(page: Page) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def seek(page: Page, frame: int) -> None:
    page.evaluate(
        "k => { const {player, store} = window.attnflow; player.pause(); player.seek(k); store.notify('player'); }",
        frame,
    )
    settled(page)


def frame(page: Page) -> tuple[float, Any]:
    """Return the time and the tokens of the frame shown."""
    t, flat, n = page.evaluate(
        "() => { const {player: p} = window.attnflow, k = p.frameIndex(); return [p.times[k], [...p.frame(k)], p.n]; }"
    )
    return t, np.array(flat).reshape(n, -1)


def part(page: Page, name: str) -> list[Any]:
    root = ElementTree.fromstring(page.evaluate("() => window.attnflow.stage.svg()"))
    return [one for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("class") == name for one in group]


def places(page: Page, count: int) -> Any:
    """Return where tokens are on the stage, in pixels."""
    return np.array(
        page.evaluate(
            """n => {
                const {stage} = window.attnflow, {left, top} = document.querySelector("#stage").getBoundingClientRect();
                return Array.from({length: n}, (_, i) => [stage.place(i).x - left, stage.place(i).y - top]);
            }""",
            count,
        )
    )


@pytest.mark.parametrize("name", STATES)
def test_pointing_at_a_token_draws_the_weights_of_the_law(page: Page, name: str) -> None:
    show(page, {"until": 6, **STATES[name]})
    seek(page, 2)
    token = 4
    point(page, token)
    t, x = frame(page)
    P = matrix(state(name), x, t)[token]
    row = page.evaluate("() => window.attnflow.store.row")
    np.testing.assert_allclose(unfolded(row, len(x)), P, rtol=0, atol=1e-12)
    # One line for each token that is heard, from this token to that one, the widest last; a loop for itself.
    lines, at = part(page, "attention"), places(page, len(x))
    assert len(lines) == (P > 0).sum()
    order = row["heard"][::-1]
    for j, line in zip(order, lines, strict=True):
        ends = np.array(re.findall(r"-?[\d.]+", line.get("d")), float).reshape(-1, 2)
        if j != token:
            np.testing.assert_allclose(ends, at[[token, j]], atol=0.02)
    widths = np.array([float(line.get("stroke-width")) for line in lines])
    np.testing.assert_allclose(widths, 0.6 + 11.4 * P[order], atol=0.006)
    # The tip of the arrow is at the mean.
    assert part(page, "mean")
    known = np.column_stack([x, np.ones(len(x))])
    affine, *_ = np.linalg.lstsq(known, at, rcond=None)
    tip = part(page, "mean")[-1]
    end = (
        np.array(re.findall(r"-?[\d.]+", tip.get("d")), float)[:2]
        if tip.get("d")
        else np.array([float(tip.get("cx")), float(tip.get("cy"))])
    )
    np.testing.assert_allclose(end, np.append(P @ x, 1.0) @ affine, atol=0.02)


def test_the_row_follows_the_time_and_the_token(page: Page) -> None:
    show(page, {"until": 6, **STATES["softmax"]})
    seek(page, 0)
    point(page, 4)
    for k in (1, 5):
        seek(page, k)
        heard(page, 4)
        t, x = frame(page)
        row = page.evaluate("() => window.attnflow.store.row")
        np.testing.assert_allclose(unfolded(row, 20), matrix(state("softmax"), x, t)[4], rtol=0, atol=1e-12)
    seek(page, 0)
    point(page, 7)
    # Away from all tokens nothing is drawn any more.
    page.mouse.move(2, 2)
    page.wait_for_function("() => window.attnflow.store.pointed === -1")
    drawn(page)
    assert part(page, "attention") == []
    # A token that is dragged is looked at while it moves.
    place = page.evaluate("() => window.attnflow.stage.place(7)")
    page.mouse.move(place["x"], place["y"])
    page.mouse.down()
    page.mouse.move(place["x"] + 40, place["y"] - 30, steps=4)
    page.wait_for_function(
        "() => { const {row, run, state} = window.attnflow.store;"
        "return Array.isArray(state.tokens) && row.token === 7 && row.run === run.id && run.state === state; }"
    )
    _, x = frame(page)
    row = page.evaluate("() => window.attnflow.store.row")
    np.testing.assert_allclose(unfolded(row, 20), matrix(state("softmax"), x, 0)[7], rtol=0, atol=1e-12)
    page.mouse.up()


def test_a_token_chosen_by_keys_says_whom_it_hears(page: Page) -> None:
    show(page, {"until": 6, **STATES["hardmax with ties"]})
    seek(page, 0)
    page.locator("#stage").focus()
    for _ in range(5):
        page.keyboard.press("Tab")
    heard(page, 4)
    assert "It hears token 0 and token 1 alike: 0.5 each." in page.evaluate("() => window.attnflow.stage.describe()")
    page.keyboard.press("Escape")
    drawn(page)
    assert part(page, "attention") == []


def test_rows_of_the_matrix_and_tokens_light_each_other(page: Page) -> None:
    show(page, {"until": 6, **STATES["softmax"]})
    seek(page, 1)
    page.evaluate("() => { document.querySelector('#attention-section').open = true; }")
    settled(page)
    canvas = page.locator("#attention")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    cell = (box["width"] - 2) / 20
    page.mouse.move(box["x"] + 5.5 * cell, box["y"] + 1 + 9.5 * cell)
    heard(page, 9)
    assert len(part(page, "attention")) == 20
    place = page.evaluate("() => window.attnflow.stage.place(4)")
    bright = """([x, y]) => {
        const canvas = document.querySelector("#attention"), s = canvas.width / canvas.clientWidth;
        return [...canvas.getContext("2d").getImageData(x * s, y * s, 1, 1).data];
    }"""
    page.mouse.move(place["x"], place["y"])
    heard(page, 4)
    lit = np.array([page.evaluate(bright, [1 + (j + 0.5) * cell, 1 + 4.5 * cell]) for j in range(20)])
    page.mouse.move(2, 2)
    page.wait_for_function("() => window.attnflow.store.pointed === -1")
    drawn(page)
    plain = np.array(
        [[page.evaluate(bright, [1 + (j + 0.5) * cell, 1 + (i + 0.5) * cell]) for j in range(20)] for i in (4, 9)]
    )
    # The row of the token is as it was, all others were veiled.
    np.testing.assert_array_equal(lit, plain[0])
    place = page.evaluate("() => window.attnflow.stage.place(9)")
    page.mouse.move(place["x"], place["y"])
    heard(page, 9)
    veiled = np.array([page.evaluate(bright, [1 + (j + 0.5) * cell, 1 + 4.5 * cell]) for j in range(20)])
    assert (veiled != plain[0]).any()
    page.evaluate("() => { document.querySelector('#attention-section').open = false; }")


def test_influences_are_drawn_above_the_threshold_of_the_slider_and_of_the_link(page: Page) -> None:
    show(page, {"until": 6, **STATES["softmax"]})
    seek(page, 1)
    page.locator("#show-influence").click()
    settled(page)
    t, x = frame(page)
    P = matrix(state("softmax"), x, t)
    np.fill_diagonal(P, 0.0)

    def count() -> int:
        settled(page)
        drawn(page)
        threshold = page.evaluate("() => window.attnflow.store.view.threshold")
        brute = int((threshold < P).sum())
        assert page.locator(".threshold output").inner_text().endswith(f": {brute} edges")
        assert len(part(page, "influence")) == brute
        return brute

    before = count()
    page.locator("#threshold").focus()
    page.keyboard.press("Home")
    assert count() > before > 0
    page.locator("#threshold").fill("0.7")
    assert 0 < count() < before
    given = page.evaluate(
        """async () => {
            const {encode, decode, screenOf} = await import("/page/link.js");
            const {store} = window.attnflow;
            return [(await decode(await encode(screenOf(store)))).view.threshold, store.view.threshold];
        }"""
    )
    assert given[0] == given[1] < 1
    page.locator("#show-influence").click()


def test_the_area_of_a_star_is_proportional_to_how_much_it_is_heard(page: Page) -> None:
    show(page, {"until": 6, **STATES["hardmax with ties"]})
    seek(page, 0)
    stars = part(page, "leaders")
    told = page.evaluate("() => window.attnflow.store.overlays")
    heights = []
    for star in stars:
        corners = np.array(re.findall(r"-?[\d.]+", star.get("d")), float).reshape(-1, 2)
        shifted = np.roll(corners, -1, axis=0)
        heights.append(abs((corners[:, 0] * shifted[:, 1] - corners[:, 1] * shifted[:, 0]).sum()) / 2)
    assert len(set(told["leaders_heard"])) > 1
    ratio = np.array(heights) / told["leaders_heard"]
    np.testing.assert_allclose(ratio, ratio[0], rtol=0.01)
