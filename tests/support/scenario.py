"""The scenario format: reads `*.txt` files into scenarios, each a list of steps (tests/scenarios/README.md)."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS")
ABSENT = "<absent>"

_REFERENCE = r"\$(?P<name>[a-z]\w*)(?P<path>(?:\.[\w@-]+)*)(?:\+(?P<plus>\d+))?"
_OUTSIDE_STRINGS = re.compile(rf'(?P<string>"(?:[^"\\]|\\.)*")|{_REFERENCE}', re.DOTALL)
_ANYWHERE = re.compile(_REFERENCE)
_ENDING = re.compile(r"(?:\s+as\s+(?P<name>[a-z]\w*#?))?(?:\s+x(?P<times>\d+))?\s*$")
_BYTE = re.compile(rb"\\x([0-9a-fA-F]{2})")
_REPEATED = re.compile(rb"\\\*(\d+)\(([^)]*)\)")

Look = Callable[[str, str, str | None], Any]
"""Finds the value of `$name.path+plus`."""


@dataclass
class Answer:
    """One expected answer: a mark, a word (status or outcome), a problem's name, and JSON that must be part of it."""

    mark: str
    line: int
    text: str
    headers: list[tuple[str, str]] = field(default_factory=list)

    def words(self) -> tuple[list[str], str]:
        """The words before the JSON, and the JSON."""
        head, brace, rest = self.text.partition("{")
        words = head.split()
        if not words or len(words) > 2:
            raise ScenarioError(self.line, f"cannot read the answer `{self.mark} {self.text}`")
        return words, brace + rest


@dataclass
class Step:
    """One request, sent `times` times, and the answer it must get."""

    line: int
    text: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    raw: str | None = None
    answer: Answer | None = None
    name: str | None = None
    times: int = 1

    def close(self) -> None:
        """Take `as name` and `xN` off the end of the request."""
        ending = _ENDING.search(self.text)
        assert ending is not None
        self.name = ending["name"]
        self.times = int(ending["times"] or 1)
        self.text = self.text[: ending.start()].rstrip()

    def numbered(self, number: int) -> "Step":
        """This step as its repetition `number`: `#` becomes the number."""
        if self.times == 1:
            return self
        put = str(number)
        answer = self.answer and Answer(
            self.answer.mark, self.answer.line, self.answer.text.replace("#", put), self.answer.headers
        )
        headers = [(key, value.replace("#", put)) for key, value in self.headers]
        raw = self.raw and self.raw.replace("#", put)
        name = self.name and self.name.replace("#", put)
        return Step(self.line, self.text.replace("#", put), headers, raw, answer, name)


@dataclass
class Scenario:
    """A title and its steps, played in a scene of its own."""

    file: str
    line: int
    title: str
    steps: list[Step] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{Path(self.file).stem}::{self.title}"


class ScenarioError(Exception):
    """The file breaks the format; `line` says where."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")


def read(path: Path) -> list[Scenario]:
    """The scenarios of one file, in order."""
    reader = _Reader(path.name)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        reader.take(number, line)
    for scenario in reader.scenarios:
        for step in scenario.steps:
            step.close()
    return reader.scenarios


def read_all(folder: Path) -> list[Scenario]:
    """The scenarios of every file in `folder`."""
    return [scenario for path in sorted(folder.glob("*.txt")) for scenario in read(path)]


class _Reader:
    """Puts lines where they belong."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.scenarios: list[Scenario] = []

    def take(self, number: int, line: str) -> None:
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            return
        if line.startswith("== "):
            self.scenarios.append(Scenario(self.file, number, stripped[3:].strip()))
        elif not self.scenarios:
            raise ScenarioError(number, "a request before the first `== title`")
        elif not line[0].isspace():
            self.scenarios[-1].steps.append(Step(number, stripped))
        else:
            self._inside(number, stripped)

    def _inside(self, number: int, line: str) -> None:
        if not self.scenarios[-1].steps:
            raise ScenarioError(number, "an indented line before the first request")
        step = self.scenarios[-1].steps[-1]
        mark, _, rest = line.partition(" ")
        rest = rest.strip()
        if mark == "@":
            key, _, value = rest.partition(":")
            (step.answer.headers if step.answer else step.headers).append((key.strip(), value.strip()))
        elif mark == "|":
            step.raw = (step.raw or "") + line[2:]
        elif mark in ("+", "-", "!", "="):
            if step.answer:
                raise ScenarioError(number, "a second answer to one request")
            step.answer = Answer(mark, number, rest)
        elif step.answer:
            step.answer.text += " " + line
        else:
            step.text += " " + line


def filled(text: str, look: Look) -> Any:
    """JSON `text` as a value, with references outside its strings looked up."""

    def put(match: re.Match[str]) -> str:
        if match["string"] is not None:
            return match["string"]
        return json.dumps(look(match["name"], match["path"], match["plus"]))

    return json.loads(_OUTSIDE_STRINGS.sub(put, text), parse_constant=_refuse_constant)


def filled_text(text: str, look: Look) -> str:
    """`text` (a path, a header, a raw body) with references looked up; texts stand for themselves."""

    def put(match: re.Match[str]) -> str:
        value = look(match["name"], match["path"], match["plus"])
        return value if isinstance(value, str) else json.dumps(value)

    return _ANYWHERE.sub(put, text)


def raw_bytes(text: str) -> bytes:
    r"""A raw body: `\xNN` is one byte, `\*N(text)` is the text N times, all else is UTF-8 as written."""

    written = _REPEATED.sub(lambda match: match[2] * int(match[1]), text.encode())
    return _BYTE.sub(lambda match: bytes([int(match[1], 16)]), written)


def composed(value: Any) -> Any:
    """A request's value with `"..."` spread into its object and `<absent>` members left out."""
    if isinstance(value, list):
        return [composed(item) for item in value]
    if not isinstance(value, dict):
        return value
    spread = composed(value["..."]) if "..." in value else {}
    members = {key: composed(item) for key, item in value.items() if key != "..."}
    return {key: item for key, item in {**spread, **members}.items() if item != ABSENT}


def outcomes(scenarios: list[Scenario]) -> set[tuple[str, str]]:
    """Every (command, outcome) that some scenario expects."""
    return {pair for scenario in scenarios for step in scenario.steps for pair in _expected(step)}


def _expected(step: Step) -> Iterator[tuple[str, str]]:
    if step.answer is None:
        return
    words, expected = step.answer.words()
    target, _, rest = step.text.partition(" ")
    if step.answer.mark in ("+", "-"):
        command = target if target in ("spawn", "despawn", "bundle", "tick") else rest.split(" ", 1)[0]
        yield command, words[0]
    elif target == "batch" and expected:
        commands = filled(rest, _nothing)
        answers = filled(expected, _nothing).get("answers", [])
        for command, answer in zip(commands, answers, strict=False):
            if isinstance(answer, dict) and isinstance(command, dict) and "outcome" in answer:
                yield command.get("command", ""), answer["outcome"]


def _nothing(_name: str, _path: str, _plus: str | None) -> None:
    return None


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON; write it in a raw body")
