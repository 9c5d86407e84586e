# mypy: ignore-errors
"""Which sources a group of tokens can hear, by the bound of `heard_sources`: the loop over all of them."""

from __future__ import annotations

import math

import numpy as np

from attnflow.engines.kernels import compiled


@compiled
def compare(a, turn, places, reach, weights, gain, depth, order, begins, audible):
    """Clear where a group of tokens, with covectors within `turn` of a, cannot hear a source."""
    (n, d), scores, u, extent = places.shape, np.empty(len(weights)), np.empty(a.shape[1]), 0.0
    for k in range(d):
        extent = math.hypot(extent, places[:, k].max() - places[:, k].min())
    for group in range(len(begins) - 1):
        rows, R, least, length = order[begins[group] : begins[group + 1]], 0.0, np.inf, 0.0
        for k in range(d):
            u[k] = a[rows, k].sum()
            length = math.hypot(length, u[k])
        for i in rows:
            r, away = 0.0, 0.0
            for k in range(d):
                r = math.hypot(r, a[i, k])
            for k in range(d):
                away = math.hypot(away, a[i, k] / r - u[k] / length)
            # On its way a covector is at least r - turn long, and its direction turns by at most turn / (r - turn).
            R, least = max(R, away + turn[i] / (r - turn[i])), min(least, r - turn[i])
        if not (least > 0 and length > 0):
            continue
        surest, highest = 0, -np.inf
        for j in range(n):
            scores[j] = 0.0
            for k in range(d):
                scores[j] += places[j, k] * (u[k] / length)
            sure = scores[j] - (1 + R) * reach[j] + weights[j] / (gain * least)
            if sure > highest:
                surest, highest = j, sure
        floor = scores[surest] - (1 + R) * reach[surest] - max(0.0, depth - weights[surest]) / (gain * least)
        for j in range(n):
            highest = scores[j] + (1 + R) * reach[j]
            # Most are told apart without their distance. What is not a number is kept.
            if highest + R * extent < floor:
                audible[group, j] = False
                continue
            apart = 0.0
            for k in range(d):
                apart += (places[j, k] - places[surest, k]) ** 2
            audible[group, j] = not highest + R * math.sqrt(apart) < floor
