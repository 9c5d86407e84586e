"""Flows in certificates: each step is proved anew, in the balls of FLINT. A part of check_certificate.

A step of a flow u' = f(u) is proved by Dahlquist's lemma. Let p be a polynomial with |u(0) - p(0)| <= r and
|f(p) - p'| <= D on [0, h], and let S >= 0 bound the logarithmic norm of Df at most e away from p, in the norm of the
largest coordinate. If e^{Sh} (r + h D) < e, then |u - p| is at most that on [0, h].
"""

from flint import arb, arb_poly, arb_series, ctx, fmpq

from tools.checker.exact import Q, need

PIECES = 8


def ball(one):
    return arb(fmpq(one.numerator, one.denominator)) if isinstance(one, Q) else arb(one)


def stated(pair):
    need(len(pair) == 2 and pair[1] >= 0, "a ball has no radius")
    return ball(pair[0]) + arb(0, ball(pair[1]).upper())


def total(some):
    return sum(some, arb(0))


def dot(a, b):
    return sum((p * q for p, q in zip(a, b, strict=True)), 0 * a[0] * b[0])


def largest(some):
    found = arb(0)
    for one in some:
        found = found.max(one.abs_upper())
    return found


class Tokens:
    """Tokens (n, d) by few coordinates u: each is u_a, -u_a or 0, as mirrors have it that keep tokens, B and V."""

    def __init__(self, x, B, mirrors):
        n, d = len(x), len(x[0])
        name, zero = {(i, k): ((i, k), 1) for i in range(n) for k in range(d)}, set()
        for signs, places in mirrors:
            need(sorted(places) == list(range(n)) and all(s in (1, -1) for s in signs), "a mirror is none")
            need(all(B[j][k] == 0 for j in range(d) for k in range(d) if signs[j] != signs[k]), "a mirror moves B")
            for i, k in list(name):
                need(x[places[i]][k] == signs[k] * x[i][k], "a mirror moves the tokens")
                (a, s), (b, t) = name[places[i], k], name[i, k]
                if a == b:
                    zero |= {a} if s != signs[k] * t else set()
                    continue
                zero |= {b} if a in zero else set()
                name |= {one: (b, r * s * signs[k] * t) for one, (c, r) in name.items() if c == a}
        self.of = sorted({a for a, _ in name.values()} - zero)
        terms = {place: {} if a in zero else {self.of.index(a): Q(sign)} for place, (a, sign) in name.items()}
        self.forms = [[terms[i, k] for k in range(d)] for i in range(n)]
        self.n, self.d, self.exact, self.B = n, d, B, [[ball(one) for one in row] for row in B]
        self.start = [x[i][k] for i, k in self.of]

    def spread(self, p):
        """Return the coordinates of all tokens, from u or from polynomials."""
        return [[sum((p[a] * int(s) for a, s in one.items()), p[0] * 0) for one in row] for row in self.forms]

    def heard(self, p, s, value):
        """Return x_i, its leader x_l, x_j - x_l and <G x_i, x_j - x_l> for tokens i, as `value` has polynomials."""
        x, found = self.spread(p), {}
        for i in {i for i, _ in self.of}:
            query = [sum((q * g for q, g in zip(x[i], row, strict=True)), p[0] * 0) for row in self.B]
            scores = [dot([q(s.mid()) for q in query], [q(s.mid()) for q in one]).mid() for one in x]
            lead = max(range(self.n), key=scores.__getitem__)
            ways = [[a - b for a, b in zip(one, x[lead], strict=True)] for one in x]
            places = [value(q) for q in x[i]], [value(q) for q in x[lead]]
            found[i] = (*places, [[value(q) for q in way] for way in ways], [value(dot(query, way)) for way in ways])
        return found


def velocity(tokens, rates, p, s, length):
    """Return the power series, of this length and from the time s on, of the velocities of u along p."""
    ctx.cap, found, means = length, [], {}
    for i, (_, lead, ways, scores) in tokens.heard(p, s, lambda q: arb_series(q(arb_poly([s, 1])).coeffs())).items():
        weights = [one.exp() for one in scores]
        whole = sum(weights[1:], weights[0])
        means[i] = [a + dot(weights, column) / whole for a, column in zip(lead, zip(*ways, strict=True), strict=True)]
    for i, k in tokens.of:
        found.append(means[i][k] * rates[k])
    return found


def steepness(tokens, rates, p, s, around):
    """Return a bound of the logarithmic norm of the derivative of f at most `around` away from p(s), s a ball."""
    m, rows, d = len(tokens.of), [], range(tokens.d)
    size = largest(q(s) for q in p) + around
    wide = arb(
        0, (total(one.abs_upper() for row in tokens.B for one in row) * around * (8 * size + 4 * around)).upper()
    )
    heard = tokens.heard(p, s, lambda q: q(arb_poly([s.mid(), 1]))(s - s.mid()))
    for i, k in tokens.of:
        own, _, ways, scores = heard[i]
        query = [dot(row, [one + arb(0, around) for one in own]) for row in tokens.B]
        ways = [[one + arb(0, 2 * around) for one in way] for way in ways]
        weights = [(one + wide).exp() for one in scores]
        weights = [one / total(weights) for one in weights]
        mean = [dot(weights, column) for column in zip(*ways, strict=True)]
        far = [[a - b for a, b in zip(way, mean, strict=True)] for way in ways]
        row = [arb(0)] * m
        for j, (w, y) in enumerate(zip(weights, far, strict=True)):
            for c in d:
                slope = {j: w * (y[k] * query[c] + int(k == c))}
                slope[i] = slope.get(i, 0) + w * y[k] * total(tokens.B[a][c] * y[a] for a in d)
                for token, one in slope.items():
                    for a, sign in tokens.forms[token][c].items():
                        row[a] = row[a] + one * int(sign) * rates[k]
        rows.append(row)
    sums = [row[a] + total(one.abs_upper() for b, one in enumerate(row) if b != a) for a, row in enumerate(rows)]
    return max((one.upper() for one in sums), default=arb(0)).max(arb(0))


def flow(tokens, rates, run):
    """Return balls of u at the end of a run: those that the certificate states, which hold what is found."""
    ctx.prec = run["bits"]
    rates, N = [ball(one) for one in rates], run["order"]
    first = [ball(one) for one in tokens.start]
    centre, r = [one.mid() for one in first], largest(one - one.mid() for one in first)
    for h, around in ((ball(h), ball(around).upper()) for h, around in run["steps"]):
        need(h > 0, "a step has no length")
        rows = [[one] for one in centre]
        for k in range(N):
            found = velocity(tokens, rates, [arb_poly(row) for row in rows], arb(0), k + 1)
            for row, one in zip(rows, found, strict=True):
                row.append((one[k] / (k + 1)).mid())
        p, pieces = (
            [arb_poly(row) for row in rows],
            [(h * k / PIECES).union(h * (k + 1) / PIECES) for k in range(PIECES)],
        )
        found = velocity(tokens, rates, p, arb(0), N)
        low = [largest(one[k] - (k + 1) * row[k + 1] for one, row in zip(found, rows, strict=True)) for k in range(N)]
        last = largest(one[N] for s in pieces for one in velocity(tokens, rates, p, s, N + 1))
        defect = total(one * h**k for k, one in enumerate(low)) + last * h**N
        S = max(steepness(tokens, rates, p, s, around) for s in pieces)
        r = (S * h).exp() * (r + h * defect)
        need(r < around, f"a step is not proved: errors of {float(r.mid()):.1e} in a tube of {float(around):.1e}")
        ends = [q(h) for q in p]
        centre, r = [one.mid() for one in ends], (r + largest(one - one.mid() for one in ends)).upper()
    x, end = tokens.spread([one + arb(0, r) for one in centre]), [[stated(pair) for pair in row] for row in run["end"]]
    within = all(a.contains(b) for row, own in zip(end, x, strict=True) for a, b in zip(row, own, strict=True))
    need(within, "the tokens do not end in the balls that are stated")
    return [end[i][k] for i, k in tokens.of]
