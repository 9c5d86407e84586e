"""Linear algebra on one thread: matrices of densities are small, and threads that wait for each other cost more."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


def on_one_thread(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a function use one thread of BLAS; its results then do not depend on the number of cores."""

    @wraps(function)
    def alone(*given: Given.args, **named: Given.kwargs) -> Result:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*given, **named)

    return alone


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401 (its own BLAS must be loaded before the controller looks for it)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
