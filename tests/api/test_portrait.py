"""A portrait shows every character of one moment once, however much is decided while it is shown."""

import json
from typing import Any

import pytest

from app.api import portrait as portrait_module
from app.api.portrait import Portrait
from app.journal.memory import MemoryJournal
from app.sequencing.mailbox import Addressed
from app.sequencing.pace import Pace
from app.sequencing.present import Present
from app.sequencing.registry import Registry
from tests.support.sequenced import RUN, SPAWN, ask, served

NAMES = [f"hero-{number}" for number in range(50)]


async def present_of(registry: Registry) -> Present:
    present = await registry.present("room")
    assert present is not None
    return present


async def pieces_of(portrait: Portrait) -> list[dict[str, Any]]:
    pieces = []
    while portrait.has_more:
        pieces.append(json.loads(await portrait.piece(Pace())))
    return pieces


async def test_a_small_scene_is_one_piece_and_equals_what_inspection_shows():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        await ask(registry, RUN)

        [piece] = await pieces_of(Portrait(await present_of(registry), tick_hz=60))

    assert piece["sequence"] == 2
    assert piece["more"] is False
    assert "reason" not in piece
    assert piece["scene"]["characters"] == 1
    [hero] = piece["characters"]
    assert (hero["scene"], hero["character"], hero["sequence"]) == ("room", "hero", 2)
    assert hero["layers"]["base"]["pending"]["to"] == "Run"
    assert '"seal"' not in json.dumps(piece)


async def test_a_large_one_comes_in_pieces_of_a_bounded_size_and_only_the_first_says_what_holds_for_all(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(portrait_module, "PIECE_BYTES", 3_000)
    async with served(MemoryJournal(), hot_characters_max=5) as registry:
        await registry.submit("room", [Addressed(name, SPAWN) for name in NAMES])
        portrait = Portrait(await present_of(registry), tick_hz=60, reason="gone")
        shown, sizes = list[dict[str, Any]](), list[int]()
        while portrait.has_more:
            text = await portrait.piece(Pace())
            sizes.append(len(text))
            shown.append(json.loads(text))
            await registry.submit("room", [Addressed(name, RUN) for name in NAMES])

    assert len(shown) > 5
    assert max(sizes) < 5_000
    assert [piece["more"] for piece in shown] == [True] * (len(shown) - 1) + [False]
    assert ["scene" in piece and "reason" in piece for piece in shown] == [True] + [False] * (len(shown) - 1)
    characters = [each for piece in shown for each in piece["characters"]]
    assert sorted(each["character"] for each in characters) == sorted(NAMES)
    assert {each["revision"] for each in characters} == {1}


async def test_a_scene_without_anybody_is_one_piece():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)

        [piece] = await pieces_of(Portrait(await present_of(registry), tick_hz=60, character="nobody"))

    assert (piece["characters"], piece["more"]) == ([], False)
