"""Calls that do not fit: a keyword that does not exist, or a value that is lacking, is answered by one sentence."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter
from types import FrameType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar

from attnflow.core.inputs import InputError

P = ParamSpec("P")
R = TypeVar("R")

# Names less alike than this are not suggested: 'store' is not meant by 'steps'.
CLOSE = 0.7

# An error that is raised inside one of these packages is the mistake of the code that called it.
LIBRARIES = {"attnflow", "numpy", "scipy", "numba", "flint", "matplotlib", "mpl_toolkits", *sys.stdlib_module_names}

BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def fitting(function: Callable[P, R], name: str, method: bool = False) -> Callable[P, R]:
    """Return the function, refusing calls that do not fit its parameters with an `InputError` in place of a TypeError.

    Its signature, documentation and place stay what they are. A `method` is called with its object first.

    >>> def heat(beta, *, t=0): return beta
    >>> fitting(heat, "heat")(betta=1)
    Traceback (most recent call last):
    ...
    attnflow.InputError: heat has no parameter 'betta' (is 'beta' meant?): it takes beta, t
    """

    @wraps(function)
    def called(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except MemoryError:
            raise InputError(f"not enough memory for {name}: ask for fewer tokens or records") from None
        except TypeError:
            try:
                signature.bind(*args, **keywords)
            except TypeError:
                raise InputError(_misfit(function, name, args[method:], set(keywords), method)) from None
            raise

    signature, called.fits = inspect.signature(function), True  # type: ignore[attr-defined]
    return called


def raised(error: BaseException) -> str:
    """Return what raised an error, and where: the innermost function that belongs to the user or to another package.

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     print(raised(error))  # doctest: +ELLIPSIS
    <module> raised ZeroDivisionError (division by zero) in line 2 of ...
    """
    frame, line = (_of_users(error) or list(traceback.walk_tb(error.__traceback__)))[-1]
    what = f"{type(error).__name__} ({error})" if str(error) else type(error).__name__
    return f"{frame.f_code.co_qualname} raised {what} in line {line} of {frame.f_code.co_filename}"


def callers(error: BaseException) -> list[Any]:
    """Return the first argument of each function that raised an error, innermost last: of a method, its object.

    Only functions that belong to the user or to another package count.
    """
    frames = [frame for frame, _ in _of_users(error) if frame.f_code.co_argcount]
    return [frame.f_locals.get(frame.f_code.co_varnames[0]) for frame in frames]


def _of_users(error: BaseException) -> list[tuple[FrameType, int]]:
    """Return the functions, with their lines, that an error went through and that are in none of the libraries."""
    places = traceback.walk_tb(error.__traceback__)
    return [place for place in places if place[0].f_globals.get("__name__", "").partition(".")[0] not in LIBRARIES]


def _misfit(function: Callable[..., Any], name: str, values: tuple[Any, ...], keywords: set[str], method: bool) -> str:
    """Return the sentence that says why these values and keywords do not fit."""
    parameters = list(inspect.signature(function).parameters.values())[method:]
    takes = [parameter.name for parameter in parameters if parameter.kind in BY_NAME]
    places = [parameter.name for parameter in parameters if parameter.kind in BY_PLACE]
    expected = f"it takes {', '.join(takes)}" if takes else "it takes nothing"
    unknown = sorted(keywords - set(takes))
    if unknown:
        return f"{name} has no parameter {unknown[0]!r}{meant(unknown[0], takes)}: {expected}"
    if len(values) > len(places):
        return f"{name} was given {len(values)} values without names, expected at most {len(places)}: {expected}"
    twice = [place for place in places[: len(values)] if place in keywords]
    if twice:
        return f"{name} was given {twice[0]!r} twice, by its place and by its name: {expected}"
    needed = [parameter.name for parameter in parameters if parameter.default is Parameter.empty]
    lacking = [one for one in needed if one in takes and one not in keywords and one not in places[: len(values)]]
    return f"{name} was not given {', '.join(lacking)}: {expected}"


def meant(name: Any, known: Iterable[str]) -> str:
    """Return a question for a sentence: which of the names that are known is most like this one; "" if none is.

    >>> meant("sotfmax", ["hardmax", "softmax"]), meant("ring", ["sphere"])
    (" (is 'softmax' meant?)", '')
    """
    if not isinstance(name, str) or not name:
        return ""
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=CLOSE) or [
        one for one in names if len(one) > 1 and (name.startswith(one) or one.startswith(name))
    ]
    return f" (is {near[0]!r} meant?)" if near else ""


def check_method(kind: type, name: str, places: tuple[str, ...], keywords: tuple[str, ...] = ()) -> None:
    """Refuse a method of a class of one's own that cannot be called with these values and keywords.

    >>> class Own:
    ...     def velocity(self, x, t): return x
    >>> check_method(Own, "velocity", ("hearing", "x", "t"))
    Traceback (most recent call last):
    ...
    attnflow.InputError: velocity of Own is written as (self, x, t), expected (self, hearing, x, t)
    """
    method = inspect.getattr_static(kind, name, None)
    if not isinstance(method, FunctionType):
        return
    signature = inspect.signature(method)
    try:
        signature.bind("self", *places, **dict.fromkeys(keywords))
    except TypeError:
        bare = [parameter.replace(annotation=Parameter.empty) for parameter in signature.parameters.values()]
        written = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
        expected = ", ".join(("self", *places, *(("*", *keywords) if keywords else ())))
        raise InputError(f"{name} of {kind.__name__} is written as {written}, expected ({expected})") from None


def speak(module: ModuleType) -> None:
    """Let the public functions and classes of a module answer calls that do not fit."""
    for name in getattr(module, "__all__", None) or _defined(module):
        value = vars(module).get(name)
        if isinstance(value, type):
            _speak_of(value)
        elif isinstance(value, FunctionType) and not hasattr(value, "fits"):
            said = fitting(value, name)
            # Also where it is defined, so that it can be pickled.
            setattr(sys.modules[value.__module__], value.__name__, said)
            setattr(module, name, said)


def _defined(module: ModuleType) -> list[str]:
    here = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in here if not name.startswith("_")]


def _speak_of(kind: type) -> None:
    for name, function in list(vars(kind).items()):
        if isinstance(function, FunctionType) and not hasattr(function, "fits"):
            if name == "__init__":
                type.__setattr__(kind, name, fitting(function, kind.__name__, method=True))
            elif not name.startswith("_"):
                type.__setattr__(kind, name, fitting(function, name, method=True))
