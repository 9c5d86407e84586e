"""What certificates conclude from flows: limits and escapes. A part of check_certificate.

docs/certificates.md has the theorems.
"""

from itertools import product

from flint import arb, ctx

from tools.checker.exact import Q, holds, need, positive
from tools.checker.flows import Tokens, ball, dot, flow, largest, total


class Lock:
    """Tokens that keep their leaders for ever: `led[i]`, None for a token at 0, and `limits` of e^{-sV} x."""

    def __init__(self, tokens, rates, u, gap):
        self.tokens, self.u, n, d = tokens, u, tokens.n, range(tokens.d)
        x, r = tokens.spread(u), [ball(one) for one in rates]
        need(min(rates) >= 0, "V has a negative eigenvalue")
        self.led = [self._leaders(i, x) for i in range(n)]
        need(all(self.led[j] == [j] for one in self.led if one for j in one), "a leader does not lead itself alone")
        self.a = [[self._mean(i, k) for k in d] for i in range(n)]
        growth = min(one for one in rates if one > 0)
        room = gap * ball(growth) - ball(max(rates))
        need(gap > 0 and room > 0, "the gap is too small")
        spread = [largest(p[k] - q[k] for p in x for q in x) for k in d]
        self.slack = [(2 * r[k] * spread[k] * (n - 1) * (-gap).exp() / room).upper() for k in d]
        c = [[self._aside(i, k, x) for k in d] for i in range(n)]
        for i, j in product(range(n), repeat=2):
            if self.led[i] is not None and j not in self.led[i]:
                own = [self.value(self.a[i][k], k) for k in d]
                ahead = [self.value(_difference(self.a[i][k], self.a[j][k]), k) for k in d]
                terms = {}
                for k, m in product(d, repeat=2):
                    for p, up in ((own[m], rates[m]), (c[i][m], Q(0))):
                        for q, more in ((ahead[k], rates[k]), (-c[j][k], Q(0))):
                            if not (p.is_zero() or q.is_zero() or tokens.B[k][m].is_zero()):
                                terms[up + more] = terms.get(up + more, 0) + tokens.B[k][m] * p * q
                need(terms and max(terms) >= growth, f"the leaders of token {i} need not stay ahead of token {j}")
                sums = [total(terms[e] for e in terms if e >= least) for least in terms]
                need(all(one > gap for one in sums), f"token {i} is not proved to hear its leaders rather than {j}")
        self.limits = [[self.value(self.a[i][k], k) + (c[i][k] if rates[k] == 0 else 0) for k in d] for i in range(n)]

    def _leaders(self, i, x):
        """Return the tokens whose scores tie with the largest for ever, as polynomials in u."""
        if not any(self.tokens.forms[i]):
            return None
        query = [dot(row, x[i]) for row in self.tokens.B]
        top = self._score(i, max(range(len(x)), key=lambda j: dot(query, x[j]).mid()))
        return [j for j in range(len(x)) if self._score(i, j) == top]

    def _score(self, i, j):
        terms, B = {}, self.tokens.exact
        for k, m in product(range(len(B)), repeat=2):
            for (a, s), (b, t) in product(self.tokens.forms[i][m].items(), self.tokens.forms[j][k].items()):
                place = (min(a, b), max(a, b))
                terms[place] = terms.get(place, 0) + B[k][m] * s * t
        return {place: one for place, one in terms.items() if one}

    def _mean(self, i, k):
        found = {}
        for j in self.led[i] or ():
            for a, sign in self.tokens.forms[j][k].items():
                found[a] = found.get(a, 0) + sign / len(self.led[i])
        return {a: one for a, one in found.items() if one}

    def _aside(self, i, k, x):
        """Return c_i, which is 0 for ever where a symmetry has it so."""
        if not _difference(self.tokens.forms[i][k], self.a[i][k]):
            return arb(0)
        return x[i][k] - total(self.u[a] * ball(one) for a, one in self.a[i][k].items()) + arb(0, self.slack[k])

    def value(self, form, k):
        return total((self.u[a] + arb(0, self.slack[k])) * ball(one) for a, one in form.items())


def _difference(p, q):
    found = {a: p.get(a, 0) - q.get(a, 0) for a in {*p, *q}}
    return {a: one for a, one in found.items() if one}


def locked(g, p):
    """Return (rates, lock) of the tokens at the end of the flow x' = V sum_j P_ij x_j."""
    V = g["V"]
    holds(positive(g["B"], "B"))
    need(all(V[i][j] == 0 for i in range(len(V)) for j in range(len(V)) if i != j), "V is not diagonal")
    rates = [V[k][k] for k in range(len(V))]
    tokens = Tokens(g["tokens"], g["B"], p["mirrors"])
    return rates, Lock(tokens, rates, flow(tokens, rates, p), ball(p["gap"]))


def identity(M):
    return all(one == (i == j) for i, row in enumerate(M) for j, one in enumerate(row))


def pair(g, p):
    (a, e), (b, f) = g["tokens"]
    need(a == b == 1 and e == -f and identity(g["B"]) and identity(g["V"]), "it is not the pair of the claim")
    limit = locked(g, p)[1].limits[0][1]
    need(not limit.contains(0), "the limit may be 0")
    return f"from (1, {e}) and (1, {f}) the second coordinates do not tend to 0"


def rank(g, p):
    need(identity(g["V"]), "V is not I")
    led = locked(g, p)[1].led
    need(None in led and any(led), "no token is at 0 for ever")
    return f"the limit of P has a rank above {len({j for one in led if one for j in one})}, the number of vertices"


def codimension(g, p, least, simple):
    rates, lock = locked(g, p)
    need(max(rates) > 0 and (not simple or len(set(rates)) == len(rates)), "V is not as in the claim")
    counted, chosen = [k for k, one in enumerate(rates) if one > 0 or one == least], []
    for row in lock.limits:
        if all(any(not row[k].overlaps(other[k]) for k in counted) for other in chosen):
            chosen.append(row)
    need(len(chosen) > 3, "at most three limits are proved to differ")
    return f"rescaled tokens tend to {len(chosen)} different points"


def projected(g, p):
    rates, lock = locked(g, p)
    F, S, B = [k for k, one in enumerate(rates) if one == max(rates)], p["root"], g["B"]
    # If S > m I then S and the root A of B have S (S - A) + (S - A) A = S^2 - B: S - A is at most |S^2 - B| / m.
    holds(positive([[one - p["least"] * (i == j) for j, one in enumerate(row)] for i, row in enumerate(S)], "S - m I"))
    need(p["least"] > 0, "m is not positive")
    wrong = [
        sum(a * b for a, b in zip(S[i], column, strict=True)) - B[i][j]
        for i in range(len(S))
        for j, column in enumerate(zip(*S, strict=True))
    ]
    error = arb(0, (ball(sum(one * one for one in wrong)).sqrt() / ball(p["least"])).upper())
    places = [[total((ball(S[a][b]) + error) * row[b] for b in F) for a in F] for row in lock.limits]
    rises = [dot(u, v) - dot(u, u) for u in places for v in places]
    need(any(one > 0 for one in rises), "no limit is proved to be outside the set")
    return f"for rates {', '.join(map(str, rates))} a limit w has |pi A w|^2 < max_j <pi A w, pi A v_j>"


def doubly_exponential(g, p):
    others, B, v, (low, high) = [one for (one,) in g["others"]], g["B"][0][0], g["V"][0][0], g["starts"]
    need(B > 0 and v > 0 and len({*others}) == len(others), "tokens are not as in the claim")
    side = 1 if low > max(others) else -1
    need(low < high and (side > 0 or high < min(others)), "the token is not extreme")
    need(all(side * one < 0 for one in others), "another token is on the wrong side")
    ctx.prec = 128
    bar = ball(len(others)) / arb(1).exp()

    def beyond(x):  # |sqrt(B) x| is above sqrt(W((n-1)/e)), from where tokens move away from 0 for ever
        return ball(B) * x * x * (ball(B) * x * x).exp() > bar

    need(all(beyond(ball(one)) for one in others), "another token is not far out")
    ends = []
    for start, run in zip((low, high), p["runs"], strict=True):
        tokens = Tokens([[start], *g["others"]], g["B"], [])
        ends.append(flow(tokens, [v], run)[0])
    need(ends[0] < 0 and ends[1] > 0 and all(beyond(one) for one in ends), "the token does not escape to both sides")
    return f"from some start between {low} and {high} the extreme token stays bounded, and its row is slow"


FLOWS = {
    "emergence/polytope/pair": pair,
    "emergence/polytope/rank": rank,
    "emergence/polytope-times-subspace/projected": projected,
    "emergence/codimension-k/a": lambda g, p: codimension(g, p, 0, simple=False),
    "emergence/codimension-k/b": lambda g, p: codimension(g, p, None, simple=False),
    "emergence/codimension-k/c": lambda g, p: codimension(g, p, None, simple=True),
    "emergence/boolean/doubly-exponential": doubly_exponential,
}
