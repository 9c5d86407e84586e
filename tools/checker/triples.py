"""Sums over triples of tokens on the circle, in balls. A part of check_certificate.

`attnflow.enclosures.triples` has the theorem: if S < 0 for all triples of angles that are not at one point, then no
state at rest but consensus attracts, for every number of tokens. Boxes have two halves of arcs, in units of pi, and b.
"""

from flint import arb, arb_series, ctx

from tools.checker.exact import Q, need
from tools.checker.flows import ball

TIGHT, MOST = Q(2, 3), 1_000_000
# Where S vanishes at b = 2/3; d/2 and m of the three pairs as multiples of the halves of arcs.
ARCS = ((Q(0), Q(1, 3)), (Q(1, 3), Q(1, 3)))
PAIRS = (((1, 0), (1, 2)), ((0, 1), (2, 1)), ((1, 1), (-1, 1)))
# Multiples of pi/3: cosines, and sines over the root of 3/4.
COSINES, SINES = (Q(1), Q(1, 2), Q(-1, 2), Q(-1), Q(-1, 2), Q(1, 2)), (0, 1, 1, 0, -1, -1)


def terms(s, t, b, w, c):
    """Yield (1 - k^2) e^{-b cos d} and r for each pair: S is 8 times the sum of their products."""
    for (i, j), (u, v) in PAIRS:
        k, y = (i * s + j * t).cos(), (u * s + v * t).cos()
        kk, yy = k * k, y * y
        bent = (2 * kk - 1 + 4 * b * kk * (1 - kk)) * (ball(w) * (1 - yy) + yy)
        yield (1 - kk) * (b * (1 - 2 * kk)).exp(), bent - ball(c) * (k * y + 2 * kk * (2 * yy - 1))


def gap(g, p):
    need(g["beta"] == [-TIGHT, 0], "it is not the range of the claim")
    w, c, near, start = p["cosines"], p["pull"], p["near"], p["near_from"]
    need(0 < w <= 1 and 0 <= start < TIGHT and near > 0, "a number of the proof is out of its range")

    def total(*at):
        return sum(weight * r for weight, r in terms(*at, w, c))

    def negative(box):
        (s, _), (t, end), (b, _) = box
        if s > end or s + 2 * t > 1:  # not d_1 <= d_2 <= d_3
            return True
        if b >= start and any(inside(box, arcs, near) for arcs in ARCS):
            return True
        found = list(terms(*balls(box), w, c))
        return (s == t == 0 and all(r < 0 for _, r in found)) or sum(weight * r for weight, r in found) < 0

    def bends_down(box):
        s, t = balls(box)
        first, second, both = (2 * total(arb_series([s, u]), arb_series([t, v]), ball(TIGHT))[2]
                               for u, v in ((1, 0), (0, 1), (1, 1)))  # fmt: skip
        return first < 0 and first * second - ((both - first - second) / 2) ** 2 > 0

    def rises(box):
        s, t, b = balls(box)
        return total(arb_series([s]), arb_series([t]), arb_series([b, 1]))[1] > 0

    ctx.prec, ctx.cap = 53, 3
    for s, t in ARCS:
        need(vanishes(int(3 * s), int(3 * t), w, c), "S or its gradient is not 0 where it has to be")
        around = [(s - near, s + near), (t - near, t + near)]
        cover(around, bends_down, (1, 1))
        cover([*around, (start, TIGHT)], rises, (6, 6, 2))
    cover([(Q(0), Q(1, 3)), (Q(0), Q(1, 2)), (Q(0), TIGHT)], negative, (6, 6, 2))
    return "for -2/3 < beta < 0 no state at rest but consensus attracts, for every number of tokens"


def vanishes(s, t, w, c):
    """Say whether r = 0 for each pair that is not at one point, and the gradients of these r have the sum 0."""
    slopes = [Q(0), Q(0)]
    for (i, j), (u, v) in PAIRS:
        d, m = (i * s + j * t) % 6, (u * s + v * t) % 6
        k, y, b = COSINES[d], COSINES[m], TIGHT
        if abs(k) == 1:
            continue
        bend, side = 2 * k**2 - 1 + 4 * b * k**2 * (1 - k**2), w + (1 - w) * y**2
        if bend * side != c * (k * y + 2 * k**2 * (2 * y**2 - 1)):
            return False
        along_k = (4 * k + 8 * b * k - 16 * b * k**3) * side - c * (y + 4 * k * (2 * y**2 - 1))
        along_y = bend * 2 * (1 - w) * y - c * (k + 8 * k**2 * y)
        slopes[0] -= along_k * SINES[d] * i + along_y * SINES[m] * u
        slopes[1] -= along_k * SINES[d] * j + along_y * SINES[m] * v
    return slopes == [0, 0]


def inside(box, arcs, near):
    return all(x - near <= low and high <= x + near for (low, high), x in zip(box[:2], arcs, strict=True))


def balls(box):
    sides = [ball(low).union(ball(high)) for low, high in box]
    return [arb.pi() * side for side in sides[:2]] + sides[2:]


def cover(start, holds, units):
    """Halve a box at its longest side, in some units, until it holds on every part."""
    boxes, asked = [start], 0
    while boxes:
        box, asked = boxes.pop(), asked + 1
        need(asked <= MOST, "a million boxes are not enough")
        if not holds(box):
            lengths = [unit * (high - low) for unit, (low, high) in zip(units, box, strict=True)]
            place = lengths.index(max(lengths))
            low, middle, high = box[place][0], sum(box[place]) / 2, box[place][1]
            boxes += [[*box[:place], side, *box[place + 1 :]] for side in ((low, middle), (middle, high))]


TRIPLES = {"sphere/collapse/gap": gap}
