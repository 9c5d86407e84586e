"""Which theorem of the rescaled flow applies to a pair of matrices."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.inputs import Array, InputError, square, varies_in_time
from attnflow.geometry.forms import EPS, form, positive_definite, symmetric

# Entries, and what V - lambda I does on an eigenspace, are equal up to this part of the largest entry.
SAME = 1e-12
# The theorems that are known here; where several apply, the first one counts.
THEOREMS = ("negative identity", "polytope", "hyperplanes", "polytope times subspace")


@dataclass(frozen=True)
class Dominant:
    """The eigenvalues of largest modulus of V and their spaces.

    `value` is lambda_1, `multiplicity` how many eigenvalues equal it, `second` the largest modulus of the others (0 if
    there are none); moduli are known up to `blur`. `right` (d, m) spans F, the eigenvectors for lambda_1, `rest`
    (d, d - m) the invariant complement G, and the rows of `left` (m, d) are dual to `right` and vanish on G: they give
    the coordinates along F. All three are None where lambda_1 is not real or lacks eigenvectors.
    """

    value: complex
    multiplicity: int
    second: float
    blur: float
    right: Array | None = field(repr=False)
    left: Array | None = field(repr=False)
    rest: Array | None = field(repr=False)


@dataclass(frozen=True)
class Classification:
    """Which theorem applies.

    `theorem` is "negative identity", "polytope", "hyperplanes", "polytope times subspace" or "none", the first of
    `applies` in this order; `failed` says of every other theorem which hypothesis fails; `eigenvalues` (d,) of V come
    with the largest modulus first.
    """

    theorem: str
    applies: tuple[str, ...]
    failed: dict[str, str]
    eigenvalues: NDArray[np.complex128] = field(repr=False)
    dominant: Dominant


def classify(V: ArrayLike, B: ArrayLike | None = None) -> Classification:
    """Say which theorem on the rescaled flow z_i' = V sum_j P_ij (z_j - z_i) applies to V and B = K^T Q.

    - "polytope": V = lambda I with lambda > 0, B symmetric positive definite (a change of time gives V = I);
    - "hyperplanes": the eigenvalue of largest modulus is real, positive, simple and strictly dominant, and
      <B phi, phi> > 0 for its eigenvector phi;
    - "polytope times subspace": that eigenvalue is positive, perhaps multiple but with as many eigenvectors, strictly
      dominant, not all of V, and B is symmetric positive definite;
    - "negative identity": V = -lambda I and B = mu I with lambda, mu > 0 (time and length scaled to 1).

    Entries are compared up to 1e-12 of the largest, eigenvalues up to ten times what rounding does to them, which is
    much where eigenvectors are nearly parallel.

    >>> found = classify([[2.0, 1.0], [0.0, 0.5]])
    >>> found.theorem, found.dominant.value, found.failed["polytope"]
    ('hyperplanes', (2+0j), 'V is not a positive multiple of the identity')
    >>> classify(np.eye(3)).theorem, classify([[-1.0]]).theorem, classify([[0.0, -1.0], [1.0, 0.0]]).theorem
    ('polytope', 'negative identity', 'none')

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), Theorems 2, 3, 4 and the case V = -I.
    """
    if varies_in_time(V):
        raise InputError("V is a function of time, but the theorems need a constant: give a matrix")
    value = square(V, "V")
    scores = form(B, len(value))
    eigenvalues, blur = _eigenvalues(value)
    dominant = _dominant(value, eigenvalues, blur)
    said = (
        _not_negative_identity(value, scores),
        _not_polytope(value, scores),
        _not_hyperplanes(dominant, scores),
        _not_product(dominant, scores),
    )
    reasons = dict(zip(THEOREMS, said, strict=True))
    applies = tuple(name for name, reason in reasons.items() if reason is None)
    failed = {name: reason for name, reason in reasons.items() if reason is not None}
    return Classification(applies[0] if applies else "none", applies, failed, eigenvalues, dominant)


def positive_share(eigenvalues: Array) -> Array:
    """Return the share of the positive ones in sum |l_i| of some eigenvalues (..., k); NaN where all are 0.

    >>> positive_share(np.array([[3.0, -1.0], [0.0, 0.0]]))
    array([0.75,  nan])
    """
    with np.errstate(invalid="ignore"):
        found: Array = np.maximum(eigenvalues, 0).sum(axis=-1) / np.abs(eigenvalues).sum(axis=-1)
    return found


def _eigenvalues(V: Array) -> tuple[NDArray[np.complex128], Array]:
    """Return the eigenvalues, largest modulus first, and how far rounding may have moved each.

    That is eps |V| / |<y, x>|, x and y its unit right and left eigenvectors: large where eigenvectors are missing, but
    no more than rounding does to a single Jordan block. A diagonal similarity balances V first.
    """
    from scipy.linalg import eig, matrix_balance

    unit = 2.0 ** np.frexp(np.abs(V).max())[1]
    balanced = matrix_balance(V / unit, permute=False)[0]
    values, left, right = eig(balanced, left=True)
    size = float(np.linalg.norm(balanced, 2))
    angles = np.abs((left.conj() * right).sum(axis=0))
    blur = np.minimum(10 * EPS * size / np.maximum(angles, EPS), size * (10 * EPS) ** (1 / len(V)))
    moduli = np.round(np.abs(values) / (np.abs(values).max() or 1.0), 12)
    order = np.lexsort((-values.imag, -values.real, -moduli))
    return unit * values[order].astype(np.complex128), unit * blur[order]


def _dominant(V: Array, eigenvalues: NDArray[np.complex128], blur: Array) -> Dominant:
    first = eigenvalues[0]
    near = np.abs(eigenvalues - first) <= blur + blur[0]
    m = int(near.sum())
    second = float(np.abs(eigenvalues[~near]).max(initial=0.0))
    known = float(blur[0] + blur[~near].max(initial=0.0))
    if abs(first.imag) > blur[0]:
        return Dominant(complex(first), m, second, known, None, None, None)
    centre = float(eigenvalues[near].real.mean())
    unit = float(np.abs(V).max()) or 1.0
    left_vectors, singular, right_vectors = np.linalg.svd(V / unit - centre / unit * np.eye(len(V)))
    if m > 1 and singular[-m] > SAME:
        return Dominant(complex(centre), m, second, known, None, None, None)
    right, left = right_vectors[-m:].T, left_vectors[:, -m:].T
    left = np.linalg.solve(left @ right, left)
    rest = np.linalg.svd(left)[2][m:].T
    return Dominant(complex(centre), m, second, known, right, left, rest)


def _multiple(matrix: Array) -> float | None:
    """Return lambda if the matrix is lambda I up to rounding, otherwise None."""
    scale = float(np.trace(matrix) / len(matrix))
    close = np.abs(matrix - scale * np.eye(len(matrix))).max() <= SAME * np.abs(matrix).max()
    return scale if close else None


def _not_positive(B: Array) -> str | None:
    if not symmetric(B):
        return "B is not symmetric"
    return None if positive_definite(B) else "B is not positive definite"


def _not_negative_identity(V: Array, B: Array) -> str | None:
    multiple, scores = _multiple(V), _multiple(B)
    if multiple is None or multiple >= 0:
        return "V is not a negative multiple of the identity"
    return None if scores is not None and scores > 0 else "B is not a positive multiple of the identity"


def _not_polytope(V: Array, B: Array) -> str | None:
    multiple = _multiple(V)
    if multiple is None or multiple <= 0:
        return "V is not a positive multiple of the identity"
    return _not_positive(B)


def _not_dominant(dominant: Dominant) -> str | None:
    """Say why the eigenvalue of largest modulus is not real, positive and strictly larger than the others."""
    value, second = dominant.value, dominant.second
    if abs(value) <= dominant.blur:
        return "all eigenvalues of V are 0, up to rounding"
    if second >= abs(value) - dominant.blur:
        return f"the largest modulus {abs(value):.6g} is shared, up to rounding, by different eigenvalues of V"
    if value.real <= 0:
        return f"the eigenvalue of largest modulus of V is {value.real:.6g}, not positive"
    return None


def _not_hyperplanes(dominant: Dominant, B: Array) -> str | None:
    if (reason := _not_dominant(dominant)) is not None:
        return reason
    if dominant.multiplicity > 1 or dominant.right is None:
        m = dominant.multiplicity
        return f"the largest eigenvalue {dominant.value.real:.6g} of V is not simple: {m} agree with it up to rounding"
    phi = dominant.right[:, 0]
    height = float(phi @ B @ phi)
    if height <= 1e-14 * np.abs(B).max() * len(B):
        return f"<B phi, phi> = {height:.3g} is not positive, phi the eigenvector of the largest eigenvalue"
    return None


def _not_product(dominant: Dominant, B: Array) -> str | None:
    if (reason := _not_dominant(dominant)) is not None:
        return reason
    if dominant.right is None:
        m = dominant.multiplicity
        return f"the {m} eigenvalues near {dominant.value.real:.6g} of V differ, or lack eigenvectors"
    if dominant.multiplicity == len(B):
        return "the eigenspace of the largest eigenvalue is the whole space: this is the polytope case"
    return _not_positive(B)
