"""How far the heads of a transformer are from the hypotheses of theorems, beside null models."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.checkpoints.nulls import DRAWS, check_transformer, null, null_heads
from attnflow.checkpoints.spectra import layer_numbers, matrices
from attnflow.core import progress
from attnflow.core.inputs import InputError, one_of, whole
from attnflow.geometry.spectra import THEOREMS, Classification, classify
from attnflow.laws.attention import Attention, check_attention
from attnflow.measure import entropy
from attnflow.motions.blocks import Block, Norm
from attnflow.motions.transformer import Transformer
from attnflow.runs.simulate import simulate

Numbers = dict[str, NDArray[Any]]
# What a table shows of heads, with what it stands for: of numbers the mean over heads, of yes or no the share.
COLUMNS = {
    "plus": ("plus", "share of positive eigenvalues in the trace norm of sym(B)"),
    "sym": ("sym", "share of sym(B) in |B|_F^2"),
    "beta_trace": ("tr(B)/d", "mean eigenvalue of B; times d for tokens on the unit sphere, as beta is"),
    "beta_norm": ("|B|", "operator norm of B; times d for tokens on the unit sphere, as beta is"),
    "least": ("min(B)", "least eigenvalue of sym(B) over its largest modulus, 0 or more where B >= 0"),
    "identity_V": ("V-cI", "|V - cI|_F / |V|_F with c = tr(V)/d, 0 where V is a multiple of I"),
    "leading": ("lead>0", "share of heads whose V has a dominant eigenvalue that is real, positive and simple"),
    "hyperplanes": ("hyper", "share of heads with all hypotheses of the theorem on hyperplanes"),
    "entropy": ("entropy", "mean entropy of attention over log n, on the given tokens"),
}


def hypotheses(
    transformer: Transformer,
    tokens: ArrayLike | None = None,
    *,
    nulls: str | Sequence[str] = ("gaussian", "shuffled"),
    seeds: Sequence[int] = (0, 1, 2),
    entry: Norm | None = None,
    name: str = "transformer",
) -> Hypotheses:
    """Say of every head how far it is from the hypotheses of theorems on clusters, beside its null models.

    The matrices of a head, in the convention s_ij = <B x_i, x_j>, are B = s K^T Q with the scale s of the scores, and
    V = O W_V. Gains g of norms are folded in: tokens z that a norm has made, before its gain, have norm sqrt(d).

    - Where a norm comes before attention, it hears g z, and B is g B g and V is V g, with g as a diagonal matrix.
    - Where norms come after, attention hears the state itself, made by the last norm of the layer below, or by `entry`
      in the first layer. B is g B g with the gain of that norm; V stays, since its eigenvalues are those of g^{-1} V g.
    - LayerNorm also subtracts means, <z, 1> = 0: B and V are those of tokens in this hyperplane, P B P and V P with the
      projection P on it. It is the hyperplane <x, 1 / g> = 0 where V acts on g z. "I" is P below, and tr(B) / d is
      tr(B) / (d - 1).

    Biases are left out, and so are positions that turn queries and keys: B is that of two tokens at one place.

    Of every head, arrays (layers, heads):

    - `plus`: the share of positive eigenvalues in the sum of all |l_i| of sym(B) = (B + B^T) / 2; about .5 by chance;
    - `sym`: |sym(B)|_F^2 / |B|_F^2; about .5 by chance;
    - `least`: the least eigenvalue of sym(B) over the largest modulus: B >= 0 asks for 0 at least. With independent Q
      and K of size k < d / 2 there are k positive and k negative ones, so that it is always negative;
    - `beta_trace` = tr(B) / d and `beta_norm` = |B|_2: effective betas, in the mean and at most, of tokens of norm
      sqrt(d), as norms make them; `beta_sphere` = d |B|_2 is the last one for tokens on the unit sphere, where the
      mean is d `beta_trace`. They differ by orders of magnitude, so look at entropies too;
    - `identity_V`, `identity_B`: |V - cI|_F / |V|_F with c = tr(V) / d, and alike for B; 0 for multiples of I;
    - `dominant`: the eigenvalue of V with the largest modulus; `gap`: 1 minus the next modulus over that one, 0 for a
      complex pair; `leading`: whether it is real, positive and simple;
    - `height`: <B phi, phi> / |B|_2 with phi the unit eigenvector of a real dominant eigenvalue;
    - `theorem`: what `geometry.classify` says of V and B. "hyperplanes" asks for `leading` and a positive height; all
      other theorems ask for V or B of full rank, which heads of size k < d do not have;
    - `eigenvalues_B` (..., min(2k, d)) of sym(B) and `eigenvalues_V` (..., min(k, d)), all others being 0;
    - `entropy`: -sum_j P_ij log P_ij / log n, the mean over tokens i, in a run of `tokens`, if given.

    What is 0 / 0, as of a head with B = 0, and heights where the dominant eigenvalue is not real, are NaN.

    Parameters
    ----------
    transformer
        Its blocks have `Attention`, all with equally many heads of one size.
    tokens
        Tokens (n, d) to run, for entropies.
    nulls
        Null models, of "gaussian" and "shuffled", see `checkpoints.null`.
    seeds
        The seeds of null models, each drawn once by each seed.
    entry
        The norm that the tokens of the first layer come out of, if there is one.
    name
        What the table calls the model.

    Examples
    --------
    >>> import attnflow as af
    >>> rng = np.random.default_rng(0)
    >>> Q, K, V = rng.standard_normal((3, 4, 2, 8))
    >>> found = hypotheses(af.Transformer([af.Block(af.Attention(Q, Q, V, rng.standard_normal((4, 8, 2))))]))
    >>> found["plus"].round(12), found["sym"].round(12)
    (array([[1., 1., 1., 1.]]), array([[1., 1., 1., 1.]]))
    >>> found.nulls["gaussian"]["plus"].shape
    (3, 1, 4)

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), which shows spectra of the heads of an ALBERT.
    """
    check_transformer(transformer)
    if not isinstance(nulls, Iterable):
        raise InputError(f'nulls is {nulls!r}, expected a list of null models: give some, as ["gaussian"], or ()')
    kinds = [one_of(kind, DRAWS, "a null model") for kind in ([nulls] if isinstance(nulls, str) else nulls)]
    if not isinstance(seeds, Iterable):
        raise InputError(f"seeds is {seeds!r}, expected a list of whole numbers: give some, as seeds=range(3)")
    drawn = [whole(seed, "seed", least=0) for seed in seeds]
    if kinds and not drawn:
        raise InputError("there is no seed for the null models: give some, as seeds=range(3), or nulls=()")
    heads = [check_attention(block.heads, "a table of heads") for block in transformer.blocks]
    if len(shapes := {law.Q.shape for law in heads}) > 1:
        raise InputError(
            f"layers have heads of the shapes {', '.join(map(str, sorted(shapes)))}, expected one: give layers alike"
        )
    norms = [_norms(transformer.blocks, k, entry) for k in range(len(transformer))]
    with progress.task("heads of models", 1 + len(kinds) * len(drawn)) as work:
        values = _numbers(heads, norms) | _entropies(transformer, tokens)
        others: dict[str, Numbers] = {}
        for kind in kinds:
            each = list[Numbers]()
            for seed in drawn:
                work.reach(1 + len(others) * len(drawn) + len(each))
                found = _numbers(null_heads(transformer, kind, seed), norms)
                each.append(found | (_entropies(null(transformer, kind, seed), tokens) if tokens is not None else {}))
            others[kind] = {key: np.stack([one[key] for one in each]) for key in values}
    return Hypotheses(name, values, others, tuple(drawn), _Weights(heads, norms))


@dataclass(frozen=True)
class _Weights:
    """The heads that a table was made of."""

    heads: Sequence[Attention]
    norms: Sequence[tuple[Norm | None, Norm | None]]


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """A table over the layers and heads of a model, see `hypotheses`.

    ``found["plus"]`` is an array (layers, heads), of the null models it is ``found.nulls["gaussian"]["plus"]``, (seeds,
    layers, heads); `dataset` holds all of them. Printed, it shows each layer: the mean over its heads, and of null
    models the mean over the seeds too, with the largest distance of a seed from it. `of_layer` shows each head.
    """

    name: str
    values: Numbers = field(repr=False)
    nulls: Mapping[str, Numbers] = field(repr=False)
    seeds: tuple[int, ...]
    weights: _Weights = field(repr=False)

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self.values[one_of(key, self.values, "a column of the table")]

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self["plus"])

    @property
    def heads(self) -> int:
        """How many heads a layer has."""
        return int(self["plus"].shape[1])

    def classification(self, layer: int, head: int) -> Classification:
        """Return which theorem applies to a head, and of each other one which hypothesis fails, in words."""
        k = whole(layer, "layer", least=0, most=self.layers - 1)
        h = whole(head, "head", least=0, most=self.heads - 1)
        return classify(*matrices(self.weights.heads[k], h, *self.weights.norms[k]))

    def applies(self, theorem: str = "hyperplanes") -> list[tuple[int, int]]:
        """Return the heads (layer, head) to which a theorem applies, named as in `geometry.classify`, or "none"."""
        one_of(theorem, (*THEOREMS, "none"), "a theorem")
        return [(int(k), int(h)) for k, h in np.argwhere(self["theorem"] == theorem)]

    def dataset(self) -> Any:
        """Return all arrays as an `xarray.Dataset`: over (layer, head), "_null" over (null, seed, layer, head).

        >>> import attnflow as af
        >>> rng = np.random.default_rng(0)
        >>> Q, K, V = rng.standard_normal((3, 4, 2, 8))
        >>> block = af.Block(af.Attention(Q, K, V, rng.standard_normal((4, 8, 2))))
        >>> found = hypotheses(af.Transformer([block] * 3), seeds=[0, 1]).dataset()
        >>> dict(found.plus_null.sizes)
        {'null': 2, 'seed': 2, 'layer': 3, 'head': 4}
        """
        import xarray

        variables: dict[str, Any] = {}
        for key, array in self.values.items():
            axes = ("layer", "head", *([f"place_{key[-1]}"] if array.ndim > 2 else []))
            variables[key] = (axes, array)
            if self.nulls:
                stacked = np.stack([numbers[key] for numbers in self.nulls.values()])
                variables[f"{key}_null"] = (("null", "seed", *axes), stacked)
        places = {"layer": np.arange(self.layers), "head": np.arange(self.heads)}
        if self.nulls:
            places |= {"null": np.array(list(self.nulls)), "seed": np.array(self.seeds)}
        return xarray.Dataset(variables, places, {"model": self.name, "dimension": self.weights.heads[0].Q.shape[2]})

    def __str__(self) -> str:
        width = shutil.get_terminal_size((80, 24)).columns
        return self._written(["layer", ""], self._all_rows(), width)

    def of_layer(self, layer: int) -> str:
        """Return the table of one layer, a row for each head, then the means over heads of the model and its nulls.

        >>> import attnflow as af
        >>> rng = np.random.default_rng(0)
        >>> Q, K, V = rng.standard_normal((3, 2, 2, 8))
        >>> block = af.Block(af.Attention(Q, K, V, rng.standard_normal((2, 8, 2))))
        >>> print(hypotheses(af.Transformer([block])).of_layer(0)[:20])
        transformer, layer 0
        """
        k = whole(layer, "layer", least=0, most=self.layers - 1)
        rows = [[str(h), "", *(_short(self.values[key][k, h]) for key in self._shown)] for h in range(self.heads)]
        means = [["mean" if number == 0 else "", *row[1:]] for number, row in enumerate(self._rows(k))]
        width = shutil.get_terminal_size((80, 24)).columns
        return self._written(["head", ""], [*rows, *means], width, f", layer {k}")

    @property
    def _shown(self) -> list[str]:
        return [key for key in COLUMNS if key in self.values]

    def _all_rows(self) -> list[list[str]]:
        """Return the rows of every layer, those of equal layers that follow each other once, and of all together."""
        groups: list[tuple[int, int, list[list[str]]]] = []
        for k in range(self.layers):
            rows = self._rows(k)
            if groups and [row[1:] for row in groups[-1][2]] == [row[1:] for row in rows]:
                groups[-1] = (groups[-1][0], k, groups[-1][2])
            else:
                groups.append((k, k, rows))
        found = []
        for first, last, (top, *others) in groups:
            found += [[f"{first}-{last}" if last > first else top[0], *top[1:]], *others]
        return found + (self._rows(None) if len(groups) > 1 else [])

    def _rows(self, k: int | None) -> list[list[str]]:
        """Return the rows of a layer, or of all of them: of the model, and of each null model."""
        place = "all" if k is None else str(k)
        own = slice(None) if k is None else k
        rows = [[place, "model", *(_short(_mean(self.values[key][own])) for key in self._shown)]]
        for kind, numbers in self.nulls.items():
            each = {key: [_mean(one[own]) for one in numbers[key]] for key in self._shown}
            rows.append(["", kind, *(_spread(each[key]) for key in self._shown)])
        return rows

    def _written(self, labels: list[str], rows: list[list[str]], width: int, where: str = "") -> str:
        heads = [*labels, *(COLUMNS[key][0] for key in self._shown)]
        parts = [textwrap.fill(self._title(where), width)]
        for columns in _fitting([heads, *rows], len(labels), width):
            widths = [max(len(row[c]) for row in (heads, *rows)) for c in columns]
            lines = []
            for row in (heads, *rows):
                cells = [
                    row[c].ljust(w) if c < len(labels) else row[c].rjust(w)
                    for c, w in zip(columns, widths, strict=True)
                ]
                lines.append("  ".join(cells).rstrip())
            parts.append("\n".join(lines))
        parts.append("\n".join(self._key(width)))
        return "\n\n".join(parts)

    def _title(self, where: str) -> str:
        d, k = self.weights.heads[0].Q.shape[2], self.weights.heads[0].Q.shape[1]
        count = f"{self.layers} layer{'s' * (self.layers > 1)} of {self.heads} head{'s' * (self.heads > 1)}"
        said = f"{self.name}{where}: {count}, d = {d}, size of heads {k}."
        if not self.nulls:
            return f"{said} No null models."
        seeds = ", ".join(map(str, self.seeds))
        return f"{said} Null models: {', '.join(self.nulls)}, seed{'s' * (len(self.seeds) > 1)} {seeds}."

    def _key(self, width: int) -> Iterator[str]:
        """Yield what columns are, and which heads a theorem applies to."""
        for key in self._shown:
            short, text = COLUMNS[key]
            yield textwrap.fill(f"{short:<8} {text}", width, subsequent_indent=" " * 9)
        if self.nulls and len(self.seeds) > 1:
            yield textwrap.fill("a±b      mean over heads and seeds, and how far a seed is from it at most", width)
        names = sorted({str(name) for name in self["theorem"].ravel()} - {"none"})
        for name in names:
            found = self.applies(name)
            listed = ", ".join(f"{k}.{h}" for k, h in found)
            yield textwrap.fill(
                f"{name}: {len(found)} of {self.layers * self.heads} heads (layer.head): {listed}", width
            )
        if not names:
            yield textwrap.fill(
                f"No theorem of geometry.classify applies to any of {self.layers * self.heads} heads.", width
            )

    def _repr_html_(self) -> str:
        heads = ["layer", "", *(COLUMNS[key][0] for key in self._shown)]
        rows = self._all_rows()
        titles = ["", "", *(COLUMNS[key][1] for key in self._shown)]
        top = "".join(
            f'<th title="{escape(title)}">{escape(one)}</th>' for one, title in zip(heads, titles, strict=True)
        )
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<table><caption>{escape(self._title(''))}</caption><tr>{top}</tr>{body}</table>"


def _norms(blocks: Sequence[Block], k: int, entry: Norm | None) -> tuple[Norm | None, Norm | None]:
    """Return the norm between the state and the attention of layer k, and the norm that what it hears comes out of."""
    norms = blocks[k].norms
    assert isinstance(norms, tuple)
    if blocks[k].norm in ("pre", "both"):
        return norms[0], norms[0]
    if k == 0:
        return None, entry
    below = blocks[k - 1].norms
    assert isinstance(below, tuple)
    return None, below[-1] if blocks[k - 1].norm == "post" else None


def _numbers(heads: Sequence[Attention], norms: Sequence[tuple[Norm | None, Norm | None]]) -> Numbers:
    """Return the numbers of all layers, (layers, heads, ...); those of a layer that stands at many places once."""
    found: dict[tuple[int, ...], Numbers] = {}
    places = [(id(law), *map(id, pair)) for law, pair in zip(heads, norms, strict=True)]
    for place, law, pair in zip(places, heads, norms, strict=True):
        if place not in found:
            found[place] = layer_numbers(law, *pair)
    numbers = {key: np.stack([found[place][key] for place in places]) for key in found[places[0]]}
    return numbers | {"hyperplanes": numbers["theorem"] == "hyperplanes"}


def _entropies(transformer: Transformer, tokens: ArrayLike | None) -> Numbers:
    """Return the mean entropy of attention of each head over log n, (layers, heads)."""
    if tokens is None:
        return {}
    run = simulate(tokens, transformer)
    return {"entropy": entropy(run.law, run).mean(axis=-1) / math.log(max(2, run.tokens.shape[1]))}


def _mean(numbers: NDArray[Any]) -> float:
    """Return the mean of those that are numbers."""
    known = np.asarray(numbers, dtype=np.float64)
    known = known[~np.isnan(known)]
    return float(known.mean()) if known.size else math.nan


def _short(number: Any) -> str:
    """Write a number for a table: three digits, yes or no, or a dash.

    >>> [_short(one) for one in (0.51234, -12345.0, 0.0, 1e-7, float("nan"), np.True_)]
    ['0.512', '-1.23e+04', '0', '1e-07', '-', 'yes']
    """
    if isinstance(number, bool | np.bool_):
        return "yes" if number else "no"
    return "-" if math.isnan(number) else f"{number:.3g}"


def _spread(means: Sequence[float]) -> str:
    """Write the mean of some numbers, and how far one of them is from it at most.

    >>> [_spread(means) for means in ([0.50123, 0.49873], [94.1, 95.7], [0.25, 0.25], [3e-6, -1e-6], [math.nan])]
    ['0.500±0.001', '94.9±0.8', '0.25±0', '1e-06±2e-06', '-']
    >>> [_spread(means) for means in ([2e-4, 2e-4], [0.0023, -0.0017], [0.12345])]
    ['0.0002±0', '0.0003±0.0020', '0.123']
    """
    known = [one for one in means if not math.isnan(one)]
    if len(known) < 2:
        return _short(known[0] if known else math.nan)
    centre = _mean(np.array(known))
    away = max(abs(one - centre) for one in known)
    if away == 0:
        return f"{centre:.3g}±0"
    digits = max(0, math.ceil(-math.log10(away)))
    if abs(centre) < 10.0**-digits and centre != 0:
        digits = math.ceil(-math.log10(abs(centre)))
    if abs(centre) >= 1e4 or away < 1e-4 or digits > 4:
        return f"{centre:.3g}±{away:.0e}"
    return f"{centre:.{digits}f}±{away:.{digits}f}"


def _fitting(rows: list[list[str]], labels: int, width: int) -> list[list[int]]:
    """Return the columns of tables that the width has room for, one below the other; each has the labels."""
    sizes = [max(len(row[c]) for row in rows) + 2 for c in range(len(rows[0]))]
    first = list(range(labels))
    tables, room = [list(first)], width + 2 - sum(sizes[:labels])
    for c in range(labels, len(sizes)):
        if sum(sizes[one] for one in tables[-1][labels:]) + sizes[c] > room and len(tables[-1]) > labels:
            tables.append(list(first))
        tables[-1].append(c)
    return tables
