"""One cloud of tokens under three laws: what happened, in a table, and pictures and a stored run in a folder.

python examples/three_laws.py [FOLDER]      (default: out)
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import attnflow as af

x0 = af.tokens.gaussian(n=200, d=2, seed=0)
REST = 1e-12
cases = {
    "softmax": (af.Softmax(beta=9.0), af.Layers(gamma=0.1)),
    "localmax": (af.Localmax(delta=0.5), af.Layers(alpha=0.5)),
    "hardmax": (af.Hardmax(), af.Layers(alpha=0.5)),
}


def main(folder: Path) -> None:
    """Run the three laws, print the table, write the results."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = {}
    print(f"{len(x0)} tokens in the plane\n")
    print(f"{'law':<10}{'clusters':>9}{'leaders':>9}{'rank':>6}{'time':>9}   how it ended, and what comes next")
    for name, (law, motion) in cases.items():
        af.simulate(x0, law, motion, until=1)  # the first run ever compiles; the time below is that of the tokens
        begin = time.perf_counter()
        run = af.simulate(x0, law, motion, until=500, watch=[af.watch.Converged(REST)])
        seconds = time.perf_counter() - begin
        end = af.measure.summary(run)
        print(
            f"{name:<10}{end.clusters:>9}{end.leaders:>9}{end.rank:>6}{seconds:>7.2f} s   {end.stopped.split(':')[0]}"
        )
        # Tokens that rest now and will move again are metastable.
        again = run.next_change.time is not None and math.isfinite(run.next_change.time)
        print(f"{'':<46}{'metastable: ' if again else ''}{run.next_change}")
        runs[name] = run
    print(f"\nclusters: tokens joined by chains of steps shorter than {end.tol:.0%} of the cloud's extent")
    print(f"at rest: no token moved by more than {REST:g} of the extent in one step")
    af.figures.save(af.figures.compare(runs), folder / "three_laws.png")
    for name, run in runs.items():
        # Each picture has the colours of the comparison.
        af.figures.save(run.plot(color=runs["softmax"]), folder / f"{name}.png")
    af.figures.save(runs["softmax"].dashboard(), folder / "softmax_dashboard.png")
    runs["softmax"].save(folder / "softmax.zarr")
    print(f"\nwritten to {folder}/: " + ", ".join(sorted(path.name for path in folder.iterdir())))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
