"""Random starts that are proved to lock."""

from __future__ import annotations

import numpy as np
from larger import larger

from tools.locked_starts import locks, share


def test_a_start_locks_to_two_leaders() -> None:
    found = locks(np.array([[3.0, 1.0], [-2.0, 1.0]]), [1.0, 0.5])
    assert found is not None
    assert [sorted(one) for one in found.leaders if one is not None] == [[0], [1]]


@larger
def test_most_random_starts_lock() -> None:
    proved, counts = share(3, [1.0, 0.5], starts=4, seed=0)
    assert proved == 4
    assert max(counts) <= 2
