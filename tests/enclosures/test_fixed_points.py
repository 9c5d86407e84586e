"""States at rest are proved where closed forms and fifty digits have them, and a wrong derivative is refused."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from larger import larger
from reference import DIGITS, Decimals, decimals, velocity
from refusals import refused

import attnflow as af
from attnflow.enclosures import basins, fixed_point, stability
from attnflow.enclosures.basins import _falls, positive
from attnflow.enclosures.fields import Field
from attnflow.enclosures.fixed_points import inside
from attnflow.enclosures.numbers import arithmetic, ball, balls, middles
from attnflow.enclosures.pinned import Pinned, differentiated, heard


def polygon(n: int, turn: float = 0.3) -> Any:
    angles = turn + 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angles), np.sin(angles)])


def rates(n: int, beta: Any, normalized: bool) -> list[Any]:
    """Return the eigenvalues at a regular polygon, sum_j h(a_j) (cos(k a_j) - 1) / Z, in balls."""
    from flint import arb

    angles = [2 * arb.pi() * j / n for j in range(n)]
    kernel = [(beta * a.cos()).exp() for a in angles]
    Z = sum(kernel, arb(0)) if normalized else arb(n)
    h = [w * (a.cos() - beta * a.sin() ** 2) for w, a in zip(kernel, angles, strict=True)]
    return [sum((g * ((k * a).cos() - 1) for g, a in zip(h, angles, strict=True)), arb(0)) / Z for k in range(n)]


def matched(found: Any, expected: list[Any]) -> bool:
    """Say whether balls of eigenvalues can be put in order so that each overlaps one that is expected."""
    left = sorted(expected, key=lambda one: float(one.mid()))
    ordered = sorted(found, key=lambda one: float(one.real.mid()))
    return all(a.real.overlaps(b) and a.imag.contains(0) for a, b in zip(ordered, left, strict=True))


CASES = [(2, -1.0), (2, 2.0), (3, -1.0), (3, 4.0), (5, 2.0)]


@pytest.mark.parametrize(
    ("n", "beta"), [*CASES, *(pytest.param(n, b, marks=larger) for n in (4, 6, 7) for b in (-3.0, -0.5, 1.0, 9.0))]
)
@pytest.mark.parametrize("normalized", [True, False])
def test_regular_polygons(n: int, beta: float, normalized: bool) -> None:
    found = fixed_point(polygon(n) + 1e-3, af.Softmax(beta=beta), af.SphereFlow(normalized=normalized))
    assert found.turns == 1
    assert found.radius < 1e-30
    near = stability(found)
    with arithmetic(200):
        # Neighbours have equal inner products; where the polygon is turned to depends on the guess.
        inner = [(found.box[i] * found.box[(i + 1) % n]).sum() for i in range(n)]
        assert all(one.contains((2 * one.pi() / n).cos()) for one in inner)
        expected = rates(n, ball(beta), normalized)
        assert matched(near.eigenvalues, expected)
        assert near.stable == all(one < 0 for one in expected[1:])
    assert (near.basin > 0) == near.stable


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 3), pytest.param(4, 4, marks=larger)])
@pytest.mark.parametrize("normalized", [True, False])
def test_consensus(n: int, d: int, normalized: bool) -> None:
    """At one point of the sphere eigenvalues are 0, as often as there are rotations, and -1, or -e^beta for USA."""
    start = np.tile(np.eye(d)[0], (n, 1))
    found = fixed_point(start, af.Softmax(beta=0.5), af.SphereFlow(normalized=normalized))
    near = stability(found)
    assert found.turns == d - 1
    with arithmetic(200):
        rate = ball(-1) if normalized else -ball(0.5).exp()
        assert matched(near.eigenvalues, [ball(0)] * (d - 1) + [rate] * ((n - 1) * (d - 1)))
    assert near.stable
    assert 0 < near.rate <= (1 if normalized else np.exp(0.5))


def test_runs_from_the_basin_come_to_rest() -> None:
    """Starts at the edge of the ball tend to a rotation of the triangle, as fast as is proved."""
    law, motion = af.Softmax(beta=-2.0), af.SphereFlow()
    found = fixed_point(polygon(3), law, motion)
    near = stability(found)
    rng = np.random.default_rng(0)
    aside = rng.standard_normal((3, 2))
    start = found.middle + near.basin * aside / np.linalg.norm(aside)
    start /= np.linalg.norm(start, axis=1, keepdims=True)

    def off(x: Any) -> float:
        inner = (x * np.roll(x, 1, axis=0)).sum(axis=1)
        return float(np.abs(inner + 0.5).max())

    assert off(start) > 1e-5
    assert off(af.simulate(start, law, motion, until=12.0 / near.rate).final) < 1e-9


def random_rest(seed: int) -> tuple[Any, Any, Any, Any]:
    """Return the end of a run on the circle with random B and V, its law and motion, and the field of the reference."""
    rng = np.random.default_rng([34, seed])
    n, beta = int(rng.integers(2, 4)), float(rng.uniform(0.2, 1.5))
    B = np.eye(2) + 0.3 * rng.standard_normal((2, 2))
    M = rng.standard_normal((2, 2))
    V = np.diag([1.5, 0.5]) + 0.1 * (M + M.T)  # symmetric, so that nothing turns for ever
    sums = bool(seed % 2)
    law, motion = af.Softmax(beta=beta, B=B), af.SphereFlow(V=V, normalized=not sums)
    run = af.simulate(af.tokens.sphere(n, 2, seed=seed), law, motion, until=60.0)
    return run.final, law, motion, velocity("sphere", beta, B, V, sums)


def in_fifty_digits(field: Any, x: Decimals) -> Decimals:
    """Return the zero of the reference field near x: Newton's method with differences, in 64 digits.

    Beside the velocity there is (1 - |x_i|^2) x_i, which keeps tokens on the circle.
    """

    def pinned(y: Decimals) -> Decimals:
        z = y.reshape(x.shape)
        return np.asarray((field(z, Decimal(0)) + (1 - (z * z).sum(axis=1, keepdims=True)) * z).ravel())

    y, h = x.ravel(), Decimal("1e-30")
    for _ in range(12):
        value = pinned(y)
        columns = [(pinned(y + h * np.array([Decimal(int(j == k)) for j in range(len(y))])) - value) / h
                   for k in range(len(y))]  # fmt: skip
        y = y - eliminated(np.array(columns, dtype=object).T, value)
    return y.reshape(x.shape)


def eliminated(matrix: Decimals, right: Decimals) -> Decimals:
    m = np.hstack([matrix, right[:, None]])
    for c in range(len(m)):
        pivot = max(range(c, len(m)), key=lambda r: abs(m[r, c]))
        m[[c, pivot]] = m[[pivot, c]]
        m[c] = m[c] / m[c, c]
        for r in range(len(m)):
            if r != c:
                m[r] = m[r] - m[r, c] * m[c]
    return np.asarray(m[:, -1])


@pytest.mark.parametrize("seed", [2, 3, *(pytest.param(k, marks=larger) for k in range(4, 24))])
def test_random_states_hold_fifty_digits(seed: int) -> None:
    x, law, motion, field = random_rest(seed)
    found = fixed_point(x, law, motion)
    assert found.turns == 0
    with localcontext() as context:
        context.prec = DIGITS
        exact = in_fifty_digits(field, decimals(found.middle))
    with arithmetic(300):
        assert all(
            one.contains(ball(Fraction(value))) for one, value in zip(found.box.ravel(), exact.ravel(), strict=True)
        )
    assert stability(found).stable


@pytest.mark.parametrize("kind", ["space", "sphere", "sums"])
def test_the_derivative_of_the_pinned_field_is_that_of_power_series(kind: str) -> None:
    rng = np.random.default_rng(0)
    field = Field("sphere" if kind == "sums" else kind, ball(0.7), sums=kind == "sums")
    with arithmetic(128):
        x = balls(rng.standard_normal((3, 2)))
        from flint import arb_mat

        assert differentiated(field, x).overlaps(arb_mat(field.derivative(heard(field, x))))
        pinned, h = Pinned.at(field, x), ball(2.0**-40)
        moved = x + balls(0.01 * rng.standard_normal((3, 2)))
        slopes = pinned.derivative(moved)
        for k in range(6):
            step = h * np.eye(6)[k].reshape(3, 2)
            up, down = (pinned.value(moved + sign * step) for sign in (1, -1))
            for row, (a, b) in enumerate(zip(up, down, strict=True)):
                assert abs((a - b) / (2 * h) - slopes[row, k]) < 1e-18


def test_a_wrong_derivative_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Field.derivative

    def wrong(self: Field, found: Any) -> Any:
        rows = right(self, found)
        rows[0][1] = rows[0][1] + 2.0**-40
        return rows

    monkeypatch.setattr(Field, "derivative", wrong)
    with pytest.raises(ArithmeticError, match="mistake"):
        fixed_point(polygon(3), af.Softmax(), af.SphereFlow())


def test_a_box_around_no_zero_is_refused() -> None:
    """Krawczyk's operator maps no box into itself that is moved off the state by more than its radius."""
    found = fixed_point(polygon(3), af.Softmax(), af.SphereFlow())
    with arithmetic(128):
        p = middles(found.box)
        inverse = found.pinned.derivative(p).mid().inv().mid()
        assert inside(found.pinned, p, inverse, 1e-6) is not None
        assert inside(found.pinned, p + 2e-6, inverse, 1e-6) is None


def test_a_box_with_two_states_is_refused() -> None:
    """A token on the circle under V = diag(3/2, 1/2) rests at (1, 0), which attracts, and at (0, 1)."""
    law, motion = af.Softmax(), af.SphereFlow(V=np.diag([1.5, 0.5]))
    found = fixed_point([[1.0, 0.0]], law, motion)
    near = stability(found)
    assert (found.turns, near.stable) == (0, True)
    assert stability(fixed_point([[0.0, 1.0]], law, motion)).stable is False
    assert 0.01 < found.alone < 1.0
    assert 0.02 < near.basin < np.sqrt(2)
    with arithmetic(128):
        p = middles(found.box)
        inverse = found.pinned.derivative(p).mid().inv().mid()
        assert inside(found.pinned, p, inverse, 1.1) is None
        assert _falls(found.pinned, found.box, np.eye(2), 0.1, 1e-3)
        assert not _falls(found.pinned, found.box, np.eye(2), 0.1, 1.1)
        assert not _falls(found.pinned, found.box, np.eye(2), 1.5, 1e-3)  # the eigenvalue is -1


def test_what_is_not_at_rest_is_refused() -> None:
    law = af.Softmax()
    with refused("no isolated state at rest is found"):
        fixed_point([[1.0, 0.0], [0.0, 1.0]], law, af.SphereFlow())
    # All tokens at 0 rest, but others that are at 0 on average are near it: the derivative is singular.
    with refused("no isolated state at rest is found"):
        fixed_point([[0.0], [0.0]], law, af.Flow())
    with refused("depends on the time"):
        fixed_point([[1.0]], law, af.RescaledFlow())
    with refused("at most 36"):
        fixed_point(np.ones((40, 1)), law, af.Flow())
    with refused("token 1 has norm 0"):
        fixed_point([[1.0, 0.0], [0.0, 0.0]], law, af.SphereFlow())
    with refused("law is SphereFlow"):
        fixed_point([[1.0, 0.0]], af.SphereFlow(), law)  # type: ignore[arg-type]
    with refused("motion is None"):
        fixed_point([[1.0, 0.0]], law, None)  # type: ignore[arg-type]
    with refused("fixed_point returns"):
        stability(None)  # type: ignore[arg-type]


def test_one_token_in_space() -> None:
    """A token that hears itself moves by x' = V x: 0 is at rest, with the eigenvalues of V."""
    V = np.array([[-1.0, 2.0], [-2.0, -1.0]])
    found = fixed_point([[0.0, 0.0]], af.Softmax(), af.Flow(V=V))
    near = stability(found)
    assert found.turns == 0
    assert near.stable
    assert sorted(round(float(one.imag), 9) for one in near.eigenvalues) == [-2.0, 2.0]
    assert all(one.real.contains(-1) for one in near.eigenvalues)
    assert stability(fixed_point([[0.0, 0.0]], af.Softmax(), af.Flow(V=-V))).stable is False


def test_nearly_singular_forms_are_not_positive() -> None:
    from flint import arb, arb_mat

    assert positive(arb_mat([[1, 0], [0, arb(1, 0.5)]]))
    assert not positive(arb_mat([[1, 0], [0, arb(1, 1.5)]]))
    assert not positive(arb_mat([[0, 0], [0, 0]]))


def test_a_form_that_is_not_positive_proves_no_basin() -> None:
    found = fixed_point([[1.0, 0.0], [1.0, 0.0]], af.Softmax(beta=2.0), af.SphereFlow())
    with arithmetic(128):
        assert basins._radius(found, -np.eye(4), 0.5) == 0.0
        assert basins._radius(found, np.eye(4), 0.5) > 0.0


def test_a_state_that_no_box_isolates_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnflow.enclosures.fixed_points.inside", lambda *given: None)
    with refused("a state at rest near these tokens is not proved to be isolated"):
        fixed_point([[1.0, 0.0], [1.0, 0.0]], af.Softmax(beta=2.0), af.SphereFlow())
