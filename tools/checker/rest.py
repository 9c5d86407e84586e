"""Layers and states at rest in balls. A part of check_certificate."""

from itertools import product

from flint import acb_mat, arb_mat, arb_series, ctx

from tools.checker.exact import holds, need, positive
from tools.checker.flows import ball, dot, stated


def collapse(g, p):
    x, beta, gamma, c = g["tokens"], ball(g["beta"]), ball(g["gamma"]), [ball(one) for one in p["direction"]]
    need(0 < g["gamma"] <= 1, "gamma is not in (0, 1]")
    means = [sum(w * a for w, a in zip(p["weights"], column, strict=True)) for column in zip(*x, strict=True)]
    need(min(p["weights"]) > 0 and not any(means), "0 is not the mean with these weights")
    holds(
        positive(
            [
                [sum(p * q for p, q in zip(a, b, strict=True)) for b in zip(*x, strict=True)]
                for a in zip(*x, strict=True)
            ],
            "the Gram matrix",
        )
    )
    ctx.prec = 128
    x = [[ball(one) for one in row] for row in x]
    for _ in range(p["steps"]):
        heard = [softmax([beta * dot(own, one) for one in x], x) for own in x]
        x = [[a + gamma * (m - a) for a, m in zip(own, mean, strict=True)] for own, mean in zip(x, heard, strict=True)]
    shown = [stated(one) for one in p["heights"]]
    need(all(a.contains(dot(c, one)) and a > 0 for a, one in zip(shown, x, strict=True)), "0 may still be in the hull")
    return f"0 is outside the hull after {p['steps']} layers, and hulls shrink"


def softmax(scores, x):
    weights = [(one - scores[-1]).exp() for one in scores]
    return [dot(weights, column) / sum(weights[1:], weights[0]) for column in zip(*x, strict=True)]


def two_points(g, p):
    ctx.prec, V, B = 192, *([[ball(one) for one in row] for row in g[name]] for name in "VB")
    values = acb_mat(arb_mat(V)).eig()
    top = max(values, key=lambda one: one.real.mid())
    need(top.imag.contains(0) and top.real > 0, "the largest eigenvalue is not proved to be real and positive")
    need(all(one is top or one.real < top.real for one in values), "the largest eigenvalue is not proved to be simple")
    box, d = [[stated(one) for one in row] for row in p["box"]], len(V)

    def field(x):  # A_i - <x_i, A_i + x_i> x_i + x_i, A_i = V sum_{j<=i} P_ij x_j
        found = []
        for i, own in enumerate(x):
            query = [dot(row, own) for row in B]
            A = [dot(row, softmax([dot(query, one) for one in x[: i + 1]], x[: i + 1])) for row in V]
            along = dot(A, own) + dot(own, own)
            found += [a - along * one + one for a, one in zip(A, own, strict=True)]
        return found

    def slopes(x):
        ctx.cap, columns = 2, []
        for place in product(range(len(x)), range(d)):
            moved = [[arb_series([one, int((i, k) == place)]) for k, one in enumerate(row)] for i, row in enumerate(x)]
            columns.append([one[1] for one in field(moved)])
        return arb_mat([list(row) for row in zip(*columns, strict=True)])

    centre, flat = [[one.mid() for one in row] for row in box], [one for row in box for one in row]
    m, J, Y = len(flat), slopes(box), slopes(centre).inv().mid()
    one = arb_mat(m, m, [int(i == j) for i in range(m) for j in range(m)])
    middle = arb_mat(m, 1, [one for row in centre for one in row])
    image = middle - Y * arb_mat(m, 1, field(centre)) + (one - Y * J) * (arb_mat(m, 1, flat) - middle)
    need(
        all(a.contains_interior(b) for a, b in zip(flat, image.entries(), strict=True)),
        "the box need not hold a state at rest",
    )
    for i, own in enumerate(box):
        query = [dot(row, own) for row in B]
        A = [dot(row, softmax([dot(query, one) for one in box[: i + 1]], box[: i + 1])) for row in V]
        need(dot(A, own) + dot(own, own) > 0, "a token may be off the sphere")
        block = acb_mat(arb_mat([[J[i * d + a, i * d + b] for b in range(d)] for a in range(d)]))
        need(all(one.real < 0 for one in block.eig(multiple=True)), "the state may not attract")
    turned = [[dot(row, own) for row in V] for own in box]
    minors = [
        t[a] * own[b] - t[b] * own[a] for t, own in zip(turned, box, strict=True) for a in range(d) for b in range(a)
    ]
    need(any(not one.contains(0) for one in minors), "all tokens may be at eigenvectors of V")
    return "an open set of starts tends to a state at which some token is at no eigenvector of V"


AT_REST = {"fw/collapse-to-origin": collapse, "causal/two-points": two_points}
