"""Every public name has a docstring, an example that runs and types; models and measurements a formula and a paper.

Public are the names that the pages of docs/reference ask for. Examples are run as doctests, like all of the package.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

import attnflow as af
from attnflow import catalogue, measure
from attnflow.figures import gallery

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
ASKED = re.compile(r"^\.\. auto(\w+):: ([\w.]+).*\n((?: +:.*\n)*)", re.MULTILINE)
# An equation, an inequality, a power, an index or a norm: what a sentence in words has not.
FORMULA = re.compile(r"[=^]|<-|<=|>=|[A-Za-z*]_[A-Za-z0-9{]|\|[a-zA-Z]|<[A-Za-z]+,")

# Public names without an example of their own, and why.
NO_EXAMPLE = {
    "an exception: every refusal is an example": "InputError",
    "a contract: docs/design.md and docs/claims.md build one": (
        "Law Motion motions.DiscreteMotion motions.ContinuousMotion motions.Stepper watch.Watcher claims.Margins "
        "claims.Paper claims.Setting"
    ),
    "what another object holds or hands over": (
        "densities.Balance densities.BranchCurve densities.Transition "
        "geometry.Broken geometry.Certificate geometry.Dominant measure.Course measure.Merge measure.Plateau "
        "measure.Rate measure.SizeRate laws.Heard laws.Hearing laws.Sources motions.Stretch watch.Recorder "
        "watch.Recording watch.Start tokens.Cloud"
    ),
}
# Models, measurements, claims and figures without a formula or a paper of their own, and why.
NO_FORMULA = {
    "grid": "no paper starts from it",
    "summary": "the numbers of clusters, leaders and ranks, whose functions cite",
    "hardmax/vertices-in-finite-time": "the sentence of the paper is in words",
    "localmax/constant-converges": "the sentence of the paper is in words",
    "claims/verdicts": "of all papers",
}


def documented() -> dict[str, Any]:
    """Return the public names with what they stand for."""
    found: dict[str, Any] = {}
    for page in sorted(REFERENCE.glob("*.rst")):
        for kind, name, options in ASKED.findall(page.read_text(encoding="utf-8") + "\n"):
            if kind != "module":
                found[name] = resolve_name(name)
            elif ":members:" in options:
                module = import_module(name)
                found |= {f"{name}.{one}": getattr(module, one) for one in _members(module, options)}
    return {name: one for name, one in found.items() if callable(one)}


def _members(module: Any, options: str) -> list[str]:
    listed = re.search(r":members: +(.+)", options)
    if listed:
        return listed[1].split(", ")
    own = [name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


PUBLIC = documented()


def functions(one: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield a function, or the public methods and properties that a class defines, by name."""
    if not inspect.isclass(one):
        yield "", inspect.unwrap(one)
        return
    for name, held in vars(one).items():
        inner = getattr(held, "fget", None) or getattr(held, "func", None) or getattr(held, "__func__", held)
        if not name.startswith("_") and inspect.isfunction(inner):
            yield f".{name}", inner


def returned() -> set[str]:
    """Return the names of the classes that public functions with an example return: the example shows them."""
    said = [inspect.signature(one).return_annotation for one in PUBLIC.values() if ">>>" in (one.__doc__ or "")]
    return {word for annotation in said for word in re.findall(r"\w+", str(annotation))}


def test_the_reference_names_all_that_is_public() -> None:
    known = {*PUBLIC.values()}
    assert {getattr(af, name) for name in af.__all__ if callable(getattr(af, name))} <= known
    assert {getattr(measure, name) for name in measure.__all__} <= known


def test_every_public_name_has_a_docstring() -> None:
    """A method that writes what a contract asks for may leave it to the contract to say what that is."""
    lacking = {name for name, one in PUBLIC.items() if not one.__doc__}
    for name, one in PUBLIC.items():
        parts = [part for part, _ in functions(one) if part]
        lacking |= {f"{name}{part}" for part in parts if not inspect.getdoc(getattr(one, part[1:]))}
    assert not lacking


def test_every_public_name_has_an_example() -> None:
    """A class has it in its docstring or in those of its methods, or a function that returns it shows it."""
    shown = returned()
    lacking = set()
    for name, one in PUBLIC.items():
        texts = [one.__doc__ or "", *(inner.__doc__ or "" for _, inner in functions(one))]
        if not any(">>>" in text for text in texts) and one.__name__ not in shown:
            lacking.add(name)
        assert not any("+SKIP" in text for text in texts), name
    assert not lacking - {f"attnflow.{name}" for names in NO_EXAMPLE.values() for name in names.split()}


def test_every_public_function_has_types() -> None:
    lacking = set()
    for name, one in PUBLIC.items():
        for part, inner in functions(one):
            signature = inspect.signature(inner)
            given = [each for key, each in signature.parameters.items() if key not in ("self", "cls")]
            annotations = [signature.return_annotation, *(each.annotation for each in given)]
            if inspect.Signature.empty in annotations:
                lacking.add(f"{name}{part}")
    assert not lacking


def prose(one: Any) -> str:
    """Return a docstring without its examples."""
    text = inspect.getdoc(one) or ""
    return re.sub(r"^(>>>|\.\.\.).*\n(?:(?!>>>)\S.*\n?)*", "", text, flags=re.MULTILINE)


def without(found: dict[str, tuple[str, str]]) -> set[str]:
    """Return what lacks a formula in the first text or the year of a paper in the second."""
    lacking = {
        name for name, given in found.items() if not (FORMULA.search(given[0]) and re.search(r"\d{4}", given[1]))
    }
    assert set(found) & set(NO_FORMULA) <= lacking
    return lacking - set(NO_FORMULA)


@pytest.mark.parametrize("kind", ["law", "motion", "cloud"])
def test_laws_motions_and_clouds_have_a_formula_and_a_paper(kind: str) -> None:
    known = catalogue.entries(kind)
    assert not without({name: (prose(found.make), found.citation) for name, found in known.items()})
    assert kind == "cloud" or all(found.formula for found in known.values())


def test_measurements_have_a_formula_and_a_paper() -> None:
    made = {name: prose(getattr(measure, name)) for name in measure.__all__ if name.islower()}
    assert not without({name: (text, text.partition("References")[2]) for name, text in made.items()})


def test_claims_have_a_formula_and_a_paper() -> None:
    texts = {claim.id: f"{claim.statement} {prose(claim.conclusion)}" for claim in af.claims.all()}
    assert not without({id: (text, af.claims.get(id).paper.citation) for id, text in texts.items()})
    assert all(claim.where for claim in af.claims.all())


def test_figures_of_papers_have_a_formula_and_a_paper() -> None:
    known = gallery.entries()
    assert not without({name: (prose(one.function), one.source) for name, one in known.items()})


def test_a_docstring_in_words_has_no_formula() -> None:
    assert not FORMULA.search("Return the tokens that lead, and those that follow: one for each place.")
    assert not FORMULA.search(prose(lambda: None))
