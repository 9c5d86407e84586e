"""Cases for `make test-all` alone: larger instances of what smaller ones show already, and more examples."""

import os

import pytest
from hypothesis import settings

larger = pytest.mark.skipif("ATTNFLOW_EXAMPLES" not in os.environ, reason="a larger instance: make test-all")
# For properties whose single example takes long.
few = settings(max_examples=int(os.environ.get("ATTNFLOW_EXAMPLES", "8")))
