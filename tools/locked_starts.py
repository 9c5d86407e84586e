"""How many random starts are proved to lock to their leaders: an attack on two repaired claims of the emergence paper.

python -m tools.locked_starts 3 1 0.5 --starts 20

For x_i' = V sum_j P_ij x_j with V diagonal, rates r_k > 0 and B = I, `attnflow.enclosures.locked` proves for a start,
and for all starts near it, that each token keeps one leader for ever. Then both claims hold for this start:

- emergence/polytope/rank/repaired (all rates 1): the rows of P* are unit vectors, so that its rank is the number of
  leaders; and each leader is a vertex, because it alone has the largest score with itself.
- emergence/codimension-k/repaired (distinct rates): let r_1 be the largest rate. Of two leaders l and m, the theorem
  has a_l (a_l - a_m) > 0 and a_m (a_m - a_l) > 0 for their first coordinates, so these have different signs. So there
  are at most two leaders, and each other token tends to one of them: at most two limits.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.enclosures import Locked, enclose, locked
from attnflow.enclosures.numbers import arithmetic, balls

BITS, STEPS, LONGEST = 128, 80, 6.0


def locks(x: Array, rates: Sequence[float], B: Array | None = None) -> Locked | None:
    """Return what is proved of a start, or None if its tokens are not locked in time 6 over the largest rate.

    B is the identity unless it is given.

    >>> found = locks(np.array([[3.0, 1.0], [-2.0, 1.0], [1.0, 1.0]]), [1.0, 0.5])
    >>> [sorted(one) for one in found.leaders]
    [[0], [1], [0]]
    """
    form, exact = np.eye(len(rates)) if B is None else B, [Fraction(float(rate)) for rate in rates]
    left = iter(range(STEPS))

    def enough(state: Any) -> bool:
        return next(left, None) is None or locked(state, balls(form), exact) is not None

    with arithmetic(BITS):
        flow: dict[str, Any] = {"law": af.Softmax(B=form), "motion": af.Flow(V=np.diag(rates))}
        found = enclose(x, **flow, until=LONGEST / max(rates), tolerance=1e-15, order=24, enough=enough)
        return locked(found.final, balls(form), exact)


def share(n: int, rates: Sequence[float], starts: int, seed: int) -> tuple[int, list[int]]:
    """Return how many of some normal starts are proved to lock, and the numbers of their leaders."""
    counts = []
    for k in range(starts):
        x = np.random.default_rng([seed, k]).normal(0.0, 2.0, (n, len(rates)))
        if (found := locks(x, rates)) is not None:
            counts.append(len({one for one in found.leaders if one is not None}))
    return len(counts), counts


if __name__ == "__main__":
    parser = ArgumentParser(description="prove for random starts that tokens lock to their leaders")
    parser.add_argument("n", type=int)
    parser.add_argument("rates", type=float, nargs="+", help="the diagonal of V")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    proved, counts = share(given.n, given.rates, given.starts, given.seed)
    told = ", ".join(f"{counts.count(m)} with {m} leaders" for m in sorted(set(counts)))
    print(f"{proved} of {given.starts} starts are proved to lock: {told}")
