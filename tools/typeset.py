r"""Formulas in plain text, as statements and docstrings have them, as formulas for a page.

A text is cut into words and formulas by its signs: e^{-t} x_i is a formula, and so is every lone letter except the
article. What lies between two signs of a formula, in brackets or not, belongs to it unless it is an English word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

GREEK = {
    name: f"\\{name}"
    for name in (
        "alpha", "beta", "gamma", "delta", "eta", "kappa", "lambda", "mu", "nu", "phi", "pi", "rho", "sigma", "tau",
        "theta", "xi", "Delta", "Pi", "Sigma",
    )
} | {"eps": "\\varepsilon"}  # fmt: skip
# Operators that take limits below; after some of them a formula needs a little room.
LARGE = {"sum": "\\sum", "prod": "\\prod", "int": "\\int"}
# English words too, so that they are operators only before a bracket, a bar or a limit.
NAMED = {name: f"\\mathrm{{{name}}}" for name in ("mean", "argmax", "diam", "Proj", "rank", "conv", "aff")} | {
    name: f"\\{name}" for name in ("max", "min", "log", "exp", "cos", "cosh", "tanh", "liminf", "sup", "inf", "det")
}
OTHERS = {
    "Ax": "Ax", "Av": "Av", "Bx": "Bx", "Rr": "Rr", "tV": "tV", "dt": "dt", "dmu": "d\\mu", "xbar": "\\bar{x}",
    "ij": "ij", "ik": "ik", "jk": "jk", "Vx": "Vx", "Qx": "Qx", "Kx": "Kx", "tP": "tP",
}  # fmt: skip
# Names in brackets, and of a system before the letter of its kind.
NAMES = {"low", "high", "SA"}
SUBSCRIPTS = {"inf": "\\infty", "max": "\\max", "min": "\\min", "leader": "\\mathrm{leader}"}
RELATIONS = {
    "<=": "\\leq", ">=": "\\geq", "!=": "\\neq", "<-": "\\leftarrow", "->": "\\to", "~": "\\sim", "=": "=", "<": "<",
    ">": ">", "+": "+", "-": "-", "/": "/", "..": "\\ldots", "*": "\\ast",
}  # fmt: skip
OPEN, CLOSED = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
INSIDE = {"in": "\\in", "for": "\\;\\mathrm{for}", "all": "\\;\\mathrm{all}\\;", "some": "\\;\\mathrm{some}\\;"}
# After a word these begin a formula: an eigenvalue with real part > 0.
BEGIN = {"<=", ">=", "!=", "<", ">", "=", "~"}

SIGNS = re.compile(
    r"""(?P<code>``.+?``|`[^`]+`|"\w+"|'[^'\n]*\*\*[^'\n]*')|(?P<word>[A-Za-z]+)"""
    r"|(?P<number>\d+(?:\.\d+)*(?:e-?\d+)?|\.\d+)"
    r"|(?P<sign><=|>=|!=|<-(?=\s)|->|\.\.\.|\.\.|[-<>=+/~^_|'(){}\[\],:;.*])|(?P<space>\s+)|(?P<other>.)",
    re.DOTALL,
)


ENDS = tuple(tex for tex in RELATIONS.values() if tex.startswith("\\"))


class Sign(NamedTuple):
    """A piece of a text: its kind (code, word, number, sign, space or other) and itself."""

    kind: str
    text: str


class _NoFormula(Exception):
    """What was read is no formula."""


def typeset(text: str, formula: Callable[[str], str], prose: Callable[[str], str]) -> str:
    r"""Return a text whose formulas have gone through one function, in TeX, and whose other parts through another.

    >>> print(typeset("For beta > 0 no |x_i - x_j|_A decreases.", "${}$".format, str))
    For $\beta > 0$ no $|x_i - x_j|_A$ decreases.
    >>> print(typeset("the energy of a token is sum_ij e^{beta <x_i, x_j>} / n^2", "${}$".format, str))
    the energy of a token is $\sum_{ij}\,e^{\beta \langle x_i, x_j\rangle} / n^2$
    """
    signs = [Sign(str(found.lastgroup), found[0]) for found in SIGNS.finditer(text)]
    parts: list[str] = []
    plain: list[str] = []
    k = 0
    while k < len(signs):
        end, tex = _longest(signs, k)
        if end == k:
            plain.append(signs[k].text)
            k += 1
            continue
        parts += [prose("".join(plain)), formula(tex)]
        plain, k = [], end
    return "".join([*parts, prose("".join(plain))])


def _longest(signs: list[Sign], start: int) -> tuple[int, str]:
    """Return where the formula that begins here ends, and the formula in TeX; the beginning if there is none."""
    if not _may_begin(signs, start):
        return start, ""
    reader = _Reader(signs, start)
    reader.read()
    return (reader.end, reader.tex) if reader.worth else (start, "")


def _may_begin(signs: list[Sign], k: int) -> bool:
    """Say whether a formula may begin here: not inside a word with a hyphen, nor after an apostrophe."""
    if signs[k].kind == "space":
        return False
    before = signs[k - 1].text if k else " "
    if signs[k].text == "-" and before[-1].isalnum():
        return False
    return before[-1] not in "'_^" and not (before == "-" and k > 1 and signs[k - 2].kind == "word")


class _Reader:
    """Reads one formula, as far as it goes; `end` and `tex` are those of the longest complete one so far."""

    def __init__(self, signs: list[Sign], start: int) -> None:
        self.signs, self.first, self.k, self.end = signs, start, start, start
        self.tex, self.worth = "", False

    def read(self) -> None:
        """Read atoms and the operators between them."""
        done, mark = "", False
        try:
            while True:
                gap = self._skip()
                sign = self._peek()
                if done and (dots := self._dots()):
                    self.k += dots
                    done += ", \\ldots, "
                    continue
                if sign.text in RELATIONS and not self._angle() and sign.text != "*":
                    if sign.text == "-" and not gap and done and self._hyphen():
                        break
                    if not done and sign.text != "-" and not (sign.text in BEGIN and self._peek(1).kind == "space"):
                        break
                    self.k += 1
                    mark = mark or bool(done) or sign.text != "-"
                    done = _related(done, sign.text, gap)
                    continue
                piece, marked = self._atom(nested=False)
                done = _joined(done, piece, gap)
                mark = mark or marked
                self._complete(done.strip(), mark)
        except _NoFormula:
            pass

    def _complete(self, tex: str, worth: bool) -> None:
        # Room after an operator is for what follows it.
        tex = re.sub(r"\\,(?=[])},]|$)", "", re.sub("  +", " ", tex))
        tex = re.sub(r"(?<![\w}])1/2 (?=\\langle)", r"\\frac{1}{2} ", tex)
        self.end, self.tex, self.worth = self.k, re.sub(r"\bR\^d\b", r"\\mathbb{R}^d", tex), worth

    # Signs

    def _peek(self, ahead: int = 0) -> Sign:
        k = self.k + ahead
        return self.signs[k] if k < len(self.signs) else Sign("end", "")

    def _skip(self) -> bool:
        gap = False
        while self._peek().kind == "space":
            self.k, gap = self.k + 1, True
        return gap

    def _dots(self) -> int:
        """Return how many signs an ellipsis between commas takes, 0 if there is none."""
        found = "".join(self._peek(k).text for k in range(5))
        return 5 if re.fullmatch(r",\s+\.\.\.,\s+", found) else 0

    def _before(self) -> str:
        return self.signs[self.k - 1].text if self.k else " "

    def _angle(self) -> bool:
        """Say whether an inner product begins here: a sign < with nothing but a bracket or a space before it."""
        follows = self._peek(1)
        return (
            self._peek().text == "<"
            and (self._before()[-1].isspace() or self._before()[-1] in "({[|,-/^")
            and follows.kind in ("word", "sign", "number")
            and follows.text not in ("=", "-")
        )

    def _hyphen(self) -> bool:
        """Say whether the sign - joins a letter to an English word, as in A-norm."""
        word = self._peek(1)
        return word.kind == "word" and len(word.text) > 2 and word.text not in GREEK and word.text not in NAMED

    # Atoms

    def _atom(self, nested: bool) -> tuple[str, bool]:
        """Return the next atom with its scripts, and whether it shows that this is a formula."""
        sign = self._peek()
        if sign.kind == "number":
            self.k += 1
            return self._scripted(_number(sign.text), mark=False)
        if sign.kind == "word":
            return self._letters(nested)
        if self._angle():
            return self._scripted(self._inner_product(), mark=True)
        if sign.text == "|":
            self.k += 1
            inside = self._inside("|")
            return self._scripted(f"|{inside}|", mark=True)
        if sign.text in OPEN:
            return self._bracket()
        if nested and sign.text == "." and self._before()[-1] in "( ," and self._peek(1).text in (">", ")", ","):
            self.k += 1
            return "\\cdot", True
        raise _NoFormula

    def _letters(self, nested: bool) -> tuple[str, bool]:
        word, after = self._peek().text, self._peek(1)
        if word in LARGE:
            if after.text != "_" and not (word == "int" and nested_sign(self._peek(2))):
                raise _NoFormula
            self.k += 1
            return self._scripted(LARGE[word], mark=True, room="\\,")
        if word == "sqrt" and after.text == "(":
            self.k += 2
            return self._scripted(f"\\sqrt{{{self._inside(')')}}}", mark=True)
        if word in ("ceil", "floor") and after.text == "(":
            self.k += 2
            return self._scripted(f"\\l{word} {self._inside(')')} \\r{word}", mark=True)
        if word == "binom" and after.text == "(":
            self.k += 2
            upper, lower = self._inside(")").split(",")
            return self._scripted(f"\\binom{{{upper.strip()}}}{{{lower.strip()}}}", mark=True)
        if word in NAMES and (self._compared() or nested if word != "SA" else after.text == "_"):
            self.k += 1
            return self._scripted(f"\\mathrm{{{word}}}", mark=True)
        if word == "inf" and after.text in CLOSED:
            self.k += 1
            return self._scripted("\\infty", mark=True)
        if word in NAMED and (nested or after.text in ("(", "_", "{", "[") or self._operand()):
            self.k += 1
            # The page draws room after functions that it knows.
            room = "\\," if NAMED[word].startswith("\\mathrm") and self._peek().text not in OPEN else ""
            return self._scripted(NAMED[word], mark=True, room=room)
        if word in GREEK or word in OTHERS:
            self.k += 1
            room = "\\," if word == "dt" and self._peek(1).kind == "word" else ""
            return self._scripted(GREEK.get(word) or OTHERS[word], mark=True, room=room)
        if len(word) == 1 and not self._article(nested):
            self.k += 1
            if word == "c" and self._peek().text == "0":
                self.k += 1
                return self._scripted("c_0", mark=True)
            name = self._peek().text == "'" and len(self._peek(1).text) > 1 and self._peek(1).text[0].isupper()
            if name or self._peek().kind == "number":  # L'Ecuyer, or a name in a program, such as x0
                raise _NoFormula
            return self._scripted(word, mark=True)
        raise _NoFormula

    def _compared(self) -> bool:
        """Say whether a name is compared with something, before it or after it."""
        return self.k > self.first or (self._peek(1).kind == "space" and self._peek(2).text in BEGIN)

    def _operand(self) -> bool:
        """Say whether a letter, an inner product or a sum follows, as after log in log n."""
        after = self._peek(2)
        if self._peek(1).kind != "space" or self._peek().text in ("mean", "rank", "inf"):
            return self._peek().text == "mean" and after.text == "|"
        return (after.kind == "word" and (len(after.text) == 1 or after.text in GREEK) and after.text != "a") or (
            after.text in ("(", "<", "|") or (after.text in LARGE and self._peek(3).text == "_")
        )

    def _article(self, nested: bool) -> bool:
        """Say whether a letter is an English article: a before a word, A where a sentence begins."""
        letter, after, then = self._peek().text, self._peek(1), self._peek(2)
        if letter == "a" and self.k == self.first and then.kind == "number":
            return True
        if letter not in ("a", "A") or nested or after.kind != "space" or then.kind not in ("word", "code"):
            return False
        if self.k > self.first and (len(then.text) == 1 or then.text in GREEK):
            return False
        if letter == "a":
            return then.text not in ("and", "of", "is", "are", "or")
        return self.k == 0 or self._before_words() in (".", ":", ";", "(", "*", '"', "")

    def _before_words(self) -> str:
        k = self.k - 1
        while k >= 0 and self.signs[k].kind == "space":
            k -= 1
        return self.signs[k].text if k >= 0 else ""

    def _inner_product(self) -> str:
        self.k += 1
        return f"\\langle {self._inside('>')}\\rangle"

    def _bracket(self) -> tuple[str, bool]:
        opened = self._peek().text
        self.k += 1
        start = self.k
        inside, closing = self._until(CLOSED)
        if opened == "{":
            return self._scripted(f"\\{{{inside}\\}}", mark=True)
        # Pure numbers in brackets are no formula by themselves; an interval may be open at one end.
        marked = any(sign.kind in ("word",) or sign.text in ("^", "_", "=") for sign in self.signs[start : self.k])
        half_open = {opened, closing} in ({"(", "]"}, {"[", ")"})
        return self._scripted(f"{opened}{inside}{closing}", mark=marked or half_open or "," in inside)

    def _inside(self, closing: str) -> str:
        return self._until({closing})[0]

    def _until(self, closings: set[str]) -> tuple[str, str]:
        """Return what lies before a closing sign, all of which must belong to the formula, and that sign."""
        done = ""
        while True:
            gap = self._skip()
            sign = self._peek()
            if sign.text in closings and not (sign.text == ">" and gap) and not (sign.text == "|" and not done):
                self.k += 1
                return done.strip(), sign.text
            if sign.text in (",", ":", ";"):
                self.k += 1
                done += ": " if sign.text == ":" else f"{sign.text} "
            elif sign.kind == "word" and sign.text in INSIDE and gap:
                self.k += 1
                done += f" {INSIDE[sign.text]} "
            elif sign.text in RELATIONS and not self._angle() and sign.text != "*":
                self.k += 1
                done = _related(done, sign.text, gap)
            else:
                done = _joined(done, self._atom(nested=True)[0], gap)

    def _scripted(self, base: str, mark: bool, room: str = "") -> tuple[str, bool]:
        """Return an atom with the primes, stars, exponents and indices that follow it."""
        done = base
        while True:
            sign = self._peek().text
            if sign == "'" and mark and self._peek(1).kind != "word":
                done += "'"
                self.k += 1
            elif sign == "*" and mark and self._peek(1).text != "*" and self._before()[-1] not in " *":
                done += "^*"
                self.k += 1
            elif sign in ("^", "_"):
                self.k += 1
                done += f"{sign}{self._script(sign)}"
                mark = True
            elif sign == "(" and mark:
                self.k += 1
                done += f"({self._inside(')')})"
            else:
                return done + room, mark

    def _script(self, kind: str) -> str:
        sign = self._peek()
        if sign.text == "{":
            self.k += 1
            return f"{{{self._inside('}')}}}"
        self.k += 1
        if sign.text == "(" and kind == "^":
            return f"{{{self._inside(')')}}}"
        if sign.text == "*":
            return "{\\ast}"
        if sign.text == "+":
            return "{+}"
        if sign.text == "-" and self._peek().kind in ("number", "word"):
            self.k += 1
            return f"{{-{self.signs[self.k - 1].text}}}"
        if sign.kind == "number":
            return sign.text if len(sign.text) == 1 else f"{{{sign.text}}}"
        if sign.kind != "word":
            raise _NoFormula
        tex = SUBSCRIPTS.get(sign.text) or GREEK.get(sign.text) or sign.text
        if tex == "\\sigma" and kind == "_" and self._peek().text == "(":
            self.k += 1
            return f"{{\\sigma({self._inside(')')})}}"
        if len(tex) > 3 and not tex.startswith("\\"):
            tex = f"\\mathrm{{{tex}}}"
        return tex if len(tex) == 1 else f"{{{tex}}}"


def nested_sign(sign: Sign) -> bool:
    """Say whether a sign may follow an integral without limits."""
    return sign.text in ("e", "f", "y", "C")


def _related(done: str, sign: str, gap: bool) -> str:
    """Return a formula that goes on with an operator; a sign - after another one, or a bracket, is that of a number."""
    alone = not done.strip() or done.rstrip()[-1] in "=<>+,(:[{" or done.rstrip().endswith(ENDS)
    if sign == "-" and alone:
        # In braces it keeps close to its number after a command, too.
        return done + ("{-}" if done.rstrip().endswith(ENDS) else "-")
    tex = RELATIONS[sign]
    if sign == "..":
        return f"{done.rstrip()}, {tex}, "
    return f"{done.rstrip()} {tex} " if gap or tex.startswith("\\") else done + tex


def _joined(done: str, piece: str, gap: bool) -> str:
    return f"{done} {piece}" if gap and done and not done.endswith((" ", "(", "\\,")) else done + piece


def _number(text: str) -> str:
    r"""Return a number, a power of ten where it is written as one.

    >>> _number("1e-3"), _number("2.5e-3"), _number("12")
    ('10^{-3}', '2.5 \\cdot 10^{-3}', '12')
    """
    digits, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = f"10^{{{int(exponent)}}}"
    return power if digits == "1" else f"{digits} \\cdot {power}"


def markdown(text: str) -> str:
    r"""Return a text in Markdown, with its formulas between dollar signs.

    >>> print(markdown("P_ij = e^{<x_i, x_j>} / Z_i of `x_0` is *large*"))
    $P_{ij} = e^{\langle x_i, x_j\rangle} / Z_i$ of `x_0` is \*large\*
    """
    # Without the space X[mu](x) would be a link.
    return typeset(text, lambda tex: f"${tex.replace('](', '] (')}$", escaped)


def escaped(text: str) -> str:
    r"""Keep Markdown from reading signs as emphasis, formulas or HTML, except in code.

    >>> print(escaped("a_b * `a_b`"))
    a\_b \* `a_b`
    """
    parts = re.split("(`[^`]+`)", text)
    for sign, said in {"<=": "\u2264", ">=": "\u2265", "!=": "\u2260"}.items():
        parts[::2] = [part.replace(sign, said) for part in parts[::2]]
    parts[::2] = [re.sub(r"[\\*_<|$]", r"\\\g<0>", part).replace("](", "]\\(") for part in parts[::2]]
    return "".join(parts)
