"""A parameter study: the number of clusters on the circle over beta and n, on all cores or on a cluster.

python examples/parameter_study.py                          on this machine, less than a minute
python examples/parameter_study.py --on tcp://HOST:8786     on the workers of a Dask scheduler

Results are kept in out/clusters.zarr. If the script is stopped, the same command runs only what is missing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import attnflow as af

OVER = {
    "beta": {"from": 1.0, "to": 256.0, "count": 9, "scale": "log"},
    "n": [8, 16, 32, 64],
    "seed": {"count": 10},
}


def clusters(beta: float, n: int, seed: int) -> int:
    """Return how many clusters n uniform tokens have formed at time 100, in single linkage at the distance 0.05."""
    x0 = af.tokens.sphere(n=n, d=2, seed=seed)
    run = af.simulate(x0, af.Softmax(beta=beta), af.SphereFlow(rtol=1e-6), until=100.0)
    return af.measure.clusters(run.final, tol=0.05).count


def main(folder: Path, on: str | None) -> None:
    """Sweep, print the means, and draw them: a heat map, and lines with their intervals."""
    folder.mkdir(parents=True, exist_ok=True)
    found = af.sweep(clusters, over=OVER, store=folder / "clusters.zarr", on=on)
    print(found.clusters.mean("seed").to_pandas().round(1))
    af.figures.save(af.figures.sweep(found), folder / "clusters.png")
    af.figures.save(af.figures.sweep(found, lines="n"), folder / "clusters_lines.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The number of clusters on the circle over beta and n.")
    parser.add_argument("--on", help="the address of a Dask scheduler; left out, processes on this machine")
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where the results and pictures go")
    given = parser.parse_args()
    main(given.folder, given.on)
