"""Run notebooks and store their outputs, without anything that tells machines, users or times.

python -m tools.notebooks docs/notebooks/*.ipynb
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# What a stored notebook says of its language: no version of Python, and no name of an environment.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path, timeout: int = 300) -> dict[str, Any]:
    """Return a notebook as plain data, run from top to bottom in an empty folder by a kernel of its own."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with TemporaryDirectory() as folder:
        # A kernel with settings of its own: those of the user could change what pictures look like.
        environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
        environment |= {"IPYTHONDIR": folder, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
        resources = {"metadata": {"path": folder}}
        # What a cell prints may come in pieces: how many depends on the machine.
        client = NotebookClient(
            notebook, timeout=timeout, kernel_name="python3", resources=resources, coalesce_streams=True
        )
        client.execute(env=environment)
    return cleaned(json.loads(nbformat.writes(notebook)))  # type: ignore[no-untyped-call]


def cleaned(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook whose cells have only their source, their number and what they show.

    >>> cell = {"cell_type": "code", "id": "x", "metadata": {"timed": 3}, "source": "1", "outputs": []}
    >>> cleaned({"cells": [cell], "metadata": {"user": "ada"}, "nbformat": 4, "nbformat_minor": 5})["cells"]
    [{'cell_type': 'code', 'id': 'cell-0', 'metadata': {}, 'source': '1', 'outputs': []}]
    """
    cells = [cell | {"id": f"cell-{k}", "metadata": {}} for k, cell in enumerate(notebook["cells"])]
    for cell in cells:
        if "outputs" in cell:
            cell["outputs"] = [_output(one) for one in cell["outputs"] if _text_of(one, "stderr") is None]
    return notebook | {"cells": cells, "metadata": METADATA}


def _output(one: dict[str, Any]) -> dict[str, Any]:
    """Return an output with one form of what it shows: a picture, or text."""
    if "data" not in one:
        return one
    form = next(form for form in ("image/png", "text/plain") if form in one["data"])
    return one | {"data": {form: one["data"][form]}, "metadata": {}}


def smaller(picture: str) -> str:
    """Return a picture in base64 with a palette of 128 colours, about a third of its size."""
    from PIL import Image  # which Matplotlib needs

    small = BytesIO()
    with Image.open(BytesIO(b64decode(picture))) as whole:
        whole.convert("RGB").quantize(128).save(small, "PNG", optimize=True)
    return b64encode(small.getvalue()).decode()


def _text_of(one: dict[str, Any], stream: str) -> str | None:
    """Return what an output wrote to a stream; progress goes to stderr, and is not kept."""
    return "".join(one["text"]) if one["output_type"] == "stream" and one["name"] == stream else None


def texts(notebook: dict[str, Any]) -> list[list[str]]:
    """Return what each code cell of a notebook shows: texts, and the word "picture" for each picture."""
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            parts = [one["data"] if "data" in one else {"text/plain": one["text"]} for one in cell["outputs"]]
            shown.append(["picture" if "image/png" in part else "".join(part["text/plain"]) for part in parts])
    return shown


def store(path: Path) -> None:
    """Run a notebook and write it anew, with small pictures."""
    notebook = executed(path)
    for shown in [one["data"] for cell in notebook["cells"] for one in cell.get("outputs", []) if "data" in one]:
        if "image/png" in shown:
            shown["image/png"] = smaller(shown["image/png"])
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("notebook", nargs="+", type=Path)
    for path in parser.parse_args().notebook:
        store(path)
