"""Cases for `make test-all` alone: larger instances of what smaller ones show already."""

import os

import pytest

larger = pytest.mark.skipif("ATTNFLOW_EXAMPLES" not in os.environ, reason="a larger instance: make test-all")
