"""Loading a checkpoint: its configuration, its family, its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from attnflow.checkpoints.architectures import FAMILIES, Architecture, LlamaGGUF, Settings, gguf_settings
from attnflow.checkpoints.checkpoint import Blocks, Checkpoint
from attnflow.checkpoints.files import Tensors, open_tensors
from attnflow.checkpoints.texts import tokenizer_of, tokenizer_of_gguf
from attnflow.core.inputs import InputError, location, quoted

LARGEST_CONFIG = 1 << 20
# Where the header of a GGUF file says its family.
GGUF_FAMILY = "general.architecture"


def load(path: Any) -> Checkpoint:
    """Load a trained model: BERT, ALBERT, GPT-2, GPT-NeoX (Pythia) or Llama, from a folder or a file of weights.

    A folder is one as models are published: config.json, weights as .safetensors or .bin, in one file or in parts, and
    perhaps a tokenizer.json. For a file of weights, config.json is looked for beside it; a .gguf file, of Llama alone,
    has it inside. Nothing is loaded of a model that attnflow would not compute exactly: where the family is unknown, a
    tensor is missing, unknown or of another shape than the configuration says, or a setting asks for something else.

    Only headers are read at first. Weights stay in the file, in their precision, and are read when a layer is used.

    Examples
    --------
    A small GPT-2 with random weights, as a model is published:

    >>> import json, tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import attnflow as af
    >>> from safetensors.numpy import save_file
    >>> shapes = {"wte": (9, 4), "wpe": (8, 4), "ln_f": (4,), "h.0.ln_1": (4,), "h.0.attn.c_attn": (4, 12),
    ...           "h.0.attn.c_proj": (4, 4), "h.0.ln_2": (4,), "h.0.mlp.c_fc": (4, 16), "h.0.mlp.c_proj": (16, 4)}
    >>> rng = np.random.default_rng(0)
    >>> tensors = {f"{name}.weight": rng.standard_normal(shape) for name, shape in shapes.items()}
    >>> tensors |= {f"{name}.bias": np.zeros(shape[-1]) for name, shape in shapes.items() if name[0] != "w"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     config = {"model_type": "gpt2", "n_embd": 4, "n_layer": 1, "n_head": 2, "n_positions": 8, "vocab_size": 9}
    ...     _ = Path(folder, "config.json").write_text(json.dumps(config))
    ...     save_file(tensors, f"{folder}/model.safetensors")
    ...     model = af.checkpoints.load(folder)
    >>> run = model.run([3, 1, 4, 1, 5])  # or a text, where the folder has a tokenizer.json
    >>> run.tokens.shape, run.law.weights(run.seen(0), 0).shape  # two states, attention of two heads
    ((2, 5, 4), (2, 5, 5))
    >>> model.layers[0].heads[1].B.shape  # scores are <B x_i, x_j>
    (4, 4)
    """
    if not isinstance(path, str | PathLike) or not str(path):
        raise InputError(f"path is {quoted(path)}, expected the folder of a model, or its file of weights: give one")
    given = location(path, "path")
    tensors = open_tensors(given)
    folder, name = given if given.is_dir() else given.parent, given.resolve().name
    if tensors.format == "gguf":
        return _of_gguf(tensors, name, given)
    config = _config(folder / "config.json")
    family = _family(config, tensors, folder)
    model = FAMILIES[family](tensors, Settings(config, "config.json"))
    return checkpoint_of(model, name, config, tokenizer_of(folder))


def _of_gguf(tensors: Tensors, name: str, given: Path) -> Checkpoint:
    """Return a checkpoint whose configuration is in the header of its file."""
    family = tensors.metadata.get(GGUF_FAMILY)
    if not isinstance(family, str) or family != LlamaGGUF.family:
        raise InputError(
            f"{name} holds a model of the family {quoted(family)}, expected {LlamaGGUF.family} in a GGUF file: give "
            "the model as .safetensors, with its config.json"
        )
    settings = gguf_settings(tensors.metadata, name)
    model = LlamaGGUF(tensors, settings)
    folder, file = (given, next(given.glob("*.gguf"))) if given.is_dir() else (given.parent, given)
    tokenizer = tokenizer_of(folder) or tokenizer_of_gguf(file, tensors.metadata)
    return checkpoint_of(model, name, dict(settings.values), tokenizer)


def checkpoint_of(model: Architecture, name: str, config: dict[str, Any], tokenizer: Path | None) -> Checkpoint:
    """Return the checkpoint of a model whose tensors have been checked."""
    return Checkpoint(
        name,
        model.family,
        config,
        Blocks(model.block, model.layers),
        model.embed,
        dimension=model.d,
        vocabulary=model.vocabulary,
        positions=model.positions,
        entry=model.entry(),
        final=model.final(),
        tokenizer=tokenizer,
    )


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path} does not exist: put the configuration of the model beside its weights")
    if path.stat().st_size > LARGEST_CONFIG:
        raise InputError(f"{path} has more than {LARGEST_CONFIG} bytes: give the configuration of a model")
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, RecursionError, OSError):
        raise InputError(f"{path} is not JSON: give the configuration of a model") from None
    if not isinstance(config, dict):
        raise InputError(f"{path} holds {quoted(config)}, expected names with values")
    return config


def _family(config: Mapping[str, Any], tensors: Tensors, folder: Path) -> str:
    """Return the family of a model, by its configuration or, where that is too old to say it, by its tensors."""
    known = ", ".join(FAMILIES)
    named = config.get("model_type")
    if named is None:
        marked = [name for name, one in FAMILIES.items() if {one.own_name(tensor) for tensor in tensors} >= {one.mark}]
        if len(marked) != 1:
            raise InputError(f"{folder / 'config.json'} does not say model_type: add it, one of {known}")
        return marked[0]
    if not isinstance(named, str) or named not in FAMILIES:
        raise InputError(f"{folder} holds a model of the family {quoted(named)}, expected one of {known}")
    return named
