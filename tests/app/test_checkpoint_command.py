"""`attnflow checkpoint`: the table of `Checkpoint.hypotheses`, its picture, its refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attnflow as af
from attnflow.app.cli import main

FIXTURES = Path(__file__).parents[1] / "checkpoints" / "fixtures"


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_the_table_is_that_of_the_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    path = FIXTURES / "gpt2"
    table = af.checkpoints.load(path).hypotheses(seeds=[0, 1])
    assert main(["checkpoint", str(path), "--seeds", "2"]) == 0
    assert capsys.readouterr().out == f"{table}\n"
    assert main(["checkpoint", str(path), "--seeds", "2", "--layer", "1"]) == 0
    assert capsys.readouterr().out == f"{table.of_layer(1)}\n"
    assert main(["checkpoint", str(path), "--seeds", "2", "--ids", "3, 1,4"]) == 0
    with_run = af.checkpoints.load(path).hypotheses([3, 1, 4], seeds=[0, 1])
    assert capsys.readouterr().out == f"{with_run}\n" != f"{table}\n"
    assert main(["checkpoint", str(path), "--nulls", "none"]) == 0
    assert "No null models" in capsys.readouterr().out


@pytest.mark.parametrize("family", ["albert", "bert", "llama", "neox-sequential"])
def test_heads_of_every_family_are_those_of_its_matrices(family: str) -> None:
    """`B_normed` and `V` of heads, in d dimensions, have the numbers of the table; entropies are those of the run."""
    model = af.checkpoints.load(FIXTURES / family)
    ids = np.arange(6)
    table = model.hypotheses(ids, nulls=["shuffled"], seeds=[4])
    for layer in model.layers:
        for head in layer.heads:
            at = layer.index, head.index
            values = np.linalg.eigvalsh((head.B_normed + head.B_normed.T) / 2)
            assert table["plus"][at] == pytest.approx(values[values > 0].sum() / np.abs(values).sum(), abs=1e-6)
            assert table["beta_norm"][at] == pytest.approx(np.linalg.norm(head.B_normed, 2), rel=1e-6)
            assert abs(table["dominant"][at]) == pytest.approx(np.abs(np.linalg.eigvals(head.V)).max(), rel=1e-6)
    run = model.null("shuffled", seed=4).run(ids)
    entropy = af.measure.entropy(run.law, run).mean(axis=2) / np.log(6)
    np.testing.assert_allclose(table.nulls["shuffled"]["entropy"][0], entropy)


def test_the_picture_shows_every_head_and_the_nulls(tmp_path: Path) -> None:
    table = af.checkpoints.load(FIXTURES / "bert").hypotheses(np.arange(5), seeds=[0, 1])
    figure = af.figures.hypotheses(table)
    assert len(figure.axes) == 6
    drawn = {artist.get_gid(): artist for artist in figure.axes[0].get_children() if artist.get_gid()}
    assert {"heads", "mean", "band gaussian", "null shuffled"} <= set(drawn)
    np.testing.assert_allclose(drawn["heads"].get_offsets()[:, 1], table["plus"].ravel())  # type: ignore[attr-defined]
    np.testing.assert_allclose(drawn["mean"].get_ydata(), table["plus"].mean(axis=1))  # type: ignore[attr-defined]
    mean = table.nulls["shuffled"]["plus"].mean(axis=(0, 2))
    np.testing.assert_allclose(drawn["null shuffled"].get_ydata(), mean)  # type: ignore[attr-defined]
    counted = {artist.get_gid() for artist in figure.axes[4].get_children()}
    assert "heads" not in counted
    picture = tmp_path / "heads.svg"
    assert (
        main(["checkpoint", str(FIXTURES / "albert"), "--nulls", "gaussian", "--seeds", "1", "-o", str(picture)]) == 0
    )
    assert "<svg" in picture.read_text(encoding="utf-8")[:1000]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere"),
        (["bert", "--seeds", "0"], "--seeds is 0"),
        (["bert", "--layer", "99"], "--layer is 99"),
        (["bert", "--nulls", "normal"], "expected one of gaussian, shuffled"),
        (["bert", "-o", "picture.txt"], "ends in .txt"),
        (
            ["bert", "--text", "words"],
            "no tokenizer.json: give --ids, such as --ids 1,2,3, in place of --text",
        ),
        (["bert", "--ids", "1,two"], "--ids is '1,two', expected whole numbers"),
        (["bert", "--ids", "1,2000000"], "there is no token 2000000"),
    ],
)
def test_refusals_are_one_sentence(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", str(FIXTURES / arguments[0]), *arguments[1:]]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""
    assert said.err.startswith("attnflow: ")
    assert said.err.count("\n") == 1


def test_what_is_no_table_is_not_drawn() -> None:
    with pytest.raises(af.InputError, match="has no table of heads"):
        af.figures.hypotheses(3)  # type: ignore[arg-type]
