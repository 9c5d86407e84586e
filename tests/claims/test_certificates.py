"""Certificates: refutations have one, a checker that knows nothing of attnflow accepts it, and refuses mutations."""

from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from larger import larger
from refusals import refused

import attnflow as af
from attnflow.claims.certificates.certificate import FOLDER, names
from attnflow.claims.certificates.exact import weights
from attnflow.claims.certificates.make import make
from attnflow.claims.witness import Witness
from tools.certificates import GAP, INSTANCES
from tools.check_certificate import check
from tools.checker import triples
from tools.checker.exact import Refused

ROOT = Path(__file__).parents[2]
CHECKER = [ROOT / "tools/check_certificate.py", *sorted((ROOT / "tools/checker").glob("*.py"))]
VERDICTS = ROOT / "src/attnflow/figures/gallery/verdicts.json"
# Of more than two seconds on one core; the last two of one, and like that of emergence/codimension-k/a.
LONG = ("emergence/boolean/doubly-exponential", GAP.claim, "emergence/codimension-k/b", "emergence/codimension-k/c")
# Where each number is tried: in flows of many coordinates that takes long.
SMALL = [name for name in INSTANCES if not name.startswith(("emergence/codimension", "emergence/boolean"))]
QUICK = [name for name in SMALL if not name.startswith(("emergence", "causal"))]
# What a proof chooses: other choices may prove the same statement.
CHOSEN = {"bits", "order", "gap", "root", "least", "weights", "direction", "mirrors", "other"}

Place = tuple[Any, ...]
# The checker has no types.
COVER: Any = triples.cover


def slow(claims: Any) -> list[Any]:
    return [pytest.param(name, marks=larger if name in LONG else ()) for name in claims]


def data_of(claim: str) -> dict[str, Any]:
    return dict(json.loads(names()[claim].read_text(encoding="utf-8")))


def places(data: Any, at: Place = ()) -> Iterator[Place]:
    """Yield the places of all numbers."""
    if isinstance(data, dict | list):
        for key, one in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(one, (*at, key))
    elif _is_number(data):
        yield at


def _is_number(one: Any) -> bool:
    try:
        Fraction(one)
    except (ValueError, TypeError):
        return False
    return True


def mutations(one: Any) -> list[Any]:
    """Return a number with another digit, and with another sign."""
    if isinstance(one, int):
        return [one + 1, -one - 1]
    value = Fraction(one)
    return [str(Fraction(value.numerator + 1, value.denominator)), str(-value if value else Fraction(-1))]


def replaced(data: dict[str, Any], at: Place, by: Any) -> dict[str, Any]:
    found = copy.deepcopy(data)
    inner: Any = found
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = by
    return found


def value(data: Any, at: Place) -> Any:
    for key in at:
        data = data[key]
    return data


def harmless(at: Place, before: Any, after: Any) -> bool:
    """Say whether a mutation may leave the proof of the same statement complete: another choice, or a wider ball."""
    if at[0] != "proof":
        return False
    tube = len(at) > 3 and "steps" in at and at[-1] == 1
    radius = ("end" in at or "box" in at or "heights" in at) and at[-1] == 1
    return (
        at[1] in CHOSEN or tube or (radius and Fraction(after) > Fraction(before)) or {"bits", "order"} & {*at} != set()
    )


def test_every_refutation_that_is_proved_has_a_small_certificate() -> None:
    rows = json.loads(VERDICTS.read_text(encoding="utf-8"))["claims"]
    refuted = {row["claim"] for row in rows if row["status"] == "false as printed"}
    proved = {row["claim"] for row in rows if row["refutation"] in ("exact", "ball")}
    assert proved <= {*INSTANCES} <= refuted
    assert all(path.stat().st_size < 200_000 for path in FOLDER.glob("*.json"))
    assert {*names()} == {*INSTANCES, GAP.claim}
    assert af.claims.stored(GAP.claim) == GAP


@pytest.mark.parametrize("claim", slow(names()))
def test_certificates_are_accepted(claim: str) -> None:
    data = data_of(claim)
    how = {"exact": "in fractions", "ball": "in balls"}[data["kind"]]
    assert check(data).startswith(f"{claim} is {'proved' if claim == GAP.claim else 'refuted'}, {how}: ")


@pytest.mark.parametrize(
    ("at", "by"),
    [(("given", "beta", 0), "-1"), (("given", "beta", 1), "1/9"), (("proof", "cosines"), "1/5"), (("shown",), "so"),
     (("proof", "pull"), "1"), (("proof", "near"), "0"), (("proof", "near_from"), "2/3")],
)  # fmt: skip
def test_the_proof_of_a_claim_with_another_number_is_refused(
    at: Place, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are refused without a look at boxes, which take seconds."""
    monkeypatch.setattr(triples, "cover", lambda start, holds, units: None)
    assert check(GAP.data).startswith(f"{GAP.claim} is proved, in balls")
    with pytest.raises(Refused):
        check(replaced(GAP.data, at, by))


def test_boxes_are_halved_until_all_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point at which nothing holds is found, however small its boxes are."""
    asked = []

    def short(box: Any) -> bool:
        asked.append(box[0])
        return bool(box[0][1] - box[0][0] <= Fraction(1, 4))

    COVER([(Fraction(0), Fraction(1))], short, (1,))
    assert sorted(one for one in asked if one[1] - one[0] == Fraction(1, 4)) == [
        (Fraction(k, 4), Fraction(k + 1, 4)) for k in range(4)
    ]
    monkeypatch.setattr(triples, "MOST", 200)
    with pytest.raises(Refused, match="boxes are not enough"):
        COVER([(Fraction(0), Fraction(1))], lambda box: not box[0][0] <= Fraction(1, 3) <= box[0][1], (1,))


@pytest.mark.parametrize("claim", [pytest.param(name, marks=() if name in QUICK else larger) for name in SMALL])
def test_certificates_with_another_number_are_refused(claim: str) -> None:
    data = data_of(claim)
    words, tried, refusals = check(data), 0, 0
    for at in places(data):
        before = value(data, at)
        for after in mutations(before):
            tried += 1
            try:
                found = check(replaced(data, at, after))
            except Refused:
                refusals += 1
            else:
                assert harmless(at, before, after), (at, before, after)
                assert found == words
    assert refusals > tried / 2 > 4


@pytest.mark.parametrize("claim", ["emergence/polytope/pair", "emergence/polytope/rank"])
def test_flows_with_other_steps_or_starts_are_refused(claim: str) -> None:
    data = data_of(claim)
    steps = data["proof"]["steps"]
    wrong = [
        *(replaced(data, ("proof", "steps"), steps[:k] + steps[k + 1 :]) for k in range(len(steps))),
        replaced(data, ("proof", "steps"), [*steps, steps[-1]]),
        replaced(data, ("proof", "steps", 0, 0), str(-Fraction(steps[0][0]))),
        replaced(data, ("proof", "steps", 0, 1), "0"),
        replaced(data, ("given", "tokens", 1, 0), str(Fraction(data["given"]["tokens"][1][0]) + Fraction(1, 1000))),
        replaced(data, ("given", "B", 0, 0), "2"),
        replaced(data, ("proof", "gap"), "1000"),
        replaced(data, ("proof", "order"), 3),
    ]
    for one in wrong:
        with pytest.raises(Refused):
            check(one)


def test_a_wider_ball_and_a_finer_method_prove_the_same() -> None:
    data = data_of("emergence/polytope/pair")
    for at, by in ((("proof", "end", 0, 0, 1), "1/4096"), (("proof", "order"), 18), (("proof", "bits"), 128)):
        assert check(replaced(data, at, by)) == check(data)


def test_another_claim_kind_or_version_is_refused() -> None:
    data = data_of("fw/own-cell")
    for key, by in (("claim", "fw/voronoi"), ("kind", "ball"), ("version", 2), ("shown", []), ("given", {})):
        with pytest.raises(Refused):
            check({**data, key: by})
    with pytest.raises(Refused):
        check({**data, "more": 1})


def test_the_checker_imports_nothing_of_attnflow_and_is_short() -> None:
    allowed = {"json", "sys", "fractions", "pathlib", "importlib", "itertools", "flint", "tools"}
    for path in CHECKER:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) < 200
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert {one.name.partition(".")[0] for one in node.names} <= allowed
            if isinstance(node, ast.ImportFrom):
                assert node.module is not None
                assert node.module.partition(".")[0] in allowed
                assert not node.module.startswith("tools") or node.module.startswith("tools.checker")


def test_exact_certificates_need_one_file_and_no_package(tmp_path: Path) -> None:
    """The file runs by itself, in an isolated Python, and refuses a changed number."""
    file = tmp_path / "exact.py"
    file.write_text((ROOT / "tools/checker/exact.py").read_text(encoding="utf-8"), encoding="utf-8")
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported == {"json", "sys", "fractions", "pathlib"}
    exact = [str(path) for name, path in names().items() if data_of(name)["kind"] == "exact"]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(replaced(data_of("fw/own-cell"), ("given", "tokens", 0, 0), "1")), encoding="utf-8")
    command = [sys.executable, "-I", "-S", str(file)]
    good, bad = (subprocess.run([*command, *one], capture_output=True, text=True, check=False)
                 for one in (exact, [str(wrong)]))  # fmt: skip
    assert (good.returncode, good.stdout.count("is refuted, in fractions")) == (0, len(exact))
    assert bad.returncode != 0
    assert "Refused" in bad.stderr


def test_the_command_says_one_sentence_for_each_file(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({**data_of("fw/own-cell"), "version": 7}), encoding="utf-8")
    files = [str(names()["fw/own-cell"]), str(wrong), str(tmp_path / "missing.json")]
    ran = subprocess.run(
        [sys.executable, str(CHECKER[0]), *files], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    lines = ran.stdout.splitlines()
    assert (ran.returncode, len(lines)) == (1, 3)
    assert lines[0].startswith("fw/own-cell is refuted, in fractions: ")
    assert "is refused" in lines[1]
    assert "is refused" in lines[2]


@pytest.mark.parametrize("claim", QUICK)
def test_certificates_are_made_from_witnesses(claim: str, tmp_path: Path) -> None:
    verdict = af.check(claim, **INSTANCES[claim])
    assert verdict.outcome == "violated"
    made = Witness(claim, verdict.instance, verdict, evaluations=1).certificate
    assert made == af.claims.stored(claim) == make(claim, INSTANCES[claim])
    made.save(tmp_path / "one.json")
    assert af.claims.Certificate.load(tmp_path / "one.json") == made


FLOWS = [name for name in names() if name.startswith(("emergence", "causal"))]
AT_ONCE = ("emergence/polytope/pair", "emergence/polytope/rank", "emergence/polytope-times-subspace/projected")


@pytest.mark.parametrize("claim", [pytest.param(name, marks=() if name in AT_ONCE else larger) for name in FLOWS])
def test_certificates_of_flows_are_made_again_as_they_are_kept(claim: str) -> None:
    assert make(claim, INSTANCES[claim]) == af.claims.stored(claim)


@pytest.mark.parametrize("claim", ["fw/own-cell", "fw/hull-shrinks", "localmax/lyapunov/directed"])
def test_what_search_finds_is_certified(claim: str) -> None:
    witness = af.search(claim, evaluations=200)
    assert witness is not None
    assert check(json.loads(json.dumps(witness.certificate.data))).startswith(f"{claim} is refuted")


def test_statements_of_lean_are_those_that_are_shown() -> None:
    for claim in names():
        found = af.claims.stored(claim)
        if found.kind == "ball":
            with refused("is in balls"):
                found.lean()
        else:
            lines = [line for line in found.lean().splitlines() if ": ℚ)" in line]
            assert len(lines) == len(found.shown)


# Instances that refute nothing, or not by an argument that certificates know, and what is said of them.
SQUARE, LINE = np.eye(2), [[6.0, 0.0], [-6.0, 0.0]]
NO_PROOF: list[tuple[str, dict[str, Any], str]] = [
    ("fw/own-cell", {"tokens": [[1.0], [-1.0]]}, "no vertex that hears itself has a tie"),
    ("fw/cluster-rate", {"tokens": [[1.0], [-1.0]], "B": [[2.0]], "steps": 3}, "for B = -I alone: leave B out"),
    ("fw/cluster-rate", {"tokens": [[1.0], [-1.0]], "steps": 3}, "no token is above the bound"),
    ("fw/hull-shrinks", {"tokens": [[1.0], [-1.0]], "V": [[0.5]], "steps": 3}, "no token leaves the hull"),
    ("fw/exponential-rate", {"tokens": [[1.0], [-1.0], [0.0]], "gamma": "1 / (t + 2)"}, "a token has two leaders"),
    ("fw/exponential-rate", {"tokens": [[1.0], [-1.0]], "gamma": "1 / (t + 2)"}, "all tokens are vertices"),
    (
        "fw/exponential-rate",
        {"tokens": [[1.0], [2.0]], "gamma": "1 / (t + 2)"},
        "token 0 is a vertex that hears",
    ),
    ("fw/exponential-rate", {"tokens": [[1.0], [-1.0]], "gamma": 0.5}, "for steps a / .t . b. alone"),
    ("localmax/lyapunov/directed", {"tokens": [[1.0], [-1.0]], "delta": 1.0, "gamma": 0.5, "steps": 2}, "never rises"),
    ("sphere/collapse/every-start", {"tokens": [[1.0, 0.0], [0.6, 0.8]]}, "fractions do not show that its tokens rest"),
    ("fw/collapse-to-origin", {"tokens": [[1.0], [-1.0]], "steps": 3}, "0 stays in the hull"),
    (
        "fw/collapse-to-origin",
        {"tokens": [[0.0], [1.5]], "beta": 0.5, "gamma": 0.5, "steps": 1},
        "not far enough inside",
    ),
    ("emergence/polytope/rank", {"tokens": [[6.0], [-6.0]]}, "no token is at 0 for ever"),
    ("emergence/polytope/pair", {"tokens": LINE}, "the limit may be 0"),
    ("emergence/codimension-k/b", {"tokens": LINE, "V": SQUARE}, "at most three limits are proved to differ"),
    ("emergence/codimension-k/b", {"tokens": LINE, "V": [[1.0, 0.5], [0.0, 1.0]]}, "for a diagonal V >= 0 alone"),
    ("emergence/codimension-k/a", {"tokens": [[0.0, 0.0625], [0.0, 0.125]], "V": SQUARE}, "not locked to leaders"),
    ("emergence/boolean/doubly-exponential", {"tokens": [[0.25], [0.5]]}, "another token is not far out at the start"),
]


@pytest.mark.parametrize(("claim", "instance", "words"), NO_PROOF)
def test_what_refutes_nothing_has_no_certificate(claim: str, instance: dict[str, Any], words: str) -> None:
    with refused(f"no certificate is made of this instance: .*{words}|certificates of {claim} are made .*{words}"):
        make(claim, instance)


def test_a_token_that_does_not_escape_in_time_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow of the stored certificate, which escapes later, ended after a hundredth of its time."""
    whole = af.enclosures.enclose
    monkeypatch.setattr(
        "attnflow.claims.certificates.flows.enclose",
        lambda x, law, motion, until, **named: whole(x, law, motion, 0.01, **named),
    )
    with refused("the extreme token does not escape to both sides"):
        make("emergence/boolean/doubly-exponential", INSTANCES["emergence/boolean/doubly-exponential"])


@pytest.mark.parametrize(
    ("word", "defined"),
    [("mirror", "A mirror\nchanges the signs"), ("lock", "A lock is a proof"), ("escape", "A token escapes if")],
)
def test_the_page_defines_its_words_where_it_first_uses_them(word: str, defined: str) -> None:
    """Only the name of a key or the heading of the paragraph stands before the definition."""
    before, found, _ = (ROOT / "docs/certificates.md").read_text(encoding="utf-8").partition(defined)
    assert found
    plain = before.replace("`mirrors`", "").replace("**Locks.**", "").replace("**Escapes.**", "")
    assert word not in plain.lower().replace("block", "")


def test_bad_certificates_are_refused_in_a_sentence(tmp_path: Path) -> None:
    text = tmp_path / "text.json"
    text.write_text("no", encoding="utf-8")
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    for path in (text, other):
        with refused("is no certificate"):
            af.claims.Certificate.load(path)
    with refused("cannot be written"):
        af.claims.stored("fw/own-cell").save(tmp_path / "nowhere" / "one.json")
    with refused("there is no certificate"):
        af.claims.Certificate.load(tmp_path / "none.json")
    with refused("no certificate of 'fw/cells' is kept"):
        af.claims.stored("fw/cells")
    with refused("no certificates of 'fw/cells' are made"):
        make("fw/cells", {"tokens": [[1.0], [-1.0]]})
    with refused("keep the order"):
        make("neuralode/controllability", {"tokens": [[-1.0], [1.0]], "targets": [[2.0], [3.0]]})


def test_a_violation_in_floats_is_proved_or_the_reason_is_told() -> None:
    angles = 2 * np.pi * np.arange(11) / 11
    x = 10 * np.column_stack([np.cos(angles), np.sin(angles)])
    claim = "emergence/codimension-k/b"
    verdict = af.check(claim, tokens=x, V=np.eye(2), until=13.0)
    assert (verdict.outcome, verdict.certified) == ("violated", "float")
    proved = af.claims.certify(verdict)
    assert proved.certified == "ball"
    assert proved.because.endswith("proved: rescaled tokens tend to 11 different points")
    assert check(json.loads(json.dumps(make(claim, verdict.instance).data))).endswith("11 different points.")
    turned = np.array([[1.0, 0.1], [0.0, 0.9]])
    oblique = af.check(claim, tokens=x @ turned.T, V=np.eye(2) + 1e-9 * turned, until=13.0, certify=True)
    if oblique.outcome == "violated":
        assert "it is not proved: certificates of" in oblique.because
    assert af.claims.certify(proved) == proved
    with refused("expected what check or simulate returns"):
        af.claims.certify(3)  # type: ignore[call-overload]
    with refused("certificates are about the model of the claim"):
        af.check(claim, tokens=x, V=np.eye(2), law=af.Hardmax(), certify=True)


@larger
@pytest.mark.parametrize("claim", [name for name in INSTANCES if name not in SMALL])
def test_some_numbers_of_long_flows(claim: str) -> None:
    """Some numbers of the instance and some lengths of steps, changed, are refused."""
    data = data_of(claim)
    chosen = [at for at in places(data) if at[0] == "given" or ("steps" in at and at[-1] == 0)]
    for at in chosen[:: len(chosen) // 4]:
        with pytest.raises(Refused):
            check(replaced(data, at, mutations(value(data, at))[0]))


@pytest.mark.parametrize("name", ["emergence/polytope/pair", "causal/two-points"])
def test_a_check_leaves_the_precision_of_balls_alone(name: str) -> None:
    from flint import ctx

    before = ctx.prec, ctx.cap
    check(af.claims.stored(name).data)
    assert (ctx.prec, ctx.cap) == before


def test_weights_leave_out_points_that_say_nothing_new() -> None:
    """Two copies of one point have no weights of their own; the third point is needed."""
    points, p = np.array([[0], [0], [1]], dtype=object) * Fraction(1), np.array([Fraction(1, 2)])
    assert weights(points, p) == [Fraction(1, 2), Fraction(0), Fraction(1, 2)]
