"""The page "From a laptop to a cluster" lists what there is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import attnflow as af
from attnflow.measure.by_name import KNOWN

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")


def test_measurements_are_listed_with_their_options() -> None:
    assert af.measure.__all__
    table = PAGE.partition("| name | options |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1:3] for row in table.splitlines() if row.startswith("| `")]
    listed = {name.strip(" `"): re.findall(r"\w+", options) for name, options in rows}
    assert listed == {name: list(inspect.signature(found).parameters)[1:] for name, found in KNOWN.items()}
