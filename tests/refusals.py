"""Bad input is refused in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from attnflow.core.inputs import InputError


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Expect that the block is refused in one sentence, on one line, that has these words or fits this pattern."""
    with pytest.raises(InputError) as error:
        yield
    sentence = str(error.value)
    assert words in sentence or re.search(words, sentence), sentence
    assert "\n" not in sentence
