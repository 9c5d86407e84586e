"""Several laws at once, each with its own value matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from attnflow.core.arrays import namespace
from attnflow.core.indices import log_weights, weights
from attnflow.core.inputs import Array, InputError, Matrix, constant_matrix, matrix_at
from attnflow.core.parameters import about
from attnflow.laws import chunks
from attnflow.laws.law import Law
from attnflow.laws.sums import Heard, Sources


@dataclass(frozen=True, eq=False)
class Heads(Law):
    """Multi-head attention: sum_h V_h sum_j P^h_ij x_j, heads h with laws P^h and value matrices V_h.

    `attend` is that sum; `weights` stacks the matrices P^h, shape (heads, n, n). A head without a matrix (None)
    has V_h = I; a matrix may be a function of time.

    Examples
    --------
    >>> import attnflow as af
    >>> law = af.Heads([af.Softmax(beta=0.0), af.Hardmax()], V=[[[2.0]], None])
    >>> law.attend([[1.0], [3.0]])
    array([[7.],
           [7.]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """

    name: ClassVar[str] = "heads"
    title: ClassVar[str] = "Several heads"
    formula: ClassVar[str] = "m_i = sum_h V_h sum_j P^h_ij x_j"

    laws: Sequence[Law] = field(repr=False, metadata=about("laws", "a law for each head", key="heads"))
    V: Sequence[Matrix] | None = field(
        default=None, repr=False, metadata=about("matrix", "a value matrix for each head", beside="laws")
    )

    def __post_init__(self) -> None:
        laws = _listed(self.laws)
        matrices = (None,) * len(laws) if self.V is None else _listed(self.V)
        if not laws or not all(isinstance(law, Law) for law in laws):
            raise InputError("heads need at least one law, each a law such as Softmax(beta=1.0)")
        if any(isinstance(law, Heads) for law in laws):
            raise InputError("a head is itself made of heads: give all laws in one flat list")
        if len(matrices) != len(laws):
            raise InputError(f"{len(laws)} heads came with {len(matrices)} matrices V: give one, or None, per head")
        object.__setattr__(self, "laws", laws)
        object.__setattr__(self, "V", tuple(constant_matrix(v, f"V of head {h}") for h, v in enumerate(matrices)))

    @property
    def short_name(self) -> str:
        """The number of heads: their laws would be too long for a line."""
        return f"{len(self.laws)} head{'' if len(self.laws) == 1 else 's'}"

    @property
    def heads(self) -> tuple[Law, ...]:
        return tuple(self.laws)

    @property
    def continuous(self) -> bool:  # type: ignore[override]
        """Whether every head is."""
        return all(law.continuous for law in self.laws)

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        """Whether the weights of every head are probabilities."""
        return all(law.stochastic for law in self.laws)

    @property
    def array_api(self) -> bool:  # type: ignore[override]
        """Whether every head takes arrays of any library."""
        return all(law.array_api for law in self.laws)

    @property
    def positional(self) -> bool:
        """Whether the weights of some head depend on the indices of tokens."""
        return any(law.positional for law in self.laws)

    def check_order(self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None) -> None:
        """Refuse a head whose weights depend on the order of the tokens without being told."""
        for law in self.laws:
            law.check_order(x, t, sources=sources, masses=masses)

    def uses(self, engine: str, n: int, d: int) -> str:
        """Return the names of the engines that the heads would be served by."""
        return ", ".join(sorted({law.uses(engine, n, d) for law in self.laws}))

    def served_by(self, x: Array, t: float, engine: str) -> str:
        """Return the names of the engines that serve the heads."""
        return ", ".join(sorted({law.served_by(x, t, engine) for law in self.laws}))

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None, **indices: Any
    ) -> Array:
        """Return the matrices log P^h_ij, stacked: (heads, m, n)."""
        of = [log_weights(law, x, t, sources=sources, masses=masses, **indices) for law in self.laws]
        return namespace(x).stack(of)

    def signed_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None, **indices: Any
    ) -> Array:
        """Return the matrices of weights, stacked, where those of some head are no probabilities."""
        return namespace(x).stack([weights(law, x, t, sources=sources, masses=masses, **indices) for law in self.laws])

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Return sum_h V_h sum_j P^h_ij v_j."""
        parts = []
        for h, (law, V) in enumerate(zip(self.laws, self.V or (), strict=True)):
            mean = law.listen(x, t, sources._replace(memory=None)).mean
            parts.append(_turned(mean, matrix_at(V, t, mean.shape[1], f"V of head {h}", like=x)))
        return Heard(sum(parts[1:], parts[0]), None)

    def attend_chunks(self, x: Any, t: float) -> Any:
        """Return the same sum for tokens in a Dask array, where every head takes them."""
        return sum(
            chunks.mapped(law.attend_chunks(x, t), _turned, matrix_at(V, t, x.shape[1], f"V of head {h}"))
            for h, (law, V) in enumerate(zip(self.laws, self.V or (), strict=True))
        )

    def __repr__(self) -> str:
        return f"Heads({', '.join(map(repr, self.laws))})"


def _turned(mean: Array, matrix: Array | None) -> Array:
    return mean if matrix is None else mean @ matrix.T


def _listed(values: Any) -> tuple[Any, ...]:
    """Return the items as a tuple; an empty one, which is refused, where there are none to list."""
    try:
        return tuple(values)
    except TypeError:
        return ()
