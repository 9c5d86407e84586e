"""From a text to the ids of its tokens, by the tokenizer that a checkpoint brings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnflow.checkpoints.files import open_tensors
from attnflow.core.inputs import InputError, quoted

WORD_PIECES = ("BertTokenizer", "BertTokenizerFast")
# In the header of a GGUF file, the type of tokens that have a meaning of their own, as the end of a text.
CONTROL = 3
# Whether texts begin with a token that stands for their beginning.
ADDS_FIRST = "tokenizer.ggml.add_bos_token"


def tokenizer_of(folder: Path) -> Path | None:
    """Return the file of a folder that says how texts become ids: tokenizer.json, or the vocab.txt of a BERT.

    Other models have a vocab.txt too, with rules that it does not say, so that tokenizer_config.json must name BERT's.
    """
    if (folder / "tokenizer.json").is_file():
        return folder / "tokenizer.json"
    try:
        about = json.loads((folder / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    named = isinstance(about, dict) and about.get("tokenizer_class") in WORD_PIECES
    return folder / "vocab.txt" if named and (folder / "vocab.txt").is_file() else None


def tokenizer_of_gguf(path: Path, metadata: Mapping[str, Any]) -> Path | None:
    """Return the file, where its header lists pairs of bytes that are merged, with rules that are known here."""
    model, pre = (metadata.get(f"tokenizer.ggml.{key}") for key in ("model", "pre"))
    # A header may hold arrays, which are equal to nothing.
    known = isinstance(model, str) and isinstance(pre, str) and model == "gpt2" and pre in ("gpt-2", "smollm")
    return path if known else None


class Reader(NamedTuple):
    """A tokenizer: `ids` of a text, with those that a model begins and ends texts with, and the `word` of an id."""

    ids: Callable[[str], list[int]]
    word: Callable[[int], str]


def reader(path: Path) -> Reader:
    """Return the tokenizer that a file describes."""
    tokenizers = _library()
    first: list[int] = []
    try:
        if path.suffix == ".json":
            found = tokenizers.Tokenizer.from_file(str(path))
        elif path.suffix.lower() == ".gguf":
            metadata = open_tensors(path).metadata
            found = _pairs_of_bytes(tokenizers, metadata)
            if _of_type(metadata, ADDS_FIRST, bool, False):
                first = [_of_type(metadata, "tokenizer.ggml.bos_token_id", int)]
        else:
            found = tokenizers.BertWordPieceTokenizer(str(path), lowercase=_lowercase(path.parent))
    except Exception as error:  # the library raises Exception itself
        raise InputError(f"{path} is no tokenizer ({error}): give ids in place of a text") from None
    # Files often keep the length that a model was trained with, and would cut a text or fill it up.
    found.no_padding()
    found.no_truncation()
    # Some vocabularies are filled up with ids that stand for no word.
    return Reader(lambda text: first + list(found.encode(text).ids), lambda one: found.id_to_token(one) or str(one))


def _pairs_of_bytes(tokenizers: Any, metadata: Mapping[str, Any]) -> Any:
    """Return the tokenizer in the header of a GGUF file: merged pairs of bytes, as in GPT-2.

    That of SmolLM takes digits one by one.
    """
    words = _of_type(metadata, "tokenizer.ggml.tokens", list)
    kinds = _of_type(metadata, "tokenizer.ggml.token_type", np.ndarray)
    merges = [tuple(one.split(" ")) for one in _of_type(metadata, "tokenizer.ggml.merges", list)]
    found = tokenizers.Tokenizer(tokenizers.models.BPE({word: k for k, word in enumerate(words)}, merges))
    split = tokenizers.pre_tokenizers
    by_bytes = split.ByteLevel(add_prefix_space=False)
    digits = [split.Digits(individual_digits=True)] if metadata["tokenizer.ggml.pre"] == "smollm" else []
    found.pre_tokenizer = split.Sequence([*digits, by_bytes])
    found.add_special_tokens([word for word, kind in zip(words, kinds, strict=True) if kind == CONTROL])
    return found


def _of_type(metadata: Mapping[str, Any], key: str, kind: type, default: Any = None) -> Any:
    """Return the value of a key of a header, which must be of a type: most may also be arrays."""
    value = metadata.get(key, default)
    if type(value) is not kind:
        raise ValueError(f"{key} is {quoted(value)}")
    return value


def _lowercase(folder: Path) -> bool:
    about = json.loads((folder / "tokenizer_config.json").read_bytes())
    return about.get("do_lower_case", True) is not False


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise InputError("reading a text needs tokenizers: pip install 'attnflow[checkpoints]', or give ids") from None
    return tokenizers
