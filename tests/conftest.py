"""Shared fixtures: every engine, and settings of the property tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from attnflow.engines import ENGINES

settings.register_profile(
    "attnflow",
    deadline=None,
    derandomize=True,
    max_examples=int(os.environ.get("ATTNFLOW_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # fixtures here choose laws and engines only
)
settings.load_profile("attnflow")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine by name."""
    return str(request.param)
