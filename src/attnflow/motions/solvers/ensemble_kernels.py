"""Compiled motions of many small systems under softmax attention, each with steps of its own.

Eight systems at a time lie in the lanes of vectors, as `ensemble_sums_kernels` says, which also has the `Rule` that all
share. In layers x <- x + M (m - x) if the rule is `centred`, x <- x + M m if not, and back to the sphere if there is
one. Flows are x' = M m, or Proj_x M (m - x), Proj_x M m on the sphere. Lanes never mix: a system that has rejected its
step, or arrived, stays where it is while others move, and takes the steps that it would take alone.

Flows are integrated by the eighth-order method of Dormand and Prince, with the error estimate and the step control of
Hairer, Norsett and Wanner, *Solving ordinary differential equations I* (section II.10), as SciPy does it.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.engines.kernels import compiled, inlined, internal
from attnflow.engines.simd import WIDTH, load, maximum, muladd, splat, spread, store
from attnflow.motions.solvers.ensemble_sums_kernels import Room, Rule, hear, room_for, take_gains

__all__ = ["WIDTH", "Method", "Rule", "flows", "layers", "under_way"]

STAGES, INNER_STAGES = 12, 16
SAFETY, LEAST_FACTOR, LARGEST_FACTOR, EXPONENT = 0.9, 0.2, 10.0, -1 / 8


class Method(NamedTuple):
    """Coefficients of the integrator: of the stages, the step, its two error estimates, the states between."""

    A: Array
    B: Array
    E3: Array
    E5: Array
    A_EXTRA: Array
    D: Array


class Step(NamedTuple):
    """Where a step from x is worked on: velocities of the stages, a polynomial, where it ends, and two more clouds."""

    x: Array
    K: Array
    F: Array
    y: Array
    stage: Array
    zero: Array


class Clock(NamedTuple):
    """What each of eight systems has for itself: tolerance, time, step, where that ends, its error, the next length.

    `due` is the number of the next time to record, `part` where in the step it lies. A system with step size
    h = 0 is finished.
    """

    atol: Array
    t: Array
    h: Array
    after: Array
    error: Array
    length: Array
    part: Array
    sizes: Array
    refused: Array
    moved: Array
    due: Array


class UnderWay(NamedTuple):
    """Flows under way: eight systems, the steps they have taken, and how many were done before, and 1 if they began."""

    step: Step
    clock: Clock
    room: Room
    taken: NDArray[np.int64]
    done: NDArray[np.int64]


@internal
def _enter(start, first, x):
    """Load eight systems; places beyond the last system get copies of it."""
    b, n, d = start.shape
    for lane in range(WIDTH):
        tokens = start[min(first + lane, b - 1)]
        for i in range(n):
            for k in range(d):
                x[k, WIDTH * i + lane] = tokens[i, k]


@internal
def _leave(x, lane, tokens):
    n, d = tokens.shape
    for i in range(n):
        for k in range(d):
            tokens[i, k] = x[k, WIDTH * i + lane]


@internal
def _products(x, y, result):
    """Fill the result with <x_i, y_i>. Loops over tokens are innermost: they become vectors."""
    for i in range(x.shape[1]):
        result[i] = x[0, i] * y[0, i]
    for k in range(1, x.shape[0]):
        for i in range(x.shape[1]):
            result[i] += x[k, i] * y[k, i]


@internal
def _retract(x, result, row):
    _products(x, x, row)
    for i in range(x.shape[1]):
        row[i] = 1.0 / math.sqrt(row[i])
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            result[k, i] = x[k, i] * row[i]


@compiled
def layers(start, gains, rule, times, states):
    """Fill the states (T, b, n, d) after the given numbers of steps."""
    b, n, d = start.shape
    room = room_for(n, d)
    x, place = np.empty(room.place.shape), room.place
    for first in range(0, b, WIDTH):
        _enter(start, first, x)
        take_gains(gains, first, room)
        t = 0
        for r in range(len(times)):
            while t < times[r]:
                hear(x, rule, room, place)
                for a in range(0, x.size, WIDTH):
                    store(x, a, load(x, a) + load(place, a))
                if rule.sphere:
                    _retract(x, x, room.row)
                t += 1
            for lane in range(min(WIDTH, b - first)):
                _leave(x, lane, states[r, first + lane])


@internal
def _velocity(x, rule, room, result):
    """Fill the result with x'. On the sphere it is taken at x / |x|: stages off the sphere are not pulled back."""
    if not rule.sphere:
        hear(x, rule, room, result)
        return
    y, row = room.place, room.row
    _retract(x, y, row)
    hear(y, rule, room, result)
    _products(result, y, row)
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            result[k, i] -= row[i] * y[k, i]
    if rule.unnormalized:
        mass = rule.masses.sum()
        for k in range(x.shape[0]):
            for i in range(x.shape[1]):
                result[k, i] *= room.total[i] / mass


@internal
def _combined(x, h, K, weights, count, result):
    """Fill the result with x + h sum_s weights_s K_s."""
    for a in range(0, x.size, WIDTH):
        total = splat(0.0)
        for s in range(count):
            total = muladd(spread(weights, s), load(K, s * x.size + a), total)
        store(result, a, muladd(load(h, 0), total, load(x, a)))


@internal
def _magnitude(v):
    return maximum(v, splat(0.0) - v)


@internal
def _squares(change, x, y, rtol, atol, result):
    """Fill the result with the squares of a change in units of rtol max(|x|, |y|) + atol, averaged in each system."""
    total = splat(0.0)
    for a in range(0, x.size, WIDTH):
        size = maximum(_magnitude(load(x, a)), _magnitude(load(y, a)))
        r = load(change, a) / muladd(splat(rtol), size, load(atol, 0))
        total = muladd(r, r, total)
    store(result, 0, total / splat(x.size / WIDTH))


@inlined
def _errors(step, clock, method, rtol):
    """Find the error of each step from x to y, the root mean square over the coordinates: accepted below one."""
    x, K, _, y, stage, zero = step
    clock.part[:] = 1.0
    _combined(zero, clock.part, K, method.E3, STAGES + 1, stage)
    _squares(stage, x, y, rtol, clock.atol, clock.sizes)
    _combined(zero, clock.part, K, method.E5, STAGES + 1, stage)
    _squares(stage, x, y, rtol, clock.atol, clock.error)
    for lane in range(WIDTH):
        fifth, third = clock.error[lane], clock.sizes[lane]
        if not (fifth == 0.0 and third == 0.0):
            clock.error[lane] = clock.h[lane] * fifth / math.sqrt(fifth + 0.01 * third)


@inlined
def _first_steps(step, clock, until, rule, room, rtol):
    """Find the lengths of steps that explicit Euler steps say are reasonable; K[0] holds the velocities at x."""
    x, K, _, y, stage, _ = step
    _squares(x, x, x, rtol, clock.atol, clock.sizes)
    _squares(K[0], x, x, rtol, clock.atol, clock.error)
    for lane in range(WIDTH):
        size, speed = math.sqrt(clock.sizes[lane]), math.sqrt(clock.error[lane])
        clock.h[lane] = min(1e-6 if size < 1e-5 or speed < 1e-5 else 0.01 * size / speed, until)
        clock.part[lane] = speed
    for a in range(0, x.size, WIDTH):
        store(y, a, muladd(load(clock.h, 0), load(K, a), load(x, a)))
    _velocity(y, rule, room, stage)
    for a in range(0, x.size, WIDTH):
        store(stage, a, load(stage, a) - load(K, a))
    _squares(stage, x, x, rtol, clock.atol, clock.error)
    for lane in range(WIDTH):
        h = clock.h[lane]
        steepest = max(clock.part[lane], math.sqrt(clock.error[lane]) / h)
        second = max(1e-6, 1e-3 * h) if steepest <= 1e-15 else (0.01 / steepest) ** (1 / 8)
        clock.length[lane] = min(100 * h, second, until)


@inlined
def _look_inside(step, h, rule, room, method):
    """Fill the coefficients F of the polynomials of degree seven between x and y."""
    x, K, F, y, stage, zero = step
    for s in range(STAGES + 1, INNER_STAGES):
        _combined(x, h, K, method.A_EXTRA[s - STAGES - 1], s, stage)
        _velocity(stage, rule, room, K[s])
    size, length = x.size, load(h, 0)
    for a in range(0, size, WIDTH):
        way, begin, end = load(y, a) - load(x, a), length * load(K, a), length * load(K, STAGES * size + a)
        store(F, a, way)
        store(F, size + a, begin - way)
        store(F, 2 * size + a, way + way - end - begin)
    for r in range(4):
        _combined(zero, h, K, method.D[r], INNER_STAGES, F[3 + r])


@inlined
def _inside(step, part):
    """Fill step.stage with the states at these parts of the steps, with y itself where the part is 1."""
    x, _, F, y, stage, _ = step
    u = load(part, 0)
    rest = splat(1.0) - u
    for a in range(0, x.size, WIDTH):
        s = load(F, 6 * x.size + a) * u
        for r in range(4, -1, -2):
            s = (load(F, r * x.size + a) + (load(F, (r + 1) * x.size + a) + s) * rest) * u
        store(stage, a, load(x, a) + s)
    for lane in range(WIDTH):
        if part[lane] == 1.0:
            for a in range(lane, x.shape[1], WIDTH):
                for k in range(x.shape[0]):
                    stage[k, a] = y[k, a]


@inlined
def _begin(clock, until, count, steps):
    """Choose the steps to try, 0 for a system that is finished or stuck; return whether a system moves."""
    any_moves = False
    for lane in range(WIDTH):
        clock.h[lane] = 0.0
        if clock.due[lane] < count:
            t = clock.t[lane]
            least = 10 * (np.nextafter(t, np.inf) - t)
            if not clock.refused[lane]:
                clock.length[lane] = max(clock.length[lane], least)
            if clock.length[lane] >= least:
                clock.h[lane] = min(clock.length[lane], until - t)
                clock.after[lane] = until if clock.h[lane] == until - t else t + clock.h[lane]
                any_moves = True
            else:
                clock.due[lane] = count
                steps[lane] = -1
    return any_moves


@inlined
def _judge(clock, steps):
    """Accept or refuse each step, and choose the length of the next."""
    for lane in range(WIDTH):
        h, error = clock.h[lane], clock.error[lane]
        clock.moved[lane] = h > 0.0 and error < 1
        if clock.moved[lane]:
            factor = LARGEST_FACTOR if error == 0 else min(LARGEST_FACTOR, SAFETY * error**EXPONENT)
            clock.length[lane] = h * (min(1.0, factor) if clock.refused[lane] else factor)
            clock.refused[lane] = False
            steps[lane] += 1
        else:
            clock.refused[lane] = True
            clock.length[lane] = h * (max(LEAST_FACTOR, SAFETY * error**EXPONENT) if error == error else LEAST_FACTOR)


@inlined
def _record(step, clock, times, rule, room, method, states):
    """Fill the states that the accepted steps have reached, one of each system at a time."""
    known = False
    while True:
        waiting, look = False, False
        for lane in range(WIDTH):
            clock.part[lane] = 0.0
            r = clock.due[lane]
            if clock.moved[lane] and r < len(times) and times[r] <= clock.after[lane]:
                waiting, part = True, (times[r] - clock.t[lane]) / clock.h[lane]
                clock.part[lane] = part if times[r] < clock.after[lane] else 1.0
                look = look or times[r] < clock.after[lane]
        if not waiting:
            return
        if look and not known:
            _look_inside(step, clock.h, rule, room, method)
            known = True
        _inside(step, clock.part)
        if rule.sphere:
            _retract(step.stage, step.stage, room.row)
        for lane in range(WIDTH):
            if clock.part[lane] > 0.0:
                _leave(step.stage, lane, states[clock.due[lane], lane])
                clock.due[lane] += 1


@inlined
def _move(step, clock, rule, room):
    """Go to the ends of the accepted steps."""
    x, K, _, y, _, _ = step
    if rule.sphere:
        _retract(y, y, room.row)
    for k in range(x.shape[0]):
        for i in range(0, x.shape[1], WIDTH):
            for lane in range(WIDTH):
                if clock.moved[lane]:
                    x[k, i + lane] = y[k, i + lane]
                    K[0, k, i + lane] = K[STAGES, k, i + lane]
    for lane in range(WIDTH):
        if clock.moved[lane]:
            clock.t[lane] = clock.after[lane]


@inlined
def _start(step, clock, rule, room, rtol, times, states, steps):
    """Choose the first steps of eight systems, and record where they are at time 0."""
    x, K = step.x, step.K
    until = times[-1]
    _velocity(x, rule, room, K[0])
    _first_steps(step, clock, until, rule, room, rtol)
    clock.t[:], clock.refused[:], clock.due[:], steps[:] = 0.0, False, len(times), 0
    for lane in range(states.shape[1]):
        clock.due[lane] = 0
        while clock.due[lane] < len(times) and times[clock.due[lane]] <= 0.0:
            _leave(x, lane, states[clock.due[lane], lane])
            clock.due[lane] += 1


@inlined
def _go_on(step, clock, rule, room, method, rtol, times, states, steps, most):
    """Integrate eight systems, in at most `most` steps; return how many are left, -1 if a system has not arrived.

    `states` and `steps` have one entry for each system: fewer than eight in the last group.
    """
    x, K, _, y, stage, _ = step
    while _begin(clock, times[-1], len(times), steps):
        if most == 0:
            return -1
        most -= 1
        for s in range(1, STAGES):
            _combined(x, clock.h, K, method.A[s], s, stage)
            _velocity(stage, rule, room, K[s])
        _combined(x, clock.h, K, method.B, STAGES, y)
        _velocity(y, rule, room, K[STAGES])
        _errors(step, clock, method, rtol)
        _judge(clock, steps)
        _record(step, clock, times, rule, room, method, states)
        _move(step, clock, rule, room)
    return most


@compiled
def under_way(n, d):
    """Return room for the flows of systems of n tokens: for eight of them, and how many are done or under way."""
    room = room_for(n, d)
    shape = room.place.shape
    clouds = np.zeros((4, *shape))
    step = Step(clouds[0], np.zeros((INNER_STAGES, *shape)), np.zeros((7, *shape)), clouds[1], clouds[2], clouds[3])
    a, truths, whole = np.zeros((8, WIDTH)), np.zeros((2, WIDTH), np.bool_), np.zeros((2, WIDTH), np.int64)
    clock = Clock(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], truths[0], truths[1], whole[0])
    return UnderWay(step, clock, room, whole[1], np.zeros(2, np.int64))


@compiled
def flows(start, gains, rule, method, tolerance, times, states, steps, way, most):
    """Fill the states (T, b, n, d) at the given times, and the number of steps of each system, -1 if it got stuck.

    The tolerance is rtol, and an atol of each system. After `most` steps of eight systems it returns False; the
    next call goes on from there, as if nothing had happened.
    """
    b = start.shape[0]
    rtol, atol = tolerance
    step, clock, room, taken, done = way
    while done[0] < b:
        first = done[0]
        last = min(first + WIDTH, b)
        if done[1] == 0:
            _enter(start, first, step.x)
            take_gains(gains, first, room)
            for lane in range(WIDTH):
                clock.atol[lane] = atol[min(first + lane, b - 1)]
            _start(step, clock, rule, room, rtol, times, states[:, first:last], taken)
            done[1] = 1
        most = _go_on(step, clock, rule, room, method, rtol, times, states[:, first:last], taken, most)
        if most < 0:
            return False
        for lane in range(last - first):
            steps[first + lane] = taken[lane]
        done[0], done[1] = last, 0
    return True
