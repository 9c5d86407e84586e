"""A law of its own in each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from attnflow.core.indices import log_weights, weights
from attnflow.core.inputs import Array, InputError, OverLayers
from attnflow.laws.law import Law
from attnflow.laws.sums import Heard, Sources


@dataclass(frozen=True, eq=False)
class ByLayer(Law):
    """Attention that is another law in each layer: P(x, k) = P_k(x) in the step from x^k to x^{k+1}.

    At k = L, after the last of L layers, where a run ends and is measured, the law is that of the last layer. With
    ``again=True`` the layers begin anew after the last one.

    Examples
    --------
    >>> import attnflow as af
    >>> law = ByLayer([af.Softmax(beta=0.0), af.Hardmax()])
    >>> law.attend([[1.0], [3.0]], 0), law.attend([[1.0], [3.0]], 1)
    (array([[2.],
           [2.]]), array([[3.],
           [3.]]))

    References
    ----------
    Vaswani et al., *Attention is all you need* (2017).
    """

    title: ClassVar[str] = "A law in each layer"
    formula: ClassVar[str] = "P(x, k) = P_k(x) in layer k"

    laws: Sequence[Law] = field(repr=False)
    again: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        laws = tuple(self.laws)
        if not laws or not all(isinstance(law, Law) for law in laws):
            raise InputError("ByLayer needs a law for each layer, such as [Softmax(beta=1.0), Hardmax()]")
        object.__setattr__(self, "laws", laws)

    def __repr__(self) -> str:
        return f"<a law in each of {len(self.laws)} layers>"

    @property
    def short_name(self) -> str:
        """The number of layers: their laws would be too long for a line."""
        return f"{len(self.laws)} layer{'s' * (len(self.laws) > 1)}"

    def at(self, t: float) -> Law:
        """Return the law of the layer from x^t to x^{t+1}."""
        if self.again and t == int(t):
            t = int(t) % len(self.laws)
        law: Law = OverLayers(self.laws, "the law")(t)
        return law

    @property
    def heads(self) -> tuple[Law, ...]:
        """The laws of the heads of the first layer."""
        return self.laws[0].heads

    @property
    def head_count(self) -> int:
        """The number of heads of the layer that has most."""
        return max(law.head_count for law in self.laws)

    @property
    def continuous(self) -> bool:  # type: ignore[override]
        """Whether every layer is."""
        return all(law.continuous for law in self.laws)

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        """Whether the weights of every layer are probabilities."""
        return all(law.stochastic for law in self.laws)

    @property
    def positional(self) -> bool:
        """Whether the weights of some layer depend on the indices of tokens."""
        return any(law.positional for law in self.laws)

    def check_order(self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None) -> None:
        """Refuse a layer whose weights depend on the order of the tokens without being told."""
        self.at(t).check_order(x, t, sources=sources, masses=masses)

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None, **indices: Any
    ) -> Array:
        """Return log P_ij of the layer at t."""
        return log_weights(self.at(t), x, t, sources=sources, masses=masses, **indices)

    def signed_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None, **indices: Any
    ) -> Array:
        """Return the weights of the layer at t."""
        return weights(self.at(t), x, t, sources=sources, masses=masses, **indices)

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Return what is heard in the layer at t."""
        return self.at(t).listen(x, t, sources._replace(memory=None))
