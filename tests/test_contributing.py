"""What README and CONTRIBUTING promise: both are short, their commands exist, the law of the page works as a file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a page in a language."""
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


def section(title: str) -> str:
    """Return a section of CONTRIBUTING."""
    return CONTRIBUTING.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_readme_is_short_and_has_what_a_visitor_needs() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert README.count("![") == 1
    assert any("![" in line for line in lines[:15])
    commands = [line.split("#")[0].strip() for block in blocks(README, "sh") for line in block.splitlines()]
    assert commands == ["make demo", "make test"]
    first = blocks(README, "python")[0]
    assert len([line for line in first.splitlines() if line]) <= 5
    assert "git clone" in README


def test_what_the_checks_call_is_in_the_readme() -> None:
    called = re.findall(r"\bmake ([\w-]+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert called
    assert all(f"make {target}" in README for target in called)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_every_target_of_make_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"(?:`|^|&& )make ([a-z][\w-]*)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named <= set(re.findall(r"(?m)^([\w-]+):", MAKEFILE))


def test_the_map_names_folders_that_exist_and_leaves_out_none() -> None:
    table = section("The map of the house")
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = set()
    for row in rows:
        first, *others = re.findall(r"`([^`]+)`", row)
        named |= {first, *(f"{Path(first).parent.as_posix()}/{other}".removeprefix("./") for other in others)}
    assert all((ROOT / folder).is_dir() for folder in named)
    rooms = {path.parent.name for path in (ROOT / "src" / "attnflow").glob("*/__init__.py")}
    assert rooms - {Path(folder).name for folder in named} == {"core"}


def test_the_templates_begin_with_what_a_code_host_asks_for() -> None:
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) == 3
    for path in templates:
        head = re.match(r"---\n((?:\w+: .+\n)+)---\n", path.read_text(encoding="utf-8"))
        assert head is not None
        assert {"name", "about"} <= set(re.findall(r"(?m)^(\w+):", head[1]))


def test_the_law_and_the_claim_are_as_short_as_the_page_says() -> None:
    def lines(code: str) -> int:
        """Count lines of code: without documentation, imports and blank lines."""
        bare = re.sub(r'(?s)""".*?"""', "", code)
        return sum(bool(line.strip()) and not line.startswith(("import ", "from ")) for line in bare.splitlines())

    assert lines(blocks(section("A law in 20 lines"), "python")[0]) <= 20
    assert lines(blocks(section("A claim in 30 lines"), "python")[0]) <= 30


def test_the_law_and_the_claim_of_the_page_work_as_files_of_the_library(tmp_path: Path) -> None:
    """The test of the law passes, style is right, the command line knows both, and the row of the models is written."""
    # Modules that Python has compiled are copied with their times, so that no process compiles them anew; files that
    # other processes are writing beside them are not, nor the kernels.
    copied = shutil.ignore_patterns("*.pyc.*", "*.nb?", "tmp*", "*.so", "page")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=copied)
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=copied)
    for name in ("pyproject.toml", "docs/models.md", "docs/reference/laws.rst", "docs/reference/motions.rst"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    law, test = blocks(section("A law in 20 lines"), "python")
    claim = blocks(section("A claim in 30 lines"), "python")[0]
    claims = tmp_path / "src" / "attnflow" / "claims" / "__init__.py"
    claims.write_text(claims.read_text(encoding="utf-8").replace("    causal,\n", "    causal,\n    diameters,\n", 1))
    files = {"src/attnflow/laws/laplace.py": law, "tests/laws/test_laplace.py": test}
    files |= {"src/attnflow/claims/diameters.py": claim}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")

    def run(*words: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}",
            "PYTEST_ADDOPTS": "",
        }
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "3 passed" in run("pytest", "-q", "-p", "no:cacheprovider", *files)
    run("ruff", "check", "--no-cache", *files)
    run("ruff", "format", "--no-cache", "--check", *files)
    (asked,) = [line for line in CONTRIBUTING.splitlines() if line.startswith("attnflow simulate")]
    said = run("attnflow", *asked.split()[1:-2])
    assert "laplace" in said.lower()
    assert "holds" in run("attnflow", "check", "diameters/shrink")
    run("tools.models_page", "docs/models.md", "docs/reference/laws.rst", "docs/reference/motions.rst")
    assert "| `Laplace(h)` | `laplace` |" in (tmp_path / "docs/models.md").read_text(encoding="utf-8")
    assert "attnflow.Laplace" in (tmp_path / "docs/reference/laws.rst").read_text(encoding="utf-8")
