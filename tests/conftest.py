"""Shared fixtures: every engine, settings of the property tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from attnflow.engines import ENGINES
from attnflow.motions import Stretch
from attnflow.runs.watch import Watcher

# Garbage is collected more rarely than by default, which saves a thirtieth of the time.
gc.set_threshold(100_000, 20, 50)

# JAX compiles every operation that a test uses once: faster so, and the numbers are as exact.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# So is code that is not made by its newer generator. A jaxlib without this flag would end the process.
if find_spec("jaxlib") is not None and version("jaxlib").startswith("0.10."):
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

settings.register_profile(
    "attnflow",
    deadline=None,
    derandomize=True,
    max_examples=int(os.environ.get("ATTNFLOW_EXAMPLES", "12")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # fixtures here choose laws and engines only
)
settings.load_profile("attnflow")


class Dies(Watcher):
    """Raise after a number of stretches, as if the process were killed between two of them."""

    def __init__(self, after: int) -> None:
        self.left = after

    def see(self, stretch: Stretch) -> None:
        """Count down."""
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True, scope="session")
def _chromium_ended() -> Iterator[None]:
    """The Chromium that tests of the explorer's page share, if any was run, ends with them."""
    yield
    if "browser" in sys.modules:
        sys.modules["browser"].end()


@pytest.fixture
def dies() -> type[Dies]:
    """A watcher that ends the process, so to say, by a KeyboardInterrupt after some stretches."""
    return Dies


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine by name."""
    return str(request.param)
