"""From a text to the ids of its tokens, by the tokenizer that a checkpoint brings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnflow.core.inputs import InputError

WORD_PIECES = ("BertTokenizer", "BertTokenizerFast")


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


def reader(path: Path) -> Callable[[str], list[int]]:
    """Return the function from a text to its ids, with those of the tokens that a model begins and ends texts with."""
    tokenizers = _library()
    try:
        if path.suffix == ".json":
            found = tokenizers.Tokenizer.from_file(str(path))
        else:
            found = tokenizers.BertWordPieceTokenizer(str(path), lowercase=_lowercase(path.parent))
    except Exception as error:  # the library raises Exception itself
        raise InputError(f"{path} is no tokenizer ({error}): give ids in place of a text") from None
    # Files often keep the length that a model was trained with, and would cut a text or fill it up.
    found.no_padding()
    found.no_truncation()
    return lambda text: list(found.encode(text).ids)


def _lowercase(folder: Path) -> bool:
    about = json.loads((folder / "tokenizer_config.json").read_bytes())
    return about.get("do_lower_case", True) is not False


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise InputError("reading a text needs tokenizers: pip install 'attnflow[checkpoints]', or give ids") from None
    return tokenizers
