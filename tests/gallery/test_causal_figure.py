"""The figure of causal centres shows what the definitions say."""

from __future__ import annotations

import numpy as np

import attnflow as af
from attnflow.figures.gallery.causal import centres


def test_centres_by_their_definitions() -> None:
    """Centres are counted again from angles; the strong ones are drawn as lines that begin at their angles."""
    drawing = centres(few=12, late=20.0, many=30, colder=36.0)
    for ax, n, beta in zip(drawing.figure.axes, (12, 30), (9.0, 36.0), strict=True):
        x = af.tokens.sphere(n=n, d=2, seed=0)
        angles, delta = np.arctan2(x[:, 1], x[:, 0]), 4 / np.sqrt(beta)
        apart = np.abs((angles[:, None] - angles + np.pi) % (2 * np.pi) - np.pi)
        strong = [k for k in range(n) if all(apart[k, j] > delta for j in range(k))]
        renyi: list[int] = []
        for k in range(n):
            renyi += [k] if all(apart[k, j] > delta for j in renyi) else []
        shown = drawing.shows[f"{n} tokens"]
        assert (shown["strong centres"], shown["Renyi centres"]) == (len(strong), len(renyi))
        drawn = [np.asarray(line.get_ydata())[0] for line in ax.lines if line.get_gid() == "strong centres"]
        assert np.allclose(sorted(drawn), sorted(angles[strong]))
