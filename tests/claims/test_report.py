"""Verdicts as lines and reports, and the command line that prints them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.app.cli import main
from attnflow.claims import Margins, Paper, Setting, report
from attnflow.claims.claim import PROVED, REGISTER, STATUSES
from attnflow.claims.witness import Witness, plain


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.strip().splitlines()


def test_one_line_per_claim_of_a_paper(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert main(["check", "hardmax", "--json", str(path)]) == 0
    ids = [claim.id for claim in af.claims.all() if claim.id.startswith("hardmax/")]
    out = lines(capsys)
    assert [line.split()[0] for line in out] == ids
    assert all("instances" in line and line.endswith(" s") for line in out)
    data = json.loads(path.read_text())
    assert [row["claim"] for row in data["claims"]] == ids
    assert data["seed"] == 0
    assert set(data["versions"]) >= {"attnflow", "numpy"}


@pytest.mark.parametrize(
    ("given", "first", "later"),
    [
        (["fw/collapse-to-origin", "--tokens", "[[-0.5], [1.5]]", "--steps", "5"], "collapsing to the origin",
         "some point within the initial convex hull"),
        (["fw/exponential-rate", "--tokens", "[[1], [-1], [0.5]]", "--gamma", "1 / (t + 2)"], "at least exponentially",
         "under a step-size bounded away from zero"),
    ],
)  # fmt: skip
def test_both_wordings_of_a_paper_stand_beside_a_claim(
    given: list[str], first: str, later: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *given]) == 0
    out = capsys.readouterr().out
    note = af.claims.get(given[0]).note
    assert note in out
    assert first in note
    assert later in note
    docs = Path(__file__).parents[2] / "docs"
    for page in ("claims/fw.md", "papers/frank_wolfe.md"):
        text = " ".join((docs / page).read_text().split())
        assert first in text
        assert later in text


def test_a_report_replays() -> None:
    row = next(report.checked([af.claims.get("fw/hull-shrinks")], seed=3))
    data = json.loads(json.dumps(row.data, allow_nan=False))
    again = af.check(data["claim"], **data["instance"])
    assert again.outcome == data["outcome"] == "violated"
    assert again.margin == data["margin"]
    assert list(again.where or ()) == data["where"]


def test_the_printed_theorem_is_violated_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["check", "fw/cluster-rate", "--tokens", "[[3], [-1]]", "--steps", "600"]) == 0
    )  # it is false as printed
    out = lines(capsys)
    assert "violated" in out[0]
    assert "exact" in out[0]
    assert "fails first at step 2" in out[1]


def test_tokens_and_forms_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    square = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.25]])
    np.savetxt(tmp_path / "square.csv", square, delimiter=",")
    np.save(tmp_path / "B.npy", np.eye(2))
    given = ["--tokens", str(tmp_path / "square.csv"), "--B", str(tmp_path / "B.npy")]
    assert main(["check", "fw/voronoi", *given]) == 0
    assert "holds" in lines(capsys)[0]


def test_other_parameters_by_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "fw/exit-time", "--beta", "2", "--set", "k=4", "--set", "runs=200"]) == 0
    assert "statistical" in lines(capsys)[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "fw/nope"], "no claim 'fw/nope'"),
        (["check", "all", "--tokens", "[[1]]"], "an instance belongs to one claim"),
        (["check", "fw/voronoi", "--tokens", "missing.csv"], "not a file"),
        (["check", "fw/voronoi", "--set", "eps"], "expected a name and a value"),
        (["check", "fw/voronoi", "--set", "eps=1", "--tokens", "[[1, 2]]"], "has no parameter 'eps'"),
        (["check", "fw/voronoi", "--tokens", "[[1, 2]]", "--B", "[[1]]"], "by"),
        (["check", "fw/cluster-rate", "--steps", "5"], "needs tokens"),
        (["search", "fw"], "no claim 'fw'"),
        (["search", "fw/cells", "--evaluations", "0"], "evaluations"),
        (["search", "fw/cells", "--seconds", "-1"], "seconds"),
    ],
)
def test_questions_that_make_no_sense(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_search_prints_a_witness_and_python_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "fw/own-cell", "--evaluations", "300"]) == 0
    out = capsys.readouterr().out
    assert "refuted, certified exact" in out
    snippet = out.split("replay:")[1]
    exec(snippet, {})
    assert "outcome='violated'" in capsys.readouterr().out


def test_search_says_when_it_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "fw/cells", "--evaluations", "20"]) == 0
    assert "no counterexample found" in capsys.readouterr().out


@pytest.fixture
def false_theorem() -> Any:
    """A claim that says it is proved, and is false: layers of softmax never move a token."""
    paper = Paper("test", "N. N.", "On nothing", "0000.00000")
    setting = Setting(
        {"tokens": ..., "steps": 2},
        lambda given: (af.Softmax(), af.Layers(gamma=0.5)),
        lambda rng, k: {"tokens": rng.standard_normal((3, 2))},
        samples=3,
    )

    @paper.claim("rest", "nowhere", PROVED, setting, "Tokens never move.")
    def rest(e: af.claims.Experiment) -> Margins:
        """Every token after every step."""
        return Margins("x^{t+1} = x^t", -np.abs(np.diff(e.states, axis=0)).max(axis=2), e.times[:-1], 1e-12)

    yield af.claims.get("test/rest")
    del REGISTER["test/rest"]


def test_the_exit_status_tells_that_a_proved_claim_is_violated(false_theorem: Any) -> None:
    assert main(["check", "test/rest"]) == 1
    assert main(["check", "test"]) == 1
    assert main(["check", "test/rest", "--tokens", "[[1], [2]]"]) == 1
    assert main(["search", "test/rest", "--evaluations", "50"]) == 1


def test_two_claims_cannot_share_an_id(false_theorem: Any) -> None:
    claim = false_theorem.paper.claim("rest", "", PROVED, false_theorem.setting, "Tokens stay.")
    with refused("already"):
        claim(lambda e: false_theorem.conclusion(e))
    # The same definition, run again, takes its own place.
    claim(false_theorem.conclusion)
    assert af.claims.get("test/rest").statement == "Tokens stay."


def test_lines_and_data_of_infinite_margins() -> None:
    claim = af.claims.get("fw/cells")
    row = report.Checked(claim, replace(af.check("fw/cells"), margin=np.inf), 0.0)
    assert row.data["margin"] is None
    assert "inf" in row.line


def test_a_snippet_is_plain_python() -> None:
    instance = {"tokens": np.array([[1.0]]), "gamma": af.Schedule("1 / (t + 2)"), "B": None, "symmetry": ({"a": (1,)},)}
    assert plain(instance)["symmetry"] == [{"a": [1]}]
    snippet = Witness("fw/cells", instance, af.check("fw/cells"), 1).snippet
    assert "tokens=[[1.0]], gamma='1 / (t + 2)'" in snippet
    assert "B=" not in snippet


def test_every_claim_is_complete() -> None:
    for claim in af.claims.all():
        assert claim.status in STATUSES
        assert len(claim.statement) > 30
        assert claim.how, f"{claim.id} does not say how it is checked"
        assert claim.repair is None or af.claims.get(claim.repair).status != "false as printed"
