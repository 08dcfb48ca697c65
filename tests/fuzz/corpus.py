"""The kept inputs of each target: a text file each, an input a line in base64, shortest first."""

import base64
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz.targets import Target

FOLDER = Path(__file__).parent / "corpus"
INPUT_BYTES_MAX = 4096
"""The longest input that is kept, or that a fuzzer is to make."""

APP = str(Path(__file__).parents[2] / "app")

Feature = tuple[CodeType, int, int] | tuple[str, str]
"""What an input is kept for: a step from one line to another within a piece of code, or a part of what came of it."""


def read(target: str) -> list[bytes]:
    """Give the kept inputs of a target."""
    path = FOLDER / f"{target}.txt"
    return [base64.b64decode(line) for line in path.read_text(encoding="ascii").splitlines()] if path.exists() else []


def write(target: str, inputs: Iterable[bytes]) -> None:
    """Replace the kept inputs of a target."""
    lines = [base64.b64encode(each).decode() for each in sorted(set(inputs), key=lambda each: (len(each), each))]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def distilled(run: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """Give inputs that show every feature that all of them show: few, and the shorter of two.

    Raises:
        Exception: Whatever `run` raises: an input that breaks a promise belongs to a report, not to a corpus.
    """
    known: set[Feature] = set()
    kept = []
    for each in sorted(set(inputs), key=lambda each: (len(each), each)):
        if 0 < len(each) <= INPUT_BYTES_MAX:
            features = _features(run, each)
            if not features <= known:
                known |= features
                kept.append(each)
    return _without_the_needless(run, kept)


def _without_the_needless(run: Target, kept: list[bytes]) -> list[bytes]:
    """Drop what later inputs made needless: the longest first, as long as every feature is still shown."""
    shown = {each: _features(run, each) for each in kept}
    times: dict[Feature, int] = {}
    for features in shown.values():
        for feature in features:
            times[feature] = times.get(feature, 0) + 1
    needed = []
    for each in reversed(kept):
        if any(times[feature] == 1 for feature in shown[each]):
            needed.append(each)
        else:
            for feature in shown[each]:
                times[feature] -= 1
    return needed


def _features(run: Target, data: bytes) -> set[Feature]:
    """Run one input and give what it shows: the steps between lines of `app` that it took, and what came of it."""
    features: set[Feature] = set()

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(APP):
            return None
        code, last = frame.f_code, 0

        def traced(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                features.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return traced

        return traced

    before = sys.gettrace()
    sys.settrace(called)
    try:
        came = run(data)
    finally:
        sys.settrace(before)
    return features | came
