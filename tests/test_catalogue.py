"""The catalogue: what laws, motions and clouds say of themselves."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.catalogue import Entry, entries, entry
from attnflow.core.parameters import KINDS

ALL = [found for kind in ("law", "motion", "cloud") for found in entries(kind).values()]


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found.kind}-{found.name}")
def test_entries_say_what_their_signatures_take(found: Entry) -> None:
    """The catalogue and Python agree on names, order and defaults, so that neither is written twice wrongly."""
    signature = dict(inspect.signature(found.make).parameters)
    # Clouds in chunks are for Python: files, flags and pages start from arrays of NumPy.
    signature.pop("chunks", None)
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
        advice = "give the arXiv number of the paper, or its year in parentheses: (arXiv 1706.03762), (1998)"
        assert re.search(r"arXiv|\((1[6-9]|20)\d\d", found.citation), f"{found.name} cites {found.citation!r}: {advice}"


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found.kind}-{found.name}")
def test_bounds_are_those_that_are_checked(found: Entry) -> None:
    """A number just outside the bounds of a parameter is refused, the nearest one inside is not."""
    needed: dict[str, Any] = {
        one.name: af.Softmax() if one.part is af.Law else 1 for one in found.parameters.values() if one.required
    }
    if found.name in ("heads", "noisy"):
        return  # what a motion with noise takes depends on the motion that it holds
    for one in found.parameters.values():
        if one.only_for:
            needed["norm"] = one.only_for
        for bound, value in one.bounds.items():
            whole = one.kind == "count"
            up, down = (value + 1, value - 1) if whole else (np.nextafter(value, np.inf), np.nextafter(value, -np.inf))
            outside = {"least": down, "above": value, "most": up}[bound]
            with refused(rf"^{one.name} is "):
                found.make(**{**needed, one.name: outside})
            found.make(**{**needed, one.name: up if bound == "above" else value})


def test_the_formula_follows_what_is_given() -> None:
    layers, localmax = entry("motion", "layers"), entry("law", "localmax")
    assert "(I + V)" in layers.formula_for({"V": [[1.0]]})
    assert "gamma" in layers.formula_for({"gamma": 0.5, "V": None})
    assert "|M_i|" in localmax.formula_for({"threshold": "relative"})
    assert "|" not in localmax.formula_for({"delta": 0.1})
