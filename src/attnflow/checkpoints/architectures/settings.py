"""The numbers and switches of a config.json, each checked when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from attnflow.core.inputs import InputError, number, quoted, whole

T = TypeVar("T")

# The names that configurations have for activations, and ours.
ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "relu": "relu", "silu": "silu",
    "swish": "silu", "tanh": "tanh",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The values of a configuration, and the file they come from.

    >>> settings = Settings({"hidden_size": 384, "hidden_act": "gelu_new"}, "config.json")
    >>> settings.count("hidden_size"), settings.choice("hidden_act", ACTIVATIONS), settings.number("eps", 1e-5)
    (384, 'gelu-tanh', 1e-05)
    """

    values: Mapping[str, Any]
    source: str

    def count(self, name: str, default: int | None = None) -> int:
        """Return a whole number from 1 on; without a default it must be there."""
        return whole(self._given(name, default), self._named(name), least=1, most=2**40)

    def number(self, name: str, default: float | None = None, **bounds: float) -> float:
        """Return a real number."""
        return number(self._given(name, default), self._named(name), **bounds)

    def switch(self, name: str, default: bool = False) -> bool:
        """Return True or False."""
        given = self.values.get(name, default)
        if not isinstance(given, bool):
            raise InputError(f"{self._named(name)} is {quoted(given)}, expected true or false")
        return given

    def choice(self, name: str, known: Mapping[str, T], default: str | None = None) -> T:
        """Return what one of the known words stands for."""
        given = self._given(name, default)
        if not isinstance(given, str) or given not in known:
            raise InputError(
                f"{self._named(name)} is {quoted(given)}, which attnflow does not compute: it knows {', '.join(known)}"
            )
        return known[given]

    def need(self, name: str, expected: Iterable[Any]) -> None:
        """Refuse a value that is there and none of those expected: it would change what the model computes."""
        allowed, given = list(expected), self.values.get(name)
        # A header may hold arrays, which are equal to nothing.
        if given is not None and (hasattr(given, "shape") or given not in allowed):
            raise InputError(
                f"{self._named(name)} is {quoted(given)}, which attnflow does not compute: it knows "
                f"{' and '.join(map(repr, allowed))}"
            )

    def part(self, name: str) -> Settings | None:
        """Return the settings inside a setting, or None where there are none."""
        given = self.values.get(name)
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise InputError(f"{self._named(name)} is {quoted(given)}, expected names with values")
        return Settings(given, self._named(name))

    def divided(self, whole_name: str, parts_name: str) -> int:
        """Return the size of each of some equal parts."""
        total, parts = self.count(whole_name), self.count(parts_name)
        if total % parts:
            raise InputError(
                f"{self.source} has {whole_name} = {total} and {parts_name} = {parts}, expected a number of parts that "
                "divides the size: correct it"
            )
        return total // parts

    def _given(self, name: str, default: Any) -> Any:
        given = self.values.get(name)
        given = default if given is None else given
        if given is None:
            raise InputError(f"{self.source} does not say {name}: add it, as the model was trained with")
        return given

    def _named(self, name: str) -> str:
        return f"{name} of {self.source}"
