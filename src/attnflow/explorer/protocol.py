"""What a worker keeps between answers, and how answers travel to the page."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, InputError
from attnflow.runs.recording import Recording, Thinning

if TYPE_CHECKING:
    from attnflow.explorer.exports import Film
    from attnflow.explorer.state import State

# A message of the server: plain data, or a header with bytes or numbers; its "type" says which numbers.
Answer: TypeAlias = dict[str, Any] | tuple[dict[str, Any], bytes | NDArray[np.floating[Any]]]

# The frames of all pages that one process serves take at most MOST_BYTES; they are counted each time a run has
# grown by COUNTED.
MOST_BYTES = 400_000_000
COUNTED = 1 << 20


@dataclass
class RunFrames(Recording):
    """The frames of one run, as far as it has come: what a recorder of `simulate` writes to.

    With `most` frames allowed, every second is dropped each time there are more, and from then on every second one that
    comes; the last is put back by `close`.
    """

    run: int
    state: State
    most: int | None = None
    precision: type[np.floating[Any]] = np.float64
    times: list[Any] = field(default_factory=list)
    frames: list[NDArray[np.floating[Any]]] = field(default_factory=list)
    # The first frame is kept.
    thinning: Thinning = field(default_factory=lambda: Thinning(seen=-1))
    newest: tuple[Any, NDArray[np.floating[Any]]] | None = None
    # Whether the run has ended.
    whole: bool = False

    @property
    def bytes(self) -> int:
        """The size of all frames, which are alike."""
        return len(self.frames) * self.frames[0].nbytes if self.frames else 0

    def append(self, times: NDArray[Any], tokens: Array) -> None:
        """Add frames; times come last, so that whoever counts times finds their frames."""
        # Copies: a stretch may be a long one of which few states are kept.
        self.newest = (times.item(-1), np.array(tokens[-1], self.precision))
        for picked in self.thinning.picks(len(times)):
            self.frames.extend(np.array(tokens[picked], self.precision))
            self.times.extend(times[picked].tolist())
        while self.most is not None and len(self.times) > self.most - 1:
            self.thinning.halve(self.frames, self.times)

    def close(self) -> None:
        """End with the last state."""
        if self.newest is not None and self.newest[0] != self.times[-1]:
            self.frames.append(self.newest[1])
            self.times.append(self.newest[0])
        self.whole = True

    def frame(self, k: int) -> tuple[Any, Array]:
        """Return the time and the tokens of the k-th frame."""
        count = len(self.times)
        if not 0 <= k < count:
            raise InputError(
                f"frame {k} was asked for, but run {self.run} has {count} so far: wait for it, or run again"
            )
        return self.times[k], self.frames[k].astype(np.float64, copy=False)

    def between(self, k: int, part: Any) -> tuple[Any, Array]:
        """Return time and tokens at a part of the way from the k-th frame to the next, as a page draws them there."""
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part < 1:
            raise InputError(f"part is {part!r:.40}, expected a number from 0, for the frame itself, to below 1")
        (t, x), motion = self.frame(k), self.state.motion
        if part == 0:
            return t, x
        after, y = self.frame(k + 1)
        between: Array = (1 - part) * x + part * y
        if motion.surface == "sphere":
            # Between opposite points there is no direction: halfway, such a token is drawn at 0.
            lengths = np.linalg.norm(between, axis=1, keepdims=True)
            between /= np.where(lengths > 0, lengths, 1.0)
        return float((1 - part) * t + part * after), between


class FrameMemory:
    """The frames of all pages of a process, counted in bytes.

    When there are too many, the runs that were looked at longest ago are dropped: a page that still shows one of them
    asks for it anew. A run under way is never dropped, but ended, if it has more than its share.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self.lock = threading.Lock()
        # The last one is the one that was used last.
        self.sessions: dict[int, Session] = {}

    @property
    def bytes(self) -> int:
        """How many there are."""
        return sum(session.bytes for session in self.sessions.values())

    def use(self, session: Session) -> None:
        """Note that a session is looked at."""
        with self.lock:
            self.sessions.pop(id(session), None)
            self.sessions[id(session)] = session

    def forget(self, session: Session) -> None:
        """Let the frames of a session go, for good."""
        with self.lock:
            self.sessions.pop(id(session), None)
        session.last = None

    def full(self, session: Session) -> bool:
        """Drop runs until the rest is not too much; say whether that of this session has to end for it."""
        with self.lock:
            idle = [one for one in self.sessions.values() if one is not session and one.last and one.last.whole]
            for one in idle:
                if self.bytes <= self.most:
                    break
                one.last = None
            running = sum(1 for one in self.sessions.values() if one.last and not one.last.whole)
            total = self.bytes
            return total > self.most and session.bytes * max(1, running) >= total


@dataclass(eq=False)
class Session:
    """What a worker keeps of a page between two messages: the frames of its last run, the movie that is being made."""

    last: RunFrames | None = None
    memory: FrameMemory = field(default_factory=FrameMemory)
    counted: int = 0
    film: Film | None = None
    # Told when a movie begins.
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def bytes(self) -> int:
        """The size of the frames."""
        return 0 if self.last is None else self.last.bytes

    def of(self, run: int) -> RunFrames:
        """Return the frames of a run, if it is still here."""
        last = self.last
        if last is None or last.run != run:
            here = "no run is here" if last is None else f"only run {last.run} is here"
            raise InputError(f"run {run} was asked for, but {here}: start it again")
        self.memory.use(self)
        return last

    def begin(self, kept: RunFrames) -> None:
        """Put the frames of a new run in the place of those before."""
        self.last, self.counted = kept, 0
        self.memory.use(self)

    def full(self) -> bool:
        """Say, between two steps of the run under way, whether its frames no longer fit in the memory for them."""
        # Counting all pages at every step would take longer than a small step.
        if self.bytes < self.counted + COUNTED:
            return False
        self.counted = self.bytes
        return self.memory.full(self)


def refused(id: int | None, sentence: str) -> dict[str, Any]:
    """Return the message that says why something was not done."""
    return {"kind": "refused", "id": id, "sentence": sentence}


def encoded(answer: Answer) -> str | bytes:
    """Return an answer as it travels: JSON text, or for one with a payload its header and the payload.

    A binary message is a little-endian uint32 L, a header of L bytes of JSON, and the payload. Spaces after the header
    bring the payload to a multiple of 8 bytes, where a page may read numbers in place: float64, or float32 as they are.

    >>> encoded({"kind": "done", "id": 9})
    '{"kind":"done","id":9}'
    >>> encoded(({"kind": "frames"}, np.array([1.0])))
    b'\\x14\\x00\\x00\\x00{"kind":"frames"}   \\x00\\x00\\x00\\x00\\x00\\x00\\xf0?'
    """
    if isinstance(answer, dict):
        return _json(answer)
    about, payload = answer
    header = _json(about).encode()
    header += b" " * (-(4 + len(header)) % 8)
    body = payload if isinstance(payload, bytes) else _numbers(payload)
    return len(header).to_bytes(4, "little") + header + body


def _numbers(payload: NDArray[np.floating[Any]]) -> bytes:
    return np.ascontiguousarray(payload, "<f4" if payload.dtype == np.float32 else "<f8").tobytes()


def _json(data: dict[str, Any]) -> str:
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False, default=lambda array: array.tolist())
    except ValueError:
        return json.dumps(_finite(data), separators=(",", ":"))


def _finite(data: Any) -> Any:
    """Return plain data with null for numbers that JSON does not have: an infinite margin, say."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, np.ndarray | np.generic):
        return _finite(data.tolist())
    return None if isinstance(data, float) and not math.isfinite(data) else data
