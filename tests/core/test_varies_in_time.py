"""Whether a parameter is a function of time is decided by one function."""

from __future__ import annotations

import ast
from pathlib import Path

import attnflow as af
from attnflow.core.inputs import varies_in_time
from attnflow.core.schedules import Schedule
from attnflow.laws import varies

SOURCE = Path(af.__file__).parent
# What users give as a Python function and is no parameter of a formula.
OTHER_FUNCTIONS = {
    ("enclosures/flows.py", "enough"),
    ("densities/density.py", "function"),
    ("app/sweep.py", "part"),
    ("claims/check.py", "given"),
    ("figures/movie.py", "behind"),
    ("measure/mean_field.py", "sampler"),
    ("runs/trajectory.py", "self._tokens"),
    ("runs/watch.py", "self.predicate"),
    ("sweeps/cells.py", "function"),
    ("motions/blocks.py", "self.feed_forward"),  # a layer after attention
}


def test_values_do_not_vary_and_functions_formulas_and_layers_do() -> None:
    assert varies_in_time(Schedule("1 / (t + 2)"))
    assert varies_in_time(af.Softmax(beta=[1.0, 2.0]).beta)
    assert not varies_in_time(af.Softmax(beta=2.0).beta)
    assert varies(af.Heads([af.Softmax(beta=lambda t: t + 1.0)], V=[[[1.0]]]))
    assert not varies(af.Heads([af.Softmax(beta=1.0)], V=[[[1.0]]]))
    # A feed-forward layer is a function, but of tokens.
    assert not varies(af.Flow(feed_forward=af.FeedForward(W=[[1.0]])))
    assert varies(af.Flow(feed_forward=af.FeedForward(W=lambda t: [[t]])))


def test_no_other_code_decides_it() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "callable":
                found.add((path.relative_to(SOURCE).as_posix(), ast.unparse(node.args[0])))
    assert found == {*OTHER_FUNCTIONS, ("core/inputs/over_time.py", "value")}
