"""Compiled motions of many small systems under softmax attention, each with steps of its own.

A system is held coordinate first, (d, N): its n tokens, padded to whole vectors with copies of the first, whom nobody
hears. A `Rule` says what all systems share. In layers x <- x + M (m - x) if the rule is `centred`, x <- x + M m if not,
and back to the sphere if there is one. Flows are x' = M m, or Proj_x M (m - x), Proj_x M m on the sphere.

Flows are integrated by the eighth-order method of Dormand and Prince, with the error estimate and the step control of
Hairer, Norsett and Wanner, *Solving ordinary differential equations I* (section II.10), as SciPy does it.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnflow.engines.kernels import TILE, UNSHIFTED, apply, compiled, exponent_bound, softmax_rows
from attnflow.engines.lanes import WIDTH
from attnflow.inputs import Array

# Compiled code is kept on disk until its own file changes, and it holds code of these: a test compares their digests.
COPIES = {"lanes": "c20a1d91acce76be", "kernels": "1f5c716f819428b1"}

STAGES, INNER_STAGES = 12, 16
SAFETY, LEAST_FACTOR, LARGEST_FACTOR, EXPONENT = 0.9, 0.2, 10.0, -1 / 8


class Rule(NamedTuple):
    """Scores g <F x_i, x_j> with a gain of each system, F empty for I; masses; M; and which motion it is.

    USA is `unnormalized`: it multiplies by Z_i and divides by the total mass, in units of the largest one, whose
    logarithm is `log_mass`.
    """

    form: Array
    log2_masses: Array
    matrix: Array
    centred: bool
    sphere: bool
    unnormalized: bool
    log_mass: float


class Method(NamedTuple):
    """Coefficients of the integrator: of the stages, the step, its two error estimates, the states between."""

    A: Array
    B: Array
    E3: Array
    E5: Array
    A_EXTRA: Array
    D: Array


class Room(NamedTuple):
    """Where sums are worked on."""

    queries: Array
    mean: Array
    place: Array
    total: Array
    top: Array
    row: Array
    scratch: Array


class Step(NamedTuple):
    """Where a step is worked on: velocities of the stages, a polynomial, where the step ends, and two more clouds."""

    K: Array
    F: Array
    y: Array
    stage: Array
    zero: Array


@compiled
def _room(d, padded):
    columns = np.zeros((3, d, padded))
    rows = np.zeros((3, padded))
    return Room(columns[0], columns[1], columns[2], rows[0], rows[1], rows[2], np.empty(WIDTH * TILE))


@compiled
def _enter(tokens, x):
    n, d = tokens.shape
    for k in range(d):
        for i in range(x.shape[1]):
            x[k, i] = tokens[i if i < n else 0, k]


@compiled
def _leave(x, tokens):
    n, d = tokens.shape
    for i in range(n):
        for k in range(d):
            tokens[i, k] = x[k, i]


@compiled
def _products(x, y, result):
    """Fill the result with <x_i, y_i>. Loops over tokens are innermost: they become vectors."""
    for i in range(x.shape[1]):
        result[i] = x[0, i] * y[0, i]
    for k in range(1, x.shape[0]):
        for i in range(x.shape[1]):
            result[i] += x[k, i] * y[k, i]


@compiled
def _retract(x, result, norms):
    _products(x, x, norms)
    for i in range(x.shape[1]):
        norms[i] = math.sqrt(norms[i])
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            result[k, i] = x[k, i] / norms[i]


@compiled
def _heard(x, n, gain, rule, room, result):
    """Fill the result with M m, or M (m - x) if centred; room.total and room.top with the sums of weights."""
    queries = x
    if len(rule.form):
        apply(rule.form, x, room.queries)
        queries = room.queries
    if gain < 0:
        for k in range(x.shape[0]):
            for i in range(x.shape[1]):
                room.queries[k, i] = -queries[k, i]
        queries, gain = room.queries, -gain
    within = exponent_bound(queries, x, gain, room.scratch) <= UNSHIFTED
    rows, mean = (0, x.shape[1]), room.mean
    softmax_rows(queries, x, x, n, rule.log2_masses, gain, within, rows, mean, room.total, room.top, room.scratch)
    if rule.centred:
        for k in range(x.shape[0]):
            for i in range(x.shape[1]):
                mean[k, i] -= x[k, i]
    apply(rule.matrix, mean, result)


@compiled
def layers(start, gains, rule, times, states):
    """Fill the states (T, b, n, d) after the given numbers of steps."""
    b, n, d = start.shape
    x = np.empty((d, len(rule.log2_masses)))
    room = _room(*x.shape)
    for s in range(b):
        _enter(start[s], x)
        t = 0
        for r in range(len(times)):
            while t < times[r]:
                _heard(x, n, gains[s], rule, room, room.place)
                for k in range(d):
                    for i in range(x.shape[1]):
                        x[k, i] += room.place[k, i]
                if rule.sphere:
                    _retract(x, x, room.row)
                t += 1
            _leave(x, states[r, s])


@compiled
def _velocity(x, n, gain, rule, room, result):
    """Fill the result with x'. On the sphere it is taken at x / |x|: stages off it feel no pull back."""
    d, padded = x.shape
    if not rule.sphere:
        _heard(x, n, gain, rule, room, result)
        return
    y = room.place
    _retract(x, y, room.row)
    _heard(y, n, gain, rule, room, result)
    _products(result, y, room.row)
    for k in range(d):
        for i in range(padded):
            result[k, i] -= room.row[i] * y[k, i]
    if rule.unnormalized:
        for i in range(padded):
            z = math.exp(abs(gain) * room.top[i] + math.log(room.total[i]) - rule.log_mass)
            for k in range(d):
                result[k, i] *= z


@compiled
def _combined(x, h, K, weights, count, result):
    """Fill the result with x + h sum_s weights_s K_s."""
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            result[k, i] = 0.0
        for s in range(count):
            if weights[s] != 0.0:
                for i in range(x.shape[1]):
                    result[k, i] += weights[s] * K[s, k, i]
        for i in range(x.shape[1]):
            result[k, i] = x[k, i] + h * result[k, i]


@compiled
def _size(change, x, y, n, tolerance):
    """Return the sum of squares of a change in units of the tolerance, rtol max(|x|, |y|) + atol."""
    rtol, atol = tolerance
    total = 0.0
    for k in range(x.shape[0]):
        for i in range(n):
            r = change[k, i] / (atol + rtol * max(abs(x[k, i]), abs(y[k, i])))
            total += r * r
    return total


@compiled
def _error(step, x, n, h, method, tolerance):
    """Return the error of a step from x to y, the root mean square over the coordinates: accepted below one."""
    _combined(step.zero, 1.0, step.K, method.E5, STAGES + 1, step.stage)
    fifth = _size(step.stage, x, step.y, n, tolerance)
    _combined(step.zero, 1.0, step.K, method.E3, STAGES + 1, step.stage)
    third = _size(step.stage, x, step.y, n, tolerance)
    if fifth == 0.0 and third == 0.0:
        return 0.0
    return h * fifth / math.sqrt((fifth + 0.01 * third) * n * len(x))


@compiled
def _first_step(step, x, n, gain, until, rule, room, tolerance):
    """Return the length of a step that an explicit Euler step says is reasonable; K[0] holds the velocity at x."""
    K, y = step.K, step.y
    count = n * len(x)
    size = math.sqrt(_size(x, x, x, n, tolerance) / count)
    speed = math.sqrt(_size(K[0], x, x, n, tolerance) / count)
    h = 1e-6 if size < 1e-5 or speed < 1e-5 else 0.01 * size / speed
    h = min(h, until)
    for k in range(len(x)):
        for i in range(x.shape[1]):
            y[k, i] = x[k, i] + h * K[0, k, i]
    _velocity(y, n, gain, rule, room, K[1])
    for k in range(len(x)):
        for i in range(x.shape[1]):
            K[1, k, i] -= K[0, k, i]
    bend = math.sqrt(_size(K[1], x, x, n, tolerance) / count) / h
    steepest = max(speed, bend)
    second = max(1e-6, 1e-3 * h) if steepest <= 1e-15 else (0.01 / steepest) ** (1 / 8)
    return min(100 * h, second, until)


@compiled
def _look_inside(step, x, n, h, gain, rule, room, method):
    """Fill the coefficients F of the polynomial of degree seven between x and y."""
    K, F, y, stage, zero = step
    for s in range(STAGES + 1, INNER_STAGES):
        _combined(x, h, K, method.A_EXTRA[s - STAGES - 1], s, stage)
        _velocity(stage, n, gain, rule, room, K[s])
    for k in range(len(x)):
        for i in range(x.shape[1]):
            way = y[k, i] - x[k, i]
            F[0, k, i] = way
            F[1, k, i] = h * K[0, k, i] - way
            F[2, k, i] = 2 * way - h * (K[STAGES, k, i] + K[0, k, i])
    for r in range(4):
        _combined(zero, h, K, method.D[r], INNER_STAGES, F[3 + r])


@compiled
def _inside(x, F, u, result):
    """Fill the result with the state at the part u of the step."""
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            s = 0.0
            for r in range(6, -1, -1):
                s = (s + F[r, k, i]) * (u if r % 2 == 0 else 1.0 - u)
            result[k, i] = x[k, i] + s


@compiled
def _flow(step, x, n, gain, rule, room, method, tolerance, times, states):
    """Integrate one system to the last time and fill its states (T, n, d); return the number of steps, -1 if stuck."""
    K, F, y, stage, _ = step
    until = times[-1]
    _velocity(x, n, gain, rule, room, K[0])
    length = _first_step(step, x, n, gain, until, rule, room, tolerance)
    t, r, steps = 0.0, 0, 0
    while r < len(times) and times[r] <= t:
        _leave(x, states[r])
        r += 1
    while r < len(times):
        least = 10 * (np.nextafter(t, np.inf) - t)
        length, refused = max(length, least), False
        while True:
            if not length >= least:
                return -1
            h = min(length, until - t)
            for s in range(1, STAGES):
                _combined(x, h, K, method.A[s], s, y)
                _velocity(y, n, gain, rule, room, K[s])
            _combined(x, h, K, method.B, STAGES, y)
            _velocity(y, n, gain, rule, room, K[STAGES])
            error = _error(step, x, n, h, method, tolerance)
            if error < 1:
                factor = LARGEST_FACTOR if error == 0 else min(LARGEST_FACTOR, SAFETY * error**EXPONENT)
                length = h * (min(1.0, factor) if refused else factor)
                break
            refused = True
            length = h * (max(LEAST_FACTOR, SAFETY * error**EXPONENT) if error == error else LEAST_FACTOR)
        after = until if h == until - t else t + h
        steps += 1
        known = False
        while r < len(times) and times[r] <= after:
            if times[r] < after:
                if not known:
                    _look_inside(step, x, n, h, gain, rule, room, method)
                    known = True
                _inside(x, F, (times[r] - t) / h, stage)
            else:
                stage[:] = y
            if rule.sphere:
                _retract(stage, stage, room.row)
            _leave(stage, states[r])
            r += 1
        if rule.sphere:
            _retract(y, x, room.row)
        else:
            x[:] = y
        K[0] = K[STAGES]
        t = after
    return steps


@compiled
def flows(start, gains, rule, method, tolerance, times, states, steps):
    """Fill the states (T, b, n, d) at the given times, and the number of steps of each system, -1 if it got stuck."""
    b, n, d = start.shape
    shape = (d, len(rule.log2_masses))
    x, clouds = np.empty(shape), np.zeros((3, *shape))
    step = Step(np.empty((INNER_STAGES, *shape)), np.empty((7, *shape)), clouds[0], clouds[1], clouds[2])
    room = _room(*shape)
    for s in range(b):
        _enter(start[s], x)
        steps[s] = _flow(step, x, n, gains[s], rule, room, method, tolerance, times, states[:, s])
