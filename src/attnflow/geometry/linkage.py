"""Single linkage: which points hang together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnflow.inputs import Array


def single_linkage(x: Array, tol: float) -> NDArray[np.int64]:
    """Label the classes of points joined by chains of steps of length at most tol.

    Labels count from 0 in the order of first appearance. Points are gathered into blobs of radius tol / 2, whose
    members all belong together; only blobs whose centres are close are then compared, so memory stays
    proportional to n even when all points have merged.

    >>> single_linkage(np.array([[0.0], [1.0], [5.0], [2.0]]), tol=1.0)
    array([0, 0, 1, 0])
    """
    from scipy.cluster.hierarchy import DisjointSet
    from scipy.spatial import cKDTree

    points, copies = np.unique(x + 0.0, axis=0, return_inverse=True)
    tree = cKDTree(points)
    blob = np.full(len(points), -1)
    centres: list[int] = []
    alone = tree.query(points, k=2)[0][:, 1] > tol if len(points) > 1 else np.array([True])
    for i in range(len(points)):
        if blob[i] < 0:
            near = np.array([i]) if alone[i] else np.asarray(tree.query_ball_point(points[i], tol / 2))
            near = np.append(near[blob[near] < 0], i)
            blob[near] = len(centres)
            centres.append(i)
    joined = DisjointSet(range(len(centres)))
    crowd = [c for c in range(len(centres)) if not alone[centres[c]]]
    if crowd:
        members = {c: points[blob == c] for c in crowd}
        close = cKDTree(points[[centres[c] for c in crowd]]).query_pairs(2 * tol * (1 + 1e-12), output_type="ndarray")
        for a, b in close:
            p, q = crowd[a], crowd[b]
            if not joined.connected(p, q):
                small, large = sorted((members[p], members[q]), key=len)
                if cKDTree(large).query(small)[0].min() <= tol:
                    joined.merge(p, q)
    roots = np.array([joined[c] for c in range(len(centres))])[blob][copies.ravel()]
    _, first, labels = np.unique(roots, return_index=True, return_inverse=True)
    order: NDArray[np.int64] = np.argsort(np.argsort(first))
    return order[labels]
