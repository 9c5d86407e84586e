"""Figures of the gallery to files: pictures, captions, movies."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from threadpoolctl import threadpool_limits

from attnflow.core import progress
from attnflow.core.inputs import InputError, one_of
from attnflow.core.installed import import_again
from attnflow.figures.gallery import Entry, named
from attnflow.figures.groups import counted
from attnflow.figures.saving import save
from attnflow.figures.style import look, pyplot

PICTURES = ("svg", "png", "pdf")
MOVIES = ("mp4", "gif")
# Seconds of a movie.
SECONDS = 6.0


@dataclass(frozen=True)
class Style:
    """How figures are written: dark paper, type by LaTeX, another seed than their own, and in which formats."""

    dark: bool = False
    latex: bool = False
    seed: int | None = None
    formats: tuple[str, ...] = (*PICTURES, *MOVIES)

    @property
    def options(self) -> list[str]:
        """The options of the command line that change what a picture looks like, seeds apart.

        >>> Style(dark=True).options
        ['--dark']
        """
        return [f"--{name}" for name, chosen in (("dark", self.dark), ("latex", self.latex)) if chosen]


def formats(asked: str | None) -> tuple[str, ...]:
    """Return the formats that were asked for.

    >>> formats("png,svg"), formats(None)
    (('png', 'svg'), ('svg', 'png', 'pdf', 'mp4', 'gif'))
    """
    known = (*PICTURES, *MOVIES)
    return known if asked is None else tuple(one_of(name.strip(), known, "format") for name in asked.split(","))


def folder(path: Path) -> Path:
    """Return a folder to write to; it is made if it is not there."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{str(path)!r} is a file, expected a folder: give another path with -o")
    path.mkdir(parents=True, exist_ok=True)
    return path


def write(figure: Entry, folder: Path, style: Style) -> list[str]:
    """Write one figure: its picture in every format, its caption as text, its movie if it has one; return the files.

    Nothing is written, not even the caption, if only movies are asked for and the figure does not move.
    """
    if style.seed is not None:
        figure = figure.seeded(style.seed)
    # Products of large matrices round differently on another number of threads, and a picture may show it.
    with look(dark=style.dark, latex=style.latex), threadpool_limits(limits=1, user_api="blas"), _closed():
        drawing = figure.draw()
        pictures = [ending for ending in PICTURES if ending in style.formats]
        movies = [ending for ending in MOVIES if ending in style.formats and drawing.film is not None]
        if not pictures and not movies:
            return []
        for ending in pictures:
            save(drawing.figure, folder / f"{figure.stem}.{ending}")
        (folder / f"{figure.stem}.txt").write_text(figure.caption(drawing, style.options), encoding="utf-8")
        for ending in movies:
            assert drawing.film is not None
            drawing.film.animate(folder / f"{figure.stem}.{ending}", seconds=SECONDS, behind=drawing.behind)
    return [f"{figure.stem}.{ending}" for ending in (*pictures, "txt", *movies)]


@contextmanager
def _closed() -> Iterator[None]:
    """Close the figures that a block opens: the picture, and what a function of another package left open beside it."""
    plt = pyplot()
    before = set(plt.get_fignums())
    try:
        yield
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def told(names: Sequence[str], folder: Path, style: Style) -> Iterator[str]:
    """Write many figures; yield a line about each that has files, and in the end one that counts them."""
    begin, skipped = time.perf_counter(), 0
    for count, (name, files) in enumerate(write_all(names, folder, style), start=1):
        if files:
            yield f"{count}/{len(names)}  {name}: {', '.join(files)}"
        else:
            skipped += 1
    if len(names) > 1:
        still = f"; {skipped} skipped, which {'does' if skipped == 1 else 'do'} not move" if skipped else ""
        yield f"{counted(len(names) - skipped, 'figure')} in {folder} in {time.perf_counter() - begin:.0f} s{still}"


def write_all(names: Sequence[str], folder: Path, style: Style) -> Iterator[tuple[str, list[str]]]:
    """Write many figures on all cores; yield each name with its files, in the order in which they are done.

    A seed is for those that have something random; one figure alone that has not refuses it. Where only movies are
    asked for, a figure that does not move has no files; if that is so for every figure, this is refused.
    """
    moved = False
    for name, files in _each(names, folder, style):
        moved = moved or bool(files)
        yield name, files
    if not moved:
        still = f"the figure {names[0]} does not move" if len(names) == 1 else f"of {len(names)} figures none moves"
        raise InputError(f"{still}, and a movie is all that was asked for: ask for svg, png or pdf")


def _each(names: Sequence[str], folder: Path, style: Style) -> Iterator[tuple[str, list[str]]]:
    """Yield each figure with its files, written by this process if it is one alone, else by many."""
    if len(names) == 1:
        with progress.task(f"figure {names[0]}") as work:
            work.reach(None)
            written = write(named(names[0]), folder, style)
        yield names[0], written
        return
    styles = {name: style if "seed" in named(name).parameters else replace(style, seed=None) for name in names}
    owners = {name: named(name).function.__module__ for name in names}
    here = [name for name in names if owners[name] == "__main__"]  # which other processes may not import
    there = [name for name in names if name not in here]
    # Spawned, not forked: threads of compiled sums do not survive a fork.
    cores, modules = max(1, min(len(there), os.cpu_count() or 1)), {owners[name] for name in there}
    with ProcessPoolExecutor(cores, get_context("spawn"), import_again, (modules,)) as pool:
        tasks = {pool.submit(_write_named, name, folder, styles[name]): name for name in there}
        yield from ((name, write(named(name), folder, styles[name])) for name in here)
        waiting = set(tasks)
        try:
            while waiting:
                with progress.task("figures", len(tasks)) as work:
                    while not (found := wait(waiting, progress.AGAIN, FIRST_COMPLETED)).done:
                        work.reach(len(tasks) - len(waiting))
                waiting = found.not_done
                for task in found.done:
                    yield tasks[task], task.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _write_named(name: str, folder: Path, style: Style) -> list[str]:
    # Many processes share one terminal, and the one that waits for them says how far they are.
    progress.show(False)
    return write(named(name), folder, style)
