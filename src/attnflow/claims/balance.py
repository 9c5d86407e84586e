"""What a quantity gains along a flow against the integral of its rate, with the error of the quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np

from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Undecided
from attnflow.core.inputs import Array, InputError
from attnflow.geometry.forms import EPS
from attnflow.motions import Stretch
from attnflow.runs.watch import Start, Watcher

# The numbers of nodes of two rules, Lobatto's, which uses the ends of an interval, and Gauss's, which does not. Where
# they disagree an interval is halved, at most HALVINGS times.
LOBATTO, GAUSS, HALVINGS = 7, 8, 24
# The integral of a rate is refined until it is known to this part, or to the second number.
PART, LEAST = 1e-10, 1e-12
# An integral that is not known to this part of its unit decides nothing.
KNOWN = 1e-3
ROUNDED = Undecided(
    f"rounding, of times or of large tokens, leaves the integral known to less than {KNOWN:g}",
    "give a shorter until or smaller tokens",
)


@dataclass
class Balance(Watcher):
    """The gain of a quantity F and the integral of its rate F', on each of the intervals between `ends`.

    `seen(states)` returns, for states (k, n, d), F and F' and the slope: by how much F changes at most, to first order,
    if every token moves by one; each of shape (k,). The flow is followed step by step of its integrator. On each step
    the rate is integrated along the dense output by rules of Lobatto and Gauss, on halves and halves of halves until
    both agree; their difference is the error of the lower order, and bounds that of the higher. So the number of
    evaluations grows with the number of steps, not with the length of the run.

    After the run there is one value for each interval: `gain`, `integral`, `lowest` (the least gain between states seen
    one after the other) and `doubt`: what the quadrature, the rounding of times and a local error `local` of every
    token in every step may add to the difference of the first two.
    """

    seen: Callable[[Array], tuple[Array, Array, Array]]
    ends: Array
    local: float
    gain: Array = field(init=False)
    integral: Array = field(init=False)
    lowest: Array = field(init=False)
    doubt: Array = field(init=False)

    def begin(self, start: Start) -> None:
        """Nothing has been gained."""
        count = len(self.ends) - 1
        self.gain, self.integral, self.doubt = np.zeros(count), np.zeros(count), np.zeros(count)
        self.lowest = np.full(count, np.inf)

    def see(self, stretch: Stretch) -> None:
        """Add what the quantity gains, and the integral of its rate, to the intervals that a stretch crosses."""
        known = {float(stretch.before[0]): stretch.before[1]}
        known |= {float(t): x for t, x in zip(stretch.times, stretch.tokens, strict=True)}
        between = stretch.between
        assert between is not None

        def states(times: Array) -> Array:
            return np.array([known[t] if t in known else between(t) for t in times.tolist()])

        first, last = float(stretch.before[0]), float(stretch.after[0])
        if first == last:  # a step so short that the rounding of its time has swallowed its length
            F, rates, slopes = self.seen(np.array([stretch.before[1], stretch.after[1]]))
            self._book(last, F, 0.0, 0.0, rates, slopes)
        inside = self.ends[(self.ends > first) & (self.ends < last)]
        for left, right in pairwise(np.unique([*known, *inside.tolist()]).tolist()):
            ends = self.seen(states(np.array([left, right])))
            pieces = list(_refined(self.seen, states, left, right))
            F, rates, slopes = (
                np.concatenate([end[:1], *(piece[1][k] for piece in pieces), end[1:]]) for k, end in enumerate(ends)
            )
            integrals, errors = zip(*(piece[0] for piece in pieces), strict=True)
            self._book(right, F, sum(integrals), sum(errors), rates, slopes)

    def _book(self, t: float, F: Array, integral: float, error: float, rates: Array, slopes: Array) -> None:
        """Add a piece of the run that ends at time t, with F, the rates and the slopes at moments of it in order."""
        k = min(max(int(np.searchsorted(self.ends, t)) - 1, 0), len(self.gain) - 1)
        self.gain[k] += F[-1] - F[0]
        self.integral[k] += integral
        self.lowest[k] = min(self.lowest[k], float(np.diff(F).min()))
        # The length of the piece is known up to the rounding of the times at its ends.
        self.doubt[k] += error + 4 * EPS * abs(t) * float(np.abs(rates).max()) + self.local * float(slopes.max())

    def margins(self, what: str, rounding: Array | float, unit: Array | float = 1.0) -> list[Margins]:
        """Return the margins of gain = integral on each interval, in a unit, as long as that is known well enough."""
        tol, when = (self.doubt + rounding) / unit, self.ends[:-1]
        known = f"the error bound of the difference is below {KNOWN:g}"
        return [
            Margins(what, -np.abs(self.gain - self.integral) / unit, when, tol),
            # Never negative: not to know is no failure.
            Margins(known, np.clip(KNOWN - tol, 0.0, KNOWN), when, EPS, strict=True, undecided=ROUNDED),
        ]


def balanced(e: Experiment, balance: Balance) -> Array:
    """Run an experiment under the eyes of a balance, to the last of its ends, and return the states at all of them."""
    if e.motion.discrete:
        name = type(e.motion).__name__
        raise InputError(f"{name} moves in steps, but this claim integrates along a flow: give a motion in time")
    run = e.evolve(e.tokens, float(balance.ends[-1]), record=balance.ends[1:], watch=[balance])
    if len(run) != len(balance.ends):
        raise InputError(f"{run.stopped}: give a shorter until, or smaller tokens")
    return run.tokens


def doubling(until: float, first: float) -> Array:
    """Return 0 and ends of intervals up to `until`, each as long as all before it, the first at most `first`.

    >>> doubling(1.0, 0.2).tolist()
    [0.0, 0.125, 0.25, 0.5, 1.0]
    """
    count = max(1, math.ceil(math.log2(max(until / first, 2.0))))
    return np.concatenate([[0.0], until * 2.0 ** np.arange(-count, 1)])


@cache
def _rules() -> tuple[Array, Array, Array]:
    """Return the nodes of both rules on [0, 1], increasing, and the weights of each, 0 at the nodes of the other.

    Lobatto's nodes are the ends and the roots of the derivative of Legendre's polynomial P of degree n - 1; its weights
    are 2 / (n (n - 1) P^2).
    """
    polynomial = np.polynomial.Legendre.basis(LOBATTO - 1)
    ends = np.concatenate([[-1.0], np.sort(polynomial.deriv().roots().real), [1.0]])
    few = 2 / (LOBATTO * (LOBATTO - 1) * polynomial(ends) ** 2)
    inner, many = np.polynomial.legendre.leggauss(GAUSS)
    nodes = np.concatenate([ends, inner])
    order = np.argsort(nodes)
    weights = np.concatenate([few, 0 * many])[order] / 2, np.concatenate([0 * few, many])[order] / 2
    return (1 + nodes[order]) / 2, *weights


def _refined(
    seen: Callable[[Array], tuple[Array, Array, Array]], states: Callable[[Array], Array], left: float, right: float
) -> Iterator[tuple[tuple[float, float], tuple[Array, Array, Array]]]:
    """Yield, for pieces from left to right, the integral and its error, and F, rates and slopes at the nodes.

    >>> def seen(x):
    ...     return np.exp(x[:, 0, 0]), np.exp(x[:, 0, 0]), np.ones(len(x))
    >>> pieces = list(_refined(seen, lambda times: times[:, None, None], 0.0, 30.0))
    >>> bool(abs(sum(integral for (integral, _), _ in pieces) / np.expm1(30.0) - 1) < 1e-12)
    True
    """
    nodes, few, many = _rules()
    pieces = [(left, right, HALVINGS)]
    while pieces:
        a, b, more = pieces.pop()
        found = seen(states(np.clip(a + (b - a) * nodes, a, b)))
        integral = float((b - a) * (many @ found[1]))
        off = abs(integral - float((b - a) * (few @ found[1])))
        middle, apart = (a + b) / 2, off > LEAST + PART * abs(integral)
        if apart and more and a < middle < b:
            pieces += [(middle, b, more - 1), (a, middle, more - 1)]
        else:
            # Rules that still disagree bound nothing; the range of the rate does.
            yield (integral, (b - a) * float(np.ptp(found[1])) if apart else off), found
