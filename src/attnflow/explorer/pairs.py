"""Which laws and motions go together: for each motion the laws that it does not take, and why, in few words."""

from __future__ import annotations

from functools import cache
from typing import Any

from attnflow.catalogue import Entry, build, entries, entry
from attnflow.core.inputs import InputError
from attnflow.explorer.menu_words import in_menu_words
from attnflow.explorer.state import read, shown

# Three tokens that every motion takes, also those on the sphere.
TOKENS = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]


Refusals = dict[str, dict[str, str]]


def refusals(motion: str) -> Refusals:
    """Return the laws that a motion does not take, with the reason: a `sentence`, and a few words for each menu.

    A law at the end of a slider has its own name here: softmax at infinity is hardmax.

    >>> found = refusals("flow")
    >>> list(found), found["localmax"]["motion"], found["localmax"]["law"]
    (['hardmax', 'localmax', 'hegselmann-krause'], 'needs a law that does not jump', 'jumps as tokens move')
    """
    # Others may register more while this process lives.
    return _all(*(tuple((name, entry(kind, name).make) for name in shown(kind)) for kind in ("law", "motion")))[motion]


@cache
def _all(laws: tuple[tuple[str, Any], ...], motions: tuple[tuple[str, Any], ...]) -> dict[str, Refusals]:
    variants = [each for name, _ in laws for each in _variants(name)]
    found = {motion: {law: _refused(motion, law, table) for law, table in variants} for motion, _ in motions}
    # What nothing goes with is refused for its parameters, which people may change.
    lonely = {law for law, _ in variants if all(of[law] for of in found.values())}
    return {
        motion: {law: why for law, why in of.items() if why and law not in lonely} if not all(of.values()) else {}
        for motion, of in found.items()
    }


def _refused(motion: str, law: str, table: dict[str, Any]) -> dict[str, str]:
    """Ask the library: return why a law and a motion do not go together, nothing if they do."""
    try:
        read({"tokens": TOKENS, "law": table, "motion": _fresh(entry("motion", motion)), "until": 1})
    except InputError as error:
        return {"sentence": in_menu_words(str(error)), **_in_few_words(motion, law)}
    except Exception:  # a law of others that fails: its run will say how
        return {}
    return {}


def _variants(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return a law as it starts, and at the end of its slider if it has one, each with the name of the law it is."""
    found = entry("law", name)
    table = _fresh(found)
    ends = [(one.limit, {**table, one.key: "inf"}) for one in found.parameters.values() if one.limit]
    return [(name, table), *ends]


def _fresh(of: Entry) -> dict[str, Any]:
    """Return what a law or motion is when it is chosen in a menu, for tokens in the plane."""
    table: dict[str, Any] = {"name": of.name}
    for one in of.parameters.values():
        if not one.shown or one.key in of.alternatives[1:]:
            continue
        data = one.data
        if one.kind == "matrix":
            if one.required or one.key in of.alternatives:
                table[one.key] = [[1.0, 0.0], [0.0, 1.0]]
            continue
        choices = data.get("choices") or [None]
        starts = (data.get("start"), data.get("default"), choices[0], data.get("least"), 1)
        table[one.key] = next(value for value in starts if value is not None)
    return table


def _in_few_words(motion: str, law: str) -> dict[str, str]:
    """Return why they do not go together: as the menu of motions says it, and as the menu of laws does."""
    about, of = entry("motion", motion), entry("law", law)
    capable, only = about.data, entries("law").get(about.data["only_law"])
    if only is not None and only.name != law:
        needed = only.title.lower()
        return {"motion": f"needs {needed}", "law": f"this motion needs {needed}"}
    if not capable["takes_jumping_laws"] and not of.data["continuous"]:
        return {"motion": "needs a law that does not jump", "law": "jumps as tokens move"}
    if not getattr(build("law", _fresh(of)), "stochastic", True):
        return {"motion": "needs weights that sum to one", "law": "its weights do not sum to one"}
    return {"motion": "not with this law", "law": "not with this motion"}
