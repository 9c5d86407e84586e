"""Rows in blocks: how an array of all pairs is never formed at once."""

from __future__ import annotations

from collections.abc import Iterator

from attnflow.core.progress import tick

# Rows are worked on in blocks of at most this many weights, so that no n-by-n array is ever formed.
BLOCK = 1 << 22


def row_blocks(m: int, n: int, most: int | None = None) -> Iterator[slice]:
    """Cut the rows of an (m, n) array into blocks of at most `most` weights; without rows there is one empty block.

    >>> list(row_blocks(5, BLOCK // 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    rows = max(1, (BLOCK if most is None else most) // max(1, n))
    for i in range(0, max(1, m), rows):
        tick()
        yield slice(i, i + rows)
