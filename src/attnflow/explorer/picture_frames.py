"""Pictures that a page sends: the only binary messages that it may send, and how they are read.

A message is a little-endian uint32 L, a header of L bytes of JSON, and the file of a picture, as the server's own are.
Nothing in it is trusted: the picture must have a known format and the size that was agreed on before it is unpacked.
"""

from __future__ import annotations

import io
import json
from base64 import b64decode, b64encode
from binascii import Error
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError

# What a picture is sent for, and the bytes of a header at most.
DO = "frame"
LONGEST_HEADER = 1000
FORMATS = ("PNG", "JPEG")
SHAPE = "a uint32, a JSON header of as many bytes such as {'id': 1, 'do': 'frame'}, and a PNG or JPEG file"


def unpacked(body: bytes) -> tuple[str, bytes]:
    """Return the header of a binary message, as text, and the file after it.

    >>> unpacked(b'\\x02\\x00\\x00\\x00{}picture')
    ('{}', b'picture')
    """
    length = int.from_bytes(body[:4], "little")
    if len(body) <= 4 or not 0 < length <= LONGEST_HEADER or len(body) <= 4 + length:
        raise InputError(f"a binary message of {len(body)} bytes is no picture, expected {SHAPE}")
    try:
        return body[4 : 4 + length].decode(), body[4 + length :]
    except UnicodeDecodeError:
        raise InputError(f"the header of a binary message is not UTF-8, expected {SHAPE}") from None


def as_order(header: str, image: bytes) -> bytes:
    """Return a header that was checked, and a picture, as the JSON text that a worker takes.

    >>> as_order('{"id": 3, "do": "frame"}', b"picture")
    b'{"id": 3, "do": "frame", "image": "cGljdHVyZQ=="}'
    """
    return json.dumps({**json.loads(header), "image": b64encode(image).decode()}).encode()


def read_picture(image: Any, width: int, height: int) -> tuple[bytes, NDArray[np.uint8]]:
    """Return the file of a picture, and its pixels (height, width, 3); refuse all else."""
    from PIL import Image

    try:
        body = b64decode(image, validate=True)
    except (TypeError, ValueError, Error):
        raise InputError("a frame has no picture: send it as a binary message") from None
    try:
        # Only the head of the file is read here.
        found = Image.open(io.BytesIO(body), formats=FORMATS)
    except Exception:
        raise InputError(f"a frame of {len(body)} bytes is no picture, expected a PNG or JPEG file") from None
    if found.size != (width, height):
        given = f"{found.size[0]} × {found.size[1]}"
        raise InputError(f"a frame has {given} pixels, expected {width} × {height} as was said of the movie")
    try:
        return body, np.asarray(found.convert("RGB"))
    except Exception:
        raise InputError("a frame is damaged or cut short, expected a whole PNG or JPEG file: send it again") from None
