"""Unit vectors: lengths, tangent vectors, geodesics."""

from __future__ import annotations

import numpy as np

from attnflow.core.arrays import holds, namespace
from attnflow.core.inputs import Array, InputError


def on_sphere(x: Array) -> Array:
    """Return the tokens divided by their norms, refusing any whose norm is not 1 to begin with."""
    norms = lengths(x)
    away = abs(norms - 1)
    if not holds(away <= 1e-6):
        i = int(away.argmax())
        raise InputError(
            f"token {i} has norm {norms[i]:g}, expected 1: use af.tokens.sphere, or divide each token by its norm"
        )
    return x / norms[:, None]


def lengths(x: Array) -> Array:
    """Return the norm of each row, for the arrays of any library.

    >>> lengths(np.array([[3.0, 4.0]]))
    array([5.])
    """
    norms: Array = namespace(x).sqrt((x * x).sum(axis=-1))
    return norms


def inner_products(x: Array, y: Array) -> Array:
    """Return <x_i, y_i> for each row, with a last axis of length one.

    >>> inner_products(np.array([[3.0, 4.0]]), np.array([[1.0, 2.0]]))
    array([[11.]])
    """
    return np.einsum("...k,...k->...", x, y)[..., None]


def tangent(x: Array, v: Array) -> Array:
    """Return v - <x, v> x, the part of v that is tangent to the sphere at x.

    >>> tangent(np.array([1.0, 0.0]), np.array([2.0, 3.0]))
    array([0., 3.])
    """
    return v - inner_products(v, x) * x


def along_geodesics(x: Array, u: Array) -> Array:
    """Return exp_x(u) = cos|u| x + sin|u| u / |u| for unit vectors x and tangent vectors u, in the last axis.

    >>> along_geodesics(np.array([1.0, 0.0]), np.array([0.0, np.pi / 2])).round(15)
    array([0., 1.])
    """
    length = np.sqrt((u * u).sum(axis=-1, keepdims=True))
    # sin(pi z) / (pi z), which is 1 at 0.
    y = np.cos(length) * x + np.sinc(length / np.pi) * u
    # Rounding must not add up over many steps.
    ends: Array = y / np.sqrt((y * y).sum(axis=-1, keepdims=True))
    return ends
