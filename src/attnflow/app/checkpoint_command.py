"""`attnflow checkpoint`: the heads of a trained model beside null models, as a table and as a picture."""

from __future__ import annotations

from typing import Any

# This text is there before anything else is loaded: `attnflow --help` is to be quick.
CHECKPOINT = """\
Look at the heads of a trained transformer: how far each is from the hypotheses of theorems on clusters, layer by layer,
beside null models whose weights are random. A folder with config.json and weights (.safetensors or .bin), or a file of
weights; .gguf files need no config.json. BERT, ALBERT, GPT-2, GPT-NeoX (Pythia) and Llama are known.

  attnflow checkpoint all-MiniLM-L6-v2                 a row for each layer, and what its columns are
  attnflow checkpoint all-MiniLM-L6-v2 -o heads.svg    the same, drawn with a dot for each head
  attnflow checkpoint all-MiniLM-L6-v2 --layer 3       a row for each head of layer 3
  attnflow checkpoint all-MiniLM-L6-v2 --text "Tokens listen to each other."   with entropies of attention
  attnflow checkpoint pythia-70m --ids 5,12,7          the same by ids, for models without a tokenizer
  attnflow checkpoint SmolLM2.gguf --seeds 10          ten seeds of each null model

Null models: "gaussian" weights with the norms of the trained ones, and their entries "shuffled".
"""


def show(given: dict[str, Any]) -> int:
    """Print the table of a checkpoint, or of one of its layers, and draw it if asked."""
    from attnflow import checkpoints, figures
    from attnflow.core.inputs import InputError, whole

    seeds = range(whole(given["seeds"], "--seeds", least=1))
    if given["output"] is not None:
        figures.destination(given["output"])
    model = checkpoints.load(given["path"])
    if given["layer"] is not None:
        whole(given["layer"], "--layer", least=0, most=len(model) - 1)
    if given["text"] is not None and model.tokenizer is None:
        raise InputError(f"{model.name} has no tokenizer.json: give --ids, such as --ids 1,2,3, in place of --text")
    what = given["text"] if given["ids"] is None else _ids(given["ids"])
    table = model.hypotheses(what, nulls=_nulls(given["nulls"]), seeds=seeds)
    if given["output"] is not None:
        figures.save(figures.hypotheses(table), given["output"])
    print(table if given["layer"] is None else table.of_layer(given["layer"]))
    return 0


def _ids(said: str) -> list[int]:
    """Return the ids in a list of numbers.

    >>> _ids("5, 12,7")
    [5, 12, 7]
    """
    from attnflow.core.inputs import InputError

    try:
        return [int(one) for one in said.split(",")]
    except ValueError:
        raise InputError(f"--ids is {said!r}, expected whole numbers, such as --ids 1,2,3") from None


def _nulls(said: str | None) -> tuple[str, ...]:
    """Return the names of null models; which of them exist is checked where they are made.

    >>> _nulls(None), _nulls("none"), _nulls("shuffled,")
    (('gaussian', 'shuffled'), (), ('shuffled',))
    """
    if said is None:
        return ("gaussian", "shuffled")
    return () if said == "none" else tuple(name.strip() for name in said.split(",") if name.strip())
