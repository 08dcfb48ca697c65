"""The channel's document: generated from the code, kept in openapi/channel.json, true of what is really said."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from app.api.channel_contract import CLOSE_CODES, channel_document
from app.main import build
from app.settings import Settings
from app.telemetry import metrics
from tests.support.channelled import channel
from tests.support.watching import service

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = channel_document(build(Settings(journal="memory:")).openapi())
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]


def names(operation: str) -> list[str]:
    return [str(each["$ref"]).rpartition("/")[2] for each in DOCUMENT["operations"][operation]["messages"]]


SAID, TOLD = names("say"), names("tell")


def fits(name: str, message: Any) -> bool:
    schema = {
        **MESSAGES[name]["payload"],
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "components": DOCUMENT["components"],
    }
    return bool(jsonschema_rs.validator_for(schema).is_valid(message))


def kind(message: Any) -> str:
    """Give the one name of the messages that a client is told which a message fits."""
    [name] = [name for name in TOLD if fits(name, message)]
    return name


def test_the_document_that_is_kept_is_the_one_the_code_generates():
    kept = json.loads((ROOT / "openapi/channel.json").read_text(encoding="utf-8"))

    assert kept == DOCUMENT, "run `make openapi`, read the difference, and raise the version if a caller will notice"


@pytest.mark.parametrize("name", SAID)
def test_an_example_fits_its_own_schema_and_none_takes_what_has_no_place(name: str):
    examples = MESSAGES[name]["payload"].get("examples", [])

    assert all(fits(name, example) for example in examples)
    assert not fits(name, {})
    assert not fits(name, {"id": -1, "command": name, "character": "hero"})


async def test_what_is_really_told_fits_one_message_each():
    play = {"tick": 1, "source": "ai", "number": 1, "command": "play", "character": "hero", "clip": "Walk"}
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        caller.say({"id": 1, "watch": {"snapshot": True}})
        heard = await caller.hear_all(2)
        for message in (
            {"id": 2, "command": "begin", "character": "hero", "layer": "base", "target": "Run"},
            {"id": 3, "command": "begin", "character": "hero", "layer": "none", "target": "Run"},
            {"id": 4, "command": "tick", "requests": [play]},
            {"id": 5, "command": "tick", "seal": 1},
        ):
            assert fits(str(message["command"]), message)
            caller.say(message)
            heard += await caller.hear_all(2)
        heard.append(await caller.hear())
        heard.append(await caller.ask(id=6, unwatch=True))
        heard.append(await caller.ask(id=7, watch={"after": 1_000}))
        heard.append(await caller.hear())
        heard.append(await caller.ask(id="x"))
        served.registry.drain()
        heard.append(await caller.hear())

    assert {kind(message) for message in heard} == set(TOLD) - {"last"}


def test_every_close_code_is_counted_and_explained():
    page = (ROOT / "docs/channel.md").read_text(encoding="utf-8")

    assert set(CLOSE_CODES) <= set(metrics.CLOSE_CODES)
    assert set(DOCUMENT["x-close-codes"]) == {str(code) for code in CLOSE_CODES}
    assert all(f"| {code} | {text} |" in page for code, text in CLOSE_CODES.items())
