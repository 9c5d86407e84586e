"""The catalogue: what laws, motions and clouds say of themselves, and how they are made from plain data."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow import catalogue
from attnflow.catalogue import Entry, build, entries, entry, part_named, register
from attnflow.core.parameters import KINDS, about

ALL = [found for kind in ("law", "motion", "cloud") for found in entries(kind).values()]


@pytest.fixture
def everyone() -> Iterator[type[af.Law]]:
    """A law of one's own in the catalogue, and out of it again."""

    @register
    @dataclass(frozen=True, eq=False)
    class Everyone(af.Law):
        """Attention to everyone, more to oneself: P_ij = (1 + s [i = j]) / (n + s)."""

        name = "everyone"
        self_weight: float = field(default=0.0, metadata=about("number", "weight of oneself", symbol="s", least=0.0))

        def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
            n = len(x if sources is None else sources)
            return np.log((np.ones((len(x), n)) + self.self_weight * np.eye(len(x), n)) / (n + self.self_weight))

    yield Everyone
    del catalogue.REGISTERED["law"]["everyone"]


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found.kind}-{found.name}")
def test_entries_say_what_their_signatures_take(found: Entry) -> None:
    """The catalogue and Python agree on names, order and defaults, so that neither is written twice wrongly."""
    signature = inspect.signature(found.make).parameters
    assert list(found.parameters) == list(signature)
    for name, one in signature.items():
        said = found.parameters[name]
        assert said.required == (one.default is one.empty)
        if not said.required:
            assert said.default is one.default or said.default == one.default
        assert said.kind in KINDS
        assert said.help


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found.kind}-{found.name}")
def test_entries_can_be_shown(found: Entry) -> None:
    assert found.title
    assert found.summary.endswith((".", ":"))
    if found.kind != "cloud":
        assert found.formula_for({})
        assert "arXiv" in found.citation or "(20" in found.citation


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found.kind}-{found.name}")
def test_bounds_are_those_that_are_checked(found: Entry) -> None:
    """A number just outside the bounds of a parameter is refused, one just inside is not refused for its size."""
    needed: dict[str, Any] = {one.name: 1 for one in found.parameters.values() if one.required}
    if found.name == "heads":
        return
    for one in found.parameters.values():
        for bound, value in one.bounds.items():
            outside = value if bound == "above" else np.nextafter(value, -np.inf if bound == "least" else np.inf)
            if one.kind == "count":
                outside = value - 1
            with pytest.raises(af.InputError, match=one.name):
                found.make(**{**needed, one.name: outside})


def test_the_formula_follows_what_is_given() -> None:
    layers, localmax = entry("motion", "layers"), entry("law", "localmax")
    assert "(I + V)" in layers.formula_for({"V": [[1.0]]})
    assert "gamma" in layers.formula_for({"gamma": 0.5, "V": None})
    assert "|M_i|" in localmax.formula_for({"threshold": "relative"})
    assert "|" not in localmax.formula_for({"delta": 0.1})


def test_a_law_of_ones_own(everyone: type[af.Law]) -> None:
    law = build("law", {"name": "everyone", "self_weight": 2.0})
    assert isinstance(law, everyone)
    np.testing.assert_allclose(law.weights([[1.0], [2.0]]), [[0.75, 0.25], [0.25, 0.75]])
    assert part_named("Everyone") is everyone
    assert af.Everyone is everyone
    assert entries("law")["everyone"].title == "Everyone"
    assert entries("law")["everyone"].parameters["self_weight"].symbol == "s"


def test_bad_names_keys_and_classes_are_refused(everyone: type[af.Law]) -> None:
    with pytest.raises(af.InputError, match="softmax"):
        build("law", {"name": "softmaxx"})
    with pytest.raises(af.InputError, match="unknown key 'betta'"):
        build("law", {"name": "softmax", "betta": 1})
    with pytest.raises(af.InputError, match="does not say gamma"):
        build("motion", {"name": "jumps"})
    with pytest.raises(af.InputError, match="cannot be in the catalogue"):
        register(int)
    with pytest.raises(af.InputError, match="in the catalogue already"):

        @register
        class Another(af.Law):
            name = "everyone"

    with pytest.raises(af.InputError, match="kind is 'claim'"):
        entries("claim")


def test_an_installed_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    """A package beside this one, as pip would leave it: nothing imports it, and its law is there."""
    (tmp_path / "neighbour.py").write_text(
        "from dataclasses import dataclass\nimport numpy as np\nimport attnflow as af\n"
        "@dataclass(frozen=True, eq=False)\nclass Flat(af.Law):\n    '''Flat attention: P_ij = 1 / n.'''\n"
        "    name = 'flat'\n"
        "    def log_weights(self, x, t=0, *, sources=None, masses=None):\n"
        "        n = len(x if sources is None else sources)\n        return np.full((len(x), n), -np.log(n))\n"
    )
    folder = tmp_path / "neighbour-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: neighbour\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[attnflow.laws]\nflat = neighbour:Flat\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom attnflow.catalogue import build\n"
        "print(build('law', {'name': 'flat'}).attend([[1.0], [3.0]]).tolist())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("[[2.0], [2.0]]\n", "")
