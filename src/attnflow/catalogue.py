"""Every law, motion and cloud by name: what it is, its formula, its parameters, and how to make one from plain data.

Each says all of this itself, where it is defined: a law or a motion in its class, a cloud in its function. This module
only gathers it. Other packages add theirs by the decorator `register`, or without being imported by an entry point in
one of the groups "attnflow.laws" and "attnflow.motions".
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from importlib import import_module
from itertools import combinations, islice
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar

from attnflow import laws, motions, tokens
from attnflow.core.inputs import InputError, one_of, quoted
from attnflow.core.installed import installed, same_definition
from attnflow.core.parameters import Parameter, check_facts, parameters_of
from attnflow.laws import Law
from attnflow.motions import Motion

Registered = TypeVar("Registered", bound=type)
# The attributes of a class that its JSON data have too.
CAPABILITIES = {
    "law": ("continuous",),
    "motion": ("discrete", "random", "usual_time", "takes_jumping_laws", "only_law", "exact_for", "moving_frame"),
}
# Where the classes of a kind are, and the group of entry points by which other packages add theirs.
PLACES = {"law": (laws, Law, "attnflow.laws"), "motion": (motions, Motion, "attnflow.motions")}
MODELS = (*PLACES, "cloud")
# What every class says of itself by attributes, none of which is a parameter.
WORDS = ("name", "title", "formula", "alternatives")
# What the decorator `register` has added.
REGISTERED: dict[str, dict[str, Entry]] = {kind: {} for kind in PLACES}


@dataclass(frozen=True)
class Entry:
    """What there is to know of a law, a motion or a cloud; `make` is its class or function."""

    kind: str
    name: str
    title: str
    make: Callable[..., Any]
    parameters: Mapping[str, Parameter]
    formula: str | Mapping[str, str] = ""
    alternatives: tuple[str, ...] = ()
    surface: str = "space"

    @property
    def summary(self) -> str:
        """The first line of its docstring; its title where it has none but the signature that `dataclass` writes."""
        first = inspect.cleandoc(self.make.__doc__ or "").partition("\n")[0]
        return self.title if not first or first.startswith(f"{self.make.__name__}(") else first

    @property
    def citation(self) -> str:
        """Who introduced it: the references of its docstring, in one line."""
        _, _, rest = (inspect.getdoc(self.make) or "").partition("References\n----------\n")
        return " ".join(rest.partition("\n\n")[0].split())

    @property
    def around(self) -> Parameter | None:
        """The parameter that holds another law or motion, for one that is around another of its kind."""
        base = PLACES[self.kind][1] if self.kind in PLACES else None
        held = [one for one in self.parameters.values() if one.part is base and base is not None and one.required]
        return held[0] if held else None

    @property
    def data(self) -> dict[str, Any]:
        """All of this as JSON data, with the capabilities of the class that are plain values."""
        able = {name: getattr(self.make, name, None) for name in CAPABILITIES.get(self.kind, ())}
        words = {"name": self.name, "title": self.title, "summary": self.summary, "formula": self.formula}
        return {
            **words,
            "alternatives": list(self.alternatives),
            "surface": self.surface,
            "parameters": [one.data for one in self.parameters.values()],
            # What depends on the parameters of an object is not known of its class.
            **{name: value if isinstance(value, bool | int | float | str) else None for name, value in able.items()},
        }

    def formula_for(self, given: Mapping[str, Any]) -> str:
        """Return the formula, where there are several that of what is given: a parameter, or the value of a choice.

        >>> entry("motion", "layers").formula_for({"alpha": 0.5})
        'x_i <- x_i + alpha / (1 + alpha) (m_i - x_i)'
        """
        if isinstance(self.formula, str):
            return self.formula
        said = {key for key, value in given.items() if value is not None}
        said |= {value for value in given.values() if isinstance(value, str)}
        return next((self.formula[key] for key in self.formula if key in said), next(iter(self.formula.values())))


def register(part: Registered) -> Registered:
    """Add a law or a motion to the catalogue, as a decorator of its class.

    From then on the command line, configuration files, stores and the explorer know it by its `name`.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import attnflow as af
    >>> @register
    ... @dataclass(frozen=True, eq=False)
    ... class Everyone(af.Law):
    ...     '''Attention to everyone alike: P_ij = 1 / n.'''
    ...     name = "everyone"
    ...     def log_weights(self, x, t=0, *, sources=None, masses=None):
    ...         n = len(x if sources is None else sources)
    ...         return np.full((len(x), n), -np.log(n))
    >>> build("law", {"name": "everyone"})
    Everyone()
    >>> del REGISTERED["law"]["everyone"]
    """
    found = _new(part)
    for known in REGISTERED.values():
        # A cell of a notebook that is run again may have turned a law into a motion.
        if found.name in known and same_definition(known[found.name].make, part):
            del known[found.name]
    REGISTERED[found.kind][found.name] = found
    return part


def entries(kind: str) -> dict[str, Entry]:
    """Return the entries of a kind, "law", "motion" or "cloud", by name.

    >>> list(entries("law"))[:3]
    ['softmax', 'hardmax', 'localmax']
    """
    return dict(_all(kind))


def as_data() -> dict[str, list[dict[str, Any]]]:
    """Return all laws, motions and clouds as JSON data, each under its kind.

    >>> [one["name"] for one in as_data()["motion"]][:2]
    ['layers', 'residual']
    >>> as_data()["law"][0]["parameters"][0]["help"]
    'inverse temperature'
    """
    return {kind: [found.data for found in entries(kind).values()] for kind in MODELS}


def entry(kind: str, name: Any) -> Entry:
    """Return the entry of a name, or refuse the name with those that exist.

    >>> entry("law", "softmax").title
    'Softmax'
    """
    return _all(kind)[one_of(name, _all(kind), f"the name of the {kind}")]


def build(
    kind: str, data: Mapping[str, Any], value: Callable[[Parameter, Any], Any] | None = None, where: str = ""
) -> Any:
    """Return the law, motion or cloud that plain data describe: its name, and its parameters.

    `value(parameter, given)` turns what is given for a parameter into what it stands for; refusals say `where` it is
    given. Parts of a law or a motion are tables too, and the laws of several heads a list of tables. What parameters
    say of themselves is checked. Parameters of what stands around a law, as masks do, may be given beside its own.

    >>> build("motion", {"name": "layers", "gamma": 0.5})
    Layers(gamma=0.5, alpha=None, V=None)
    >>> build("law", {"name": "heads", "heads": [{"name": "softmax", "V": [[2.0]]}, {"name": "hardmax"}]})
    Heads(Softmax(beta=1.0, B=None, b=None), Hardmax(B=None, ties='tokens', b=None))
    >>> build("law", {"name": "hardmax", "causal": True})
    Masked(law=Hardmax(B=None, ties='tokens', b=None), causal=True, window=None, graph=None)
    """
    if not isinstance(data, Mapping):
        raise InputError(f"the {kind} is {quoted(data)}, expected a table with its name, such as {{'name': 'softmax'}}")
    found = entry(kind, data.get("name", ""))
    where = f"{where or kind} {found.name}"
    given = {key: one for key, one in data.items() if key != "name"}
    value = value or (lambda parameter, given: given)
    outside = {one: [key for key in given if key in keys] for one, keys in beside(kind, found.name).items()}
    apart = {key for keys in outside.values() for key in keys}
    made = _made(found.make, found.parameters, {k: v for k, v in given.items() if k not in apart}, value, where)
    for name, keys in outside.items():
        one = entry(kind, name)
        own = {key: given[key] for key in keys if not _is_default(one, key, given[key])}
        if own and one.around:
            made = _made(one.make, one.parameters, {one.around.key: made, **own}, value, f"{kind} {name}")
    return made


def beside(kind: str, name: str) -> dict[str, list[str]]:
    """Return the keys by which others are put around a law or a motion, such as masks around a law, by their names.

    Keys that it has itself are its own.

    >>> beside("law", "softmax")["masked"]
    ['causal', 'window', 'graph']
    """
    own = {one.key for one in entry(kind, name).parameters.values()}
    return {
        other: [one.key for one in found.parameters.values() if one.key not in own and one is not found.around]
        for other, found in _all(kind).items()
        if found.around and other != name
    }


def _is_default(found: Entry, key: str, given: Any) -> bool:
    default = next(one.default for one in found.parameters.values() if one.key == key)
    return given is None or (isinstance(given, bool) and given == bool(default))


def _made(
    make: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    data: Mapping[str, Any],
    value: Callable[[Parameter, Any], Any],
    where: str,
) -> Any:
    """Return what a class or a function makes of a table with its parameters."""
    written = {one.key: one for one in parameters.values() if not one.beside}
    check_parameters(data, written, where)
    lacking = [key for key, one in written.items() if one.required and key not in data]
    if lacking:
        raise InputError(f"{where} does not say {', '.join(lacking)}: add it")
    given: dict[str, Any] = {}
    for key, one in ((key, written[key]) for key in data):
        if one.kind == "laws":
            beside = {each.key: each for each in parameters.values() if each.beside == one.name}
            given |= _laws(one, beside, data[key], value, where)
        elif one.part is not None and data[key] is not None and not isinstance(data[key], one.part):
            given[one.name] = _part(one.part, data[key], value, key)
        else:
            given[one.name] = one.check(value(one, data[key]))
    return make(**given)


def _part(part: type, data: Any, value: Callable[[Parameter, Any], Any], key: str) -> Any:
    """Return a part of a law or a motion: any law or motion by its name, others by their parameters alone."""
    for kind, (_, base, _) in PLACES.items():
        if part is base:
            return build(kind, data, value, key)
    held = parameters_of(part)
    if not isinstance(data, Mapping):
        raise InputError(f"{key} is {data!r}, expected a table with some of {', '.join(held)}")
    return _made(part, held, data, value, key)


def _laws(
    one: Parameter,
    beside: Mapping[str, Parameter],
    tables: Any,
    value: Callable[[Parameter, Any], Any],
    where: str,
) -> dict[str, list[Any]]:
    """Return the laws of a list of tables, and the parameters that stand beside each law in its table."""
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        wanted = f"a list of tables, each with a name and perhaps {', '.join(beside)}"
        raise InputError(f"{one.key} of {where} is {quoted(tables)}, expected {wanted}")
    found: dict[str, list[Any]] = {name: [] for name in (one.name, *(each.name for each in beside.values()))}
    for h, table in enumerate(tables):
        own = {key: given for key, given in table.items() if key not in beside}
        law = build("law", own, value, where.rpartition(" ")[0])
        found[one.name].append(law)
        for key, each in beside.items():
            if key in table and key in entry("law", own["name"]).parameters:
                raise InputError(f"{key} of head {h} is a parameter of {where} and of its {own['name']}: use Python")
            found[each.name].append(
                each.check(value(each, table[key]), f"{each.name} of head {h}") if key in table else each.default
            )
    return found


def check_keys(table: Iterable[str], expected: Iterable[str], where: str) -> None:
    """Refuse keys that nothing knows."""
    known = tuple(expected)
    for key in table:
        if key not in known:
            raise InputError(f"{where} has an unknown key '{key}', expected some of {', '.join(known)}")


def check_parameters(given: Iterable[str], expected: Iterable[str], where: str) -> None:
    """Refuse names that are not those of parameters."""
    known = tuple(expected)
    for key in given:
        if key not in known:
            raise InputError(f"{where} has no parameter '{key}': it takes {', '.join(known) or 'none'}")


def has_parameters(value: Any) -> bool:
    """Say whether a value is a law, a motion or a part of one, such as a feed-forward layer.

    >>> import attnflow as af
    >>> has_parameters(af.FeedForward()), has_parameters(3.0)
    (True, False)
    """
    # Functions of time may be dataclasses too: only the catalogue tells them from parts.
    return isinstance(value, Law | Motion) or (
        is_dataclass(value) and any(isinstance(value, one) for one in _classes())
    )


def class_name(known: type[Any]) -> str:
    """Return how stores write the class of a law, a motion or a part: one of another package with its module.

    >>> import attnflow as af
    >>> class_name(af.Softmax), class_name(type("Softmax", (af.Law,), {"__module__": "mine", "name": "soft"}))
    ('Softmax', 'mine:soft')
    """
    if known.__module__.partition(".")[0] == "attnflow":
        return known.__name__
    name = vars(known).get("name")
    return f"{known.__module__}:{name if isinstance(name, str) and name else known.__qualname__}"


def class_named(stored: str) -> type[Any]:
    """Return the class that `class_name` wrote; earlier stores have the name of the class alone."""
    if ":" not in stored:
        found = set(islice((one for one in _classes() if one.__name__ == stored), 1))
    else:
        module, _, name = stored.rpartition(":")
        named = [(one, one.__module__) for one in _classes() if class_name(one) == f"{one.__module__}:{name}"]
        # A script is a module of another name when it is imported.
        found = {one for one, its in named if its == module or {its, module} == {"__main__", _script()}}
    if len(found) != 1:
        raise KeyError(stored)
    return found.pop()


def same_class(one: str, other: str) -> bool:
    """Say whether two names that `class_name` wrote, perhaps in an earlier version or in a script, are of one class.

    >>> same_class("Mine", "script:Mine"), same_class("__main__:Mine", "script:Mine"), same_class("a:Mine", "b:Mine")
    (True, True, False)
    >>> same_class("Softmax", "script:Softmax")  # the first is the law of this package
    False
    """
    if one == other:
        return True
    (module, _, name), (second, _, its) = sorted(each.rpartition(":") for each in (one, other))
    if module or not second:
        return "__main__" in (module, second) and name == its
    if name == its.rpartition(".")[2]:
        return all(each.__name__ != name for kind in PLACES for each in _classes_in(_own(kind)))
    try:
        # The name of a law in the catalogue need not be that of its class.
        return class_name(class_named(name)) == f"{second}:{its}"
    except KeyError:
        return False


def _script() -> str:
    """Return the name that the script which is running has as a module, if it has one."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name if spec else Path(file).stem if file else ""


def _classes() -> Iterator[type[Any]]:
    """Yield the classes of all laws and motions and of their parts; those of packages not loaded yet last."""
    for held in (_own, REGISTERED.__getitem__, _installed):
        for kind in PLACES:
            yield from _classes_in(held(kind))


def _classes_in(held: Mapping[str, Entry]) -> Iterator[type[Any]]:
    for made in (found.make for found in held.values()):
        if isinstance(made, type):
            yield made
            yield from _parts(made)


def _parts(known: type) -> Iterator[type]:
    for one in parameters_of(known).values():
        if one.part is not None and one.part not in (Law, Motion):
            yield one.part
            yield from _parts(one.part)


def _all(kind: str) -> Mapping[str, Entry]:
    return {**_own(one_of(kind, MODELS, "the kind")), **_installed(kind), **REGISTERED.get(kind, {})}


@cache
def _own(kind: str) -> dict[str, Entry]:
    """Return the entries that this package brings: all classes with a name in its folder."""
    if kind == "cloud":
        return {
            name: Entry(kind, name, one.title, one.make, one.parameters, surface=one.surface)
            for name, one in tokens.CLOUDS.items()
        }
    found = _defined(kind)
    for one, other in combinations(found, 2):
        if one.name == other.name and not same_definition(one, other):
            raise InputError(f"{_two(one, other)} are both named {one.name!r}: give one of them another name")
    for one, other in combinations([each for place in PLACES for each in _defined(place)], 2):
        if one.__name__ == other.__name__ and not same_definition(one, other):
            raise InputError(f"{_two(one, other)} have the same class name: call one of them by another name")
    return {made.name: made for made in map(_entry, found)}


def _two(one: type, other: type) -> str:
    return " and ".join(f"{each.__module__}.{each.__qualname__}" for each in (one, other))


def _defined(kind: str) -> list[Any]:
    """Return all classes of a kind with a name in the folder of this package."""
    package, base, _ = PLACES[kind]
    modules = [import_module(f"{package.__name__}.{one.name}") for one in iter_modules(package.__path__)]
    # The order is that of the package; a file that it does not mention comes last.
    listed = [getattr(package, name) for name in package.__all__]
    held = [*listed, *(one for module in modules for one in vars(module).values())]
    found = [one for one in held if isinstance(one, type) and issubclass(one, base) and vars(one).get("name")]
    return list(dict.fromkeys(found))


def _installed(kind: str) -> dict[str, Entry]:
    """Return the entries of other packages that are installed."""
    if kind not in PLACES:
        return {}
    return {found.name: found for found in installed(PLACES[kind][2], lambda part: _new(part, kind))}


def _new(part: Any, kind: str | None = None) -> Entry:
    """Return the entry of a class, perhaps of a given kind, refusing a name that another one has."""
    found = _entry(part)
    if kind not in (None, found.kind):
        raise InputError(f"{part!r} is a {found.kind}, expected a {kind}")
    other = _all(found.kind).get(found.name)
    if other is not None and not same_definition(other.make, part):
        raise InputError(f"a {found.kind} named {found.name!r} is in the catalogue already: choose another name")
    for one in found.parameters.values():
        if one.limit:
            one_of(one.limit, _all(found.kind), f"the {found.kind} that {found.name} tends to with {one.name}")
    return found


def _entry(part: Any) -> Entry:
    kind = next(
        (kind for kind, (_, base, _) in PLACES.items() if isinstance(part, type) and issubclass(part, base)), None
    )
    if kind is None:
        raise InputError(f"{part!r} cannot be in the catalogue: give a subclass of Law or Motion")
    name = vars(part).get("name")
    if not name:
        raise InputError(f'class {part.__name__} has no name: write name = "my-{kind}" in it')
    if not isinstance(name, str):
        raise InputError(f"the name of class {part.__name__} is {name!r}, expected a text")
    parameters = parameters_of(part)
    for one in part.__mro__[: part.__mro__.index(PLACES[kind][1])]:
        _check_decorated(one, parameters)
    for one in (part, *_parts(part)):
        check_facts(one)
    for taken in (one for one in WORDS if one in parameters):
        raise InputError(f"{taken} of {part.__name__} is not a parameter: write {taken} = ... without a type")
    for key in set(part.alternatives) - {one.key for one in parameters.values()}:
        raise InputError(f"alternatives of {name} has {key!r}, which is not one of its parameters")
    title = part.title or part.name.replace("-", " ").capitalize()
    # That of a motion around another one depends on the other one.
    surface = one if isinstance(one := getattr(part, "surface", None), str) else "space"
    return Entry(kind, part.name, title, part, parameters, part.formula, part.alternatives, surface)


def _check_decorated(part: type, parameters: Mapping[str, Parameter]) -> None:
    """Refuse a class whose fields are no parameters, since it is not a dataclass."""
    if "__dataclass_fields__" in vars(part):
        return
    for name, kind in inspect.get_annotations(part).items():
        # Attributes of laws and motions, such as `continuous`, may have a type too, and fields of subclasses.
        known = name in parameters or any(hasattr(base, name) for base in part.__bases__)
        if (name in parameters_of(part) or not known) and "ClassVar" not in str(kind):
            raise InputError(
                f"{name} of class {part.__name__} is not a parameter yet: write @dataclass(frozen=True, eq=False) "
                "above the class"
            )
