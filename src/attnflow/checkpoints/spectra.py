"""The spectra of the heads of one layer, and how far they are from what theorems ask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.densities.one_thread import on_one_thread
from attnflow.geometry.spectra import classify, positive_share
from attnflow.laws.attention import Attention
from attnflow.motions.blocks import Norm

# Moduli of eigenvalues that differ by less than this part of the largest are shared; so are heights that are 0.
SAME = 1e-12


def scores_spectrum(Q: Array, K: Array, scale: float) -> Array:
    """Return the eigenvalues of sym(B) = (B + B^T) / 2, B = s K^T Q, the largest first: (..., min(d, 2k)).

    All others are 0: with M = [Q; K], of 2k rows, sym(B) = s/2 M^T [[0, I], [I, 0]] M. The triangle R of M^T = W R has
    the same eigenvalues in R [[0, I], [I, 0]] R^T, in 2k dimensions in place of d.

    >>> scores_spectrum(np.array([[1.0, 0.0, 0.0]]), np.array([[1.0, 0.0, 0.0]]), 3.0)
    array([3., 0.])
    """
    k = Q.shape[-2]
    R: Any = np.linalg.qr(np.swapaxes(np.concatenate([Q, K], axis=-2), -1, -2), mode="r")
    half = R[..., :k] @ np.swapaxes(R[..., k:], -1, -2)
    found: Array = scale / 2 * np.linalg.eigvalsh(half + np.swapaxes(half, -1, -2))[..., ::-1]
    return found + 0.0


def singular_values(left: Array, right: Array) -> Array:
    """Return the singular values of left^T right, for matrices (..., k, d), from their triangles in k dimensions."""
    R, S = (np.linalg.qr(np.swapaxes(one, -1, -2), mode="r") for one in (left, right))
    found: Array = np.linalg.svd(R @ np.swapaxes(S, -1, -2), compute_uv=False).astype(np.float64)
    return found


def values_spectrum(O: Array, W: Array) -> tuple[NDArray[np.complex128], Array]:  # noqa: E741 (as in the formula)
    """Return the eigenvalues of V = O W, the largest modulus first, and the unit eigenvector of the first, if real.

    Those beside 0 are the eigenvalues of W O, in k dimensions: if W O y = l y then V (O y) = l (O y). The vectors are
    (..., d), 0 where the first eigenvalue is 0 or not real.
    """
    d, k = O.shape[-2:]
    values, vectors = np.linalg.eig(W @ O if k < d else O @ W)
    moduli = np.abs(values)
    # Moduli that agree up to rounding keep their order, so that a conjugate pair stays together.
    order = np.argsort(-np.round(moduli / np.maximum(moduli.max(axis=-1, keepdims=True), 1e-300), 12), kind="stable")
    values = np.take_along_axis(values, order, axis=-1).astype(np.complex128)
    first = np.take_along_axis(vectors, order[..., None, :1], axis=-1)
    real = (values[..., 0].imag == 0) & (values[..., 0] != 0)
    phi: Array = np.where(real[..., None, None], (O @ first if k < d else first).real, 0.0)[..., 0]
    size = np.linalg.norm(phi, axis=-1, keepdims=True)
    return values, phi / np.where(size > 0, size, 1.0)


@on_one_thread
def layer_numbers(law: Attention, before: Norm | None, heard: Norm | None) -> dict[str, NDArray[Any]]:
    """Return what `hypotheses` says of one layer, each (H,) or (H, ...): see there for the definitions.

    `before` is the norm between the state and attention, if there is one, and `heard` the norm that the tokens come out
    of which attention hears.
    """
    (H, k, d), scale = law.Q.shape, float(law.scale or 1.0)
    Q, K, W = (np.asarray(one, dtype=np.float64) for one in (law.Q, law.K[law.group], law.V[law.group]))
    O = np.asarray(law.O, dtype=np.float64)  # noqa: E741
    V = _values(O, on_states(W, before, heard), d - len(silent(before or heard, d, folded=before is not None)))
    # Of normalised tokens, and of the states as they are.
    (Qz, Kz), (Qx, Kx) = ([on_normed(one, heard) for one in (Q, K)], [on_states(one, before, heard) for one in (Q, K)])
    room = d - len(silent(heard, d, folded=True))
    eigenvalues = scores_spectrum(Qz, Kz, scale)
    singular = scale * singular_values(Kz, Qz)
    traces = scale * np.einsum("hkd,hkd->h", Kz, Qz)
    norms = np.sqrt(np.square(singular).sum(axis=-1))
    with np.errstate(invalid="ignore"):  # 0 / 0 where B = 0 or V = 0: not a number, as documented
        sym = np.square(eigenvalues).sum(axis=-1) / norms**2
        least = np.minimum(eigenvalues[:, -1], 0.0 if eigenvalues.shape[-1] < d else np.inf)
        least = least / np.abs(eigenvalues).max(axis=-1)
        identity_B = np.sqrt(np.maximum(norms**2 - traces**2 / room, 0)) / norms
        # In layers without a norm before attention, phi and B are both those of the tokens as they are.
        pulled = scale * np.einsum("hkd,hd,hk->h", Kx, V["phi"], np.einsum("hkd,hd->hk", Qx, V["phi"]))
        height = pulled / (scale * singular_values(Kx, Qx)[:, 0])
    numbers: dict[str, NDArray[Any]] = {
        "plus": positive_share(eigenvalues), "sym": sym, "least": least, "beta_trace": traces / room,
        "beta_norm": singular[:, 0], "beta_sphere": d * singular[:, 0], "identity_B": identity_B,
        "identity_V": V["identity"], "dominant": V["values"][:, 0], "gap": V["gap"],
        "height": np.where(V["values"][:, 0].imag == 0, height, np.nan),
        "eigenvalues_B": eigenvalues, "eigenvalues_V": V["values"],
    }  # fmt: skip
    top = numbers["dominant"]
    numbers["leading"] = (top.imag == 0) & (top.real > 0) & (numbers["gap"] > SAME)
    numbers["theorem"] = np.where(numbers["leading"] & (np.nan_to_num(height) > SAME), "hyperplanes", "none")
    if k >= d:  # B may be definite, so that other theorems may apply
        found = [classify(*matrices(law, h, before, heard)).theorem for h in range(H)]
        numbers["theorem"] = np.array(found)
    return numbers


def matrices(law: Attention, h: int, before: Norm | None, heard: Norm | None) -> tuple[Array, Array]:
    """Return V and B of a head as theorems see them: on the space that the tokens which attention hears are in.

    With LayerNorm it has one dimension less than the tokens, and V is followed by the projection on it.
    """
    d, scale, gain = law.Q.shape[-1], float(law.scale or 1.0), _gain(before, law.Q.shape[-1])
    Q, K = (np.asarray(one, np.float64) * gain for one in (law.Q[h], law.K[law.group[h]]))
    V, B = law.value(h) * gain, scale * K.T @ Q
    if not len(lost := silent(before or heard, d, folded=before is not None)):
        return V, B
    basis = np.linalg.qr(lost.T, mode="complete")[0][:, len(lost) :]
    return basis.T @ V @ basis, basis.T @ B @ basis


def on_normed(weights: Array, norm: Norm | None) -> Array:
    """Return weights (..., k, d) as they act on tokens z of a norm before its gain, where <z, 1> = 0 for LayerNorm."""
    d = weights.shape[-1]
    return _heard(weights * _gain(norm, d), silent(norm, d, folded=True))


def on_states(weights: Array, before: Norm | None, heard: Norm | None) -> Array:
    """Return weights (..., k, d) as they act on normalised tokens if a norm comes before, else on states as they are.

    These come out of the norm `heard` with its gain.
    """
    if before is not None:
        return on_normed(weights, before)
    return _heard(weights, silent(heard, weights.shape[-1], folded=False))


def silent(norm: Norm | None, d: int, *, folded: bool) -> Array:
    """Return orthonormal directions (m, d) in which all tokens that come out of a norm have the same component.

    LayerNorm subtracts means: tokens z before its gain g have <z, 1> = 0, and tokens g z have <g z, 1 / g> = 0, or a
    coordinate that is 0 where g is. What weights do in these directions, no attention sees.

    >>> silent(Norm("layer", gain=np.array([1.0, 0.5])), 2, folded=False) * np.sqrt(5)
    array([[1., 2.]])
    """
    if norm is None or norm.kind != "layer":
        return np.zeros((0, d))
    gain = np.ones(d) if folded else _gain(norm, d)
    if not gain.all():
        return np.eye(d)[gain == 0]
    normal = np.abs(gain).min() / gain
    return (normal / np.linalg.norm(normal))[None]


def _heard(weights: Array, lost: Array) -> Array:
    """Return weights without what they do in some directions."""
    return weights - (weights @ lost.T) @ lost if len(lost) else weights


def _values(O: Array, W: Array, room: int) -> dict[str, Any]:  # noqa: E741
    """Return the spectrum of V = O W, its dominant eigenvector, the gap below it, and the distance of V from l I.

    I is the identity of the space of dimension `room` that tokens are in.
    """
    values, phi = values_spectrum(O, W)
    moduli = np.abs(values)
    second = moduli[:, 1] if moduli.shape[-1] > 1 else np.zeros(len(moduli))
    size = np.square(singular_values(np.swapaxes(O, -1, -2), W)).sum(axis=-1)
    trace = np.einsum("hdk,hkd->h", O, W)
    with np.errstate(invalid="ignore"):
        gap = 1 - second / moduli[:, 0]
        identity = np.sqrt(np.maximum(size - trace**2 / room, 0) / size)
    return {"values": values, "phi": phi, "gap": np.nan_to_num(gap), "identity": identity}


def _gain(norm: Norm | None, d: int) -> Array:
    return np.ones(d) if norm is None or norm.gain is None else np.asarray(norm.gain, dtype=np.float64)
