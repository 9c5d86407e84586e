# mypy: ignore-errors
"""Compiled loops of the blocked engine: tiles of scores, their exponentials, and tiles applied to values.

All matrix products are sums of one small product (`_product`): eight rows by up to three vectors of eight columns, held
in registers. Keys come packed, (blocks, d, 24), so that a block of 24 is read in one stream; what the sources give,
w_j (v_j, 1), comes in rows padded to whole vectors. Every sum has one fixed order whatever the number of threads, and
no BLAS threads compete with these.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from attnflow.engines.kernels import compiled, in_parallel
from attnflow.engines.simd import WIDTH, exp2, load, maximum, muladd, splat, store

ROWS, BLOCK = WIDTH, 3 * WIDTH
# A tile of TILE_ROWS rows and TILE_COLUMNS columns, multiples of both, stays in the second-level cache together with
# the rows and columns that it is computed from.
TILE_ROWS, TILE_COLUMNS = 96, 144

_double, _index = ir.DoubleType(), ir.IntType(64)
_vector = ir.VectorType(_double, WIDTH)


def _product(vectors, adds):
    """Make c (+)= a b for a (8, count), b (count, 8 vectors), c (8, 8 vectors), given by starts and strides."""

    @intrinsic
    def product(typing, a, start_a, row_a, column_a, b, start_b, row_b, count, c, start_c, row_c):
        def generate(context, builder, signature, args):
            def place(array, *offset):
                data = context.make_array(signature.args[array])(context, builder, args[array]).data
                at = args[array + 1]
                for stride, times in offset:
                    at = builder.add(at, builder.mul(args[stride], times))
                return builder.gep(data, [at])

            def whole(number):
                return ir.Constant(_index, number)

            def vector(pointer, v):
                return builder.bitcast(builder.gep(pointer, [whole(WIDTH * v)]), _vector.as_pointer())

            targets = [place(8, (10, whole(r))) for r in range(ROWS)]
            sources = [place(0, (2, whole(r))) for r in range(ROWS)]
            zero = ir.Constant(_vector, [0.0] * WIDTH)
            begun = [[builder.load(vector(t, v), align=8) if adds else zero for v in range(vectors)] for t in targets]
            before, loop = builder.block, builder.append_basic_block("product")
            after = builder.append_basic_block("product.end")
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(_index)
            sums = [[builder.phi(_vector) for _ in range(vectors)] for _ in range(ROWS)]
            factors = [builder.load(vector(place(4, (6, k)), v), align=8) for v in range(vectors)]
            fmuladd = ir.FunctionType(_vector, [_vector] * 3)
            name = f"llvm.fmuladd.v{WIDTH}f64"
            function = builder.module.globals.get(name) or ir.Function(builder.module, fmuladd, name)
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
            undefined = ir.Constant(_vector, ir.Undefined)
            ended = []
            for r in range(ROWS):
                scalar = builder.load(builder.gep(sources[r], [builder.mul(args[3], k)]))
                first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
                copies = builder.shuffle_vector(first, undefined, lanes)
                ended.append([builder.call(function, [copies, factors[v], sums[r][v]]) for v in range(vectors)])
            following = builder.add(k, whole(1))
            k.add_incoming(whole(0), before)
            k.add_incoming(following, loop)
            for r in range(ROWS):
                for v in range(vectors):
                    sums[r][v].add_incoming(begun[r][v], before)
                    sums[r][v].add_incoming(ended[r][v], loop)
            builder.cbranch(builder.icmp_signed("<", following, args[7]), loop, after)
            builder.position_at_end(after)
            for r in range(ROWS):
                for v in range(vectors):
                    builder.store(ended[r][v], vector(targets[r], v), align=8)
            return context.get_dummy_value()

        n = types.int64
        return types.void(a, n, n, n, b, n, n, n, c, n, n), generate

    return product


_scores = _product(3, adds=False)
_add1, _add2, _add3 = (_product(vectors, adds=True) for vectors in (1, 2, 3))


@compiled
def _score(queries, i, rows, packed, j, columns, tile):
    """Fill the tile (rows, columns) with <q_i, k_j>, from query i and key j on."""
    d = queries.shape[1]
    for column in range(0, columns, BLOCK):
        for row in range(0, rows, ROWS):
            _scores(
                queries, (i + row) * d, d, 1, packed, (j + column) * d, BLOCK, d,
                tile, row * TILE_COLUMNS + column, TILE_COLUMNS,
            )  # fmt: skip


@compiled
def _apply(tile, row, column, rows, columns, given, j, heard, i):
    """Add tile @ given[j:] to heard[i:], the tile read with these strides: transposed if its row stride is 1."""
    width = given.shape[1]
    for r in range(0, rows, ROWS):
        for v in range(0, width, BLOCK):
            left, source, sums = width - v, j * width + v, (i + r) * width + v
            if left >= BLOCK:
                _add3(tile, r * row, row, column, given, source, width, columns, heard, sums, width)
            elif left > WIDTH:
                _add2(tile, r * row, row, column, given, source, width, columns, heard, sums, width)
            else:
                _add1(tile, r * row, row, column, given, source, width, columns, heard, sums, width)


# Queries that are keys


@compiled
def _pair(x, packed, halves, given, heard, rows, columns, tile):
    """Let two ranges of tokens hear each other by G_ij = 2^{<x_i, x_j> - h_i - h_j}; one range hears itself once."""
    alone = rows[0] == columns[0]
    for i in range(rows[0], rows[1], TILE_ROWS):
        tall = min(TILE_ROWS, rows[1] - i)
        for j in range(columns[0], columns[1], TILE_COLUMNS):
            wide = min(TILE_COLUMNS, columns[1] - j)
            _score(x, i, tall, packed, j, wide, tile)
            for r in range(tall):
                half = splat(halves[i + r])
                for c in range(0, wide, WIDTH):
                    place = r * TILE_COLUMNS + c
                    store(tile, place, exp2(load(tile, place) - half - load(halves, j + c)))
            _apply(tile, TILE_COLUMNS, 1, tall, wide, given, j, heard, i)
            if not alone:
                _apply(tile, 1, TILE_COLUMNS, wide, tall, given, i, heard, j)


@in_parallel
def symmetric(x, packed, halves, given, panels, heard):
    """Fill heard with sum_j G_ij given_j.

    In round r the panels I and J with I + J = r modulo their number, which is odd, hear each other: each panel meets
    one other in every round, so no two threads write to the same rows, and rows are summed in the order of the rounds.
    """
    n = len(x)
    panel = -(-n // (panels * BLOCK)) * BLOCK
    for p in numba.prange(panels):
        tile = np.empty(TILE_ROWS * TILE_COLUMNS)
        own = (min(n, p * panel), min(n, (p + 1) * panel))
        _pair(x, packed, halves, given, heard, own, own, tile)
    for turn in range(1, panels + 1):
        for k in numba.prange(panels // 2):
            tile = np.empty(TILE_ROWS * TILE_COLUMNS)
            p, q = (turn + k) % panels, (turn + panels - 1 - k) % panels
            rows, columns = (min(n, p * panel), min(n, (p + 1) * panel)), (min(n, q * panel), min(n, (q + 1) * panel))
            _pair(x, packed, halves, given, heard, rows, columns, tile)


# Any queries


@compiled
def _weigh(tile, rows, columns, last, logs, j, gain, top, factor, room):
    """Turn scores into 2^{g (s - M) + log2 w}, M the largest so far; factor is what earlier sums are multiplied by."""
    for r in range(rows):
        start = r * TILE_COLUMNS
        for c in range(last, columns):
            tile[start + c] = -np.inf
        highest = load(tile, start)
        for c in range(WIDTH, columns, WIDTH):
            highest = maximum(highest, load(tile, start + c))
        store(room, 0, highest)
        new = top[r]
        for lane in range(WIDTH):
            new = max(new, room[lane])
        store(room, 0, exp2(splat(gain * (top[r] - new))))
        factor[r], top[r] = room[0], new
        slope, highest = splat(gain), splat(new)
        for c in range(0, columns, WIDTH):
            store(tile, start + c, exp2(muladd(slope, load(tile, start + c) - highest, load(logs, j + c))))


@in_parallel
def general(queries, packed, n, logs, given, gain, heard, top):
    """Fill heard with sum_j 2^{g (s_ij - M_i)} w_j (v_j, 1) and top with M_i = max_j s_ij, for n sources."""
    m, width = heard.shape
    for task in numba.prange(-(-m // TILE_ROWS)):
        i = task * TILE_ROWS
        rows = min(TILE_ROWS, m - i)
        tile, factor, room = np.empty(TILE_ROWS * TILE_COLUMNS), np.empty(TILE_ROWS), np.empty(WIDTH)
        best = np.full(TILE_ROWS, -np.inf)
        sums = np.zeros((rows, width))
        for j in range(0, len(given), TILE_COLUMNS):
            columns = min(TILE_COLUMNS, len(given) - j)
            _score(queries, i, rows, packed, j, columns, tile)
            _weigh(tile, rows, columns, min(columns, n - j), logs, j, gain, best, factor, room)
            for r in range(rows):
                if factor[r] != 1.0:
                    sums[r] *= factor[r]
            _apply(tile, TILE_COLUMNS, 1, rows, columns, given, j, sums, 0)
        heard[i : i + rows] = sums
        top[i : i + rows] = best[:rows]
