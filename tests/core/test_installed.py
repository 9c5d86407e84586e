"""Packages that bring laws, motions, claims and figures of their own, found by their entry points."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import attnflow as af
from attnflow import catalogue
from attnflow.catalogue import class_named
from attnflow.core import installed as installed_packages
from attnflow.core.installed import installed

NEIGHBOUR = {
    "laws": """
from dataclasses import dataclass
import numpy as np
import attnflow as af
from attnflow import catalogue

@af.catalogue.register  # which an entry point makes needless, and which does no harm
@dataclass(frozen=True, eq=False)
class Flat(af.Law):
    '''Flat attention: P_ij = 1 / n.'''
    name = "flat"
    def log_weights(self, x, t=0, *, sources=None, masses=None):
        n = len(x if sources is None else sources)
        return np.full((len(x), n), -np.log(n))
""",
    "motions": """
from dataclasses import dataclass
import attnflow as af
from attnflow import catalogue

@dataclass(frozen=True, eq=False)
class Still(af.motions.DiscreteMotion):
    '''No motion: x_i <- x_i.'''
    name = "still"
    def step(self, hearing, x, t):
        return x
""",
    "claims": """
import numpy as np
import attnflow as af
from attnflow import catalogue
from attnflow.claims import Margins, Paper, Setting

SETTING = Setting({"tokens": ..., "steps": 3}, lambda instance: (af.Hardmax(), af.Layers(gamma=0.5)),
                  lambda rng, k: {"tokens": rng.standard_normal((3, 2))})

@Paper("next", "Neighbour", "Tokens next door", "0000.00000").claim(
    "finite", "Lemma 1", "proved", SETTING, "Tokens stay finite.")
def finite(e):
    '''Along the run.'''
    return Margins("finite", np.isfinite(e.states).all(axis=(1, 2)) * 2.0 - 1, e.times)
""",
    "figures": """
from attnflow.figures.gallery import Drawing, entry

@entry("next/dot", "A dot", "the neighbour", seed=0)
def dot(seed):
    from matplotlib.figure import Figure
    figure = Figure()
    figure.subplots().plot(seed, seed, "o")
    return Drawing(figure, "One dot.")
""",
    "broken": "raise RuntimeError('built for\\nanother version')",
}

GROUPS = ("laws", "motions", "claims", "figures")


def neighbour(folder: Path, points: dict[str, str], code: str) -> Any:
    """Run Python beside an installed package, as pip would leave it, that has these entry points."""
    package, about = folder / "neighbour", folder / "neighbour-1.0.dist-info"
    for place in (package, about):
        place.mkdir()
    for name, source in NEIGHBOUR.items():
        (package / f"{name}.py").write_text(source)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: neighbour\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("".join(f"[attnflow.{k}]\none = {v}\n" for k, v in points.items()))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_an_installed_package_is_found_by_its_entry_points(tmp_path: Path) -> None:
    """Nothing imports it, and its law, motion, claim and figure are there, in the library and on the command line."""
    points = {"laws": "neighbour.laws:Flat", "motions": "neighbour.motions:Still"}
    points |= {"claims": "neighbour.claims", "figures": "neighbour.figures"}
    code = f"""
import attnflow as af
from attnflow import catalogue
from attnflow.app.cli import main

print(af.catalogue.build("law", {{"name": "flat"}}).attend([[1.0], [3.0]]).tolist())
print(af.catalogue.build("motion", {{"name": "still"}}), af.check("next/finite", tokens=[[1.0]]).outcome)
main("check list".split())
main("figure list next".split())
main(["figure", "next/dot", "-o", {str(tmp_path)!r}, "--only", "svg"])
main("simulate --law flatt".split())
"""
    told = neighbour(tmp_path, points, code)
    # The first run after an installation also says that it compiles.
    assert sum("compiling kernels" not in line for line in told.stderr.splitlines()) == 1
    assert "there is no law 'flatt' (is 'flat' meant?), expected one of softmax" in told.stderr
    assert "flat\n" in told.stderr
    said = told.stdout.splitlines()
    assert said[:2] == ["[[2.0], [2.0]]", "Still() holds"]
    assert any(line.split()[:2] == ["next/finite", "proved"] for line in said)
    assert "next/dot  A dot" in said
    assert (tmp_path / "next-dot.svg").exists()


def test_a_package_whose_entry_points_fail_stops_nothing(tmp_path: Path) -> None:
    """One sentence for each, on the command line without a place in the code; all else works."""
    points = dict.fromkeys(GROUPS, "neighbour.broken") | {"motions": "neighbour.laws:Flat"}
    code = """
import attnflow as af
from attnflow import catalogue
from attnflow.app.cli import main

main("check list".split())
main("figure list sphere".split())
main("simulate --law soft".split())
print("softmax" in af.catalogue.entries("law"), len(af.claims.all()) > 50)
"""
    told = neighbour(tmp_path, points, code)
    assert told.returncode == 0
    assert "fw/cluster-rate" in told.stdout
    assert "sphere/staircase" in told.stdout
    assert told.stdout.endswith("True True\n")
    said = told.stderr.splitlines()
    assert len(said) == 5
    for group in ("laws", "claims", "figures"):
        sentence = f"attnflow: neighbour.broken of the package neighbour is left out of attnflow.{group}, since"
        reason = "RuntimeError: built for another version; update or remove that package"
        assert any(line.startswith(sentence) and line.endswith(reason) for line in said)
    assert any("attnflow.motions" in line and "is a law, expected a motion" in line for line in said)


class Point:
    """An entry point whose package does something when it is loaded."""

    value, dist = "package", None

    def __init__(self, load: Any) -> None:
        self.load = load


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Entry points of every group, none of which has been loaded."""
    found: list[Point] = []
    monkeypatch.setattr(installed_packages, "_loaded", {})
    monkeypatch.setattr(metadata, "entry_points", lambda group: found)
    return found


def test_threads_wait_for_packages_that_are_being_loaded(points: list[Point]) -> None:
    begun, go_on, told = threading.Event(), threading.Event(), []

    def load() -> str:
        begun.set()
        go_on.wait()
        return "part"

    points.append(Point(load))
    threads = [threading.Thread(target=lambda: told.append(installed("slow"))) for _ in range(2)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    threads[1].join(0.2)  # long enough for an answer that would come too early
    go_on.set()
    for thread in threads:
        thread.join()
    assert told == [["part"], ["part"]]


def test_a_package_that_ends_the_program_or_asks_again_stops_nothing(points: list[Point]) -> None:
    points += [Point(lambda: "first"), Point(lambda: sys.exit(3)), Point(lambda: len(installed("all")))]
    with pytest.warns(UserWarning, match="since loading it failed with SystemExit: 3"):
        assert installed("all") == ["first", 1]
    points.clear()
    assert installed("all") == ["first", 1]


def test_names_that_are_known_and_those_of_no_class_load_no_package(
    points: list[Point], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "REGISTERED", {kind: dict(held) for kind, held in catalogue.REGISTERED.items()})
    everyone = catalogue.register(type("Everyone", (af.Law,), {"name": "everyone"}))
    points.append(Point(lambda: pytest.fail("loaded")))
    assert class_named("FeedForward") is af.FeedForward
    assert af.Everyone is everyone
    assert not hasattr(af, "nothing_here")
    assert not hasattr(af, "_Nothing")
