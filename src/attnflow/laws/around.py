"""Laws that hold another law and change whom its tokens hear by their indices: what masks and positions share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

from attnflow.core.arrays import foreign, namespace
from attnflow.core.blocks import BLOCK, row_blocks
from attnflow.core.graphs import Order
from attnflow.core.indices import indices_of, need_probabilities, rows_of
from attnflow.core.inputs import Array, InputError
from attnflow.core.parameters import parameters_of
from attnflow.laws.law import Law, check_law
from attnflow.laws.sums import Heard, Products, Sources

# Rows that hear a short window of sources are taken this many at a time, or as many as the window is long.
FEW_ROWS = 256


class Around(Law):
    """A law around another one, `law`, whose scores it changes by the indices of queries and sources.

    For developers: a subclass overrides `products`, `scores` or both, and calls those of this class for what it holds.
    Sums are made fast by the law inside, if it has `serves_products` and `listen_products`, as `Softmax` has. A page
    says in a word what it `adds`, and has fields for `parameters_around` the class of a law, each of which may be left
    out unless all are `given_together`.
    """

    around: ClassVar[str] = "law"
    adds: ClassVar[str] = ""
    given_together: ClassVar[bool] = False
    by_order: ClassVar[bool] = True  # tokens then have an order, which a picture should show
    law: Law

    def __post_init__(self) -> None:
        if check_law(self.law).head_count:
            name = type(self).__name__
            raise InputError(
                f"{name} came with {self.law.short_name}: put it around each of them, Heads([{name}(...)])"
            )
        if not self.law.rows_apart:
            raise InputError(
                f"{type(self).__name__} came with {self.law.short_name}, whose weights for one token depend on all "
                "tokens together, so that no row can be changed alone: give a law whose rows are found one by one, "
                "such as Softmax"
            )
        super().__post_init__()

    @classmethod
    def parameters_around(cls, inside: type[Law]) -> tuple[str, ...]:
        """Return the parameters that it takes around laws of a class; none around laws that it refuses."""
        if not inside.rows_apart or inside.heads is not Law.heads:
            return ()
        return tuple(name for name in parameters_of(cls) if name != cls.around)

    @property
    def continuous(self) -> bool:  # type: ignore[override]
        """Whether the law inside is."""
        return self.law.continuous

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        """Whether the weights of the law inside are probabilities."""
        return self.law.stochastic

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether the law inside takes many clouds at once."""
        return self.law.batched

    @property
    def array_api(self) -> bool:  # type: ignore[override]
        """Whether the law inside takes arrays of any library."""
        return self.law.array_api

    @property
    def scored(self) -> bool:
        """Whether the weights of the law inside follow from scores."""
        # A law that is told the indices itself decides by more than its queries and keys.
        return self.law.scored and (isinstance(self.law, Around) or not self.law.positional)

    def check_number(self, n: int, t: float) -> None:
        """Refuse parameters that are not those of n tokens."""
        if isinstance(self.law, Around):
            self.law.check_number(n, t)

    def check_order(self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None) -> None:
        """Refuse a law inside whose weights depend on the order of the tokens without being told."""
        self.law.check_order(x, t, sources=sources, masses=masses)

    @property
    def core(self) -> Law:
        """The innermost law."""
        return core_of(self.law)

    @property
    def turns(self) -> bool:
        """Whether queries and keys are other than those of the law inside."""
        return isinstance(self.law, Around) and self.law.turns

    @property
    def shifts(self) -> bool:
        """Whether scores are other than products of queries and keys."""
        return isinstance(self.law, Around) and self.law.shifts

    def may_hear(self, rows: Any, columns: Any, t: float = 0) -> Any:
        """Return which of the sources each query may hear by the masks inside."""
        return self.law.may_hear(rows, columns, t)

    @property
    def order(self) -> Order | None:
        """Who may be heard, where that is decided by the order of tokens; None where a graph decides too."""
        return self.law.order if isinstance(self.law, Around) else Order()

    def reach(self, first: int, last: int, n: int) -> tuple[int, int]:
        """Return the ends of a range that holds all sources which the queries first, ..., last - 1 may hear."""
        return self.law.reach(first, last, n) if isinstance(self.law, Around) else (0, n)

    def products(
        self, x: Array, t: float = 0, *, sources: Array | None = None, rows: Any = None, columns: Any = None
    ) -> Products:
        """Return the queries and keys of the law inside."""
        return self.law.products(x, t, sources=sources, **self._told(rows, columns))

    def scores(self, products: Products, t: float = 0, *, rows: Any = None, columns: Any = None) -> Array:
        """Return the scores of the law inside."""
        return self.law.scores(products, t, **self._told(rows, columns))

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij, or signed weights, as the law inside decides them."""
        return self.law.of_scores(scores, x, t, sources=sources, masses=masses)

    def log_weights(self, x: Array, t: float = 0, **others: Any) -> Array:
        """Return log P_ij from the scores that are left: `sources`, `masses`, `rows` and `columns` as in `Law`."""
        need_probabilities(self)
        return self._changed(x, t, **others)

    def signed_weights(self, x: Array, t: float = 0, **others: Any) -> Array:
        """Return the weights of a law inside whose weights are no probabilities, in the same way."""
        return self._changed(x, t, **others)

    def _changed(
        self,
        x: Array,
        t: float,
        *,
        sources: Array | None = None,
        masses: Array | None = None,
        rows: Any = None,
        columns: Any = None,
    ) -> Array:
        """Return log P_ij, or signed weights; queries and sources are the tokens 0, 1, ... unless told."""
        y = x if sources is None else sources
        self.check_number(y.shape[-2], t)
        row, column = indices_of(x) if rows is None else rows, indices_of(y) if columns is None else columns
        return self._of_part(x, t, y, masses, {"rows": row, "columns": column})

    def _of_part(self, x: Array, t: float, y: Array, masses: Array | None, told: dict[str, Any]) -> Array:
        """Do the same for sources that hold all those which the queries may hear."""
        if not self.scored:
            return self.restricted(x, t, sources=y, masses=masses, **told)
        s = self.scores(self.products(x, t, sources=y, **told), t, **told)
        return self.of_scores(s, x, t, sources=y, masses=masses)

    def restricted(self, x: Array, t: float, *, sources: Array, masses: Array | None, rows: Any, columns: Any) -> Array:
        """Return log P_ij, or signed weights, where the law inside has no scores; here, refuse it."""
        raise self._without_scores()

    def _without_scores(self) -> InputError:
        """Return the refusal of a law inside without scores."""
        why = "is told the indices of tokens itself" if self.law.scored else "has no scores <q_i, k_j>"
        return InputError(
            f"{type(self).__name__} came with {self.law.short_name}, which {why}: give a law whose rows follow from "
            "scores, such as Softmax"
        )

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Average in blocks of rows, each of which looks only at the sources in its reach."""
        places, values, masses, gain = sources[:4]
        # Blocks that are cut to their reach are of log P_ij, which laws with signed weights do not have.
        if not (self.scored and self.stochastic):
            return super().listen(x, t, sources)
        self.check_number(len(places), t)
        heard = self._by_engine(x, t, sources)
        if heard is not None:
            return heard
        xp, scale = namespace(x), math.sqrt(gain)
        row, column, parts = indices_of(x), indices_of(places), []
        for block in self._blocks(len(x), len(places)):
            low, high = self.reach(block.start, min(block.stop, len(x)), len(places))
            y, w = scale * places[low:high], None if masses is None else masses[low:high]
            log_p = self._of_part(scale * x[block], t, y, w, {"rows": row[block], "columns": column[low:high]})
            parts.append(rows_of(self, log_p, x[block], y) @ values[low:high])
        return Heard(xp.concat(parts), None)

    def _by_engine(self, x: Array, t: float, sources: Sources) -> Heard | None:
        """Average in an engine, where scores are products of queries and keys and the law inside knows one for them."""
        engine = self._engine(sources.engine, *x.shape)
        if engine == "dense" or foreign(x) or len(x) != len(sources.places):
            return None
        scale, told = math.sqrt(sources.gain), {"rows": indices_of(x), "columns": indices_of(x)}
        queries, keys = self.products(scale * x, t, sources=scale * sources.places, **told)
        # The gain itself multiplies after the top score has been subtracted.
        products = Products(queries / scale, keys / scale) if scale != 1 else Products(queries, keys)
        core: Any = self.core
        heard: Heard | None = core.listen_products(x, t, sources, products, self.order)
        return heard

    def uses(self, engine: str, n: int, d: int) -> str:
        return self._engine(engine, n, d)

    def _engine(self, engine: str, n: int, k: int) -> str:
        """Return the engine that the law inside has for products of its n queries and keys; "dense" if it has none."""
        core: Any = self.core
        if self.shifts or self.order is None or not hasattr(core, "serves_products"):
            return "dense"
        served: str = core.serves_products(engine, n, k, self.order)
        return served

    def _blocks(self, m: int, n: int) -> Iterator[slice]:
        """Cut the rows so that a block looks at few more sources than each of its rows."""
        low, high = self.reach(m - 1, m, n)
        width = high - low
        rows = max(1, min(BLOCK // n, m))
        if width < n // 2 and (few := max(FEW_ROWS, width)) < m:
            rows = max(1, min(few, BLOCK // (few + 2 * width)))
        return row_blocks(m, 1, rows)

    def _told(self, rows: Any, columns: Any) -> dict[str, Any]:
        return {"rows": rows, "columns": columns} if isinstance(self.law, Around) else {}


def core_of(law: Law) -> Law:
    """Return the innermost law that a law stands around; the law itself, if it stands around none."""
    return law.core if isinstance(law, Around) else law
