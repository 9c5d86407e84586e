"""Files of tokens as the page reads them: arrays and tables that NumPy writes, JSON, and what is none of these."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from modules import importing
from numpy.lib import format as npy

Page = Any

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def module() -> Iterator[Page]:
    with importing() as page:
        yield page


READ = """async ([text, name]) => {
    const {tokensFromFile} = await import("/page/token_files.js");
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    try {
        return {rows: tokensFromFile(bytes.buffer, name)};
    } catch (error) {
        return {said: error.message};
    }
}"""


def read(page: Page, content: bytes, name: str = "tokens") -> dict[str, Any]:
    return dict(page.evaluate(READ, [base64.b64encode(content).decode(), name]))


def saved(x: Any, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    npy.write_array(file, np.asanyarray(x), version=version)
    return file.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("type", ["<f8", "<f4", "<i4", "<i8"])
def test_arrays_of_numpy_are_read_number_by_number(module: Page, type: str, order: Any, version: Any) -> None:
    for shape in ((7, 2), (1, 3), (5, 1), (4,)):
        x = np.asarray(100 * RNG.standard_normal(shape), dtype=type, order=order)
        rows = read(module, saved(x, version))["rows"]
        assert np.array_equal(np.array(rows), x.reshape(len(x), -1).astype(float))


@pytest.mark.parametrize("delimiter", [" ", ",", ";", "\t"])
@pytest.mark.parametrize("header", ["", "x y"])
def test_tables_of_numpy_are_read_number_by_number(module: Page, delimiter: str, header: str) -> None:
    for d in (1, 2, 3):
        x = RNG.standard_normal((6, d)) * 10.0 ** RNG.integers(-20, 5, (6, d))
        file = io.StringIO()
        np.savetxt(file, x, delimiter=delimiter, header=header)
        assert np.array_equal(np.array(read(module, file.getvalue().encode())["rows"]), x)


def test_tables_as_people_write_them(module: Page) -> None:
    half = [[0.5, -1.0], [2.0, 3.0]]
    for text in (
        "x,y\n.5,-1\n2.,3\n",
        "x;y\r\n0,5;-1\r\n2;3,0\r\n",
        "0,5\t-1\n2\t3",
        "# a note\n\n0.5 -1 # the first\n  2   3\n",
        '"x","y"\n"0.5","-1"\n"2","3"\n',
        "5e-1, \u22121,\n2, 3,\n",
        "\ufeff0.5,-1\n2,3",
        "[[0.5, -1], [2, 3]]",
        '{"tokens": [[0.5, -1], [2, 3]]}',
    ):
        assert read(module, text.encode()) == {"rows": half}, text
    assert read(module, b"[1, 2, 3]") == {"rows": [[1], [2], [3]]}


WIDE = "take some, or the first two principal components in Python: y = x - x.mean(0); "
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b" \n", "tokens is empty: give rows of one to three numbers"),
    "words": (b"hello\n", "tokens has no numbers"),
    "not a number": (b"1,2\n3,nan\n", "Line 2 of tokens has “nan”"),
    "first not a number": (b"nan nan\n1 2\n", "Line 1 of tokens has “nan”"),
    "a word below": (b"1,2\na,b\n", "Line 2 of tokens has “a”"),
    "ragged": (b"1,2\n3\n", "Row 2 of tokens has 1 numbers and row 1 has 2"),
    "four columns": (b"1,2,3,4\n", f"tokens has 4 columns, and at most 3 can be shown: {WIDE}"),
    "wide array": (saved(np.zeros((3, 64))), f"tokens has 64 columns, and at most 3 can be shown: {WIDE}"),
    "json": (b"[[1, 2", "tokens begins like JSON, but is not"),
    "json of null": (b"[[1, null]]", "Row 1 of tokens has null, expected finite numbers."),
    "json of texts": (b'[["1", 2]]', 'Row 1 of tokens has "1"'),
    "json of lists": (b"[[[1, 2]]]", "Row 1 of tokens has [1,2]"),
    "json of nothing": (b"{}", "tokens holds no list"),
    "json without rows": (b"[]", "tokens has no tokens"),
    "json of empty rows": (b"[[]]", "Row 1 of tokens has 0 numbers"),
    "infinite": (saved([[np.inf, 0.0]]), "Row 1 of tokens has Infinity"),
    "objects": (
        b"\x93NUMPY\x01\x00\x36\x00{'descr': '|O', 'fortran_order': False, 'shape': (2,)}\n",
        "tokens holds Python objects",
    ),
    "big-endian": (saved(np.zeros((2, 2), ">f8")), "tokens holds numbers of type >f8"),
    "with names": (saved(np.zeros(2, [("x", "<f8")])), "tokens holds numbers of type with names"),
    "a run": (saved(np.zeros((2, 2, 2))), "tokens has shape (2, 2, 2)"),
    "cut": (saved(np.zeros((9, 2)))[:-8], "tokens is damaged"),
    "header alone": (saved(np.zeros((9, 2)))[:20], "tokens is damaged"),
    "archive": (b"PK\x03\x04rest", "tokens is an archive"),
    "bytes": (b"\xff\xfe\x00\x01", "tokens is no text"),
    "many": (saved(np.zeros((40001, 2), "<f4")), "tokens has 40,001 tokens, expected at most 40,000"),
    "absurd shape": (saved(np.zeros(2)).replace(b"(2,)", b"(99999999,)"[:4] + b")"), "tokens is damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_refused_in_one_sentence(module: Page, name: str) -> None:
    content, said = BAD[name]
    answer = read(module, content)
    assert answer.get("said", "").startswith(said), answer
    assert answer["said"].endswith(".")
    assert "\n" not in answer["said"]
