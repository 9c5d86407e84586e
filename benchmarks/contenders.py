"""What people would use instead of attnflow for a softmax attention sum: whatever of it is installed.

A contender takes queries, tokens and beta, brings them into its own form, and returns a function without arguments that
computes sum_j P_ij x_j; only that function is timed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Compute = Callable[[], Any]


def numpy_dense(queries: Array, x: Array, beta: float) -> Compute:
    """Scores, exponentials and averages as a careful NumPy user writes them."""

    def compute() -> Array:
        s = beta * (queries @ x.T)
        s -= s.max(axis=1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=1, keepdims=True)
        result: Array = p @ x
        return result

    return compute


def torch_dense(queries: Array, x: Array, beta: float) -> Compute:
    """The same in PyTorch."""
    import torch

    q, k = torch.from_numpy(queries), torch.from_numpy(x)

    def compute() -> Any:
        with torch.inference_mode():
            return torch.softmax(beta * (q @ k.T), dim=1) @ k

    return compute


def torch_fused(queries: Array, x: Array, beta: float, dtype: str = "float64") -> Compute:
    """PyTorch's fused attention, `scaled_dot_product_attention`."""
    import torch

    q, k = (torch.from_numpy(rows).to(getattr(torch, dtype))[None, None] for rows in (queries, x))

    def compute() -> Any:
        with torch.inference_mode():
            return torch.nn.functional.scaled_dot_product_attention(q, k, k, scale=beta)[0, 0]

    return compute


def torch_fused_single(queries: Array, x: Array, beta: float) -> Compute:
    """PyTorch's fused attention in single precision: half the digits, half the bytes."""
    return torch_fused(queries, x, beta, "float32")


def jax_compiled(queries: Array, x: Array, beta: float) -> Compute:
    """A compiled JAX function."""
    import jax

    jax.config.update("jax_enable_x64", True)
    q, k = jax.numpy.asarray(queries), jax.numpy.asarray(x)
    attend = jax.jit(lambda q, k: jax.nn.softmax(beta * (q @ k.T), axis=1) @ k)
    return lambda: attend(q, k).block_until_ready()


def keops(queries: Array, x: Array, beta: float) -> Compute:
    """KeOps, which generates and compiles C++ for the formula."""
    from pykeops.numpy import LazyTensor

    q, k = LazyTensor(np.ascontiguousarray(beta * queries)[:, None, :]), LazyTensor(x[None, :, :])
    return lambda: (q | k).sumsoftmaxweight(k, axis=1)


CONTENDERS: dict[str, tuple[str, Callable[[Array, Array, float], Compute]]] = {
    "NumPy": ("numpy", numpy_dense),
    "torch": ("torch", torch_dense),
    "torch fused": ("torch", torch_fused),
    "torch fused, float32": ("torch", torch_fused_single),
    "JAX": ("jax", jax_compiled),
    "KeOps": ("pykeops", keops),
}


def installed() -> list[str]:
    """Return the names of the contenders that can be imported here."""
    return [name for name, (module, _) in CONTENDERS.items() if importlib.util.find_spec(module) is not None]
