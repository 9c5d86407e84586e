"""Tokens on the line: attention becomes Boolean, and how fast.

All statements are in the unit variables y = sqrt(B) x and s = V t, in which B = V = 1. Two facts decide limits from a
finite run, y_i^2 = <x_i, B x_i>. For s_j = y_i y_j the average of s_j under the softmax weights e^{s_j} is at least
log (1/n) sum_j e^{s_j} >= y_i^2 - log n, because log sum_j e^{h s_j} is convex in h. So (y_i^2)' >= 2 (y_i^2 - log n):
a token beyond sqrt(log n) escapes at the rate e^s. And no distance between two tokens decreases, so the gap g between
the leader and the token next to it bounds the rest of the row: 1 - P_leader <= (n-1) e^{-g |y_i|}.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from attnflow.claims.claim import DERIVED, FALSE, PROVED, Instance, Setting, Statement
from attnflow.claims.emergence.flows import MONOTONE, pairwise_distinct, threshold, two_or_more, value_matrix
from attnflow.claims.emergence.paper import EMERGENCE
from attnflow.claims.experiment import RECORDS, RTOL, Experiment
from attnflow.claims.margins import Margins, Undecided, once, per_token, unknown
from attnflow.claims.samplers import Rng, distinct, log_uniform, pick
from attnflow.core.indices import log_weights
from attnflow.core.inputs import Array, InputError
from attnflow.enclosures import enclose, field_of
from attnflow.enclosures.fields import RESCALED
from attnflow.enclosures.numbers import array, balls
from attnflow.geometry.forms import EPS
from attnflow.laws import Softmax
from attnflow.motions import Flow, RescaledFlow
from attnflow.runs.simulate import simulate

# Beyond this unit time leaders are rounding noise.
LAST = 28.0
# A start whose extreme token stays bounded is known up to this part of the size of the tokens.
SHOT = 1e-9
# Two runs give the same weight as long as its logarithms differ by at most this part.
AGREE = 0.01
# The slope of log(-log(1 - P)) is bounded over the next AHEAD units of time; in the talk it is 1 or 2.
AHEAD, SLOPE = 20.0, 0.5
# Tokens that escape are together if all are at least this part of the largest.
TOGETHER = 0.75
# Runs of at most this many tokens are enclosed in balls.
MOST_IN_BALLS = 6


@dataclass(frozen=True)
class Path:
    """A run in unit variables: times s (T,), places y (T, n), logarithms of P (T, n, n), and t for s = 1."""

    times: Array
    y: Array
    log_weights: Array
    unit: float

    @property
    def n(self) -> int:
        """The number of tokens."""
        return len(self.y[0])

    @property
    def size(self) -> Array:
        """The largest |y_i| at each time."""
        return np.asarray(np.abs(self.y).max(axis=1))

    @property
    def extremes(self) -> tuple[int, int]:
        """The lowest and the highest token: distances never decrease, so they stay that."""
        return int(self.y[0].argmin()), int(self.y[0].argmax())

    @property
    def bar(self) -> float:
        """The value log n of y_i^2 beyond which tokens escape at the rate e^s."""
        return math.log(self.n)

    def doubt(self, i: int, leader: Any) -> Array:
        """Return -log(1 - P_leader) of row i at each time, from the sum of the other weights."""
        rest = np.where(np.arange(self.n) == np.reshape(leader, (-1, 1)), -np.inf, self.log_weights[:, i])
        return np.asarray(-np.logaddexp.reduce(rest, axis=1))

    def escaped(self) -> Array:
        """Return by how much each y_i^2 exceeds log n at the end, 0 where it does not, or not beyond its error."""
        last, error = np.abs(self.y[-1]), MONOTONE * self.size[-1]
        return np.asarray(np.clip((np.maximum(last - error, 0.0) ** 2 - self.bar) / self.bar, 0.0, 1.0))


@lru_cache(maxsize=8)
def path_of(e: Experiment) -> Path:
    """Return the run of an instance, until it is decided or leaders are rounding noise."""
    return _along(e, e.tokens)


def _along(e: Experiment, tokens: Array) -> Path:
    root, v = math.sqrt(float(e.form()[0, 0])), float(value_matrix(e)[0, 0])
    size = root * float(np.abs(e.tokens).max())
    until = min(12 + 0.5 / size**2, e.until, LAST)
    run = e.evolve(tokens, until / v, record=np.linspace(0, until / v, RECORDS + 1)[1:])
    seen = [e.motion.seen(x, t) for x, t in zip(run.tokens, run.times, strict=True)]
    logs = [log_weights(e.law, x, t) for x, t in zip(seen, run.times, strict=True)]
    return Path(run.times * v, root * np.array(seen)[:, :, 0], np.array(logs), 1 / v)


# The setting.


def _on_the_line(e: Experiment) -> list[Margins]:
    """Tokens are two numbers or more, and B and V positive ones."""
    forms = {"B": e.form(), "V": value_matrix(e)}
    return [
        once("d = 1", 1.5 - e.shape[1], strict=True),
        two_or_more(e),
        *(once(f"{name} > 0", float(np.sign(M[0, 0])), strict=True) for name, M in forms.items()),
    ]


def _units_of_any_size(rng: Rng, y: Array) -> Instance:
    c, v = log_uniform(rng, 0.1, 10.0), log_uniform(rng, 0.2, 5.0)
    return {"tokens": y[:, None] / math.sqrt(c), "B": [[c]], "V": [[v]]}


def _any_line(rng: Rng, k: int) -> Instance:
    n, y = int(rng.integers(2, 7)), np.empty(0)
    match k % 6:
        case 0:
            y = rng.standard_normal(n)
        case 1:
            return {"tokens": distinct(np.append(rng.integers(-4, 5, n) / 2, 2.5)[:, None])}
        case 2:
            u = log_uniform(rng, 0.4, 4.0)
            y = np.array([-u, 0.0, u])
        case 3:
            y = rng.uniform(0.2, 3.0) + rng.uniform(0, 2.0, n)
        case 4:
            y = np.append(rng.standard_normal(n), 1.0)
            y = np.append(y, y[0] + 2.0**-20)
        case 5:
            y = rng.standard_t(2, n) * log_uniform(rng, 0.5, 20.0)
    return _units_of_any_size(rng, y)


def _kept_bounded(rng: Rng, k: int) -> Instance:
    """Return tokens of which an extreme one stays bounded: they come from where such tokens end, back in time.

    Backwards the bounded token forgets where it came from like e^{-s^2}. It ends at y = -h/X, X the size of the other
    tokens, where h + log h = log((n-1) X^2 / 2).
    """
    others = int(rng.integers(1, 5))
    X = 1000.0 - np.append(0.0, rng.uniform(0.1, 2.0, others - 1))
    h = 10.0
    for _ in range(20):
        h = math.log(others * X[0] ** 2 / 2 / h)
    end = np.append(X, -h / X[0])[:, None]
    back = simulate(end, Softmax(), Flow(V=[[-1.0]], rtol=1e-12), math.log(X[0] / log_uniform(rng, 1.0, 20.0)))
    return _units_of_any_size(rng, rng.permutation(back.final[:, 0]) * pick(rng, (-1.0, 1.0)))


def _line_or_bounded(rng: Rng, k: int) -> Instance:
    return _kept_bounded(rng, k) if k % 2 else _any_line(rng, k // 2)


PARAMETERS = {"tokens": ..., "B": None, "V": None, "until": LAST}
LINE = Setting(PARAMETERS, lambda given: (Softmax(B=given["B"]), RescaledFlow(V=given["V"])), _any_line, samples=12)
SHOOTING = replace(LINE, sample=_line_or_bounded, samples=4, lengths=())
BOUNDED = replace(LINE, parameters={**PARAMETERS, "C": 4.0}, sample=_kept_bounded, samples=3, lengths=())
ON_THE_LINE: dict[str, Statement] = {"d = 1, B > 0, V > 0": _on_the_line, "distinct tokens": pairwise_distinct}


# The claims. They say nothing where tokens are not on a line.


def _defined(e: Experiment) -> bool:
    return all(margins.held.all() for margins in [*_on_the_line(e), pairwise_distinct(e)])


def _rows(path: Path) -> Iterator[Margins]:
    """Return the margins of what follows once y_i^2 >= 2 log n: how fast tokens escape and rows become Boolean."""
    squares, rows = np.ones_like(path.y), np.ones_like(path.y)
    errors = np.full_like(path.y, MONOTONE), np.full_like(path.y, MONOTONE)
    for i in range(path.n):
        far = path.y[:, i] ** 2 >= 2 * path.bar
        if not far.any():
            continue
        k = int(far.argmax())
        after, start = slice(k, None), abs(path.y[k, i])
        side = -1 if path.y[k, i] > 0 else 0
        places = np.sort(path.y[k])
        gap = places[-1] - places[-2] if side else places[1] - places[0]
        excess = start**2 - path.bar
        least = path.bar + excess * np.exp(2 * (path.times[after] - path.times[k]))
        bound = gap * np.sqrt(least) - math.log(path.n - 1)
        error = 4 * MONOTONE * path.size[k] * start / excess
        squares[after, i] = path.y[after, i] ** 2 / least - 1
        rows[after, i] = (path.doubt(i, path.extremes[side])[after] - bound) / np.maximum(bound, 1.0)
        errors[0][after, i] += error + 4 * MONOTONE * path.size[after] / np.maximum(np.abs(path.y[after, i]), 1e-300)
        errors[1][after, i] += error + 2 * MONOTONE * path.size[k] / gap + 64 * EPS * path.size[after] / gap
    times = path.times * path.unit
    yield Margins("y_i^2 - log n grows like e^{2s}", np.clip(squares, -1, 1), times, errors[0])
    yield Margins("-log(1 - P_leader) >= g |y_i| - log(n-1)", np.clip(rows, -1, 1), times, errors[1])


def _rising(path: Path) -> Margins:
    """Return the margins of |y_i| never decreasing beyond sqrt(W((n-1)/e))."""
    beyond = np.abs(path.y) > threshold(path.n) + 2 * MONOTONE * path.size[:, None]
    beyond = np.logical_or.accumulate(beyond, axis=0)[:-1]
    first = np.take_along_axis(path.y, beyond.argmax(axis=0)[None], axis=0)
    gain = np.sign(first) * np.diff(path.y, axis=0) / path.size[1:, None]
    what = "|y_i| increases beyond sqrt(W((n-1)/e))"
    return Margins(what, np.where(beyond, gain, 1.0), path.times[1:] * path.unit, MONOTONE)


@EMERGENCE.claim(
    "boolean", "Theorem 1", PROVED, LINE,
    """For distinct tokens on the line, V > 0 and B > 0, P(t) tends to a matrix whose rows, all but at most one, are
    e_1 or e_n in the order of the tokens, hence of rank at most 3. In y = sqrt(B) x: a token beyond sqrt(W((n-1)/e))
    moves away from 0 for ever, and one beyond sqrt(log n) makes its row Boolean, doubly exponentially.""",
    plain="On the line, every token but at most one ends up hearing only the lowest or only the highest token.",
    given=ON_THE_LINE,
)  # fmt: skip
def boolean(e: Experiment) -> list[Margins]:
    """All tokens but one are run until they are beyond sqrt(log n), and then against the bounds that this implies."""
    if not _defined(e):
        return []
    path = path_of(e)
    escaped = path.escaped()
    escaped[np.abs(path.y[-1]).argmin()] = 1.0  # one row may have any limit
    return [_escapes(path, escaped), _rising(path), *_rows(path)]


def _escapes(path: Path, escaped: Array) -> Margins:
    end = float(path.times[-1] * path.unit)
    return per_token("y_i^2 > log n", escaped, 1e-9, time=end, strict=True)


@EMERGENCE.claim(
    "boolean/doubly-exponential", "talk", FALSE, SHOOTING,
    """For distinct tokens on the line, V > 0 and B > 0, all rows of P(t) but the one that does not tend to e_1 or e_n
    converge doubly exponentially: log(-log(1 - P_leader)) grows like a multiple of t.""",
    plain="On the line, every row that ends with one single leader gets there doubly exponentially fast.",
    given=ON_THE_LINE,
)  # fmt: skip
def doubly_exponential(e: Experiment) -> list[Margins]:
    """Rows of tokens that escape against a doubly exponential bound; extreme tokens that stay bounded by shooting.

    If the extreme token escapes to one side from 1e-9 below its start and to the other from 1e-9 above, then it stays
    bounded from some start between. There 1 - P_leader is at least 1 / (X (X + c)), X ~ e^s the largest token and
    c = sqrt(W((n-1)/e)): were it less, the token would be drawn to its own side, and further so as X grows. This bounds
    the slope of log(-log(1 - P_leader)) from the last moment at which both runs agree.
    """
    if not _defined(e):
        return []
    path = path_of(e)
    escaped = path.escaped()
    inner = [i for i in range(path.n) if i not in path.extremes]
    if inner:  # the one row that is not bound by the claim is that of an inner token that stays bounded
        escaped[min(inner, key=lambda i: abs(path.y[-1, i]))] = 1.0
    shot = _shot(e)
    slope = _slope(shot, path)
    # The rerun at a tighter tolerance need not ask again.
    if shot is not None and slope.failed.any() and e.rtol >= RTOL and _bounded_in_balls(e, shot.token):
        slope = replace(slope, what=f"{slope.what} (the escapes are proved in balls)", certified="ball")
    return [_escapes(path, escaped), *_rows(path), slope]


@dataclass(frozen=True)
class Shot:
    """Two runs that enclose one whose extreme token stays bounded, and the last moment at which they agree."""

    token: int
    runs: tuple[Path, Path]
    last: int

    def doubts(self) -> Array:
        """Return -log(1 - P_leader) of the extreme token in both runs, (2, T)."""
        return np.array([run.doubt(self.token, self.token) for run in self.runs])

    def largest(self) -> Array:
        """Return the largest |y_j| in both runs, (2, T)."""
        return np.array([run.size for run in self.runs])

    def least_of_others(self) -> Array:
        """Return the least |y_j| of the tokens but the extreme one in both runs, (2, T)."""
        return np.array([np.delete(np.abs(run.y), self.token, axis=1).min(axis=1) for run in self.runs])


@lru_cache(maxsize=8)
def _shot(e: Experiment) -> Shot | None:
    """Return the two runs around one whose extreme token stays bounded, if they lie that close to these tokens."""
    path = path_of(e)
    for token in path.extremes:
        others = np.delete(np.abs(path.y), token, axis=1).min(axis=1) > threshold(path.n)
        if others.any() and abs(path.y[others.argmax(), token]) < threshold(path.n):
            shot = _shot_at(e, token)
            if shot is not None:
                return shot
    return None


def _shot_at(e: Experiment, token: int) -> Shot | None:
    step = np.zeros(e.shape)
    step[token] = SHOT * np.abs(e.tokens).max()
    if np.abs(np.delete(e.tokens, token) - e.tokens[token]).min() <= 2 * step[token]:
        return None
    low, high = (_along(e, e.tokens + sign * step) for sign in (-1, 1))
    if not (low.escaped().all() and high.escaped().all() and low.y[-1, token] < 0 < high.y[-1, token]):
        return None
    shot = Shot(token, (low, high), 0)
    below, above = shot.doubts()
    side = 1.0 if token == low.extremes[1] else -1.0
    same = (np.abs(below - above) <= AGREE * np.minimum(below, above)) & (side * low.y[:, token] > 0)
    same &= (side * high.y[:, token] > 0) & (np.abs(low.y[:, token]) < threshold(low.n))
    last = int(np.logical_and.accumulate(same).sum()) - 1
    return Shot(token, (low, high), last) if last > 0 else None


def _slope(shot: Shot | None, path: Path) -> Margins:
    """Return the margin of the slope of log(-log(1 - P)) over the time to come, where an extreme token is bounded."""
    if shot is None:
        return once("no extreme token stays bounded: doubly exponential convergence", 1.0)
    c, last = threshold(path.n), shot.last
    X = float(shot.largest()[:, last].max()) * math.exp(AHEAD)
    ceiling = max(math.log(X * (X + c)), 1 + c**2 + math.log(path.n))
    slope = math.log(ceiling / float(shot.doubts()[:, last].min())) / AHEAD
    others = np.delete(np.abs(shot.runs[0].y[last]), shot.token)
    value = slope - SLOPE if (others > c).all() else 0.0
    what = (
        f"from a start within {SHOT:g} token {shot.token} stays bounded, and log(-log(1 - P_leader)) has slope "
        f"{slope:.2g} at most: doubly exponential convergence"
    )
    return once(what, value, 1e-9, time=float(path.times[last] * path.unit), strict=True)


@lru_cache(maxsize=8)
def _bounded_in_balls(e: Experiment, token: int) -> bool:
    """Say whether balls prove that an extreme token stays bounded from some start within SHOT, and the others escape.

    From one end of the interval of starts the token passes -c, from the other c, c = sqrt(W((n-1)/e)), and it never
    returns: so from some start between it does neither. From all starts of the interval the other tokens pass c on the
    side away from it. Let the token be the highest, at y, and X the size of the others. It never reaches 0, below which
    all tokens go to -infinity. Its row tends to Boolean: with 1 - P_leader >= eps for large X it would be drawn below 0
    within a time like 1 / (eps X), in which 1 - P_leader only grows.
    """
    try:
        field = field_of(e.law, e.motion, 1)
    except InputError:
        return False
    rate = 1.0 if field.V is None else float(field.V[0, 0])
    if field.kind != RESCALED or rate != float(value_matrix(e)[0, 0]) or e.shape[0] > MOST_IN_BALLS:
        return False
    flow, root = Flow(V=value_matrix(e)), math.sqrt(float(e.form()[0, 0]))
    bar, end = 1.001 * threshold(e.shape[0]) / root, LAST / float(value_matrix(e)[0, 0])
    step = np.zeros(e.shape)
    step[token] = SHOT * np.abs(e.tokens).max()
    low, high = balls(e.tokens - step), balls(e.tokens + step)
    enclosed = partial(enclose, law=e.law, motion=flow, until=end, tolerance=1e-16, order=26)
    down = enclosed(low, enough=lambda x: x[token, 0] < -bar).final
    up = enclosed(high, enough=lambda x: x[token, 0] > bar).final
    if not (down[token, 0] < -bar and up[token, 0] > bar):
        return False
    side = 1 if e.tokens[token, 0] == e.tokens.max() else -1
    others = [j for j in range(len(low)) if j != token]
    between = array((a.union(b) for a, b in zip(low.ravel(), high.ravel(), strict=True)), low.shape)
    away = enclosed(between, enough=lambda x: all(-side * x[j, 0] > bar for j in others)).final
    return all(-side * away[j, 0] > bar for j in others)


NO_SHOT = Undecided(
    "no start within 1e-9 of the tokens is found from which an extreme token stays bounded",
    "move the tokens so that the lowest or the highest of them hardly moves",
)


def _extreme_bounded(e: Experiment) -> list[Margins]:
    """Within 1e-9 of the tokens lies a start whose lowest or highest token stays bounded."""
    if not _defined(e):
        return []
    escaped = path_of(e).escaped()[list(path_of(e).extremes)].all()
    return [once("an extreme token stays bounded", 1.0 if _shot(e) else -float(escaped), 1e-9, strict=True)]


@EMERGENCE.claim(
    "bounded-extreme", "after Theorem 1", DERIVED, BOUNDED,
    """If the lowest or the highest of distinct tokens on the line stays bounded, V > 0 and B > 0, then its row tends to
    Boolean only like t e^{-2t} (V = 1): 1 - P_leader is log(X^2) / X^2 times a factor that tends to 2, X ~ e^t the
    largest |sqrt(B) x_j|.""",
    plain="If the lowest or highest token on the line stays bounded, its row settles much more slowly.",
    given={**ON_THE_LINE, "an extreme token stays bounded": _extreme_bounded},
    note="""The page on attacks has the proof. The factor tends to 2 slowly, like 2 - log t / t, so that it is checked
    up to a factor C only, from the time on when the other tokens are together: all of them at least .75 X, and X at
    least e and n. Before that time no C serves all starts: for the tokens 100, 1.5 and -.2824362973163289 the factor is
    over 400 at the start.""",
)  # fmt: skip
def bounded_extreme(e: Experiment) -> list[Margins]:
    """Two runs that enclose the bounded token, as long as they agree and once the other tokens are together, against
    the two factors of the rate."""
    if not _defined(e):
        return []
    path, shot = path_of(e), _shot(e)
    whats = "1 - P_leader is of order log(X^2) / X^2", "X grows like e^t"
    if shot is None:
        return [unknown(what, NO_SHOT) for what in whats]
    X, least = shot.largest()[:, : shot.last + 1], shot.least_of_others()[:, : shot.last + 1]
    late = (X.min(axis=0) >= max(math.e, path.n)) & (least >= TOGETHER * X).all(axis=0)
    if late.sum() < 2:
        early = Undecided("the other tokens have not grown far enough", "give a longer until")
        return [unknown(what, early) for what in whats]
    X, s = X[:, late], path.times[: shot.last + 1][late]
    order = np.log(X**2 / np.log(X**2)) - shot.doubts()[:, : shot.last + 1][:, late]
    growth = np.log(X) - s - (np.log(X) - s)[:, :1]
    values = math.log(e.C) - np.abs(order).max(axis=0), math.log(1.5) - np.abs(growth).max(axis=0)
    return [Margins(what, value, s * path.unit, AGREE * 10) for what, value in zip(whats, values, strict=True)]
