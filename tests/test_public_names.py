"""Public names stay: what a release had is there, warns that it will go, or is on the list of what has gone."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

import attnflow as af
from tools.public_names import public_names

# The public names of each release, written when it was made.
RELEASES = sorted(Path(__file__).with_name("releases").glob("*.txt"))
PAGE = Path(__file__).parents[1] / "docs" / "releases.md"


def listed(title: str) -> set[str]:
    """Return the names in the first column of a table of the page on releases."""
    table = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([\w.]+)`", table, re.MULTILINE))


def found(name: str) -> object:
    """Return what a dotted name stands for."""
    one: object = af
    for part in name.split("."):
        one = getattr(one, part)
    return one


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_no_public_name_is_lost_silently(release: Path) -> None:
    names = set(release.read_text(encoding="utf-8").split())
    assert len(names) > 50
    assert names - public_names() <= listed("Deprecated names") | listed("Names that have gone")


def test_deprecated_names_still_work_and_say_so() -> None:
    names = listed("Deprecated names")
    assert names
    for name in names:
        with pytest.warns(DeprecationWarning, match="will be gone in the next release"):
            assert callable(found(name))


def test_names_that_have_gone_are_gone() -> None:
    names = listed("Names that have gone")
    assert names
    assert not names & public_names()


def test_no_public_name_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in public_names():
            found(name)


def test_the_names_of_this_release_are_written_down() -> None:
    """When the version changes, its names are stored: `tests/releases` has the list of each release."""
    assert af.__version__ in {path.stem for path in RELEASES}
