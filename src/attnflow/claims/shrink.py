"""Make a counterexample small: few tokens, small rationals, plain forms, a short horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from attnflow.claims.claim import Instance
from attnflow.claims.verdict import Verdict
from attnflow.core.inputs import InputError, varies_in_time

Violates = Callable[[Instance], Verdict | None]

HORIZONS = ("steps", "until")
LATTICES, BINARY = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64), (1, 2, 4, 8, 16, 64, 256, 4096)


def shrink(instance: Instance, verdict: Verdict, violates: Violates) -> tuple[Instance, Verdict]:
    """Return a smaller instance that still violates the claim, with its verdict.

    `violates(instance)` returns the verdict if it is a violation as well certified as the first, else None. Every
    proposal is tried in turn and kept if it violates: the result depends on nothing else.
    """
    kinds = (_simple_forms, _lattice_tokens, _round_numbers)
    for propose in (_fewer_tokens, _fewer_dimensions, *kinds, _fewer_tokens, _shorter):
        progress = True
        while progress:
            progress = False
            for smaller in propose(instance, verdict):
                found = None
                with suppress(InputError):
                    found = violates(smaller)
                if found is not None:
                    instance, verdict, progress = smaller, found, propose in (_fewer_tokens, _fewer_dimensions)
                    break
    return instance, verdict


def _fewer_tokens(instance: Instance, verdict: Verdict) -> Iterator[Instance]:
    x = instance.get("tokens")
    if x is not None and instance.get("symmetry") is None:
        for i in range(len(x) if len(x) > 2 else 0):
            yield {**instance, **_without(instance, i, axis=0)}


def _fewer_dimensions(instance: Instance, verdict: Verdict) -> Iterator[Instance]:
    x = instance.get("tokens")
    moving = any(varies_in_time(instance.get(name)) for name in ("B", "V"))
    if x is None or instance.get("symmetry") is not None or moving:
        return
    for k in range(x.shape[1] if x.shape[1] > 1 else 0):
        forms = {
            name: np.delete(np.delete(instance[name], k, axis=0), k, axis=1)
            for name in ("B", "V")
            if instance.get(name) is not None
        }
        yield {**instance, **_without(instance, k, axis=1), **forms}


def _without(instance: Instance, i: int, axis: int) -> Instance:
    """Return the tokens, and the targets where there are any, without a row or a column."""
    return {name: np.delete(instance[name], i, axis=axis) for name in ("tokens", "targets") if name in instance}


def _simple_forms(instance: Instance, verdict: Verdict) -> Iterator[Instance]:
    for name in ("B", "V"):
        M = instance.get(name)
        if M is None or varies_in_time(M):
            continue
        if name == "B":
            yield {**instance, name: None}
        yield {**instance, name: np.diag(np.diag(M).round())}
        for digits in range(4):
            yield {**instance, name: np.round(M, digits)}


def _lattice_tokens(instance: Instance, verdict: Verdict) -> Iterator[Instance]:
    """Propose tokens with small integer coordinates, then with few binary digits at their own scale."""
    x = instance.get("tokens")
    if x is None:
        return
    size = float(np.abs(x).max()) or 1.0
    unit = 2.0 ** np.floor(np.log2(size))
    # Adding 0 turns -0 into 0.
    yield from ({**instance, "tokens": np.round(x / size * m) + 0.0} for m in LATTICES)
    yield from ({**instance, "tokens": (np.round(x / unit * m) + 0.0) / m * unit} for m in BINARY)


def _round_numbers(instance: Instance, verdict: Verdict) -> Iterator[Instance]:
    for name, value in instance.items():
        if isinstance(value, float) and name not in HORIZONS:
            rounded = (float(f"{value:.{digits}g}") for digits in (1, 2))
            yield from ({**instance, name: other} for other in rounded if other != value)


def _shorter(instance: Instance, verdict: Verdict) -> Iterator[Instance]:
    """Propose to stop just after the first failure."""
    if "steps" in instance and verdict.where is not None:
        first = int(verdict.where[0]) + 1
        if first < instance["steps"]:
            yield {**instance, "steps": first}
