"""Check a certificate without attnflow: in fractions, and in the balls of FLINT where there are exponentials.

python tools/check_certificate.py FILE ...      docs/certificates.md has the format and the theorems
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.checker.exact import Refused, check_exactly, need, numbers

VERSION = 1
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError)


def check(certificate: dict) -> str:
    """Return in one sentence what is proved; raise Refused if nothing is."""
    try:
        return _checked(certificate)
    except MALFORMED as error:
        raise Refused(f"it cannot be read ({type(error).__name__}: {error})") from None


def _checked(certificate):
    need(str(certificate["version"]) == str(VERSION), f"its version is not {VERSION}")
    need(
        {*certificate} == {"version", "claim", "kind", "given", "proof", "shown"},
        "its keys are not those of the format",
    )
    if certificate["kind"] == "exact":
        return check_exactly(certificate)
    claim, given, proof = certificate["claim"], numbers(certificate["given"]), numbers(certificate["proof"])
    # FLINT is needed for balls alone.
    need(find_spec("flint"), "balls need python-flint: run this with a Python that has it, such as .venv/bin/python")
    from flint import ctx

    from tools.checker.limits import FLOWS
    from tools.checker.rest import AT_REST
    from tools.checker.triples import TRIPLES

    arguments = {**FLOWS, **AT_REST, **TRIPLES}
    need(certificate["kind"] == "ball" and claim in arguments, f"there is no {certificate['kind']} argument on {claim}")
    before = ctx.prec, ctx.cap
    try:
        words = arguments[claim](given, proof)
    finally:
        ctx.prec, ctx.cap = before
    need(words == certificate["shown"], "what it shows is not what is found")
    return f"{claim} is {'proved' if claim in TRIPLES else 'refuted'}, in balls: {words}."


def main(paths):
    """Print a sentence for each file; return 1 if one is refused."""
    refused = 0
    for path in paths:
        try:
            print(check(json.loads(Path(path).read_text(encoding="utf-8"))))
        except (Refused, OSError, ValueError, RecursionError) as error:
            refused, _ = 1, print(f"{path} is refused: {error}.")
    return refused


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if sys.argv[1:] else "usage: python tools/check_certificate.py FILE ...")
