"""Runs side by side, on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import InputError
from attnflow.figures.marks import key, scale
from attnflow.figures.plot import draw, spaced
from attnflow.figures.scene import Scene, history, projection, scene
from attnflow.figures.stage import panel
from attnflow.figures.style import found_by, look, sheet, typeset
from attnflow.runs.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3


def compare(runs: Mapping[str, Trajectory] | Sequence[Trajectory]) -> Figure:
    """Draw several runs of one cloud side by side on one scale, each under its name and over what happened to it.

    Runs come in a dictionary by name, or in a list: then each has the name of its law, and of its motion where laws
    agree. Each panel is drawn as by `plot`. Clusters of different runs that share their tokens share their colour.

    >>> import attnflow as af
    >>> x0 = af.tokens.gaussian(n=40, d=2, seed=0)
    >>> laws = {"softmax": af.Softmax(beta=9.0), "hardmax": af.Hardmax()}
    >>> figure = compare({name: af.simulate(x0, law, af.Layers(alpha=0.5), until=50) for name, law in laws.items()})
    >>> [ax.get_title() for ax in figure.axes]
    ['softmax', 'hardmax']
    >>> figure = compare([af.simulate(x0, law, af.Layers(alpha=0.5), until=50) for law in laws.values()])
    >>> [ax.get_title() for ax in figure.axes]
    ['Softmax, $\\\\beta = 9$', 'Hardmax']
    """
    runs = _named(runs)
    with look():
        scenes = _scenes(runs)
        columns = min(len(runs), COLUMNS)
        rows = -(-len(runs) // columns)
        figure = sheet(10 / 3 * columns, 52 / 15 * rows)
        grid = figure.add_gridspec(rows, columns)
        for k, (name, shown) in enumerate(zip(runs, scenes, strict=True)):
            ax = panel(figure, grid[k // columns, k % columns], shown)
            draw(ax, shown)
            spaced(ax.set_title(name))
            _caption(ax, shown)
            if k % columns and shown.dimension != 3:
                # The panel on the left has the vertical scale.
                ax.set_ylabel("")
                ax.tick_params(left=False, labelleft=False)
                ax.spines["left"].set_visible(False)
        scale(figure)
        key(figure)
    return figure


def _caption(ax: Any, shown: Scene) -> None:
    """Say what happened under a panel; in the plane and in space coordinates need no names."""
    if shown.dimension in (2, 3):
        for name in "xyz"[: shown.dimension]:
            getattr(ax, f"set_{name}label")("")
        if shown.dimension == 3:
            ax.text2D(0.5, -0.09, str(shown.groups), transform=ax.transAxes, ha="center", va="top")
        else:
            ax.set_xlabel(str(shown.groups), labelpad=3)
    else:
        ax.set_xlabel(f"{ax.get_xlabel()}\n{shown.groups}")


def _named(runs: Mapping[str, Trajectory] | Sequence[Trajectory]) -> Mapping[str, Trajectory]:
    """Return runs by name; those that cannot be compared are refused."""
    wanted = "give a list of runs, or a dictionary such as {'softmax': run}"
    if not isinstance(runs, Mapping | list | tuple):
        raise InputError(f"runs is of type {type(runs).__name__}, expected several: {wanted}")
    given = list(runs.values() if isinstance(runs, Mapping) else runs)
    if not given:
        raise InputError(f"no runs were given: {wanted}")
    for run in given:
        found_by("simulate", run, Trajectory)
    dimensions = {run.tokens.shape[-1] for run in given}
    if len(dimensions) > 1:
        raise InputError(f"the runs have tokens in dimensions {sorted(dimensions)}: compare runs of one cloud")
    return runs if isinstance(runs, Mapping) else dict(zip(_names(given), given, strict=True))


def _names(runs: Sequence[Trajectory]) -> list[str]:
    """Return a different name for each run: its law, its motion too where laws agree, its number where both do."""
    names = [typeset(run.law) if run.law is not None else f"run {k}" for k, run in enumerate(runs, start=1)]
    if len(set(names)) < len(names):
        moved = [typeset(run.motion) if run.motion is not None else "" for run in runs]
        names = [f"{name}\n{motion}".strip() for name, motion in zip(names, moved, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{k}: {name}" for k, name in enumerate(names, start=1)]
    return names


def _scenes(runs: Mapping[str, Trajectory]) -> list[Scene]:
    """Return one scene per run, seen from one side and with one choice of colours."""
    pasts = [history(run) for run in runs.values()]
    onto = projection([states for _, states in pasts])
    scenes = [scene(run, *past, onto=onto) for run, past in zip(runs.values(), pasts, strict=True)]
    last = max(shown.clock.last for shown in scenes)
    everything = np.concatenate([shown.extent for shown in scenes])
    window = np.stack([everything.min(axis=0), everything.max(axis=0)])
    first, alike = scenes[0], []
    for shown in scenes:
        same = shown.paths.shape[1] == first.paths.shape[1]
        groups = shown.groups.matched(first.groups) if same else shown.groups
        alike.append(replace(shown, groups=groups, clock=replace(shown.clock, last=last), window=window))
    return alike
