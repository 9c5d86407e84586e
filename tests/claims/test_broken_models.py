"""Every claim fails for a deliberately wrong model, on data on which it holds for the right one."""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from larger import larger

import attnflow as af


def _broken() -> dict[str, Any]:
    """Return the wrong models of every file beside this one, each with its data, or what returns both."""
    found: dict[str, Any] = {}
    for path in sorted(Path(__file__).parent.glob("broken_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert not set(module.BROKEN) & set(found), f"{path.name} repeats a claim"
        found |= module.BROKEN
    return found


BROKEN = _broken()


@cache
def model(id: str) -> dict[str, Any]:
    """Return the wrong model of a claim and its data."""
    given: dict[str, Any] = BROKEN[id]() if callable(BROKEN[id]) else BROKEN[id]
    return given


def test_every_claim_has_a_wrong_model() -> None:
    assert set(BROKEN) == {claim.id for claim in af.claims.all()}


@pytest.mark.parametrize("id", BROKEN)
def test_a_wrong_model_violates_the_claim(id: str) -> None:
    assert model(id).keys() & {"law", "motion"}
    assert af.check(id, **model(id)).outcome == "violated"


# The right model refutes or holds at infinity only, where a finite run is undecided.
UNDECIDED = {"emergence/polytope/pair"}


# A second each: random tokens, of which test_sphere has fewer, and the run of causal/two-points/repaired with B = I.
SEEN = ("sphere/phase-diagram", "causal/two-points")


@pytest.mark.parametrize("id", [pytest.param(id, marks=[larger] if id in SEEN else []) for id in BROKEN])
def test_the_right_model_holds_on_the_same_data(id: str) -> None:
    data = {name: value for name, value in model(id).items() if name not in ("law", "motion")}
    if data or not af.claims.get(id).refutable:
        assert af.check(id, **data).outcome == ("undecided" if id in UNDECIDED else "holds")
