"""The flags of `attnflow simulate`, and what its help says: those of tokens, law and motion come from the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from attnflow import engines
from attnflow.catalogue import Entry, entries
from attnflow.core.parameters import KINDS, Parameter


class Flag(NamedTuple):
    """Where a flag goes in a configuration, its table (None: the top) and key, and what it says of itself."""

    table: str | None
    key: str
    help: str


# The flags that name a cloud, a law or a motion: the kind, the table and the key.
NAMES = {"cloud": ("tokens", "cloud"), "law": ("law", "name"), "motion": ("motion", "name")}
TOKENS = Flag("tokens", "file", "a list such as [[1, 0], [0, 1]], or a .csv or .npy file with one token per row")
SIMULATE = """\
Simulate tokens under a law of attention, from flags, from a TOML file, or from a file with flags on top.

  attnflow simulate --cloud gaussian --n 200 --d 2 --law softmax --beta 9 --motion layers --gamma 0.1 --until 500
  attnflow simulate --tokens cloud.csv --law hardmax --motion layers --gamma "2 / (t + 2)" --until 100
  attnflow simulate run.toml --beta 20 --store run.zarr --plot run.png
  attnflow simulate --cloud sphere --n 7 --d 2 --beta 16 --law softmax --motion sphere-flow --until 1e14 \\
    --merges 0.999 --draw staircase.png
  attnflow simulate --cloud polygon --k 3 --law softmax --beta 40 --motion jumps --gamma 0.1 --until 1e25 --exits 0.1

A law or a motion around another one comes before it: --motion noisy,sphere-flow --kappa 5 --dt 0.01.
Numbers may be formulas in t; matrices are lists such as "[[1, 0], [0, 2]]", or .csv and .npy files. A store records
the configuration, the versions and the seed with the run; an interrupted run goes on when the command is repeated.
"""


def flags() -> dict[str, Flag]:
    """Return the flags by name, in the order in which they are applied: a law comes before its parameters.

    Where a law and a motion have a parameter of the same name, the flag of the second one begins with "motion-". The
    plain flag means it too if the law of the run has no such parameter.

    >>> flags()["ties"].help
    'how tied sources count: tokens, points, first or error (hardmax)'
    >>> flags()["b"].table, flags()["motion-b"].table
    ('law', 'motion')
    """
    named = {kind: Flag(*place, _names(kind)) for kind, place in NAMES.items()}
    others = _others()
    taken = {*named, "tokens", "help", *others}
    made: dict[str, dict[str, Flag]] = {kind: {} for kind in NAMES}
    every = [found for kind in NAMES for found in entries(kind).values()]
    # Parameters of this package take their names first.
    every.sort(key=lambda found: not found.make.__module__.startswith("attnflow."))
    for kind, key in dict.fromkeys((found.kind, key) for found in every for key in _held(found)):
        flag = f"{NAMES[kind][0]}-{key}" if key in taken else key
        taken.add(flag)
        made[kind][flag] = Flag(NAMES[kind][0], key, _help(kind, key))
    found: dict[str, Flag] = {}
    for kind in NAMES:
        found |= {kind: named[kind], **({"tokens": TOKENS} if kind == "cloud" else {}), **made[kind]}
    return found | others


def _others() -> dict[str, Flag]:
    """Return the flags that belong to no cloud, law or motion."""
    tables: dict[str | None, dict[str, str]] = {
        None: {
            "until": "number of steps, or time",
            "seed": "seed of everything random",
            "record": f"record every k-th step ({chains()}: move), at a list of times, 'geometric', or "
            '{"first": 1, "per_decade": 20}',
            "masses": "masses of the tokens, a list or a file",
            "engine": f"how sums are computed: {listed(engines.CHOICES)}",
            "precision": f"of sums from {engines.BLOCKED_DIMENSION} dimensions on: {listed(engines.PRECISIONS)}",
        },
        "stop": {
            "converged": "stop when no token moves faster than this fraction of the cloud",
            "clusters": "stop when at most this many clusters are left",
            "tol": "distance that joins tokens to a cluster",
            "seconds": "stop after this many seconds",
        },
        "measure": {
            "merges": "tell when clusters merge: inner products above this on the sphere, as 0.999; else distances "
            "below it",
            "exits": f"tell when chains first leave this radius ({chains()})",
            "within": "how likely exits are within this many steps, however rare",
            "phases": "compare finite betas with hardmax, up to this part of the cloud's size",
            "betas": "values of beta, as [8, 16, 32] (exits, phases)",
            "runs": "number of chains (exits, phases; 0 leaves them out of phases)",
        },
        "output": {
            "store": "Zarr store to write the run to",
            "plot": "picture of the run to draw: .png, .svg or .pdf",
            "draw": "picture of merges, exits or phases to draw",
        },
    }
    return {key: Flag(table, key, text) for table, texts in tables.items() for key, text in texts.items()}


def chains() -> str:
    """Return the names of the motions that are Markov chains.

    >>> chains()
    'jumps'
    """
    return listed(name for name, found in entries("motion").items() if getattr(found.make, "chain", False))


def in_flags(sentence: str, arguments: Iterable[str] = ()) -> str:
    """Return a sentence of the library as the command line says it: classes and keywords by the names of their flags.

    What it quotes stays as it is, and so do the user's arguments and the folders of those that are paths.

    >>> in_flags("Layers move in steps: use Flow, or Layers(gamma=0.1, V=None) and until=20")
    'layers move in steps: use flow, or --motion layers --gamma 0.1 and --until 20'
    >>> in_flags("there is no folder '/data/Flow/beta=4'")
    "there is no folder '/data/Flow/beta=4'"
    >>> in_flags("the folder my Flow does not exist: use Flow", ["my Flow/a.zarr"])
    'the folder my Flow does not exist: use flow'
    """
    values = [text.partition("=")[2] if text.startswith("-") else text for text in arguments]
    paths = [str(path) for text in values for path in (text, *Path(text).parents)]
    # Only these can be taken for a class or a keyword. The longest come first: a part of them may be another one.
    values = [path for path in paths if re.search(r"[\s=]", path)]
    kept = "|".join(["'[^']*'", '"[^"]*"', *map(re.escape, sorted(values, key=len, reverse=True))])
    parts = re.split(f"({kept})", sentence)
    return "".join(part if k % 2 else _in_flags(part) for k, part in enumerate(parts))


def _in_flags(sentence: str) -> str:
    known = {getattr(found.make, "__name__", ""): found for kind in NAMES for found in entries(kind).values()}
    # Not within a path.
    alone = r"(?<![\w/.'-])"
    keyword = rf"{alone}({'|'.join(flags())})=([^\s,():;]+)"

    def named(match: re.Match[str]) -> str:
        found, given = known[match[1]], re.findall(keyword, match[3] or "")
        said = [f"--{key} {value}" for key, value in given if value != "None"]
        return " ".join([f"--{found.kind} {found.name}", *said]) if match[2] else found.name

    classes = rf"{alone}({'|'.join(name for name in known if name[:1].isupper())})(?![\w/.'-])(\(([^()]*)\))?"
    clouds = re.sub(r"\baf\.tokens\.(\w+)", r"--cloud \1", re.sub(classes, named, sentence))
    return re.sub(keyword, r"--\1 \2", clouds)


def example() -> str:
    """Return a configuration file to start from, with the names of all clouds, laws and motions."""
    return f"""\
a TOML file:

  until = 500
  seed = 0

  [tokens]
{_choice('cloud = "gaussian"', "cloud", "gaussian")}; or file = "cloud.csv"
  n = 200
  d = 2

  [law]
{_choice('name = "softmax"', "law", "softmax")}
  beta = 9.0

  [motion]
{_choice('name = "layers"', "motion", "layers")}
  gamma = 0.1

  [measure]             # of long times, one of: merges = 0.999 (a distance off the sphere); exits = 0.1, a radius
  phases = 0.05         # ({chains()}), perhaps with within = 100 steps, or betas; phases, a part of the cloud's size,
  betas = [8, 16, 32]   # with betas

  [output]
  store = "run.zarr"
"""


def _names(kind: str) -> str:
    """Return the names of those that flags can describe, those around others last."""
    alone = [
        name
        for name, found in entries(kind).items()
        if not any(one.required and not KINDS[one.kind].flag for one in found.parameters.values())
    ]
    others = [name for name, found in entries(kind).items() if found.around]
    return listed(alone) + (f"; {listed(others)} around another, as {others[0]},{alone[0]}" if others else "")


def _held(found: Entry) -> Mapping[str, Parameter]:
    """Return the parameters that can be flags by their keys; the seed of a cloud is that of everything random."""
    return {
        one.key: one
        for one in found.parameters.values()
        if KINDS[one.kind].flag and not one.beside and (found.kind, one.key) != ("cloud", "seed")
    }


def _help(kind: str, key: str) -> str:
    """Return what a parameter means, with the names of those that have it in brackets, for each of its meanings."""
    meanings: dict[str, list[str]] = {}
    for name, found in entries(kind).items():
        if key in _held(found):
            meanings.setdefault(_meaning(_held(found)[key]), []).append(
                f"{name}, around any {kind}" if found.around else name
            )
    return "; ".join(f"{meaning} ({', '.join(names)})" for meaning, names in meanings.items())


def _meaning(one: Parameter) -> str:
    if one.choices:
        return f"{one.help}: {listed(one.choices)}"
    words = {"least": "at least", "above": "above", "most": "at most"}
    bounds = " and ".join(f"{words[name]} {bound:g}" for name, bound in one.bounds.items())
    return f"{one.help}, {bounds}" if bounds else one.help


def listed(names: Iterable[str], word: str = "or") -> str:
    """Return names as a sentence has them: "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def _choice(line: str, kind: str, shown: str) -> str:
    """Return a line of the example that names one of a kind, with the other names as comments beside and below it."""
    others = [name for name in entries(kind) if name != shown]
    first, *more = wrap(f"or {', '.join(others)}", 94, break_on_hyphens=False)
    return "\n".join([f"  {line:<22}# {first}", *(f"{'':<24}# {comment}" for comment in more)])
