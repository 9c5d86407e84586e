"""Install a wheel or an sdist in an empty environment and try it there.

    python -m tools.try_wheel dist/attnflow-0.2.0-py3-none-any.whl [constraints-minimum.txt]

A run, a figure, a claim, a stored run and the explorer's page, each as a user would ask for it, in an empty folder.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from urllib.request import urlopen

EXTRAS = "plot,store,progress,web,transport"
LIBRARY = """
import attnflow as af
x0 = af.tokens.gaussian(n=50, d=2, seed=0)
run = af.simulate(af.tokens.sphere(n=50, d=3, seed=0), af.Softmax(), af.SphereFlow(), until=3.0, store="run.zarr")
assert (af.load("run.zarr").final == run.final).all()
assert af.simulate(x0, af.Hardmax(), af.Layers(alpha=0.5), until=50).stopped == "reached step 50, as asked"
assert af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=700).outcome == "violated"
assert af.measure.wasserstein(x0, x0 + 1.0) > 1.0
print(af.__version__, af.__file__)
"""
COMMANDS = (
    "simulate --cloud gaussian --n 40 --d 2 --seed 0 --law softmax --motion layers --gamma 0.1 --until 20",
    "figure fw/cells -o figures --only png",
    "check fw/cluster-rate --tokens '[[3], [-1]]' --steps 700",
)


def tried(wheel: Path, constraints: Path | None, folder: Path) -> None:
    """Install into a new environment of this Python in a folder, and try what users do first."""
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    pins = () if constraints is None else ("-c", str(constraints.resolve()))
    python = str(programs / "python")
    asked = f"{wheel.resolve()}[{EXTRAS}]"
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    subprocess.run((*install, *pins, asked), check=True)
    here = folder / "elsewhere"
    here.mkdir()
    # Neither this tree nor what its user has set may be seen.
    hidden = ("PYTHONPATH", "PYTHONHOME", "MPLBACKEND")
    clean = {name: value for name, value in os.environ.items() if name not in hidden}
    print(f"Python {sys.version.split()[0]}", flush=True)
    subprocess.run((python, "-W", "error::DeprecationWarning:attnflow", "-c", LIBRARY), check=True, cwd=here, env=clean)
    for command in COMMANDS:
        print("attnflow", command, flush=True)
        subprocess.run((str(programs / "attnflow"), *shlex.split(command)), check=True, cwd=here, env=clean)
    assert list(here.glob("figures/*.png"))
    words = (python, "-m", "attnflow", "explore", "--port", "0", "--no-browser")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=here, env=clean) as server:
        try:
            assert server.stdout is not None
            address = next(word for word in server.stdout.readline().split() if word.startswith("http://"))
            with urlopen(address, timeout=60) as page:
                assert b"<title>attnflow" in page.read()
        finally:
            server.terminate()
    print("simulate, figure, check and explore work from", wheel.name)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        tried(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None, Path(place))
