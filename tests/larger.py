"""Cases for `make test-all` alone: larger instances of what smaller ones show already, and more examples."""

import os

import pytest
from hypothesis import settings

larger = pytest.mark.skipif("ATTNFLOW_EXAMPLES" not in os.environ, reason="a larger instance: make test-all")
# What few visitors of the explorer's page do; what most do is tested in `make test`.
details = pytest.mark.skipif("ATTNFLOW_EXAMPLES" not in os.environ, reason="a detail of the page: make test-all")


def leave_tree_to_larger(engine: str, d: int) -> None:
    """Skip a small case of the tree beyond space: its kernels for any d take 15 seconds to compile."""
    if engine == "tree" and 3 < d <= 16 and "ATTNFLOW_EXAMPLES" not in os.environ:
        pytest.skip("the tree beyond three dimensions: make test-all")


# For properties whose single example takes long.
few = settings(max_examples=int(os.environ.get("ATTNFLOW_EXAMPLES", "8")))
