"""Pictures of single heads: the spectra of their matrices, and whom tokens hear in one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from attnflow.core.inputs import Array, InputError, whole
from attnflow.figures.marks import shade_bar
from attnflow.figures.style import DASHED, colours, figure_of, found_by, look, ramp, sheet, tone
from attnflow.geometry.spectra import positive_share
from attnflow.runs.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Panels side by side, and the size of one of them in inches.
COLUMNS, PANEL = 4, 1.8
# Eigenvalues below this part of the largest are those of the kernel.
KERNEL = 1e-9
# More words than this are not written at the rows and columns of a matrix.
MOST_WORDS = 40
# Heads of null models are drawn as dots for no more than this many models; bands are of all of them.
DRAWN_NULLS = 4


class Matrices(Protocol):
    """A head by its matrices (d, d): scores are <B x_i, x_j>, and V multiplies what is heard.

    Where it has a matrix `B_normed` of scores of normalised tokens, as heads of checkpoints have, this one is drawn.
    """

    @property
    def B(self) -> Array: ...

    @property
    def V(self) -> Array: ...


def head_spectra(heads: Sequence[Matrices], nulls: Sequence[Sequence[Matrices]] = ()) -> Figure:
    """Draw the spectra of every head of a layer: eigenvalues of V in the complex plane, and of B_s = (B + B^T) / 2.

    Of V, a ring marks the eigenvalue of largest modulus, filled where it is real and positive, as theorems on leaders
    ask. Of B_s, positive eigenvalues are a solid line, moduli of negative ones a dashed line, each from the largest on.
    Grey are the same heads of null models: dots for V, bands from the least to the largest of all null models for B_s.
    The numbers are `plus`, the share of positive eigenvalues in sum |l_i| of B_s, of the head and on average of its
    nulls. Heads of a checkpoint have the B of normalised tokens, `B_normed`, and the numbers of `hypotheses`.

    Parameters
    ----------
    heads
        Heads with matrices B and V, such as ``checkpoint.layers[0].heads``.
    nulls
        The same of each null model, such as ``checkpoint.null("gaussian", seed=s).layers[0].heads`` for some seeds s.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> def heads():
    ...     return [SimpleNamespace(B=B, V=V) for B, V in rng.standard_normal((3, 2, 8, 8))]
    >>> figure = head_spectra(heads(), nulls=[heads() for _ in range(4)])
    >>> len(figure.axes)
    6

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), which draws them for an ALBERT.
    """
    if not heads:
        raise InputError("there is no head to draw: give some, such as checkpoint.layers[0].heads")
    if any(len(one) != len(heads) for one in nulls):
        raise InputError(
            f"{len(heads)} heads came with null models of {[len(one) for one in nulls]}: give as many heads of each"
        )
    rows = math.ceil(len(heads) / COLUMNS)
    columns = min(COLUMNS, len(heads))
    with look():
        figure = sheet(max(PANEL * columns, 4.4), 2 * PANEL * rows + 0.5)
        grid = figure.add_gridspec(2 * rows, columns)
        panels = [
            [figure.add_subplot(grid[2 * (h // columns) + part, h % columns]) for part in (0, 1)]
            for h in range(len(heads))
        ]
        for h, (upper, lower) in enumerate(panels):
            others = [one[h] for one in nulls]
            _values(upper, heads[h].V, [one.V for one in others])
            _scores(lower, _form(heads[h]), [_form(one) for one in others])
            upper.set_title(f"head {h}", fontsize=11)
        _scale_panels([upper for upper, _ in panels], [lower for _, lower in panels])
        for row in range(rows):
            panels[row * columns][0].set_ylabel(r"eigenvalues of $V$")
            panels[row * columns][1].set_ylabel(r"$|\lambda_i|$ of $B_s$")
        for h in range(max(0, len(heads) - columns), len(heads)):
            panels[h][1].set_xlabel("$i$")
        figure.legend(handles=_spectral_key(bool(nulls)), loc="outside lower center", ncols=2, fontsize=9)
    return figure


def _form(head: Matrices) -> Array:
    """Return the matrix of scores of normalised tokens, where a head knows it, or else that of the tokens."""
    known: Array = head.B_normed if hasattr(head, "B_normed") else head.B
    return known


def _values(ax: Any, V: Array, nulls: Sequence[Array]) -> None:
    """Draw the eigenvalues of V in the complex plane."""
    for null in nulls[:DRAWN_NULLS]:
        ax.scatter(*_plane(_spectrum(null)), s=3, color=tone().pencil, alpha=0.45, lw=0, zorder=1, gid="null")
    found = _spectrum(V)
    ax.scatter(*_plane(found), s=7, color=tone().palette[0], lw=0, zorder=3, gid="values")
    top = found[np.abs(found).argmax()]
    alone = abs(top.imag) <= KERNEL * abs(top) and top.real > 0
    face = tone().palette[1] if alone else "none"
    shown = np.unique([abs(top.imag), -abs(top.imag)]) if abs(top.imag) > KERNEL * abs(top) else np.array([0.0])
    ax.scatter(np.full(len(shown), top.real), shown, s=26, facecolors=face, edgecolors=tone().palette[1], lw=1.1,
               zorder=4, gid="dominant")  # fmt: skip
    ax.axhline(0, color=tone().wire, lw=0.6, zorder=0)
    ax.axvline(0, color=tone().wire, lw=0.6, zorder=0)


def _scores(ax: Any, B: Array, nulls: Sequence[Array]) -> None:
    """Draw the positive eigenvalues of sym B and the moduli of the negative ones, in decreasing order."""
    found, others = _symmetric(B), [_symmetric(null) for null in nulls]
    for k, (sign, style) in enumerate(((1, "-"), (-1, DASHED))):
        values = _ordered(sign * found)
        ax.plot(np.arange(1, len(values) + 1), values, color=colours([k])[0], ls=style, lw=1.5, zorder=3,
                gid="plus" if sign > 0 else "minus")  # fmt: skip
    if any(one.any() for one in others):
        each = [_ordered(sign * one) for one in others for sign in (1, -1)]
        filled = np.zeros((len(each), max(map(len, each))))
        for row, values in zip(filled, each, strict=True):
            row[: len(values)] = values
        ax.fill_between(np.arange(1, filled.shape[1] + 1), filled.min(axis=0), filled.max(axis=0), color=tone().pencil,
                        alpha=0.45, lw=0, zorder=1, gid="null")  # fmt: skip
    shares = np.array([_plus(one) for one in others])
    shares = shares[~np.isnan(shares)]
    said = _said("plus", _plus(found)) + (f"\n{_said('null', float(shares.mean()))}" if len(shares) else "")
    ax.text(0.97, 0.95, said, transform=ax.transAxes, ha="right", va="top", fontsize=9, color=tone().quiet)


def _spectrum(V: Array) -> Any:
    """Return the eigenvalues of V beside those of its kernel."""
    found = np.linalg.eigvals(np.asarray(V, dtype=np.float64))
    return found[np.abs(found) > KERNEL * np.abs(found).max()] if found.any() else found


def _symmetric(B: Array) -> Array:
    B = np.asarray(B, dtype=np.float64)
    found: Array = np.linalg.eigvalsh((B + B.T) / 2).astype(np.float64, copy=False)
    return found


def _ordered(values: Array) -> Array:
    """Return the positive ones of some eigenvalues, the largest first."""
    return np.sort(values[values > KERNEL * np.abs(values).max()])[::-1]


def _plus(values: Array) -> float:
    """Return the share of positive eigenvalues in sum |l_i|, NaN where B_s = 0."""
    return float(positive_share(values))


def _said(name: str, number: float) -> str:
    return f"{name} {'-' if math.isnan(number) else f'{number:.2f}'}"


def _plane(values: Any) -> tuple[Array, Array]:
    return values.real, values.imag


def _scale_panels(upper: Sequence[Any], lower: Sequence[Any]) -> None:
    """Give all panels of B the same axes; those of V differ too much from head to head, and each has its own."""
    top = 1.08 * max(float(np.max(line.get_ydata(), initial=0.0)) for ax in lower for line in ax.lines)
    top = max(top, *(float(mark.get_paths()[0].vertices[:, 1].max()) for ax in lower for mark in ax.collections), 0.0)
    last = max(len(line.get_xdata()) for ax in lower for line in ax.lines)
    for ax in upper:
        reach = 1.12 * max(float(np.abs(mark.get_offsets()).max()) for mark in ax.collections) or 1.0
        ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    for ax in lower:
        ax.set(xlim=(0, last + 1), ylim=(0, top or 1.0))
        ax.label_outer()
    for ax in (*upper, *lower):
        ax.locator_params(nbins=4)
        ax.xaxis.set_major_formatter(figure_of)
        ax.yaxis.set_major_formatter(figure_of)


def _spectral_key(nulls: bool) -> list[Any]:
    """Return the marks of the key."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    orange = tone().palette[1]
    ring: dict[str, Any] = {"ls": "", "marker": "o", "mec": orange, "ms": 5}
    key: list[Any] = [
        Line2D([], [], color=colours([0])[0], lw=1.5, label=r"positive eigenvalues of $B_s$"),
        Line2D([], [], color=colours([1])[0], lw=1.5, ls=DASHED, label=r"negative eigenvalues of $B_s$"),
        Line2D([], [], **ring, mfc=orange, label=r"dominant eigenvalue of $V$: real and positive"),
        Line2D([], [], **ring, mfc="none", label=r"dominant eigenvalue of $V$: negative or complex"),
    ]
    return key + [Patch(color=tone().pencil, alpha=0.45, lw=0, label="null models")] * nulls


def attention_map(
    run: Trajectory,
    layer: int = 0,
    head: int = 0,
    words: Sequence[str] | None = None,
    nulls: Mapping[str, Trajectory] | None = None,
) -> Figure:
    """Draw the attention P_ij of one head in a layer of a run: rows hear columns, and dots are leaders, argmax_j P_ij.

    Above it stand the column masses sum_i P_ij / n: how much each token is heard.

    Parameters
    ----------
    run
        A run of a `Transformer`.
    layer, head
        Counted from 0.
    words
        What to write at the rows, one for each token, such as ``checkpoint.words(text)``; up to forty are written.
    nulls
        Runs of null models by name, drawn beside it.

    Examples
    --------
    >>> import attnflow as af
    >>> rng = np.random.default_rng(0)
    >>> Q, K, V = rng.standard_normal((3, 2, 4, 8))
    >>> block = af.Block(af.Attention(Q, K, V, rng.standard_normal((2, 8, 4))))
    >>> run = af.simulate(rng.standard_normal((6, 8)), af.Transformer([block] * 2))
    >>> figure = attention_map(run, layer=1, head=0, words="to be or not to be".split())
    >>> figure.axes[0].get_title(), figure.axes[1].get_xlabel()
    ('layer 1, head 0', 'heard token')

    References
    ----------
    Vaswani et al., *Attention is all you need* (2017), whose figures are of this kind.
    """
    runs = {"": run, **(nulls or {})}
    matrices = {name: _attention(one, layer, head) for name, one in runs.items()}
    n = len(next(iter(matrices.values())))
    if words is not None and len(words) != n:
        raise InputError(f"{len(words)} words came with {n} tokens: give one for each token")
    with look():
        from matplotlib.colors import PowerNorm

        figure = sheet(3.9 * len(runs) + 0.9, 4.6)
        axes = figure.subplots(2, len(runs), squeeze=False, height_ratios=[1, 5], sharex=True, sharey="row")
        tops, maps = axes
        top = max(float(P.max()) for P in matrices.values())
        image = None
        for above, ax, (name, P) in zip(tops, maps, matrices.items(), strict=True):
            # A square root shows weights of a hundredth beside those of one half.
            image = ax.imshow(P, cmap=ramp(), norm=PowerNorm(0.5, 0.0, top), gid="weights", aspect="auto")
            ax.scatter(P.argmax(axis=1), np.arange(n), s=min(14.0, 600 / n), color=tone().palette[1], lw=0,
                       gid="leaders")  # fmt: skip
            above.bar(np.arange(n), P.mean(axis=0), width=0.9, color=tone().palette[0], gid="heard")
            above.set_title(name or f"layer {layer}, head {head}", fontsize=11)
            ax.set_xlabel("heard token")
            if words is not None and n <= MOST_WORDS:
                ax.set_yticks(np.arange(n), words, fontsize=7.5)
        tops[0].set_ylabel("column mass", fontsize=9)
        maps[0].set_ylabel("token")
        shade_bar(figure, image, list(maps)).set_label(r"weight $P_{ij}$")
    return figure


def _attention(run: Trajectory, layer: int, head: int) -> Array:
    """Return the weights (n, n) of one head, as the tokens of its layer hear each other."""
    found_by("simulate(tokens, transformer)", run, Trajectory)
    if run.law is None:
        raise InputError("the law of this run was not stored: give the run of a transformer as simulate returned it")
    k = whole(layer, "layer", least=0, most=len(run) - 2)
    P = run.law.weights(run.seen(k), run.times[k], run.masses)
    P = P[None] if P.ndim == 2 else P
    weights: Array = P[whole(head, "head", least=0, most=len(P) - 1)]
    return weights
