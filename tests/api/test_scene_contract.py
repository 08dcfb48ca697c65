"""Batches, bundles and ticks are described with the commands they may hold and examples that are taken."""

from typing import Any

import pytest

from app.api.contract import EXAMPLES
from app.api.envelope import of_scene
from app.api.scene_contract import BATCH, BUNDLE, TICK
from app.gates.bundle import Bundle
from app.gates.tick import Tick
from app.settings import Settings


def _body(description: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = description["requestBody"]["content"]["application/json"]
    return body


@pytest.mark.parametrize(("name", "description", "kind"), [("bundle", BUNDLE, Bundle), ("tick", TICK, Tick)])
def test_every_example_is_one_that_is_taken(name: str, description: dict[str, Any], kind: type):
    for example in _body(description)["examples"].values():
        assert type(of_scene(name, dict(example["value"]), Settings(journal="memory:"))) is kind


def test_a_batch_may_hold_every_command_and_bundles_and_ticks():
    item = _body(BATCH)["schema"]["properties"]["commands"]["items"]

    assert set(item["properties"]["command"]["enum"]) == {*EXAMPLES, "bundle", "tick"}


def test_bundles_and_ticks_take_a_key_and_a_batch_has_one_for_each_command():
    keyed = [
        any(parameter["name"] == "Idempotency-Key" for parameter in each["parameters"])
        for each in (BUNDLE, TICK, BATCH)
    ]

    assert keyed == [True, True, False]
