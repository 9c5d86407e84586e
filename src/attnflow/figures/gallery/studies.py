"""Parameter studies: figures that are made by `attnflow.sweep` and drawn by `figures.sweep`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np

import attnflow as af
from attnflow import figures
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.gallery.localmax import RECONSTRUCTED
from attnflow.figures.papers import FRANK_WOLFE, METASTABLE

# Tokens that move by less than this part of their extent per layer are at rest; there is no waiting beyond MOST_LAYERS.
REST, MOST_LAYERS = 1e-12, 2000
# Tokens at rest that are nearer to each other are one cluster.
TOGETHER = 1e-3


@entry("sphere/clusters", "How many clusters are on the circle", METASTABLE)
def clusters_on_the_circle(
    seed: int = 0, starts: int = 12, sizes: tuple[int, ...] = (4, 8, 16, 32, 64, 128), low: float = 1.0,
    high: float = 256.0, betas: int = 17, until: float = 100.0, tol: float = 0.05,
) -> Drawing:  # fmt: skip
    """Clusters at one time of the normalised flow over beta and n: where n is large, about beta^{1/2} of them."""
    run = {
        "tokens": {"cloud": "sphere", "n": sizes[-1], "d": 2},
        "law": {"name": "softmax"},
        "motion": {"name": "sphere-flow", "rtol": 1e-6},
        "until": until,
    }
    over = {
        "beta": {"from": low, "to": high, "count": betas, "scale": "log"},
        "n": sizes,
        "seed": range(seed, seed + starts),
    }
    found = af.sweep(run=run, measure=[{"name": "clusters", "tol": tol}], over=over, on="here")
    means = found.clusters.mean("seed")
    ratio = means / np.sqrt(means.beta)
    crowd, few = ratio.sel(n=sizes[-1])[betas // 4 :], ratio.sel(n=sizes[0])[-1]
    caption = (
        f"How many clusters n uniform tokens on the circle have formed at time {until:g} of the normalised flow: means "
        f"of {starts} starts, seeds {seed} to {seed + starts - 1}. Tokens are in one cluster if steps shorter than "
        f"{tol:g} join them. For n = {sizes[-1]} there are {float(crowd.min()):.2f} to {float(crowd.max()):.2f} times "
        f"beta^(1/2), from beta = {float(crowd.beta[0]):.3g} on. For few tokens the number is a fact about n, as at "
        f"the lower right: {float(few):.2f} beta^(1/2) for n = {sizes[0]}. It is a fact about this time as well: "
        "clusters go on to merge, more and more slowly, and at a later time there are fewer."
    )
    shows = {
        f"clusters / beta^(1/2), n = {sizes[-1]}": ratio.sel(n=sizes[-1]).values,
        f"clusters / beta^(1/2), n = {sizes[0]}": ratio.sel(n=sizes[0]).values,
    }
    return Drawing(figures.sweep(found), caption, shows)


@entry("long-times/exits-of-polygons", "Exit times of the chain over beta and the number of vertices", FRANK_WOLFE)
def exits_of_polygons(
    seed: int = 0, sides: tuple[int, ...] = (3, 4, 5, 6, 7, 8), betas: tuple[float, ...] = tuple(range(2, 41, 2)),
    runs: int = 1000, gamma: float = 0.1, radius: float = 0.05,
) -> Drawing:  # fmt: skip
    """Regular k-gons: the median of the first exit, which grows like e^{beta (1 - cos(2 pi / k))}."""
    cell = partial(first_exit, gamma=gamma, radius=radius, runs=runs)
    found = af.sweep(cell, over={"beta": betas, "k": sides}, seed=seed, on="here")
    found.first_exit.attrs["long_name"], found.k.attrs["long_name"] = "median first exit, steps", "vertices $k$"
    held, total = int(found.held.sum()), found.held.size
    # The limit of (1/beta) log T is approached from the side of large beta.
    late = found.first_exit[len(betas) // 2 :]
    slopes = np.polyfit(late.beta, np.log(late), 1)[0]
    theory = [1 - math.cos(2 * math.pi / k) for k in sides]
    caption = (
        f"The median first step at which a vertex of a regular k-gon is farther than {radius:g} from its place, in the "
        f"Markov chain of attention with gamma = {gamma:g}; {runs} chains for each beta and k, seed {seed}. Of the 95 "
        f"per cent intervals of these medians {held} of {total} hold the exact median. Times grow like "
        "e^(beta (1 - cos(2 pi / k))): fitted to the right half of the picture, the slopes of log time are "
        f"{_each(slopes)}, and those of theory {_each(theory)}. The law is one of large beta. In the upper left corner "
        "a vertex leaves within the first steps, and nothing grows yet."
    )
    shows = {"slopes": slopes, "theory": theory, "intervals that hold the exact median": f"{held} of {total}"}
    return Drawing(figures.sweep(found, "first_exit"), caption, shows)


def first_exit(
    beta: float, k: int, rng: np.random.Generator, gamma: float, radius: float, runs: int
) -> dict[str, float]:
    """Return the median first exit of chains from a regular k-gon, and whether its interval holds the exact median."""
    chains = int(rng.integers(2**32))
    found = af.measure.exit_times(af.tokens.polygon(k), af.Softmax(beta=beta), gamma, radius, runs=runs, seed=chains)
    if found.exact is None:
        raise af.InputError(f"no single pick leads farther than {radius:g} for k = {k}: give a smaller radius")
    low, high = found.interval
    return {"first_exit": float(found.median), "held": low <= found.exact.median <= high}


@entry("localmax/clusters", "How many clusters localmax leaves", RECONSTRUCTED)
def localmax_clusters(
    seed: int = 0, starts: int = 16, sizes: tuple[int, ...] = (20, 60, 180), low: float = 0.01, high: float = 10.0,
    deltas: int = 13, alpha: float = 0.5,
) -> Drawing:  # fmt: skip
    """Tokens hear all j with <x_i, x_j> >= max - delta: clusters at rest over delta, from hardmax to one mean."""
    over = {
        "delta": {"from": low, "to": high, "count": deltas, "scale": "log"},
        "n": sizes,
        "seed": range(seed, seed + starts),
    }
    found = af.sweep(partial(clusters_at_rest, alpha=alpha), over=over, on="here")
    found.clusters_at_rest.attrs["long_name"] = "clusters at rest"
    means = found.clusters_at_rest.mean("seed")
    several = [found.delta.values[means.sel(n=n).values > 1] for n in sizes]
    last = [float(left.max(initial=0.0)) for left in several]
    caption = (
        f"How many clusters n Gaussian tokens in the plane form under localmax layers with alpha = {alpha:g}, counted "
        "at rest. A token hears all whose score is within delta of its best one. Means of "
        f"{starts} starts, seeds {seed} to {seed + starts - 1}, with 95 per cent intervals. At delta = {low:g}, near "
        f"hardmax, there are {_each(means.isel(delta=0).values)} for n = {_each(sizes)}. One cluster is left of every "
        f"start at delta above {_each(last)}. The curves differ with n at both ends, so none of them is that of many "
        "tokens: these numbers are facts about clouds of these sizes."
    )
    shows = {"means at the smallest delta": means.isel(delta=0).values, "largest delta with several clusters": last}
    return Drawing(figures.sweep(found, lines="n"), caption, shows)


def clusters_at_rest(delta: float, n: int, seed: int, alpha: float) -> int:
    """Return the number of clusters of n Gaussian tokens in the plane when localmax layers have come to rest."""
    x0 = af.tokens.gaussian(n=n, d=2, seed=seed)
    still = af.watch.Converged(REST)
    run = af.simulate(x0, af.Localmax(delta=delta), af.Layers(alpha=alpha), until=MOST_LAYERS, watch=[still])
    if run.times[-1] == MOST_LAYERS:
        raise af.InputError(f"tokens still move after {MOST_LAYERS} layers: their clusters are not counted")
    return af.measure.clusters(run.final, tol=TOGETHER).count


def _each(values: Iterable[float]) -> str:
    """Return numbers in a row.

    >>> _each([20, 0.5, 1 / 3])
    '20, 0.5, 0.333'
    """
    return ", ".join(f"{value:.3g}" for value in values)
