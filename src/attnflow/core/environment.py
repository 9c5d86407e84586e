"""Variables of the environment that a library reads while it is loaded, and at no other time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lent(**variables: str) -> Iterator[None]:
    """Set variables that are not set, and remove them at the end: other libraries and programs must not see them.

    >>> with lent(ATTNFLOW_EXAMPLE="1"):
    ...     os.environ["ATTNFLOW_EXAMPLE"]
    '1'
    >>> "ATTNFLOW_EXAMPLE" in os.environ
    False
    """
    new = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)
