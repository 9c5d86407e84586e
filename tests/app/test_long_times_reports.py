"""Long times from the command line: what is printed and drawn, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import attnflow as af
from attnflow.app.cli import main

CHAIN = "simulate --cloud polygon --k 3 --law softmax --beta 4 --motion jumps --gamma 0.1 --until 100"
SPHERE = "simulate --cloud sphere --n 4 --d 2 --seed 1 --law softmax --beta 6 --motion sphere-flow --until 1e6"


def said(command: str, capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
    assert main([*command.split(), *more]) == 0
    return capsys.readouterr().out.splitlines()


def refused(command: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main([*command.split(), *more]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


def test_merges_are_those_of_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    x0 = af.tokens.sphere(n=4, d=2, seed=1)
    merges = af.measure.merge_times(af.simulate(x0, af.Softmax(beta=6.0), af.SphereFlow(rtol=1e-5), until=1e6))
    picture = tmp_path / "stairs.svg"
    lines = said(f"{SPHERE} --rtol 1e-5 --merges 0.999 --record geometric --draw {picture}", capsys)
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("merge")] == repr(merges).splitlines()
    assert picture.stat().st_size > 5000
    assert f"recorded  {2 + 20 * 6 + 0} states" in lines


def test_on_the_sphere_any_inner_product_is_a_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    """Two tokens at an inner product of -0.28 are joined from the start at -0.9, and merge at 0."""
    layers = "simulate --law softmax --beta 1 --motion sphere-layers --dt 0.1 --until 40"
    tokens = ("--tokens", "[[1, 0], [-0.28, 0.96]]")
    assert said(f"{layers} --merges -0.9", capsys, *tokens)[-1] == "merge     <no merges>"
    run = af.simulate([[1.0, 0.0], [-0.28, 0.96]], af.Softmax(beta=1.0), af.SphereLayers(dt=0.1), until=40)
    (merge,) = af.measure.merge_times(run, 0.0)
    assert said(f"{layers} --merges 0", capsys, *tokens)[-1] == f"merge     t = {merge.time} +- 0: 1 + 1, 1 left"
    assert "expected a finite number above -1" in refused(f"{layers} --merges -1", capsys, *tokens)


def test_a_split_is_not_called_a_merge(capsys: pytest.CaptureFixture[str]) -> None:
    pair = "simulate --law softmax --beta 2 --motion layers --gamma 0.1 --until 60 --merges 0.1"
    lines = said(pair, capsys, "--tokens", "[[-0.02], [0.02], [2], [-2]]")
    assert lines[-1] == "split     a cluster parted once, which is not listed"
    assert lines[-2].startswith("merge     t = ")


def test_half_a_cluster_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "clusters is 1.5, expected a whole number" in refused(f"{CHAIN} --clusters 1.5", capsys)


def test_exits_are_those_of_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = af.measure.exit_times(af.tokens.polygon(3), af.Softmax(beta=4.0), 0.1, 0.1, runs=200, seed=5)
    lines = said(f"{CHAIN} --exits 0.1 --runs 200 --seed 5", capsys)
    low, high = found.interval
    assert found.exact is not None
    assert lines[-1] == (
        f"exit      median step {found.median} of 200, 95 percent interval {low} to {high}; "
        f"exactly geometric with median {found.exact.median}"
    )
    picture = tmp_path / "exits.png"
    lines = said(f"{CHAIN} --exits 0.1 --runs 50 --draw {picture}", capsys, "--betas", "[5, 10, 20]")
    assert [line[:13] for line in lines[-4:-1]] == ["exit      bet"] * 3
    assert lines[-1].endswith("by theory 1.5")
    assert picture.exists()
    rare = af.measure.exit_probability(af.tokens.polygon(3), af.Softmax(beta=4.0), 0.1, 0.1, 20, 1000, 0)
    lines = said(f"{CHAIN} --exits 0.1 --within 20", capsys)
    assert lines[-2] == f"exit      by step 20 with probability {rare.value:.4g}"


def test_phases_are_those_of_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "phases.pdf"
    found = af.measure.phases(af.tokens.polygon(3), [2, 4], 0.1, tol=0.05, runs=20, seed=0)
    lines = said(f"{CHAIN} --phases 0.05 --runs 20 --draw {picture}", capsys, "--betas", "[2, 4]")
    assert "\n".join(lines).endswith(str(found))
    assert picture.exists()


def test_leaps_have_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(CHAIN.replace("jumps", "leaps").replace("100", "1e12"), capsys)
    assert any(line.startswith("clusters  1 (") for line in lines)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("--merges 0.999", "expected layers, leaps or an integrated flow"),
        ("--runs 10", "add exits or phases"),
        ("--within 10", "add exits"),
        ("--phases 0.05", "phases were asked for without betas"),
        ("--exits 0.1 --within 5 --betas [1,2,3]", "ask for one of them"),
        ("--exits 0.1 --masses [3,1,1]", "leave out masses"),
        ("--exits 0.1 --merges 0.9", "merges and exits were asked at once"),
        ("--exits 0.1 --draw x.png", "draw has no picture"),
        ("--exits 9", "radius is 9"),
        ("--exits -1", "exits is -1"),
        ("--exits x", "exits is 'x'"),
        ("--exits 0.1 --runs 0", "runs is 0"),
        ("--exits 0.1 --betas 3", "betas are"),
        (
            "--exits 0.1 --motion layers --gamma 0.1",
            "but the motion is --motion layers --gamma 0.1: use --motion jumps",
        ),
        ("--phases 0.05 --betas [1,2] --motion layers --gamma 1/(t+2)", "this needs a constant gamma"),
        ("--phases 0.05 --betas [1,2] --B [[2,0],[0,1]]", "leave out B and masses"),
    ],
)
def test_bad_questions_get_one_sentence(more: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence in refused(CHAIN, capsys, *more.split())


@pytest.mark.parametrize("asked", ["--phases 0.05", "--exits 0.1"])
def test_betas_need_scores_without_a_bias(asked: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = tmp_path / "run.toml"
    run.write_text(
        'until = 100\n[tokens]\ncloud = "polygon"\nk = 3\n[law]\nname = "softmax"\nbeta = 4\nb = [1.0, 0.0]\n'
        '[motion]\nname = "jumps"\ngamma = 0.1\n'
    )
    assert "without a bias, but b was given" in refused(f"simulate {run} {asked}", capsys, "--betas", "[1, 2, 3]")


def test_betas_need_softmax(capsys: pytest.CaptureFixture[str]) -> None:
    hard = CHAIN.replace("softmax --beta 4", "hardmax")
    assert "use --law softmax" in refused(f"{hard} --exits 0.1", capsys, "--betas", "[1, 2, 3]")


def test_a_file_may_ask(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'until = 100\n[tokens]\ncloud = "polygon"\nk = 3\n[law]\nname = "softmax"\nbeta = 4.0\n'
        '[motion]\nname = "jumps"\ngamma = 0.1\n[measure]\nexits = 0.1\nruns = 50\n'
    )
    assert "exactly geometric with median 47" in said(f"simulate {path}", capsys)[-1]
    path.write_text(path.read_text() + "colour = 3\n")
    assert "unknown key 'colour'" in refused(f"simulate {path}", capsys)
