"""What a parameter of a law, a motion or a cloud says of itself: once, where it is defined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from attnflow.core import inputs
from attnflow.core.graphs import constant_graph, constant_scores


class REQUIRED:
    """The default of a parameter that has none; a class, so that copies of it are the same."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: `help` says what it is in a few words, `symbol` is how formulas write it, as "beta" or "x_i".

    Numbers are at least `least`, more than `above` and at most `most`, and finite unless infinity has a meaning, where
    they may be `infinite`. A page starts from `start` where that is another value than the default, and has no field
    for a parameter that is not `shown`. Where a law turns into another one as the parameter tends to infinity, `limit`
    is its name, and `at_zero` says what it is at 0. Plain data have it under the name `key` where that is another one.
    A parameter with one value for each of several laws stands `beside` each of them: in the table of the law, not in a
    list of its own. A `part` is the class of a value with parameters of its own; `Law` and `Motion` stand for any of
    these. Two runs that differ only in parameters that are not `of_model` are runs of one model: such a parameter says
    how a run is computed, or what happens where tokens tie. A parameter that does nothing unless a choice of the same
    law or motion has a certain value is `only_for` that value.
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
    of_model: bool = True
    infinite: bool = False
    only_for: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbol", self.symbol or self.name)
        object.__setattr__(self, "key", self.key or self.name)
        object.__setattr__(self, "shown", self.shown and KINDS[self.kind].field)

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
        """All of this as JSON data; a default that is no number and no text, such as a matrix, is null."""
        plain = isinstance(self.default, bool | int | float | str)
        kept = ("key", "kind", "help", "symbol", "start", "limit", "at_zero", "shown", "required", "only_for")
        facts = {name: getattr(self, name) for name in kept}
        return {**facts, "default": self.default if plain else None, **self.bounds, "choices": list(self.choices)}

    def check(self, value: Any, name: str = "") -> Any:
        """Return a value as formulas use it, or refuse one that is not of this kind or out of bounds.

        >>> Parameter("h", "number", "width", above=0.0).check(-1)
        Traceback (most recent call last):
        ...
        attnflow.InputError: h is -1, expected a finite number above 0
        """
        if value is None and self.default is None:
            return None
        return KINDS[self.kind].check(self, value, name or self.name)


class Kind(NamedTuple):
    """What the parameters of a kind have in common: how values are checked, and how they are given outside Python.

    A `text` stands for a "formula" in t, for a "file" of numbers, or for itself. Only files can hold parameters without
    a `flag` on the command line; on the page some have no `field`.
    """

    check: Callable[[Parameter, Any, str], Any]
    text: str = "itself"
    flag: bool = True
    field: bool = True


def _range(one: Parameter) -> dict[str, float]:
    """Return the bounds of a number, and that it may be infinite if it may."""
    return {**one.bounds, "infinite": True} if one.infinite else one.bounds


def _rectangular(one: Parameter, value: Any, name: str) -> Any:
    return inputs.constant(value, name, 2, inputs.rectangular)


def _frequencies(one: Parameter, value: Any, name: str) -> Any:
    return frequencies(value, name)


def frequencies(value: Any, name: str) -> Any:
    """Check one number, or a vector of numbers, which becomes a tuple; leave functions of time.

    >>> frequencies([1, 0.5], "rope"), frequencies(2, "rope")
    ((1.0, 0.5), 2.0)
    """
    if inputs.varies_in_time(value):
        return value
    if not isinstance(value, list | tuple | np.ndarray) or np.ndim(value) == 0:
        return inputs.number(value, name)
    found = inputs.reals(value, f"{name} is", "one number, or one for each pair of coordinates")
    if found.ndim != 1 or found.size == 0:
        raise inputs.InputError(
            f"{name} has shape {found.shape}, expected one number, or one for each pair of coordinates"
        )
    return tuple(inputs.number(one, f"{name}[{k}]") for k, one in enumerate(found.tolist()))


def _choice(one: Parameter, value: Any, name: str) -> str:
    if isinstance(value, str) and not one.choices:
        return value
    return inputs.one_of(value, one.choices or ("texts",), name)


def _switch(one: Parameter, value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise inputs.InputError(f"{name} is {value!r}, expected True or False ({one.help})")
    return value


def _part(one: Parameter, value: Any, name: str) -> Any:
    if one.part is not None and not isinstance(value, one.part):
        wanted = f"a {one.part.__name__}({', '.join(parameters_of(one.part))})"
        raise inputs.InputError(f"{name} is {value!r}, expected {wanted}{' or None' if one.default is None else ''}")
    return value


# A number, or a function of time; a number that is constant; a whole one; a square matrix, numbers for each pair of
# tokens, zeros and ones that say who may hear whom, any matrix or a vector, each perhaps a function of time; one number
# or several, or a function of time; one of some words; true or false; a part with parameters of its own; a list of
# laws, which the law that takes them checks; anything, where a field says nothing of itself and its default says
# nothing either.
KINDS = {
    "function": Kind(lambda one, value, name: inputs.constant_number(value, name, **_range(one)), text="formula"),
    "number": Kind(lambda one, value, name: inputs.number(value, name, **_range(one))),
    "count": Kind(lambda one, value, name: inputs.whole(value, name, **one.bounds)),
    "matrix": Kind(lambda one, value, name: inputs.constant_matrix(value, name), text="file"),
    "scores": Kind(lambda one, value, name: constant_scores(value, name), text="file", field=False),
    "graph": Kind(lambda one, value, name: constant_graph(value, name), text="file", field=False),
    "rectangular": Kind(_rectangular, text="file", field=False),
    "vector": Kind(lambda one, value, name: inputs.constant_vector(value, name), text="file", field=False),
    "frequencies": Kind(_frequencies, text="formula"),
    "choice": Kind(_choice),
    "switch": Kind(_switch),
    "part": Kind(_part, flag=False, field=False),
    "laws": Kind(lambda one, value, name: value, flag=False, field=False),
    "any": Kind(lambda one, value, name: value, text="file", field=False),
}


# What `about` takes beside the kind and the help.
FACTS = tuple(one.name for one in fields(Parameter) if one.name not in ("name", "kind", "help", "default"))


def about(kind: str, help: str, **facts: Any) -> dict[str, Any]:
    """Return what a field of a dataclass says of itself as a parameter, its metadata; `facts` are those of `Parameter`.

    >>> from dataclasses import field
    >>> @dataclass
    ... class Kernel:
    ...     width: float = field(default=1.0, metadata=about("function", "width of the kernel", symbol="w", above=0.0))
    >>> parameters_of(Kernel)["width"].bounds
    {'above': 0.0}
    """
    inputs.one_of(kind, KINDS, "the kind of a parameter")
    for fact in facts:
        inputs.one_of(fact, FACTS, "a fact about a parameter")
    return {"parameter": {"kind": kind, "help": help, **facts}}


def parameters_of(kind: type) -> dict[str, Parameter]:
    """Return the parameters of a dataclass by name, in the order in which they are written.

    A field that says nothing of itself is taken for what its default is.
    """
    # A class may be asked before it becomes a dataclass: until then it has the parameters of its base.
    owner = next((one for one in kind.__mro__ if "__dataclass_fields__" in vars(one)), None)
    return {} if owner is None else _parameters(owner)


@cache
def _parameters(kind: Any) -> dict[str, Parameter]:
    known = kind.__dataclass_fields__
    return {
        name: _parameter(name, one)
        for name, one in known.items()
        # Variables of the class are among them too, and only this tells them apart from `InitVar`.
        if one.init and one._field_type.name != "_FIELD_CLASSVAR"
    }


def check_facts(kind: type) -> None:
    """Refuse a class whose fields say of themselves what cannot be: a mistake of its author, not of its user."""
    for name, one in getattr(kind, "__dataclass_fields__", {}).items():
        if "parameter" in one.metadata and name in parameters_of(kind):
            try:
                _check_facts(parameters_of(kind)[name])
            except inputs.InputError as error:
                raise inputs.InputError(
                    f"class {kind.__name__} has a mistake in its parameter {name}: {error}"
                ) from None


def _check_facts(one: Parameter) -> None:
    choices: Any = one.choices
    if one.kind == "choice" and (not choices or isinstance(choices, str)):
        raise inputs.InputError('a choice needs choices, such as choices=("left", "right") in about(...)')
    bounds: dict[str, Any] = {**one.bounds}
    for name, bound in bounds.items():
        if not isinstance(bound, Real):
            raise inputs.InputError(f"its {name} is {bound!r}, expected a number")
    low = [bound for bound in (one.least, one.above) if bound is not None]
    if one.most is not None and low and (one.most < max(low) or one.most == one.above):
        said = " and ".join(f"{name}={bound:g}" for name, bound in bounds.items())
        raise inputs.InputError(f"no number satisfies {said}, correct its bounds")
    if not one.required:
        one.check(one.default, "its default")


def check_fields(held: Any) -> None:
    """Check the fields of a frozen dataclass that say what they are, and put what formulas use in their place."""
    known: dict[str, Parameter] = parameters_of(held.__class__)
    for one in fields(held):
        parameter = known.get(one.name)
        if parameter is not None and "parameter" in one.metadata and not parameter.beside:
            object.__setattr__(held, one.name, parameter.check(getattr(held, one.name)))


def _parameter(name: str, one: Any) -> Parameter:
    default = one.default if one.default_factory is MISSING else one.default_factory()
    facts = dict(one.metadata.get("parameter") or {"kind": _kind_of(default), "help": name})
    return Parameter(name=name, default=REQUIRED if default is MISSING else default, **facts)


def _kind_of(default: Any) -> str:
    if isinstance(default, bool):
        return "switch"
    if isinstance(default, str):
        return "choice"
    return "function" if isinstance(default, int | float) else "any"
