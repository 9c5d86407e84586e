"""What a release is made of: one version, minimum versions, the same bytes twice, hosted checks of what is here."""

from __future__ import annotations

import importlib.util
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from larger import larger

import attnflow as af
from tools import minimum_versions
from tools.build_twice import OF_SDIST, build_twice, unpacked

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {af.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {af.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert PROJECT["dynamic"] == ["version"]


def test_minimum_versions_are_those_of_the_project() -> None:
    lines = [minimum_versions.HEAD, *minimum_versions.minimum_versions(ROOT / "pyproject.toml")]
    assert (ROOT / "constraints-minimum.txt").read_text(encoding="utf-8").splitlines() == lines


def test_every_minimum_is_below_the_version_that_is_tested() -> None:
    def by_name(file: str) -> dict[str, tuple[int, ...]]:
        found = re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        return {name.lower(): tuple(map(int, version.strip(".").split("."))) for name, version in found}

    least, tested = by_name("constraints-minimum.txt"), by_name("constraints.txt")
    assert least
    assert all(least[name] < tested[name] for name in least)


def steps(workflow: Path) -> list[str]:
    """Return the commands of a workflow."""
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_hosted_checks_call_what_is_here(workflow: Path) -> None:
    targets = set(re.findall(r"^([\w./-]+):", MAKEFILE, re.MULTILINE))
    commands = steps(workflow)
    assert commands
    for command in commands:
        for asked in re.findall(r"\bmake ((?:\S+=(?:\"[^\"]*\"|\S*) )*)([\w./ -]+)", command):
            assert set(asked[1].split()) <= targets, command
        for tool in re.findall(r"-m (tools\.\w+)", command):
            assert importlib.util.find_spec(tool) is not None, command


def test_hosted_checks_run_every_python_that_is_promised() -> None:
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))["jobs"]["tests"]
    asked = matrix["strategy"]["matrix"]
    promised = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+", one)]
    assert asked["python"] == promised
    systems = {*asked["os"], *(one["os"] for one in asked["include"])}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_no_package_server_is_named() -> None:
    files = [*WORKFLOWS, ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".pre-commit-config.yaml"]
    assert not [file for file in files if re.search(r"https?://", file.read_text(encoding="utf-8"))]


def test_nothing_of_others_is_bundled() -> None:
    """A font or a script of others would need its licence beside it."""
    files = [file for file in (ROOT / "src").rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert {file.suffix for file in files} <= {".py", ".js", ".css", ".html", ".toml", ".json", ".typed"}
    assert not [file for file in files if ".min." in file.name]


@larger
def test_the_wheel_has_the_same_bytes_twice(tmp_path: Path) -> None:
    digests = build_twice(tmp_path)
    assert {name.rpartition(".")[2] for name in digests} == {"whl", "gz"}
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        (licence,) = (name for name in wheel.namelist() if name.endswith("/licenses/LICENSE"))
        assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_an_sdist_without_tests_is_refused(tmp_path: Path) -> None:
    tree = tmp_path / "attnflow-1"
    for name in OF_SDIST:
        (tree / name).mkdir(parents=True)
    (tree / "tests").rmdir()
    with tarfile.open(tmp_path / "one.tar.gz", "w:gz") as archive:
        archive.add(tree, tree.name)
    with pytest.raises(SystemExit, match=r"one.tar.gz has no tests: let the build include it"):
        unpacked(tmp_path / "one.tar.gz", tmp_path / "here")
