"""A transformer as a motion: the residual stream, one state for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from attnflow.core.identity import digest
from attnflow.core.inputs import Array, InputError, one_of, whole
from attnflow.laws import Hearing, Law
from attnflow.laws.by_layer import ByLayer
from attnflow.motions.blocks import Block, Norm
from attnflow.motions.motion import DiscreteMotion

PRECISIONS = {"double": np.float64, "single": np.float32}


@dataclass(frozen=True, eq=False)
class Transformer(DiscreteMotion):
    """The layers of a transformer: x^{k+1} = block_k(x^k), see `Block`.

    It brings its own laws, those of its heads, and its own number of layers: ``simulate(tokens, transformer)`` is the
    residual stream, and every measurement and figure takes the run. `run.law` has the weights of all heads, (H, n, n),
    at each layer; what they hear is `run.seen(k)`.

    Parameters
    ----------
    blocks
        The layers, each a `Block`.
    final
        A `Norm` after the last layer, or None: `output` applies it. Runs end before it.
    precision
        "double", or "single" for blocks computed in float32; states are kept in float64 in both.
    again
        Whether the layers begin anew after the last one, without an end: see `iterate`.

    Examples
    --------
    >>> import attnflow as af
    >>> block = af.Block(af.Masked(af.Softmax(beta=2.0), causal=True), norm="pre", norms=af.Norm("rms"))
    >>> x0 = af.tokens.gaussian(n=5, d=3, seed=0)
    >>> run = af.simulate(x0, af.Transformer([block] * 6))
    >>> run.tokens.shape, run.stopped
    ((7, 5, 3), 'reached step 6, as asked')

    References
    ----------
    Vaswani et al., *Attention is all you need* (2017). Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical
    perspective on Transformers* (arXiv 2312.10794).
    """

    title: ClassVar[str] = "Transformer"
    formula: ClassVar[str] = "x^{k+1} = block_k(x^k)"
    grows = True
    memoryless = False
    hint = "take fewer layers"

    blocks: Sequence[Block] = field(repr=False)
    final: Norm | None = field(default=None, repr=False)
    precision: str = "double"
    again: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        blocks = tuple(self.blocks) if isinstance(self.blocks, Sequence) else ()
        if not blocks or not all(isinstance(block, Block) for block in blocks):
            raise InputError(
                f"blocks is {self.blocks!r:.60}, expected a list of blocks, such as [Block(Softmax())] * 6"
            )
        if self.final is not None and not isinstance(self.final, Norm):
            raise InputError(f"final is {self.final!r:.60}, expected a Norm or None")
        one_of(self.precision, PRECISIONS, "precision")
        object.__setattr__(self, "blocks", blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __repr__(self) -> str:
        return f"Transformer({len(self)} block{'s' * (len(self) > 1)}{', again and again' * self.again})"

    @property
    def short_name(self) -> str:
        """What it is called in titles."""
        return "One layer again and again" if self.again and len(self) == 1 else "Transformer"

    @cached_property
    def own_law(self) -> Law:  # type: ignore[override]
        """The law of the heads of each block."""
        return ByLayer([block.heads for block in self.blocks], self.again)

    @property
    def own_end(self) -> int | None:  # type: ignore[override]
        """The number of layers; None if they begin anew."""
        return None if self.again else len(self)

    def iterate(self, layer: int = 0) -> Transformer:
        """Return one layer applied again and again, the setting of the theory.

        >>> import attnflow as af
        >>> once = Transformer([Block(af.Softmax()), Block(af.Hardmax())])
        >>> run = af.simulate([[1.0, 2.0], [2.0, 0.0]], once.iterate(layer=1), until=50)
        >>> len(run)
        51
        """
        k = whole(layer, "layer", least=-len(self), most=len(self) - 1)
        return replace(self, blocks=(self.blocks[k],), again=True)

    def block(self, t: float) -> Block:
        """Return the block from x^t to x^{t+1}; after the last, that one."""
        k = int(t)
        return self.blocks[k % len(self) if self.again else min(k, len(self) - 1)]

    def check_end(self, end: float) -> None:
        """Refuse more layers than there are."""
        if not self.again and end > len(self):
            raise InputError(
                f"until is {end:g}, but the transformer has {len(self)} layers: give at most {len(self)}, or take "
                "transformer.iterate(layer) for one layer again and again"
            )

    def seen(self, x: Array, t: float) -> Array:
        """Return the tokens as the attention of layer t hears them: after its norm, if one comes before."""
        return self.block(t).attended(x)

    def output(self, x: Array) -> Array:
        """Return the last state after the norm that follows it, if there is one."""
        return x if self.final is None else self.final(x)

    def step(self, hearing: Hearing, x: Array, t: int) -> Array:
        """Return block_t(x)."""
        tokens = x.astype(PRECISIONS[self.precision], copy=False)
        moved = self.block(t).moved(hearing, tokens, t)
        return moved.astype(np.float64, copy=False)

    def described(self) -> dict[str, Any]:
        """Return what tells this transformer from others: digests in place of its weights."""
        return {
            "blocks": [block.digest for block in self.blocks],
            "final": digest(self.final),
            "precision": self.precision,
            "again": self.again,
        }
