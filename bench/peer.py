"""The peer: a bare FastAPI handler with pydantic models of the same fields, which decides nothing and keeps nothing."""

from typing import Annotated, Any, Literal

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from bench.announcing import Announcing


class Strict(BaseModel):
    """A body that takes what it names and nothing else."""

    model_config = ConfigDict(extra="forbid")


class Token(Strict):
    """A token as posegate's."""

    character: str
    layer: str
    epoch: Annotated[int, Field(ge=0)]
    generation: Annotated[int, Field(ge=0)]
    from_: str = Field(alias="from")
    to: str
    seal: str


class Begin(Strict):
    """The fields of `begin`."""

    layer: Annotated[str, Field(min_length=1, max_length=128)]
    target: Annotated[str, Field(min_length=1, max_length=128)]
    if_same: Literal["restart", "keep"] | None = None
    if_generation: int | None = None
    data: Any = None
    life: int | None = None


class Granted(BaseModel):
    """The answer of `begin`."""

    accepted: bool
    outcome: str
    retryable: bool
    sequence: int
    revision: int
    token: Token
    superseded: Token | None


class BeginOf(Begin):
    """A `begin` in a batch."""

    command: Literal["begin"]
    character: str
    key: str | None = None


class CompleteOf(Strict):
    """A `complete` in a batch."""

    command: Literal["complete"]
    character: str
    token: Token
    life: int | None = None
    key: str | None = None


class Value(Strict):
    """One parameter."""

    name: str
    value: int | float | bool | str | None


class CommitParametersOf(Strict):
    """A `commit-parameters` in a batch."""

    command: Literal["commit-parameters"]
    character: str
    values: list[Value]
    base_version: int | None = None
    life: int | None = None
    key: str | None = None


class EnqueueOf(Strict):
    """An `enqueue` in a batch."""

    command: Literal["enqueue"]
    character: str
    clip_instance: int
    loop: int
    frame: int
    kind: str
    payload: Any = None
    life: int | None = None
    key: str | None = None


class CommitLoopOf(Strict):
    """A `commit-loop` in a batch."""

    command: Literal["commit-loop"]
    character: str
    clip_instance: int
    loop: int
    life: int | None = None
    key: str | None = None


Command = Annotated[
    BeginOf | CompleteOf | CommitParametersOf | EnqueueOf | CommitLoopOf, Field(discriminator="command")
]


class Batch(Strict):
    """Many commands."""

    commands: list[Command]


class Answers(BaseModel):
    """An answer a command."""

    answers: list[Granted]


app = FastAPI()


def _granted(character: str, layer: str, target: str) -> Granted:
    token = {"character": character, "layer": layer, "epoch": 1, "generation": 1, "from": "Idle", "to": target}
    return Granted(
        accepted=True,
        outcome="granted",
        retryable=False,
        sequence=1,
        revision=1,
        token=Token.model_validate({**token, "seal": "1-0123456789abcdef0123456789abcdef"}),
        superseded=None,
    )


@app.post("/v1/scenes/{scene}/characters/{character}/begin")
async def begin(scene: str, character: str, body: Begin) -> Granted:
    """Answer as if the begin were granted."""
    return _granted(character, body.layer, body.target)


@app.post("/v1/scenes/{scene}/batch")
async def batch(scene: str, body: Batch) -> Answers:
    """Answer every command as if it were a granted begin."""
    return Answers(answers=[_granted(command.character, "base", "Run") for command in body.commands])


def main() -> None:
    """Serve on a free port of the loopback address and say which."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, loop="uvloop", http="httptools", log_level="warning")
    Announcing(config).run()


if __name__ == "__main__":
    main()
