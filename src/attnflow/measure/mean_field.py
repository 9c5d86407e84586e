"""The mean-field limit: how fast the system of n tokens approaches that of very many.

Tokens that are drawn independently from one law mu(0) and move by attention stay close, as a measure mu_n(t), to the
solution mu(t) of the continuity equation: W_2(mu_n(t), mu(t)) <= e^{int C} W_2(mu_n(0), mu(0)), the claim
`emergence/mean-field`. So the rate in n is that of sampling, at any fixed time; only the constant changes, but it may
change much. Once attention has all but emptied the space between clusters, few tokens see a gap there.

In the plane even the constant is known. The field that n tokens make differs from that of mu by a smooth function of
size n^{-1/2}, so mu_n(t) is within O(n^{-1/2}) of n independent samples of mu(t), and for these
E W_2^2 ~ |supp mu(t)| log(n) / (4 pi n), whatever the density, if it is positive on a connected support: the factor
log n, from clumps of all scales, outweighs what attention adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core import progress
from attnflow.core.inputs import Array, InputError, cloud, number, reals, whole
from attnflow.laws import Law, check_law
from attnflow.measure.confidence import pooled_freedom, student
from attnflow.measure.transport import MOST_PAIRS, quantise
from attnflow.motions import Motion, check_motion
from attnflow.runs.simulate import simulate

# The cells of the reference for each token that is compared with it, and the least number of them.
ATOMS, LEAST_ATOMS = 4, 1024

Sampler = Callable[..., ArrayLike]


def sampling_rate(n: ArrayLike, d: int, *, gap: bool = False) -> Array:
    """Return how the W_2 distance of n independent samples to their law in dimension d depends on n, up to a factor.

    For a law with bounded support and a density bounded below on it: n^{-1/2} for d = 1, (log(n)/n)^{1/2} for d = 2,
    n^{-1/d} for d >= 3. If the support has a gap, so that two parts of it are at a distance, the numbers of samples in
    the parts are off by n^{1/2}, which must cross the gap: W_2^2 is of order n^{-1/2}, and the rate no faster than
    n^{-1/4}. Laws with tails are slower: for Gaussians in the plane it is log(n)/n^{1/2}.

    >>> sampling_rate([100, 10_000], d=1)
    array([0.1 , 0.01])
    >>> sampling_rate([16, 256], d=3, gap=True)
    array([0.5 , 0.25])

    References
    ----------
    Bobkov, Ledoux, *One-dimensional empirical measures, order statistics, and Kantorovich transport distances*
    (Memoirs AMS 2019); Ajtai, Komlos, Tusnady, *On optimal matchings* (Combinatorica 1984) for d = 2; Fournier,
    Guillin, *On the rate of convergence in Wasserstein distance of the empirical measure* (PTRF 2015).
    """
    sizes, dimension = reals(n, "n are", "numbers of samples"), whole(d, "d", least=1)
    if not (sizes > 1).all():
        raise InputError(f"n is {sizes.min():g}, expected two or more samples")
    rate = np.sqrt(np.log(sizes) / sizes) if dimension == 2 else sizes ** (-1 / max(dimension, 2))
    return np.maximum(rate, sizes**-0.25) if gap else rate


@dataclass(frozen=True)
class SizeRate:
    """How W_2 depends on n at one time.

    Attributes
    ----------
    exponent, error
        The slope of log W_2 against log n, by least squares over all sizes, and the half-width of its interval: 95 per
        cent confidence for the noise of sampling, by Student's t with Welch's degrees of freedom, plus what the
        brackets leave open.
    predicted
        The slope of the predicted rate, by the same fit; in d = 2 it is locally -1/2 + 1/(2 log n).
    gap
        Whether that is the prediction for a support with a gap.
    reference_error
        An estimate of how far the reference itself is from the limit: the largest size, and from there the predicted
        rate.
    constant, constant_error
        In the plane without a gap, c of n W_2^2 = c log n + c', likewise; otherwise None, as all that follows.
    predicted_constant
        |support| / (4 pi), the support being the convex hull of the reference.
    offset
        c' when c is the predicted one. No theory has it in closed form, and it is several times c.
    corrected
        The slope of ((c log n + c') / n)^{1/2} with these c and c', by the same fit: `predicted` neglects
        c', as one may only where log n is large beside c'/c.
    """

    time: float
    exponent: float
    error: float
    predicted: float
    gap: bool
    reference_error: float
    constant: float | None = None
    constant_error: float | None = None
    predicted_constant: float | None = None
    offset: float | None = None
    corrected: float | None = None


@dataclass(frozen=True)
class MeanFieldDistances:
    """What `mean_field` found.

    Attributes
    ----------
    times, sizes
        When, (T,), and how many tokens, (S,).
    low, high
        Bounds of the W_2 distance between n tokens and the reference, for each time, size and run: (T, S, r).
    reference
        The many tokens at each time, (T, N, d).
    dimension
        That of the space the tokens live in: d, or d - 1 on a sphere.
    """

    times: NDArray[Any]
    sizes: NDArray[np.int64]
    low: Array = field(repr=False)
    high: Array = field(repr=False)
    reference: Array = field(repr=False)
    dimension: int

    @property
    def distance(self) -> Array:
        """The means of W_2 over the runs, (T, S): of the middles of the brackets."""
        return np.asarray((self.low + self.high).mean(axis=2) / 2)

    @property
    def standard_error(self) -> Array:
        """The standard errors of these means, (T, S): the noise of sampling."""
        return _standard_error((self.low + self.high) / 2)

    @property
    def half_width(self) -> Array:
        """Half the mean widths of the brackets, (T, S): what the quantisation of the reference leaves open."""
        return np.asarray((self.high - self.low).mean(axis=2) / 2)

    def rates(self, *, gap: bool | Sequence[bool] = False) -> list[SizeRate]:
        """Return the fitted and the predicted rate at each time.

        `gap`, one for all times or one for each, predicts for a support in several parts. Where hardly a token is left
        between clusters, the support has a gap to all sizes that are much smaller than the inverse of that share.
        """
        gaps = np.asarray(gap)
        if gaps.dtype != bool or gaps.shape not in ((), self.times.shape):
            raise InputError(f"gap is {gap!r}, expected True or False, or one of these for each of the times")
        return [self._rate(k, bool(g)) for k, g in enumerate(np.broadcast_to(gaps, self.times.shape))]

    def _rate(self, k: int, gap: bool) -> SizeRate:
        log_n, W = np.log(self.sizes), self.distance[k]
        if not W.all():
            raise InputError(f"at t = {self.times[k]:g} all tokens are at one point: measure the rate before that")
        slope, error = self._line(np.log(W), self.standard_error[k] / W, self.half_width[k] / W)
        shape = sampling_rate([*self.sizes, self.reference.shape[1]], self.dimension, gap=gap)
        predicted = float(_slope_weights(log_n) @ np.log(shape[:-1]))
        beyond = float(W[-1] * shape[-1] / shape[-2])
        found = SizeRate(float(self.times[k]), slope, error, predicted, gap, beyond)
        if self.dimension != 2 or self.reference.shape[2] != 2 or gap:
            return found
        area = _area(self.reference[k])
        if area == 0:
            return found
        squares = [self.sizes[:, None] * end[k] ** 2 for end in (self.low, self.high)]
        middle, half = (squares[0] + squares[1]) / 2, (squares[1] - squares[0]).mean(axis=1) / 2
        constant, constant_error = self._line(middle.mean(axis=1), _standard_error(middle), half)
        c = area / (4 * math.pi)
        offset = float(middle.mean() - c * log_n.mean())
        corrected = float(_slope_weights(log_n) @ np.log((c * log_n + offset) / self.sizes)) / 2
        known: dict[str, Any] = {"constant": constant, "constant_error": constant_error, "predicted_constant": c}
        return replace(found, **known, offset=offset, corrected=corrected)

    def _line(self, values: Array, noise: Array, half: Array) -> tuple[float, float]:
        """Return the slope of values (S,) against log n, and its error: from their standard errors and half-widths."""
        c = _slope_weights(np.log(self.sizes))
        # The noise differs from size to size, and the ends weigh more than the middle.
        freedom = pooled_freedom((c * noise) ** 2, self.low.shape[2] - 1)
        spread = student(freedom) * float(np.linalg.norm(c * noise))
        return float(c @ values), spread + float(np.abs(c) @ half)

    def __str__(self) -> str:
        head = f"{'n':>8} |" + "".join(f"{f't = {t:g}':>28} |" for t in self.times.tolist())
        lines = [f"W_2 to {self.reference.shape[1]} tokens, mean of {self.low.shape[2]} runs", head]
        W, noise, half = self.distance, self.standard_error, self.half_width
        for s, n in enumerate(self.sizes.tolist()):
            cells = [f"{W[k, s]:.5f} ± {noise[k, s]:.5f} ± {half[k, s]:.5f}" for k in range(len(self.times))]
            lines.append(f"{n:8d} |" + "".join(f"{cell:>28} |" for cell in cells))
        for rate in self.rates() if self.distance.all() else []:
            said = f"t = {rate.time:g}: slope {rate.exponent:.3f} ± {rate.error:.3f}, predicted {rate.predicted:.3f}"
            if rate.constant is not None:
                said += f" ({rate.corrected:.3f} with the offset {rate.offset:.3f}); c = {rate.constant:.4f} ± "
                said += f"{rate.constant_error:.4f}, predicted {rate.predicted_constant:.4f}"
            lines.append(said)
        lines.append("the first ± is the noise of sampling (standard error), the second what the brackets leave open")
        return "\n".join(lines)


def mean_field(
    sampler: Sampler,
    law: Law,
    motion: Motion,
    times: Sequence[float],
    *,
    sizes: Sequence[int] = (32, 64, 128, 256, 512, 1024, 2048),
    reference: int = 10**6,
    runs: int = 8,
    seed: int = 0,
) -> MeanFieldDistances:
    """Measure how far systems of n tokens are from one of a million, in W_2, at some times, with the predicted rate.

    ``sampler(n=n, seed=seed)`` draws n independent tokens of the initial law: ``functools.partial(af.tokens.uniform,
    d=2)``. The reference moves once; for each size `runs` other clouds are drawn and move by themselves, under the same
    law and motion. On the line distances are exact. Otherwise the reference is summed up by 4 n atoms, and each
    distance is known up to a bracket of about three per cent, see `Quantisation.bracket`; that needs POT. A time of 0
    is the start, before attention.

    Print the result for a table; `rates` fits and predicts; `figures.mean_field` draws it. Flows have a tolerance:
    ``rtol=1e-6`` is far below any of these distances, and ten times as fast as the default.

    >>> import attnflow as af
    >>> from functools import partial
    >>> found = mean_field(
    ...     partial(af.tokens.uniform, d=1), af.Softmax(), af.RescaledFlow(rtol=1e-6), [0, 1], sizes=[16, 64, 256],
    ...     reference=4096, runs=16,
    ... )
    >>> start, later = found.rates()
    >>> abs(start.exponent - start.predicted) < start.error, abs(later.exponent - later.predicted) < later.error
    (True, True)

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), for the limit. Ambrosio, Stra, Trevisan, *A PDE approach to a 2-dimensional matching problem*
    (PTRF 2019), and Ambrosio, Goldman, Trevisan, *On the quadratic random matching problem in two-dimensional domains*
    (EJP 2022), for the constant 1/(4 pi). That it holds along the motion is derived here.
    """
    when, counts = _times(times), _sizes(sizes)
    repeats, many = whole(runs, "runs", least=2), whole(reference, "reference", least=2)
    if many < counts[-1]:
        raise InputError(f"the reference has {many} tokens, expected at least as many as the largest size {counts[-1]}")
    check_law(law)
    check_motion(motion)
    if motion.random:
        raise InputError(f"{type(motion).__name__} moves tokens at random: the mean-field limit needs Layers or a flow")
    seeds = np.random.SeedSequence(whole(seed, "seed", least=0)).generate_state(1 + len(counts) * repeats)
    first, others = int(seeds[0]), seeds[1:].reshape(len(counts), repeats).tolist()
    with progress.task("mean_field", 1 + 2 * len(counts) * repeats) as work:
        work.reach(0, f"moving {many} tokens")
        limit = _states(_drawn(sampler, many, first), law, motion, when)
        low, high = _brackets(sampler, limit, law, motion, when, counts, others, work)
    d = limit.shape[2]
    inside = max(1, d - 1) if motion.surface == "sphere" else d
    return MeanFieldDistances(np.array(when), np.array(counts), low, high, limit, inside)


def _brackets(
    sampler: Sampler,
    limit: Array,
    law: Law,
    motion: Motion,
    when: list[float],
    counts: list[int],
    seeds: list[list[int]],
    work: progress.Task,
) -> Array:
    """Return bounds (2, T, S, r) of the distances of small clouds, drawn from these seeds (S, r), to the limit."""
    d, repeats = limit.shape[2], len(seeds[0])
    if d > 1 and ATOMS * counts[-1] ** 2 > MOST_PAIRS:
        most = math.isqrt(MOST_PAIRS // ATOMS)
        raise InputError(f"the largest size is {counts[-1]}, but plans are exact up to {most} tokens: give fewer")
    ends = np.empty((2, len(when), len(counts), repeats))
    for s, n in enumerate(counts):
        clouds = []
        for r, one in enumerate(seeds[s]):
            work.reach(1 + 2 * repeats * s + r, f"moving {n} tokens, run {r + 1} of {repeats}")
            clouds.append(_states(_drawn(sampler, n, one, d), law, motion, when))
        for k in range(len(when)):
            few = quantise(limit[k], max(ATOMS * n, LEAST_ATOMS) if d > 1 else 1)
            for r in range(repeats):
                done = 1 + 2 * repeats * s + repeats + (k * repeats + r) / len(when)
                work.reach(done, f"distances of {n} tokens at t = {when[k]:g}", part=0.0)
                ends[:, k, s, r] = few.bracket(clouds[r][k])
    return ends


def _area(x: Array) -> float:
    """Return the area of the hull of a cloud in the plane, 0 for one on a line."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return float(ConvexHull(x).volume)
    except QhullError:
        return 0.0


def _times(times: Sequence[float]) -> list[float]:
    given = reals(times, "times are", "increasing times, 0 or more")
    if given.ndim != 1 or not given.size or not np.isfinite(given).all() or given[0] < 0 or (np.diff(given) <= 0).any():
        raise InputError(f"times are {times!r}, expected increasing times, the first 0 or more, as in [0, 1, 2]")
    return [number(t, "a time") for t in given.tolist()]


def _sizes(sizes: Sequence[int]) -> list[int]:
    try:
        counts = [whole(n, "a size", least=2) for n in sizes]
    except TypeError:
        raise InputError(f"sizes are {sizes!r}, expected increasing numbers of tokens, as in [32, 64, 128]") from None
    if len(counts) < 2 or sorted(set(counts)) != counts:
        raise InputError(f"sizes are {counts}, expected two or more, increasing, as in [32, 64, 128]")
    return counts


def _drawn(sampler: Sampler, n: int, seed: int, d: int | None = None) -> Array:
    if not callable(sampler):
        raise InputError(
            "sampler is no function: give one that draws tokens, such as functools.partial(tokens.uniform, d=2)"
        )
    try:
        drawn = sampler(n=n, seed=seed)
    except TypeError as error:
        raise InputError(
            f"sampler(n={n}, seed={seed}) failed ({error}): give a function of n and seed, such as "
            "functools.partial(af.tokens.uniform, d=2)"
        ) from error
    x = cloud(drawn, "what the sampler draws")
    if len(x) != n or x.shape[1] != (d or x.shape[1]):
        raise InputError(f"sampler(n={n}, seed={seed}) drew tokens of shape {x.shape}, expected ({n}, {d or 'd'})")
    return x


def _states(x: Array, law: Law, motion: Motion, times: list[float]) -> Array:
    """Return the tokens at each of the times, (T, n, d)."""
    if times[-1] == 0:
        return x[None]
    run = simulate(x, law, motion, times[-1], record=[t for t in times if t > 0])
    if float(run.times[-1]) < times[-1]:
        raise InputError(f"{len(x)} tokens did not get to t = {times[-1]:g} ({run.stopped}): give earlier times")
    return run.tokens[np.searchsorted(run.times, times)]


def _slope_weights(x: Array) -> Array:
    """Return c with sum_k c_k y_k the slope of the least-squares line through (x_k, y_k)."""
    away = x - x.mean()
    return np.asarray(away / (away @ away))


def _standard_error(values: Array) -> Array:
    return np.asarray(values.std(axis=-1, ddof=1) / math.sqrt(values.shape[-1]))
