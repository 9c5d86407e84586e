"""The weights of laws, with the indices of queries and sources where these depend on them (masks, positions).

A law whose `log_weights` (or `signed_weights`) takes the keywords ``rows`` and ``columns`` is told both in every call:
`rows` (m,) are the indices of the queries among the tokens, `columns` (n,) those of the sources. All code that needs
weights asks for them here, so what a law is told is decided in one place. The tokens of such a law are never merged,
sorted or dropped.

A law that does not take them must give each token the same weights whatever its index.

The weights of a law with ``stochastic = False`` are no probabilities: it writes `signed_weights` in place of
`log_weights`, and code that needs probabilities refuses it here, in one sentence.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from attnflow.core.arrays import foreign, holds, namespace, place, precision
from attnflow.core.blocks import row_blocks
from attnflow.core.calls import check_method
from attnflow.core.inputs import Array, InputError, OverLayers

NAMES = ("rows", "columns")
# The order of tokens is reversed for at most LOOKED_AT queries and HEARD sources. Means are different if they are
# further apart than DIFFERENT times the cloud's extent.
LOOKED_AT, HEARD, DIFFERENT = 16, 1 << 17, 1e-6
# Rows of weights sum to one up to this, also where a law computes them in single precision.
ROW_SUM = 1e-5
# Tokens and parameters below this power of the largest number have products that are far from overflow.
MODERATE = 0.25


def takes_indices(law: Any) -> bool:
    """Say whether the `log_weights` of a law, or its `signed_weights`, takes the keywords rows and columns.

    >>> import attnflow as af
    >>> takes_indices(af.Softmax())
    False
    """
    kind: Any = type(law)
    return _takes_indices(kind)


@cache
def _takes_indices(kind: Any) -> bool:
    method = "signed_weights" if getattr(kind, "stochastic", True) is False else "log_weights"
    parameters = inspect.signature(getattr(kind, method)).parameters.values()
    taken = [parameter.name for parameter in parameters if parameter.name in NAMES]
    everything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if len(taken) == 1 and not everything:
        raise InputError(f"{method} of {kind.__name__} takes {taken[0]} alone, expected both rows and columns")
    told = everything or len(taken) == 2
    check_method(kind, method, ("x", "t"), ("sources", "masses", *(NAMES if told else ())))
    return told


def positional(law: Any) -> bool:
    """Say whether the weights of a law depend on the indices of tokens, so that it has to be told them."""
    told: bool = law.positional if hasattr(law, "positional") else takes_indices(law)
    return told


def log_weights(
    law: Any,
    x: Array,
    t: float = 0,
    *,
    sources: Array | None = None,
    masses: Array | None = None,
    rows: Array | None = None,
    columns: Array | None = None,
) -> Array:
    """Return log P_ij of a law, telling it the indices of queries and sources if it takes them.

    Unless given, the queries are the tokens 0, 1, ... in this order, and so are the sources.
    """
    need_probabilities(law)
    y = x if sources is None else sources
    found: Array = law.log_weights(x, t, sources=y, masses=masses, **_told(law, x, y, rows, columns))
    return found


def weights(
    law: Any,
    x: Array,
    t: float = 0,
    *,
    sources: Array | None = None,
    masses: Array | None = None,
    rows: Array | None = None,
    columns: Array | None = None,
) -> Array:
    """Return the weights of a law, P_ij or numbers of any sign, as `log_weights` does: checked, see `rows_of`."""
    y = x if sources is None else sources
    if probabilities(law):
        return rows_of(law, log_weights(law, x, t, sources=y, masses=masses, rows=rows, columns=columns), x, y)
    return _signed(law, law.signed_weights(x, t, sources=y, masses=masses, **_told(law, x, y, rows, columns)), x, y)


def probabilities(law: Any) -> bool:
    """Say whether the weights of a law are probabilities: at least 0, with rows that sum to one."""
    return bool(getattr(law, "stochastic", True))


def need_probabilities(law: Any) -> None:
    """Refuse a law whose weights are no probabilities."""
    if not probabilities(law):
        raise InputError(
            f"the weights of {type(law).__name__} are no probabilities, which are needed here: take a law whose rows "
            "of weights sum to one, such as Softmax"
        )


def _told(law: Any, x: Array, y: Array, rows: Array | None, columns: Array | None) -> dict[str, Any]:
    """Return the indices of queries and sources, for a law that takes them."""
    if not positional(law):
        return {}
    return {"rows": indices_of(x) if rows is None else rows, "columns": indices_of(y) if columns is None else columns}


def weight_rows(
    law: Any,
    x: Array,
    t: float,
    *,
    sources: Array,
    masses: Array | None = None,
    most: int | None = None,
    of: Callable[..., Array] = log_weights,
) -> Iterator[tuple[slice, Array]]:
    """Yield log P_ij, or `weights`, in blocks of rows: queries x are the tokens 0, 1, ..., and so are the sources."""
    blocks = list(row_blocks(len(x), len(sources), most))
    if len(blocks) > 1 and hasattr(law, "check_order"):
        law.check_order(x, t, sources=sources, masses=masses)
    every = indices_of(x)
    for rows in blocks:
        yield rows, of(law, x[rows], t, sources=sources, masses=masses, rows=every[rows])


def rows_of(law: object, log_weights: Any, x: Array, sources: Array) -> Array:
    """Return P from log P, refusing what a law of one's own may return by mistake: other shapes, other sums of rows.

    >>> import attnflow as af
    >>> x = np.zeros((2, 1))
    >>> rows_of(af.Law(), np.log([[0.5, 0.5], [0.25, 0.5]]), x, x)
    Traceback (most recent call last):
    ...
    attnflow.InputError: a row of the weights of Law sums to 0.75, expected 1: subtract the logarithm of its sum
    """
    name = type(law).__name__
    _check_shape(f"log_weights of {name}", "log P_ij", log_weights, x, sources)
    P: Array = namespace(x).exp(log_weights)
    if not foreign(P):
        sums = P.sum(axis=-1)
        if np.isnan(sums).any() and _at_fault(law, x, sources) is not None:
            raise not_numbers(law, x, sources)
        wrong = abs(sums - 1) > ROW_SUM
        if wrong.any():
            raise InputError(
                f"a row of the weights of {name} sums to {sums[wrong][0]:.6g}, expected 1: subtract the logarithm of "
                "its sum"
            )
    return P


def _signed(law: object, found: Any, x: Array, sources: Array) -> Array:
    """Return weights that are no probabilities, refusing what a law of one's own may return by mistake."""
    _check_shape(f"signed_weights of {type(law).__name__}", "a weight", found, x, sources)
    if not foreign(found) and np.isnan(np.sum(found)) and _at_fault(law, x, sources) is not None:
        raise not_numbers(law, x, sources)
    weights: Array = found
    return weights


def _check_shape(method: str, what: str, found: Any, x: Array, sources: Array) -> None:
    shape, m, n = tuple(np.shape(found)), x.shape[-2], sources.shape[-2]
    if shape[-2:] != (m, n):
        raise InputError(
            f"{method} returned an array of shape {shape}, expected ({m}, {n}): a row for each of {m} queries, with "
            f"{what} for each of {n} sources"
        )


def not_numbers(law: object, *tokens: Any) -> InputError:
    """Return the refusal of weights that are NaN: a law of one's own returned them, or scores overflow."""
    if (name := _at_fault(law, *tokens)) is not None:
        if not probabilities(law):
            return InputError(f"signed_weights of {name} returned NaN, expected numbers: correct its formula")
        return InputError(
            f"log_weights of {name} returned NaN, expected log P_ij, which is -inf where P_ij = 0: correct its formula"
        )
    size, held = f"tokens as large as {_largest(*tokens):.3g}", precision(tokens[0])
    if not probabilities(law):
        return InputError(f"the weights of {size} leave the range of {held}: divide the tokens by a constant")
    return InputError(
        f"the scores of {size} leave the range of {held}: divide the tokens by a constant, and multiply beta by its "
        "square"
    )


def _at_fault(law: Any, *tokens: Any) -> str | None:
    """Return the name of the law whose formula NaN comes from; None where scores may overflow.

    Of a law of another package only the tokens are looked at: what its parameters do is not known.
    """
    most = float(namespace(tokens[0]).finfo(tokens[0].dtype).max) ** MODERATE
    if not _largest(*tokens) < most:
        return None
    laws = [*(getattr(law, "heads", ()) or (law,))]
    others = [one for one in laws if _written_in(one).partition(".")[0] != "attnflow"]
    if not others and not probabilities(law):  # exponentials that nothing divides overflow for moderate scores
        return None
    if not others and not all(_moderate(value, most) for one in (law, *laws) for value in vars(one).values()):
        return None
    return type((others or laws)[0]).__name__


def _written_in(law: Any) -> str:
    """Return the module that defines the weights of a law."""
    kind: Any = type(law)
    return str((kind.log_weights if probabilities(law) else kind.signed_weights).__module__)


def _moderate(value: Any, most: float) -> bool:
    """Say whether a parameter of a law is known to be below a bound: a function of time is not."""
    if value is None or isinstance(value, str) or hasattr(value, "log_weights"):
        return True
    if isinstance(value, OverLayers):
        value = value.values
    if isinstance(value, list | tuple):
        return all(_moderate(one, most) for one in value)
    if hasattr(value, "shape"):
        return _largest(value) < most
    return isinstance(value, int | float) and abs(value) < most


def _largest(*tokens: Any) -> float:
    return max(float(abs(x).max()) for x in tokens)


def refuse_hidden_order(
    law: Any, x: Array, t: float, *, sources: Array | None = None, masses: Array | None = None
) -> None:
    """Refuse a law that depends on the order of tokens without taking their indices.

    The first 16 queries are given twice, with the sources in their order and in the opposite one: most of the means
    must agree. A dependence that these queries do not show is not found.
    Ties may fall differently by rounding, but not for most tokens.
    """
    y = (x if sources is None else sources)[:HEARD]
    m = min(LOOKED_AT, len(x), len(y) - 1)
    if positional(law) or m < 1:
        return
    xp, w = namespace(x), None if masses is None else masses[: len(y)]
    with np.errstate(all="ignore"):
        of = law.log_weights if probabilities(law) else law.signed_weights
        there = of(x[:m], t, sources=y, masses=w)
        back = of(_reversed(x[:m]), t, sources=_reversed(y), masses=None if w is None else _reversed(w))
        if any(tuple(np.shape(found)[-2:]) != (m, len(y)) for found in (there, back)):
            return
        if probabilities(law):
            there, back = xp.exp(there), xp.exp(back)
        # Seen from one of the tokens: means of a small cloud far from the origin are rounded by more than its extent.
        z = y - y[0]
        means, other = there @ z, back @ _reversed(z)
        extent = xp.max(y, axis=0) + xp.max(-y, axis=0)
        apart = abs(means - xp.stack([other[..., m - 1 - i, :] for i in range(m)], axis=-2)) > DIFFERENT * extent
        differing = apart.sum(axis=-1) > 0
        few = 2 * differing.sum() <= math.prod(differing.shape)
    if not holds(few):
        raise InputError(
            f"the weights of {type(law).__name__} depend on the order of the tokens, which it is not told "
            "where rows are taken in blocks or tokens are merged: let it take the keywords rows and columns, the "
            "indices of queries and sources"
        )


def indices_of(x: Array) -> Any:
    """Return 0, 1, ... for the rows of x, as an array of its library."""
    return namespace(x).arange(x.shape[-2], **place(x))


def _reversed(x: Array) -> Array:
    """Return the rows in the opposite order; torch has no negative steps."""
    return x[namespace(x).arange(len(x) - 1, -1, -1, **place(x))]
