"""Refutations in rational numbers, computed anew with fractions alone: python tools/checker/exact.py FILE ..."""

import json
import sys
from fractions import Fraction as Q
from pathlib import Path

TESTS = {"<": Q.__lt__, "<=": Q.__le__, "=": Q.__eq__, ">": Q.__gt__, ">=": Q.__ge__, "!=": Q.__ne__}


class Refused(Exception):
    """The certificate proves nothing, for the reason that is given."""


def need(true, why):
    if not true:
        raise Refused(why)


def numbers(data):
    """Return data with all strings read as fractions."""
    if isinstance(data, dict | list):
        return [numbers(v) for v in data] if isinstance(data, list) else {n: numbers(v) for n, v in data.items()}
    whole = isinstance(data, int) and not isinstance(data, bool) and data >= 0
    need(whole or (isinstance(data, str) and str(Q(data)) == data), "a number is no fraction in lowest terms, no count")
    return Q(data) if isinstance(data, str) else data


def holds(comparisons):
    """Return the comparisons, all of them true."""
    found = list(comparisons)
    for what, left, relation, right in found:
        need(TESTS[relation](Q(left), Q(right)), f"{what}: {left} {relation} {right} is false")
    return found


def dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def times(M, x):
    return [dot(row, x) for row in M]


def minus(a, b):
    return [p - q for p, q in zip(a, b, strict=True)]


def det(M):
    return sum((-1) ** k * one * det([r[:k] + r[k + 1 :] for r in M[1:]]) for k, one in enumerate(M[0])) if M else Q(1)


def positive(M, name):
    """Yield what shows that M is symmetric and positive definite, by Sylvester's criterion."""
    yield from ((f"{name} is symmetric", M[i][j], "=", M[j][i]) for i in range(len(M)) for j in range(i))
    yield from ((f"minor {k} of {name}", det([row[:k] for row in M[:k]]), ">", Q(0)) for k in range(1, len(M) + 1))


def leaders(x, B, delta=Q(0)):
    """Return whom each token hears: those whose scores <B x_i, x_j> are within delta of the largest."""
    scores = [[dot(times(B, own), one) for one in x] for own in x]
    return [[j for j, s in enumerate(row) if s >= max(row) - delta] for row in scores]


def layer(x, rows, gammas, distinct):
    """Return the tokens after x_i <- x_i + gamma (mean - x_i); coinciding points count once if `distinct`."""
    moved = []
    for own, row in zip(x, rows, strict=True):
        heard = [list(p) for p in {tuple(x[j]) for j in row}] if distinct else [x[j] for j in row]
        mean = [sum(column) / len(heard) for column in zip(*heard, strict=True)]
        moved.append([a + g * (m - a) for a, g, m in zip(own, gammas, mean, strict=True)])
    return moved


def scores(x, B):
    """Yield the scores of all tokens, each against the largest one."""
    for i, row in enumerate([dot(times(B, own), one) for one in x] for own in x):
        yield from ((f"score of {i} with {j}", one, "<=", max(row)) for j, one in enumerate(row))


def own_cell(g, p):
    x, B, i = g["tokens"], g["B"], p["token"]
    yield from positive(B, "B")
    yield "v_i is not 0", dot(x[i], x[i]), ">", Q(0)
    for j in (j for j in range(len(x)) if j != i):
        yield f"v_i is a vertex, against {j}", dot(p["direction"], x[i]), ">", dot(p["direction"], x[j])
        yield f"v_i is in its cell, against {j}", dot(times(B, x[i]), minus(x[j], x[i])), "<=", Q(0)
    need(p["tied"] != i, "a token is tied with itself")
    yield "a vertex scores as high", dot(times(B, x[i]), minus(x[p["tied"]], x[i])), "=", Q(0)


def cluster_rate(g, p):
    x, t, d = g["tokens"], p["step"], len(g["tokens"][0])
    yield from ((f"weight {j}", one, ">=", Q(0)) for j, one in enumerate(p["weights"]))
    yield "sum of the weights", sum(p["weights"]), "=", Q(1)
    means = [dot(p["weights"], column) for column in zip(*x, strict=True)]
    yield from ((f"0 is in the hull, {k}", one, "=", Q(0)) for k, one in enumerate(means))
    wide = max(dot(minus(a, b), minus(a, b)) for a in x for b in x)
    B = [[-Q(i == j) for j in range(d)] for i in range(d)]
    for s in range(t + 1):
        x = layer(x, leaders(x, B), [Q(2, s + 2)] * d, distinct=True)
    yield "the energy is above the bound", dot(x[p["token"]], x[p["token"]]) / 2, ">", 2 * wide / (t + 1)


def hull_shrinks(g, p):
    x, V, c = g["tokens"], g["V"], p["direction"]
    yield from ((f"V_{k}", V[k][k], ">", Q(0)) for k in range(len(V)))
    need(all(V[i][j] == 0 for i in range(len(V)) for j in range(len(V)) if i != j), "V is not diagonal")
    for _ in range(p["step"] + 1):
        before, x = x, layer(x, leaders(x, g["B"]), [V[k][k] / (1 + V[k][k]) for k in range(len(V))], distinct=True)
    yield from scores(before, g["B"])
    yield from ((f"beyond token {j}", dot(c, x[p["token"]]), ">", dot(c, one)) for j, one in enumerate(before))


def exponential_rate(g, p):
    x, B, (a, b), rows = g["tokens"], g["B"], g["gamma"], leaders(g["tokens"], g["B"])
    yield "0 < gamma", a, ">", Q(0)
    yield "gamma = a / (t + b) < 1", a, "<", b
    need(all(len(row) == 1 for row in rows), "a token has two leaders")
    v = [x[row[0]] for row in rows]
    away, moving = [minus(*two) for two in zip(x, v, strict=True)], [i for i, row in enumerate(rows) if row != [i]]
    for i, j in ((i, j) for i in range(len(x)) for j in range(len(x)) if [j] != rows[i]):
        # <B (v_i + u a_i), v_i - v_j - u a_j> > 0 for 0 < u <= 1, by its Bernstein coefficients.
        c = [dot(times(B, v[i]), minus(v[i], v[j])), -dot(times(B, away[i]), away[j])]
        c.insert(1, dot(times(B, away[i]), minus(v[i], v[j])) - dot(times(B, v[i]), away[j]))
        yield f"{i} never prefers {j}, at the end", c[0], ">=", Q(0)
        yield f"{i} never prefers {j}, between", 2 * c[0] + c[1], ">=", Q(0)
        yield f"{i} never prefers {j}, at the start", sum(c), ">", Q(0)
    for i, weights in zip(moving, p["weights"], strict=True):
        need(all(weights[j] == 0 for j in moving), "a token is no mean of leaders")
        need([dot(weights, column) for column in zip(*x, strict=True)] == x[i], "a token is not the mean that is given")
        yield f"weights of {i}", min(weights), ">=", Q(0)
        yield f"sum of the weights of {i}", sum(weights), "=", Q(1)
    i = p["token"]
    yield "a token is not at its vertex", dot(away[i], away[i]), ">", Q(0)


def lyapunov(g, p):
    def energy(x):
        return sum(min(dot(times(g["B"], minus(a, b)), minus(a, b)), 2 * g["delta"]) for a in x for b in x)

    x = g["tokens"]
    yield from positive(g["B"], "A")
    yield "gamma is positive", g["gamma"], ">", Q(0)
    yield "gamma is at most 1", g["gamma"], "<=", Q(1)
    for _ in range(p["step"] + 1):
        before, x = x, layer(x, leaders(x, g["B"], g["delta"]), [g["gamma"]] * len(x[0]), distinct=False)
    yield from scores(before, g["B"])
    yield "the energy rises", energy(x), ">", energy(before)


def controllability(g, p):
    (i, j), x, y = p["pair"], g["tokens"], g["targets"]
    need({len(one) for one in x + y} == {1} and len(x) == len(y), "tokens and targets are not on the line")
    yield "the points", x[i][0], "<", x[j][0]
    yield "their targets", y[i][0], ">=", y[j][0]


def every_start(g, p):
    x = g["tokens"]
    need(len(x[0]) >= 2, "tokens are on the line")
    square = dot(x[0], x[0])
    yield "a token is not 0", square, ">", Q(0)
    yield from ((f"the length of {i}", dot(one, one), "=", square) for i, one in enumerate(x))
    yield "two tokens differ", dot(x[0], x[p["other"]]), "<", square
    for i, own in enumerate(x):
        for s in sorted({dot(own, one) for one in x}):
            total = [sum(column) for column in zip(*(one for one in x if dot(own, one) == s), strict=True)]
            pull = minus([square * one for one in total], [dot(total, own) * one for one in own])
            yield from ((f"pull on {i} from score {s}, {k}", one, "=", Q(0)) for k, one in enumerate(pull))


EXACT = {
    "fw/own-cell": (own_cell, "a vertex lies in its own cell although its scores tie"),
    "fw/cluster-rate": (cluster_rate, "the energy of a token is above the printed bound"),
    "fw/hull-shrinks": (hull_shrinks, "a token leaves the hull"),
    "fw/exponential-rate": (exponential_rate, "tokens run straight, and steps a / (t + b) give no exponential rate"),
    "localmax/lyapunov/directed": (lyapunov, "the energy rises in a layer"),
    "neuralode/controllability": (controllability, "the targets do not keep the order of two points on the line"),
    "sphere/collapse/every-start": (every_start, "for every beta the tokens rest, and they are not at one point"),
}  # fmt: skip


def check_exactly(certificate):
    """Return in one sentence what is proved by comparisons of rational numbers; raise Refused if nothing is."""
    claim, given, proof = certificate["claim"], numbers(certificate["given"]), numbers(certificate["proof"])
    need(str(certificate["version"]) == "1", "its version is not 1")
    need(certificate["kind"] == "exact" and claim in EXACT, f"there is no exact argument on {claim}")
    found = [[what, str(a), relation, str(b)] for what, a, relation, b in holds(EXACT[claim][0](given, proof))]
    need(found == certificate["shown"], "what it shows is not what is found")
    return f"{claim} is refuted, in fractions: {EXACT[claim][1]}."


if __name__ == "__main__":
    try:
        print(*(check_exactly(json.loads(Path(file).read_text("utf-8"))) for file in sys.argv[1:]), sep="\n")
    except (Refused, OSError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        sys.exit(f"refused: {error!r}")
