"""What a parameter of a law, a motion or a cloud says of itself: once, where it is defined."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from functools import cache
from typing import Any

# A number, or a function of time; one that is constant; a whole one; a matrix or a vector, each perhaps a function of
# time; one of some words; true or false; a part with parameters of its own; a list of laws.
KINDS = ("function", "number", "count", "matrix", "vector", "choice", "switch", "part", "laws")
# The default of a parameter that has none.
REQUIRED = object()


@dataclass(frozen=True)
class Parameter:
    """A parameter: `help` says what it is in a few words, `symbol` is how formulas write it, as "beta" or "x_i".

    Numbers are at least `least`, more than `above` and at most `most`. A page starts from `start` where that is another
    value than the default, and has no field for a parameter that is not `shown`. Where a law turns into another one as
    the parameter tends to infinity, `limit` is its name, and `at_zero` says what it is at 0. Plain data have it under
    the name `key` where that is another one. A parameter with one value for each of several laws stands `beside` each
    of them: in the table of the law, not in a list of its own.
    """

    name: str
    kind: str
    help: str
    symbol: str = ""
    default: Any = REQUIRED
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    start: Any = None
    limit: str = ""
    at_zero: str = ""
    part: type | None = None
    key: str = ""
    beside: str = ""
    shown: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbol", self.symbol or self.name)
        object.__setattr__(self, "key", self.key or self.name)

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is REQUIRED

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that it has, as keywords of the functions that check numbers."""
        return {name: bound for name in ("least", "above", "most") if (bound := getattr(self, name)) is not None}

    @property
    def data(self) -> dict[str, Any]:
        """All of this as JSON data; a default that is none, such as a matrix, is null as None is."""
        plain = isinstance(self.default, bool | int | float | str)
        said = ("key", "kind", "help", "symbol", "start", "limit", "at_zero", "shown", "required")
        facts = {name: getattr(self, name) for name in said}
        return {**facts, "default": self.default if plain else None, **self.bounds, "choices": list(self.choices)}


def about(kind: str, help: str, **facts: Any) -> dict[str, Any]:
    """Return what a field of a dataclass says of itself as a parameter, its metadata; `facts` are those of `Parameter`.

    >>> from dataclasses import field
    >>> @dataclass
    ... class Kernel:
    ...     width: float = field(default=1.0, metadata=about("function", "width of the kernel", symbol="w", above=0.0))
    >>> parameters_of(Kernel)["width"].bounds
    {'above': 0.0}
    """
    if kind not in KINDS:
        raise ValueError(f"the kind of a parameter is {kind!r}, expected one of {', '.join(KINDS)}")
    return {"parameter": {"kind": kind, "help": help, **facts}}


@cache
def parameters_of(kind: type) -> dict[str, Parameter]:
    """Return the parameters of a dataclass by name, in the order in which they are written.

    A field that says nothing of itself is taken for what its default is.
    """
    known = getattr(kind, "__dataclass_fields__", {})
    return {
        name: _said(name, one)
        for name, one in known.items()
        # Variables of the class are among them too, and only this tells them apart from `InitVar`.
        if one.init and one._field_type.name != "_FIELD_CLASSVAR"
    }


def _said(name: str, one: Any) -> Parameter:
    facts = dict(one.metadata.get("parameter") or {"kind": _kind_of(one.default), "help": name})
    return Parameter(name=name, default=REQUIRED if one.default is MISSING else one.default, **facts)


def _kind_of(default: Any) -> str:
    if isinstance(default, bool):
        return "switch"
    if isinstance(default, str):
        return "choice"
    return "matrix" if default is None else "function"
