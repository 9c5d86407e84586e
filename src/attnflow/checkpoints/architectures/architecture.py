"""What all families of models have in common: which tensors they expect, and blocks that are made when asked for."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.architectures.settings import Settings
from attnflow.checkpoints.files import Tensor
from attnflow.core.inputs import Array, InputError, quoted
from attnflow.motions import Block, Norm

Shape = tuple[int, ...]
# The largest models have some hundred layers.
MOST_LAYERS = 10_000


class Architecture(ABC):
    """A family of models: from the tensors of a file and a configuration to the blocks of a `Transformer`.

    For developers. A family is a file with a subclass that has a `family`, the word of config.json for it, and writes

    ``configure()``
        reads the settings, and refuses those that would change what the model computes;
    ``shapes() -> dict``
        the shape of each tensor that must be there, by its name without the prefix;
    ``block(k) -> Block``, ``embed(ids) -> (n, d)``, ``final() -> Norm | None``
        the layers, the tokens that the first one is given, and the norm after the last one.

    A file is refused as a whole if a tensor is missing, has another shape, or is neither expected nor one of the
    `extras`, which belong to parts of a model that are not its layers. All of this is decided by headers; numbers are
    read when a block is asked for, as views of the file where its format allows it.
    """

    family: ClassVar[str]
    # A tensor that every model of this family has, and none of another one.
    mark: ClassVar[str]
    prefix: ClassVar[str] = ""
    extras: ClassVar[str] = ""
    # Whether each layer has tensors of its own.
    shapes_grow: ClassVar[bool] = True

    d: int
    layers: int
    vocabulary: int
    # How many tokens there may be, where positions are looked up in a table.
    positions: int | None = None

    def __init__(self, tensors: Mapping[str, Tensor], settings: Settings) -> None:
        self.settings = settings
        self.configure()
        if self.layers > MOST_LAYERS:
            raise InputError(f"{settings.source} asks for {self.layers} layers, expected at most {MOST_LAYERS}")
        self.tensors = self._checked(tensors)

    @abstractmethod
    def configure(self) -> None:
        """Read the settings."""

    @abstractmethod
    def shapes(self) -> dict[str, Shape]:
        """Return the shape of each tensor."""

    @abstractmethod
    def block(self, k: int) -> Block:
        """Return layer k."""

    @abstractmethod
    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Return the tokens (n, d) that the first layer is given, in float64."""

    def final(self) -> Norm | None:
        """Return the norm after the last layer, if there is one."""
        return None

    def entry(self) -> Norm | None:
        """Return the norm that the first layer's tokens come out of, if there is one."""
        return None

    @classmethod
    def own_name(cls, name: str) -> str:
        """Return the name of a tensor as `shapes` has it: without the prefix."""
        return name.removeprefix(cls.prefix)

    def read(self, name: str) -> NDArray[Any]:
        """Return the numbers of a tensor, which must be finite: a view of its file where the format allows it."""
        found = self.tensors[name].read()
        # These two are not finite if any is not; an array of answers would take as much memory as a quarter of a layer.
        with np.errstate(invalid="ignore"):
            _check_finite(name, np.array([found.min(), found.max()]))
        return found

    def rows(self, name: str, ids: NDArray[np.int64]) -> Array:
        """Return some rows of a table, in float64."""
        with np.errstate(invalid="ignore"):
            found: Array = self._tables(name)[ids].astype(np.float64)
        _check_finite(name, found)
        return found

    def _tables(self, name: str) -> NDArray[Any]:
        # Kept: formats that are not mapped would be decoded anew for each text. Only rows in use are checked.
        if name not in self._kept:
            self._kept[name] = self.tensors[name].read()
        return self._kept[name]

    @cached_property
    def _kept(self) -> dict[str, NDArray[Any]]:
        return {}

    def norm(self, name: str, eps: float) -> Norm:
        """Return the LayerNorm of this name."""
        return Norm("layer", self.read(f"{name}.weight"), self.read(f"{name}.bias"), eps)

    def _checked(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors that are needed, by their own names."""
        if self.layers > len(tensors) and self.shapes_grow:
            raise InputError(
                f"{self.settings.source} asks for {self.layers} layers, but there are {len(tensors)} tensors in all: "
                "give the configuration that belongs to these weights"
            )
        found: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            own = self.own_name(name)
            if own in found:
                raise InputError(f"the weights hold {quoted(own)} twice, once as {quoted(name)}: remove one of them")
            found[own] = tensor
        expected = self.shapes()
        for name, shape in expected.items():
            if name not in found:
                raise InputError(
                    f"the weights lack {quoted(name)}, which a {self.family} model of {self.layers} layers has: give "
                    "all files of the checkpoint, and the configuration that belongs to them"
                )
            tensor = found[name]
            if tensor.shape != shape:
                raise InputError(
                    f"the tensor {quoted(name)} has shape {tensor.shape}, but {self.settings.source} asks for {shape}: "
                    "give the configuration that belongs to these weights"
                )
            if tensor.dtype.kind != "f":
                raise InputError(f"the tensor {quoted(name)} holds {tensor.dtype}, expected real numbers")
        for name in found.keys() - expected.keys():
            if not re.fullmatch(self.extras, name):
                raise InputError(
                    f"the weights hold {quoted(name)}, which a {self.family} model of {self.layers} layers with these "
                    "settings does not have: give the configuration that belongs to them"
                )
        return {name: found[name] for name in expected}


def _check_finite(name: str, numbers: NDArray[Any]) -> None:
    if not np.isfinite(numbers).all():
        raise InputError(f"the tensor {quoted(name)} holds numbers that are not finite: get the weights again")


def check_causal(settings: Settings) -> None:
    """Refuse settings by which a decoder attends to later tokens, or not to all earlier ones."""
    settings.need("is_causal", [True])
    settings.need("use_bidirectional_attention", [False])
    if settings.switch("use_sliding_window", True):
        settings.need("sliding_window", [None])
    kinds = settings.values.get("layer_types")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        Settings({"layer_types": kind}, settings.source).need("layer_types", ["full_attention"])


def linear(name: str, out: int, given: int, bias: bool = True) -> dict[str, Shape]:
    """Return the shapes of a matrix and its bias.

    >>> linear("query", 4, 2)
    {'query.weight': (4, 2), 'query.bias': (4,)}
    """
    return {f"{name}.weight": (out, given), **({f"{name}.bias": (out,)} if bias else {})}


def layer_norm(name: str, d: int) -> dict[str, Shape]:
    """Return the shapes of the gain and the bias of a LayerNorm."""
    return {f"{name}.weight": (d,), f"{name}.bias": (d,)}


def by_heads(matrix: NDArray[Any], heads: int) -> NDArray[Any]:
    """Return the rows of a matrix (heads k, d), or the numbers of a bias, as (heads, k, d)."""
    return matrix.reshape(heads, -1, *matrix.shape[1:])


def outputs_by_heads(matrix: NDArray[Any], heads: int) -> NDArray[Any]:
    """Return the columns of a matrix (d, heads k), as (heads, d, k)."""
    return matrix.reshape(len(matrix), heads, -1).transpose(1, 0, 2)
