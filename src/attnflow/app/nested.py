"""A law around another law, or a motion around another motion, in plain data: names in one line, keys without a path.

The table of `Noisy(SphereFlow(), kappa=2)` is {"name": "noisy", "kappa": 2, "motion": {"name": "sphere-flow"}}. In a
line its name is "noisy,sphere-flow", from the outside to the inside, and a key belongs to the innermost that has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attnflow.catalogue import Entry, entries, entry
from attnflow.core.inputs import InputError


def around(found: Entry) -> str | None:
    """Return the key under which a law or a motion holds the one that it is around; None if it is around none.

    >>> around(entry("motion", "noisy")), around(entry("motion", "flow"))
    ('motion', None)
    """
    return None if found.around is None else found.around.key


def words(names: str) -> list[str]:
    """Return the names in a line.

    >>> words("noisy, sphere-flow")
    ['noisy', 'sphere-flow']
    """
    return [word.strip() for word in names.split(",")]


def tables(kind: str, table: Any) -> Iterator[dict[str, Any]]:
    """Yield the table of a law or a motion, and those of what is inside, from the outside to the inside."""
    while isinstance(table, dict):
        yield table
        found = entries(kind).get(str(table.get("name")))
        table = None if found is None else table.get(around(found) or "")


def name_in(kind: str, table: dict[str, Any], names: str) -> None:
    """Give a table these names, with nothing else in it unless it has them already.

    >>> made = {"name": "layers", "gamma": 0.1}
    >>> name_in("motion", made, "noisy,sphere-flow")
    >>> made
    {'name': 'noisy', 'motion': {'name': 'sphere-flow'}}
    """
    asked, old = words(names), [one.get("name") for one in tables(kind, table)]
    if asked == old[: len(asked)]:
        return
    table.clear()
    place = table
    for k, name in enumerate(asked):
        place["name"] = name
        inside = around(entries(kind)[name]) if name in entries(kind) else None
        if k + 1 < len(asked):
            if inside is None:
                entry(kind, name)  # refuses a name that does not exist
                raise InputError(f"{name} is around no other {kind}: give one name, or those around others before it")
            place[inside] = {}
            place = place[inside]
        elif inside is not None:
            raise InputError(f"{name} is around another {kind}: name that too, as in {name},{_example(kind)}")


def _example(kind: str) -> str:
    return next(name for name, found in entries(kind).items() if not around(found))


def owner(kind: str, table: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the innermost of the tables whose law or motion has a parameter; where none has it, the outermost."""
    having = _having(kind, table, key)
    return having[-1] if having else table


def has(kind: str, table: dict[str, Any], key: str) -> bool:
    """Say whether a law or a motion, or one inside, has a parameter.

    >>> noisy = {"name": "noisy", "motion": {"name": "layers"}}
    >>> has("motion", noisy, "gamma"), has("motion", noisy, "beta")
    (True, False)
    """
    return bool(_having(kind, table, key))


def _having(kind: str, table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    known = [one for one in tables(kind, table) if str(one.get("name")) in entries(kind)]
    return [one for one in known if any(p.key == key for p in entry(kind, one["name"]).parameters.values())]


def copied(value: Any) -> Any:
    """Return a table that can be changed apart from this one, with the tables inside."""
    return {key: copied(one) for key, one in value.items()} if isinstance(value, dict) else value
