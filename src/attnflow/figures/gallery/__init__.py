"""The gallery: the figures of the papers and some that nobody has, by name, each from its seed.

For developers. A figure is a function in a module of this package, under `entry`:

    @entry("fw/cells", "Cells of a random polygon", "the Frank-Wolfe paper")
    def cells(seed: int = 0, k: int = 7) -> Drawing:
        ...

It is drawn from its defaults, or from what stands beside its name, and returns a `Drawing`. Nothing else needs to know
about it. Another package names the module of its figures in its entry points, in the group "attnflow.figures". Inside,
colours are those of `style.tone`, and everything that a test wants to find again has a ``gid``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.calls import BY_NAME, raised
from attnflow.core.inputs import InputError, quoted, whole
from attnflow.core.installed import installed, same_definition
from attnflow.figures.style import look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnflow.runs.trajectory import Trajectory


@dataclass(frozen=True)
class Drawing:
    """A picture, its caption, and what it shows in numbers: what a reader could count or measure on it.

    With a `film`, the picture is one moment of it, and `behind(ax)` draws what stays behind its tokens.
    """

    figure: Figure
    caption: str
    shows: Mapping[str, Any] = field(default_factory=dict)
    film: Trajectory | None = None
    behind: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.figure, "savefig"):
            raise InputError(f"figure is {quoted(self.figure)}, expected a Figure of Matplotlib: give ax.figure")


@dataclass(frozen=True)
class Entry:
    """A figure by name: `title`, the `source` it belongs to, and the parameters it is drawn from."""

    name: str
    title: str
    source: str
    parameters: Mapping[str, Any]
    function: Callable[..., Drawing]

    @property
    def stem(self) -> str:
        """The name of its files, without an ending."""
        return self.name.replace("/", "-")

    def seeded(self, seed: int) -> Entry:
        """Return the same figure from another seed.

        >>> named("sphere/staircase").seeded(3).parameters["seed"]
        3
        """
        if "seed" not in self.parameters:
            raise InputError(f"the figure {self.name} has nothing random: leave the seed out")
        return replace(self, parameters={**self.parameters, "seed": whole(seed, "seed", least=0)})

    def draw(self) -> Drawing:
        """Draw it, in the colours of the `look` around the call."""
        try:
            with look():
                drawing = self.function(**self.parameters)
        except (InputError, MemoryError):
            raise
        except Exception as error:
            raise InputError(f"the figure {self.name} cannot be drawn: {raised(error)}: correct that line") from error
        if not isinstance(drawing, Drawing):
            raise InputError(f"the figure {self.name} returned {quoted(drawing)}, expected a Drawing: return one")
        return drawing

    def caption(self, drawing: Drawing, options: Sequence[str] = ()) -> str:
        """Return what stands in the file beside the picture: what it is, its parameters, and how to draw it again.

        `options` are those of the command line that the picture was drawn with, apart from its seed.
        """
        given = [f"  {name} = {_plain(value)}" for name, value in self.parameters.items()]
        found = [f"  {name} = {_plain(value)}" for name, value in drawing.shows.items()]
        seed = [f"--seed {self.parameters['seed']}"] if "seed" in self.parameters else []
        parts = [
            f"{self.title}.",
            drawing.caption,
            "\n".join(["Parameters:", *given]) if given else "",
            "\n".join(["Shown:", *found]) if found else "",
            f"Source: {self.source}.",
            " ".join(["Drawn by: attnflow figure", self.name, *seed, *options]),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"


_known: dict[str, Entry] = {}


def entry(name: str, title: str, source: str, **parameters: Any) -> Callable[..., Callable[..., Drawing]]:
    """Return a decorator that puts a function into the gallery; `parameters` replace its defaults."""

    def known(function: Callable[..., Drawing]) -> Callable[..., Drawing]:
        takes = signature(function).parameters
        names = [k for k, each in takes.items() if each.kind in BY_NAME]
        extra = ", ".join(repr(k) for k in parameters if k not in names)
        if extra and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
            because = f"the figure {name} is given {extra}, but its function takes only {', '.join(names) or 'nothing'}"
            raise InputError(f"{because}: leave {extra} out, or add it to the function")
        own = {k: each.default for k, each in takes.items() if each.default is not each.empty}
        if name in _known and not same_definition(_known[name].function, function):
            raise InputError(f"there is a figure {name} already: choose another name")
        _known[name] = Entry(name, title, source, {**own, **parameters}, function)
        return function

    return known


def entries() -> Mapping[str, Entry]:
    """Return all figures by name, in alphabetical order.

    >>> "fw/cells" in entries()
    True
    """
    _load()
    installed("attnflow.figures")
    return dict(sorted(_known.items()))


@cache
def _load() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def named(name: str) -> Entry:
    """Return the figure of this name."""
    from difflib import get_close_matches

    if name in entries():
        return entries()[name]
    groups = {one.split("/")[0] for one in entries()}
    near = get_close_matches(str(name), [*entries(), *sorted(groups)], n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"there is no figure {name!r}: {hint}`attnflow figure list` names them all")


def chosen(names: Sequence[str]) -> list[str]:
    """Return the names of the figures that are meant: by name, by group, or "all".

    >>> set(chosen(["sphere"])) == {name for name in entries() if name.startswith("sphere/")}
    True
    """
    found: dict[str, None] = {}
    for name in names:
        group = [one for one in entries() if name == "all" or one.startswith(f"{name}/")]
        found.update(dict.fromkeys(group or [named(name).name]))
    return list(found)


def _plain(value: Any) -> str:
    """Return a parameter as it can be typed again."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain, value))}]"
    return str(value)
