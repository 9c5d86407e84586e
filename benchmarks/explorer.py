"""The explorer with many tokens, in Chromium without a graphics card: how soon it shows them, and how smoothly.

For each number of tokens: the seconds from choosing the cloud to its first picture, the seconds until the whole run is
there, and how many pictures a second are drawn while the run plays, counted by `requestAnimationFrame`. Layers of
softmax attention in the plane; the kernels are compiled before. Run it on a machine that does nothing else:

    python benchmarks/explorer.py
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "tests" / "explorer"))

from browser import end, launch, serving

NUMBERS = (800, 5_000, 20_000, 200_000)
OPEN = """(n) => attnflow.store.open({ state: {
    tokens: { cloud: 'gaussian', n, d: 2, seed: 1 }, law: { name: 'softmax', beta: 4, B: null },
    motion: { name: 'layers', gamma: 0.1 }, until: 60, seed: 0, clock: 'linear' } })"""
# The run is there, and two pictures have been drawn since.
SHOWN = """(n) => new Promise((done) => {
    const look = () => (attnflow.store.run?.n === n ? requestAnimationFrame(() => requestAnimationFrame(done))
                                                    : requestAnimationFrame(look));
    look(); })"""
PLAYED = """() => new Promise((done) => {
    const { player, store } = attnflow;
    player.pause(); player.seek(0); player.play(); store.notify('player');
    const times = [];
    const look = (now) => { times.push(now);
        if (player.playing && times.length < 400) requestAnimationFrame(look); else done(times); };
    requestAnimationFrame(look); })"""


def measured(page: Any, n: int) -> tuple[float, float, float, float]:
    """Return the seconds to the first picture and to the whole run, pictures a second, and the longest pause in ms."""
    began = time.perf_counter()
    page.evaluate(OPEN, n)
    page.evaluate(SHOWN, n)
    first = time.perf_counter() - began
    page.wait_for_function("() => attnflow.requests.idle()")
    whole = time.perf_counter() - began
    times = page.evaluate(PLAYED)
    pauses = [after - before for before, after in pairwise(times)]
    return first, whole, 1000 * len(pauses) / sum(pauses), max(pauses)


def main() -> None:
    """Print a table."""
    with serving() as address, launch(viewport={"width": 1280, "height": 800}) as page:
        page.goto(address)
        page.wait_for_function("() => window.attnflow?.requests.idle()")
        for n in NUMBERS:
            measured(page, n)
        print("tokens  first picture  whole run  pictures a second  longest pause")
        for n in NUMBERS:
            page.evaluate(OPEN, 24)
            page.wait_for_function("() => attnflow.requests.idle()")
            first, whole, rate, pause = measured(page, n)
            print(f"{n:7,}  {first:11.2f} s  {whole:7.1f} s  {rate:17.0f}  {pause:10.0f} ms", flush=True)
    end()


if __name__ == "__main__":
    main()
