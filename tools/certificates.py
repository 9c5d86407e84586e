"""The certificates that attnflow keeps, one file for each settled claim; those of refutations from small instances.

python -m tools.certificates src/attnflow/claims/certificates/stored
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from attnflow.claims.certificates.certificate import Certificate
from attnflow.claims.certificates.make import make

FOUR = {
    "tokens": [[-2.0, 0.0, 0.0], [-1.0, 0.0, 2.0], [3.0, -2.0, 3.0], [3.0, 2.0, 1.0]],
    "V": [[1.5, 0.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 1.5]],
}
INSTANCES: dict[str, dict[str, Any]] = {
    "fw/own-cell": {"tokens": [[0.0, 1.0], [-2.0, 1.0]]},
    "fw/cluster-rate": {"tokens": [[1.0], [-2.0]], "steps": 576},
    "fw/hull-shrinks": {"tokens": [[1.0, 2.0], [0.0, 1.0]], "V": [[0.125, 0.0], [0.0, 3.0]], "steps": 1},
    "fw/exponential-rate": {"tokens": [[-1.0], [1.0], [0.5]], "gamma": "1 / (t + 2)"},
    "fw/collapse-to-origin": {"tokens": [[-0.5], [1.5]], "beta": 0.5, "gamma": 0.5, "steps": 3},
    "localmax/lyapunov/directed": {
        "tokens": [[0.0], [1.0], [-3.0]], "B": [[2.0]], "gamma": 0.25, "delta": 1.125, "steps": 1,
    },
    "neuralode/controllability": {"tokens": [[-1.0], [1.0]], "targets": [[3.0], [2.0]]},
    "sphere/collapse/every-start": {"tokens": [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]},
    "causal/two-points": {
        "tokens": [[0.7071067811865475, -0.7071067811865475], [-0.31622776601683794, -0.9486832980505138]],
        "V": [[2.0, -0.5], [10.0, -3.5]],
        "B": [[-5.0, -10.0], [0.0, 6.0]],
    },
    "emergence/polytope/pair": {"tokens": [[1.0, 2.0], [1.0, -2.0]]},
    "emergence/polytope/rank": {
        "tokens": [[0.0], [-1.0], [1.0]], "symmetry": [{"matrix": [[-1.0]], "permutation": [0, 2, 1]}],
    },
    "emergence/polytope-times-subspace/projected": {
        "tokens": [[1.0, 2.0, 0.0], [0.0, 3.0, 0.0]], "V": [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.125]],
        "B": [[10.0, 0.0, 33.0], [0.0, 1.0, 0.0], [33.0, 0.0, 109.0]],
    },
    "emergence/codimension-k/a": FOUR,
    "emergence/codimension-k/b": FOUR,
    "emergence/codimension-k/c": {
        "tokens": [
            [-2.0, -2.0], [2.0, -2.0], [-2.0, 2.0], [2.0, 2.0], [-4.0, -3.0], [4.0, -3.0], [-4.0, 3.0], [4.0, 3.0],
            [0.0, 1.0], [0.0, -1.0],
        ],
        "V": [[0.6875, 0.0], [0.0, 0.8125]],
        "symmetry": [
            {"matrix": [[-1.0, 0.0], [0.0, 1.0]], "permutation": [1, 0, 3, 2, 5, 4, 7, 6, 8, 9]},
            {"matrix": [[1.0, 0.0], [0.0, -1.0]], "permutation": [2, 3, 0, 1, 6, 7, 4, 5, 9, 8]},
        ],
    },
    "emergence/boolean/doubly-exponential": {
        "tokens": [[-18.000000000058208], [-16.841437704802956], [0.27221697417553514], [-16.378274635237176]],
    },
}  # fmt: skip


# An open question that is settled: `attnflow.enclosures.triples` has the theorem.
GAP = Certificate(
    "sphere/collapse/gap", "ball", {"beta": ["-2/3", "0"]},
    {"cosines": "1/6", "pull": "5/4", "near_from": "3/5", "near": "1/50"},
    "for -2/3 < beta < 0 no state at rest but consensus attracts, for every number of tokens",
)  # fmt: skip


def build(folder: Path) -> None:
    """Write all certificates."""
    folder.mkdir(parents=True, exist_ok=True)
    for claim, instance in INSTANCES.items():
        make(claim, instance).save(folder / f"{claim.replace('/', '.')}.json")
        print(claim, flush=True)
    GAP.save(folder / f"{GAP.claim.replace('/', '.')}.json")


if __name__ == "__main__":
    parser = ArgumentParser(description="write the certificates that attnflow keeps")
    parser.add_argument("folder", type=Path)
    build(parser.parse_args().folder)
