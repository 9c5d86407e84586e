"""Proved claims on random instances, in balls or fractions: what a check with floats alone cannot certify.

Each function draws an instance of a claim from a generator of random numbers and returns numbers that are at least 0
if the claim holds on it: balls of flows that are enclosed, or fractions. The words in `CHECKS` say which part of a
claim is checked. Flows are checked at the steps of their enclosures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import attnflow as af
from attnflow.claims import exact
from attnflow.claims.frank_wolfe.lines import polytope as polytope_start
from attnflow.claims.samplers import cloud, positive_form
from attnflow.claims.sphere.runs import best_axis, in_hemisphere, on_sphere
from attnflow.core.inputs import Array
from attnflow.enclosures import enclose
from attnflow.enclosures.fields import Field, Heard, dot
from attnflow.enclosures.numbers import Numbers, ball, balls, floats
from tools.certified_draws import NotDecided, few, form_of, highest, lowest, reached, soon
from tools.checks_of_limits import boolean, hyperplanes, polytope, polytope_times_subspace

Rng = np.random.Generator
Check = Callable[[Rng, int], Iterator[Any]]
METHOD: dict[str, Any] = {"tolerance": 1e-15, "order": 20}
# Flows on the sphere whose energy is looked at last this long.
SHORT = 0.125
# Of this many starts on the sphere the one farthest from a hemisphere is taken.
DRAWS = 6
# Lattice points on circles around 0 have equal energies.
CIRCLES = (25, 65, 325)
# k_max is 1 below the first, 2 between them and larger beyond the second, each known to its last digit.
SWITCHES = (Fraction(1044457, 10**6), Fraction(3165434, 10**6))
LAST_DIGIT = Fraction(1, 10**6)


def squares(G: Numbers, x: Numbers) -> dict[tuple[int, int], Any]:
    """Return <G y, y> for the differences y of all pairs."""
    found = {}
    for i in range(len(x)):
        for j in range(i):
            y = x[i] - x[j]
            found[i, j] = dot([dot(row, y) for row in G], y)
    return found


def _states(rng: Rng, k: int) -> tuple[Array, list[Numbers]]:
    """Return B and the states of x' = sum_j P_ij x_j, or of Euler's steps for every second k."""
    x = few(cloud(rng, k))
    B = form_of(positive_form(rng, k // 2, x.shape[1]), x.shape[1])
    if k % 2 == 0:
        return B, list(reached(enclose(x, af.Softmax(B=B), af.Flow(), float(rng.uniform(0.2, 1.0)), **METHOD)).states)
    field, dt, states = Field("space", ball(1), balls(B)), ball(float(rng.uniform(0.01, 4.0))), [balls(x)]
    for _ in range(6):
        velocity = field.velocity(Heard.of(field, states[-1], field.form(ball(0), x.shape[1])))
        states.append(states[-1] + dt * np.array(velocity, dtype=object))
    return B, states


def distances(rng: Rng, k: int) -> Iterator[Any]:
    """Squared distances in the norm of B, each against the step before."""
    B, states = _states(rng, k)
    before: dict[tuple[int, int], Any] = {}
    for state in states:
        now = squares(balls(B), state)
        yield from (now[pair] - before[pair] for pair in before)
        before = now


def no_consensus(rng: Rng, k: int) -> Iterator[Any]:
    """Squared distances in the norm of B, each against the start."""
    B, states = _states(rng, k)
    start = squares(balls(B), states[0])
    for state in states[1:]:
        yield from (one - start[pair] for pair, one in squares(balls(B), state).items())


def growth(rng: Rng, k: int) -> Iterator[Any]:
    """|phi(x_i)| against e^{|lambda| t} max_j |phi(x_j(0))| for the left eigenvectors phi of V."""
    from flint import acb, acb_mat, arb_mat

    x = few(cloud(rng, k))
    d = x.shape[1]
    V = rng.standard_normal((d, d)) / np.sqrt(d)
    try:
        values, vectors = acb_mat(arb_mat(V.T.tolist())).eig(right=True)
    except ValueError:
        raise NotDecided("two eigenvalues are not told apart") from None
    found = reached(enclose(x, af.Softmax(B=rng.standard_normal((d, d))), af.Flow(V=V), 0.5, **METHOD))
    for value, phi in zip(values, zip(*vectors.tolist(), strict=True), strict=True):
        sizes = [[abs(dot(phi, [acb(one) for one in row])) for row in state] for state in found.states]
        most = highest(sizes[0])
        for t, now in zip(found.times[1:], sizes[1:], strict=True):
            yield from ((abs(value) * ball(t)).exp() * most - one for one in now)


def energy(rng: Rng, k: int) -> Iterator[Any]:
    """sum_ij e^{beta <x_i, x_j>} against the step before, and against its value at consensus."""
    x = few(on_sphere(rng, k))
    beta, before = ball(float(rng.uniform(0.1, 3.0))), None
    motion = af.SphereFlow(normalized=k % 2 == 0)
    for state in reached(enclose(x, af.Softmax(beta=float(beta)), motion, SHORT, **METHOD)).states:
        now = sum(((beta * dot(p, q)).exp() for p in state for q in state), ball(0))
        if before is not None:
            yield now - before
        yield beta.exp() * len(x) ** 2 - now
        before = now


def hemisphere(rng: Rng, k: int) -> Iterator[Any]:
    """The least <x_i, w> against the step before, until all <x_i, x_j> are positive."""
    x = few(in_hemisphere(rng, k))
    w = balls(best_axis(x)[0])
    law = af.Softmax(beta=float(rng.uniform(-1.0, 3.0)), B=rng.standard_normal((x.shape[1],) * 2))
    found = enclose(x, law, af.SphereFlow(normalized=k % 2 == 0), 20.0, enough=soon(acute), **METHOD)
    if not acute(found.final):
        raise NotDecided("tokens are not at acute angles at the end of the enclosure")
    before = None
    for state in found.states:
        now = lowest([dot(one, w) for one in state])
        yield now if before is None else now - before
        before = now


def acute(x: Numbers) -> bool:
    """Say whether all <x_i, x_j> are positive: then all tokens tend to one point."""
    return all(dot(p, q) > 0 for p in x for q in x)


def collapse(rng: Rng, k: int) -> Iterator[Any]:
    """Tokens are enclosed until they are in an open hemisphere, from where they tend to one point."""
    return _into_a_hemisphere(rng, k, 1.0, normalized=k % 4 < 2)


def clusters(rng: Rng, k: int) -> Iterator[Any]:
    """The same for Post-LN, which is SA: for every beta on the circle too."""
    return _into_a_hemisphere(rng, k, 3.0, normalized=True)


def _into_a_hemisphere(rng: Rng, k: int, most: float, normalized: bool) -> Iterator[Any]:
    """Return the height of tokens that come into a hemisphere; beta is at most `most` on the circle."""
    d = 2 + k % 2
    starts = [few(on_sphere(rng, k, n=6 - d, d=d)) for _ in range(DRAWS)]
    x = min(starts, key=lambda one: best_axis(one)[1])
    beta = float(rng.uniform(0.0, most if d == 2 else 3.0))

    def height(state: Numbers) -> Any:
        w = balls(best_axis(floats(state))[0])
        return lowest([dot(one, w) for one in state])

    found = enclose(
        x, af.Softmax(beta=beta), af.SphereFlow(normalized=normalized), 40.0,
        enough=soon(lambda state: bool(height(state) > 0)), **METHOD,
    )  # fmt: skip
    if not height(found.final) > 0:
        raise NotDecided("tokens are in no open hemisphere at the end of the enclosure")
    yield height(found.final)


def negative_identity(rng: Rng, k: int) -> Iterator[Any]:
    """L = sum_ij e^{<x_i, x_j>} against the step before, and norms against their bound."""
    from flint import arb

    x = few(cloud(rng, k))
    n, before = len(x), None
    found = reached(enclose(x, af.Softmax(), af.Flow(V=-np.eye(x.shape[1])), 0.5, **METHOD))
    bar = (arb(n - 1) / arb(1).exp()).lambertw()
    bounds = [dot(row, row).max(bar) for row in found.states[0]]
    for state in found.states:
        now = sum((dot(p, q).exp() for p in state for q in state), ball(0))
        if before is not None:
            yield before - now
            yield from (most - dot(row, row) for most, row in zip(bounds, state, strict=True))
        before = now


def softmax_layers(rng: Rng, k: int) -> Iterator[Any]:
    """Squared diameters against (1 - gamma sum_k min_i a_ik)^2 times the one before, and the sum against its bound."""
    x = balls(few(cloud(rng, k, n=int(rng.integers(3, 7)))))
    beta, gamma = ball(float(rng.uniform(-2.0, 2.0))), ball(float(rng.uniform(0.05, 0.95)))
    field, unit = Field("space", beta), balls(np.eye(x.shape[1]))
    least = (-2 * abs(beta) * highest([dot(row, row) for row in x])).exp()
    for _ in range(8):
        heard = Heard.of(field, x, field.form(ball(0), x.shape[1]))
        shared = sum((lowest(list(column)) for column in zip(*heard.weights, strict=True)), ball(0))
        after = x + gamma * (np.array(heard.means, dtype=object) - x)
        yield shared - least
        widest, after_it = (highest([*squares(unit, state).values()]) for state in (x, after))
        yield widest * (1 - gamma * shared) ** 2 - after_it
        x = after


def voronoi(rng: Rng, k: int) -> Iterator[Any]:
    """Maximisers of <B x, v> against the nearest vertices in the norm of B, at points of K, in fractions."""
    size = CIRCLES[k % len(CIRCLES)]
    lattice = [(a, b) for a in range(-18, 19) for b in range(-18, 19) if a * a + b * b == size]
    chosen = [lattice[j] for j in rng.choice(len(lattice), int(rng.integers(3, 9)), replace=False)]
    p, q = (Fraction(int(one)) for one in rng.integers(1, 5, 2))
    v = exact.rational([[Fraction(a) / p, Fraction(b) / q] for a, b in chosen])
    B = exact.rational([[p * p, 0], [0, q * q]])
    parts = exact.rational(rng.integers(0, 9, (24, len(v))) + np.eye(len(v), dtype=int)[np.arange(24) % len(v)])
    points = (parts / parts.sum(axis=1, keepdims=True)) @ v
    heard = exact.heard(af.Hardmax(B=B.astype(float)), points, 0, v)
    for x, row in zip(points, heard, strict=True):
        away = [(B @ (x - one)) @ (x - one) for one in v]
        yield Fraction(0 if [j for j, one in enumerate(away) if one == min(away)] == row else -1)


def straight_lines(rng: Rng, k: int) -> Iterator[Any]:
    """<B x_i(t), v_i - x_j(t)> along x(t) = v + e^{-t} (x - v), v the leader of each token, for all t >= 0."""
    start, B = polytope_start(rng, k)
    x, form = exact.rational(start), exact.rational(np.eye(start.shape[1]) if B is None else B)
    rows = exact.heard(af.Hardmax(B=B, ties="points"), x, 0)
    if any(len(row) > 1 or rows[row[0]] != row for row in rows):
        raise NotDecided("the polytope is not generic in fractions")
    v = x[[row[0] for row in rows]]
    away = x - v
    for i, j in ((i, j) for i in range(len(x)) for j in range(len(x)) if [j] != rows[i]):
        ahead = v[i] - v[j]
        now, turned = form @ v[i], form @ away[i]
        yield from least_of((now @ ahead, turned @ ahead - now @ away[j], -(turned @ away[j])))


def least_of(c: tuple[Fraction, Fraction, Fraction]) -> Iterator[Fraction]:
    """Yield values of c_0 + c_1 u + c_2 u^2 that are at least 0 only if it is so for 0 <= u <= 1.

    >>> [str(one) for one in least_of((Fraction(1), Fraction(-2), Fraction(2)))]
    ['1', '1', '1/2']
    """
    yield c[0]
    yield sum(c, Fraction(0))
    if c[2] > 0 and 0 < -c[1] < 2 * c[2]:
        yield c[0] - c[1] ** 2 / (4 * c[2])


def kmax(rng: Rng, k: int) -> Iterator[Any]:
    """k^2 I_k(beta) for the k that the claim has below, between and beyond its two values of beta."""
    beta = Fraction(int(rng.integers(1, 5 * 10**9)), 10**9)
    if min(abs(beta - one) for one in SWITCHES) <= LAST_DIGIT:
        raise NotDecided("beta is where k_max switches")
    rates = [j * j * ball(beta).bessel_i(j) for j in range(12)]
    told = 1 + sum(beta > one for one in SWITCHES)
    # Beyond k = 11 rates fall: I_{k+1} / I_k < beta / (2 k + 2).
    others = [j for j in range(1, 12) if (j < 3 if told == 3 else j != told)]
    most = rates[told] if told < 3 else highest(rates[3:])
    yield from (most - rates[j] for j in others)


def equal_angles(rng: Rng, k: int) -> Iterator[Any]:
    """All <x_i, x_j> of an orthogonal start agree to 1e-12, and their common value grows from 0 to less than 1."""
    law, motion = af.Softmax(beta=float(rng.uniform(-1, 3))), af.SphereFlow(normalized=k % 3 > 0)
    before = None
    for state in reached(enclose(np.eye(2 + k % 2), law, motion, SHORT, **METHOD)).states:
        products = [dot(p, q) for i, p in enumerate(state) for q in state[:i]]
        yield from (ball(Fraction(1, 10**12)) - abs(one - products[0]) for one in products)
        yield 1 - products[0]
        if before is not None:
            yield products[0] - before
        before = products[0]


# The part of each claim that is checked, in words, and the check.
CHECKS: dict[str, tuple[str, Check]] = {
    "sphere/collapse": ("tokens come into an open hemisphere, from where they collapse", collapse),
    "sphere/orthogonal-start": ("all angles are equal to 1e-12, and they fall", equal_angles),
    "sphere/energy": ("the energy grows from step to step, below its value at consensus", energy),
    "sphere/hemisphere": ("the least <x_i, w> grows from step to step, until all angles are acute", hemisphere),
    "emergence/growth": ("the size of each phi(x_i), at each step", growth),
    "emergence/distances": ("each distance, from step to step", distances),
    "emergence/no-consensus": ("each distance at each step, against the start", no_consensus),
    "emergence/negative-identity": ("L falls from step to step; the bound of norms", negative_identity),
    "emergence/polytope": ("where tokens end, for diagonal V", polytope),
    "emergence/hyperplanes": ("where tokens end, for diagonal V", hyperplanes),
    "emergence/polytope-times-subspace": ("where tokens end, for diagonal V", polytope_times_subspace),
    "emergence/boolean": ("the limits of the rows of P", boolean),
    "fw/voronoi": ("24 points of K, vertices of equal energy in fractions", voronoi),
    "fw/collapse": ("eight layers, each against the layer before", softmax_layers),
    "fw/ode": ("straight lines keep their leaders for all times, in fractions", straight_lines),
    "norm/clusters": ("Post-LN: tokens come into an open hemisphere, from where they collapse", clusters),
    "mean-field/kmax": ("the value of k_max, by Bessel functions", kmax),
}
