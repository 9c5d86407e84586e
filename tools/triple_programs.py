"""Linear programs behind sums over triples on the circle: for which beta a proof of this kind may exist.

python -m tools.triple_programs -0.5 --degree 2 --arcs 60

It looks for p, an odd trigonometric polynomial, and positive semidefinite forms of the directions cos(k x), sin(k x)
with which the sum S of `attnflow.enclosures.triples` is at most -margin sum (1 - cos) on a grid of triples, and
maximises the margin; the trace of the forms is 1. A positive margin is evidence; on a grid it is no proof.
"""

from __future__ import annotations

from argparse import ArgumentParser

import numpy as np
from scipy.optimize import linprog

from attnflow.core.inputs import Array

ROUNDS, GAIN = 40, 1e-6


def grid(arcs: int) -> Array:
    """Return angles (m, 3) of triples whose arcs are whole parts of a turn, in order, without three equal angles."""
    found = [(0, i, i + j) for i in range(arcs) for j in range(i, arcs) if j <= arcs - i - j and i + j > 0]
    return np.array(found) * 2 * np.pi / arcs


def margin(beta: float, degree: int, arcs: int) -> float:
    """Return the largest margin, with columns for new directions until they add nothing.

    >>> margin(-0.5, degree=2, arcs=24) > 0.2, margin(-0.8, degree=2, arcs=24) > 0
    (True, False)
    """
    angles, orders = grid(arcs), np.arange(1, degree + 1)
    equations, parts, size = np.zeros((len(angles), degree)), [], np.zeros(len(angles))
    for a, b, c in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        d = angles[:, a] - angles[:, b]
        x, y = ((angles[:, one] - angles[:, c])[:, None] * orders for one in (a, b))
        weight = np.exp(beta * np.cos(d))
        equations += (weight * np.sin(d))[:, None] * (np.sin(x) - np.sin(y))
        parts.append((weight * (np.cos(d) - beta * np.sin(d) ** 2), (np.cos(x) - np.cos(y), np.sin(x) - np.sin(y))))
        size += 1 - np.cos(d)
    columns, best = [np.eye(degree), np.eye(degree)], -np.inf
    for _ in range(ROUNDS):
        squares = [sum(h[:, None] * (v[odd] @ columns[odd]) ** 2 for h, v in parts) for odd in (0, 1)]
        table = np.hstack([equations, *squares, size[:, None]]) / size[:, None]
        free, forms = degree, table.shape[1] - degree - 1
        found = linprog(
            np.append(np.zeros(free + forms), -1.0), A_ub=table, b_ub=np.zeros(len(table)),
            A_eq=np.concatenate([np.zeros(free), np.ones(forms), [0.0]])[None], b_eq=[1.0],
            bounds=[(None, None)] * free + [(0, None)] * forms + [(None, None)],
        )  # fmt: skip
        if -found.fun < best + GAIN:
            break
        best, prices = -found.fun, -found.ineqlin.marginals / size
        for odd in (0, 1):
            form = sum((v[odd] * (prices * h)[:, None]).T @ v[odd] for h, v in parts)
            columns[odd] = np.hstack([columns[odd], np.linalg.eigh(form)[1][:, :2]])
    return float(best)


if __name__ == "__main__":
    parser = ArgumentParser(description="look for sums over triples on the circle that are negative on a grid")
    parser.add_argument("beta", type=float)
    parser.add_argument("--degree", type=int, default=2)
    parser.add_argument("--arcs", type=int, default=60)
    given = parser.parse_args()
    print(f"margin {margin(given.beta, given.degree, given.arcs):.4g}")
