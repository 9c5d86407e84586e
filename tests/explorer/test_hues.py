"""Hues in Chromium: a token keeps its own while others are dragged, added and removed, and under other laws."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from larger import details, larger
from modules import importing
from test_stage import SETUP, drag, parts, places

from attnflow.explorer.overlays import overlays_of
from attnflow.explorer.state import read
from attnflow.figures.style import LIGHT, shades

pytestmark = details

Page = Any
SHOW = dict.fromkeys(("cells", "hull", "leaders"), True)
ANSWER = """async ([tokens, overlays]) => {
    const [n, d, id] = [tokens.length, tokens[0].length, ++window.id];
    player.clear(id, n, d);
    player.append({ id, first: 0, count: 1, times: [0] }, Float64Array.from(tokens.flat()));
    player.done = true;
    store.put('run', { id, n, d, tokens, state: store.state, discrete: true, until: 1 });
    store.put('overlays', { run: id, frame: 0, ...overlays });
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
BLACK = {k for k in range(len(shades(LIGHT))) if k % len(LIGHT.palette) == len(LIGHT.palette) - 1}


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    with importing() as page:
        page.emulate_media(reduced_motion="reduce")
        page.evaluate(SETUP, {"layers": "space"})
        yield page


def begin(page: Page, tokens: Any) -> None:
    """Open another screen, and answer for it."""
    state = {"tokens": np.asarray(tokens).tolist(), "law": {"name": "softmax", "beta": "inf"}}
    page.evaluate("([state, show]) => store.open({ state, view: { show } })", [state, SHOW])
    answer(page)


def answer(page: Page, B: Any = None) -> dict[int, tuple[int, ...]]:
    """Answer as the server would, and return the colour of the cell of each token that has one."""
    tokens = page.evaluate("store.state.tokens")
    law = {"name": "softmax", "beta": "inf", "B": B}
    state = read({"tokens": tokens, "law": law, "motion": {"name": "layers", "gamma": 0.5}, "until": 9})
    overlays = overlays_of(state.tokens, 0, state, ["hull", "cells", "leaders"])
    page.evaluate(ANSWER, [tokens, overlays])
    # Cells that rounding leaves no room are not drawn.
    vertices = [cell["vertex"] for cell in overlays["cells"] if len(cell["polygon"]) > 2]
    fills = [path.get("fill", "") for path in parts(page)["cells"]]
    return {i: tuple(map(int, re.findall(r"\d+", fill)[:3])) for i, fill in zip(vertices, fills, strict=True)}


def stays(page: Page, drags: int) -> None:
    """Drag tokens at random: no token that has had a cell ever has one of another colour."""
    rng = np.random.default_rng(drags)
    begin(page, rng.standard_normal((14, 2)))
    hue = answer(page)
    seen = 0
    for _ in range(drags):
        i = int(rng.integers(14))
        where = np.array([440, 280]) + rng.uniform(-1, 1, 2) * [300, 200]
        drag(page, i, *(where - places(page)[i]))
        now = answer(page)
        assert now == now | {token: colour for token, colour in hue.items() if token in now}
        seen += len(now)
        hue |= now
    assert seen > 3 * drags
    assert len(hue) > 6
    black = [tuple(int(shades(LIGHT)[k][c : c + 2], 16) for c in (1, 3, 5)) for k in BLACK]
    assert not set(black) & set(hue.values())


def test_a_token_keeps_its_hue_while_others_are_dragged(opened: Page) -> None:
    stays(opened, 10)


@larger
def test_a_token_keeps_its_hue_through_two_hundred_drags(opened: Page) -> None:
    stays(opened, 200)


def test_hues_stay_when_tokens_come_and_go_and_under_another_law(opened: Page) -> None:
    page = opened
    begin(page, np.random.default_rng(8).standard_normal((12, 2)))
    first = answer(page)
    assert len(set(first.values())) == len(first) > 5
    # Another law gives other cells to the same vertices.
    turned = answer(page, [[0.0, -1.0], [1.0, 0.0]])
    assert turned == {i: first[i] for i in turned}
    # A token in the middle is removed: the numbers of those after it are one less, their colours stay, also before
    # the answer comes.
    i = min(set(range(12)) - set(first))
    page.evaluate("(i) => { canvas.focus(); stage.choose(i); }", i)
    discs = [disc.get("fill") for disc in parts(page)["tokens"]]
    page.keyboard.press("Delete")
    assert [disc.get("fill") for disc in parts(page)["tokens"]] == discs[:i] + discs[i + 1 :]
    fewer = answer(page)
    assert fewer == {j - (j > i): colour for j, colour in first.items()}
    # A vertex is removed and comes back.
    vertex = next(iter(fewer))
    page.evaluate("(i) => stage.choose(i)", vertex)
    page.keyboard.press("Delete")
    without = answer(page)
    assert {j + (j >= vertex): colour for j, colour in without.items()}.items() >= {
        j: colour for j, colour in fewer.items() if j != vertex
    }.items()
    page.evaluate("store.undo()")
    assert answer(page) == fewer
    # One far away is a new vertex: the others that are left keep theirs, and it has none of its neighbours.
    page.mouse.dblclick(60, 50)
    more = answer(page)
    assert 11 in more
    assert all(more[j] == colour for j, colour in fewer.items() if j in more)
    assert list(more.values()).count(more[11]) == 1


def test_another_screen_starts_anew_in_the_same_way(opened: Page) -> None:
    page = opened
    x = np.random.default_rng(1).standard_normal((15, 2))
    begin(page, x)
    first = answer(page)
    drag(page, 2, 200, 100)
    assert answer(page)
    begin(page, x[::-1])
    begin(page, x)
    assert answer(page) == first


def test_new_groups_take_the_rarest_hue_and_none_of_their_neighbours(opened: Page) -> None:
    """Follow groups that come and go at random."""
    rng = np.random.default_rng(2)
    rounds = [sorted(rng.choice(40, size=rng.integers(2, 12), replace=False).tolist()) for _ in range(60)]
    ask = """async (rounds) => { const { createHues } = await import('/page/hues.js'); const hues = createHues();
        return rounds.map((groups) => hues.labelled(groups, true)); }"""
    found = opened.evaluate(ask, rounds)
    known: dict[int, int] = {}
    hues = len(LIGHT.palette)
    for groups, labels in zip(rounds, found, strict=True):
        old = [known.get(group) for group in groups]
        assert all(label == before for label, before in zip(labels, old, strict=True) if before is not None)
        uses = np.bincount([label % hues for label in labels], minlength=hues)
        for k, (label, before) in enumerate(zip(labels, old, strict=True)):
            if before is None:
                beside = {labels[k - 1] % hues, labels[(k + 1) % len(labels)] % hues} if len(labels) > 1 else set()
                # With twelve groups at most and six hues, one is always free of the neighbours.
                assert label % hues not in beside
                rarest = min(uses[hue] for hue in range(hues - 1) if hue not in beside)
                assert uses[label % hues] <= max(rarest + 1, 1)
        known.update(zip(groups, labels, strict=True))
    assert not set(known.values()) & BLACK
    assert len(set(known.values())) == len(shades(LIGHT)) - len(BLACK)
