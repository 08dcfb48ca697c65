"""The store: a checkpoint and the tail behind it are the scene, whatever was stored when; and history has an end."""

import random
from typing import Any

import pytest

from app.gates.event_commands import CommitLoop, Enqueue
from app.gates.graph import RequestGraph
from app.gates.lives import CloseScene, DeclareRig, Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.scene import Bounds, Scene
from app.gates.tally import LayerTally
from app.gates.transition import Begin, Complete
from app.journal.codec import decode_character, decode_head
from app.journal.port import START
from app.sequencing import pace as pace_module
from app.sequencing.mailbox import Decided
from app.sequencing.pace import Pace
from app.sequencing.store import COOLED_MAX, cooled
from tests.support.journal_fakes import FaultyJournal
from tests.support.played import Played, assert_same_scene
from tests.support.rigs import candidate, parameter, rig
from tests.support.sequenced import RUN, SPAWN, Clock, Node, replayed

NAMES = ("hero", "villain", "ghost")
TRIGGERED = rig(declared={"Fire": parameter("Fire", "trigger")})


async def reopened(journal: FaultyJournal, **settings: Any) -> Scene:
    node = Node(journal, **settings)
    await node.ask()
    return node.scene


async def granted(node: Node, key: str | None = None) -> Complete:
    reply = node.put(RUN, key=key)
    await node.sequencer.turn()
    [result] = reply.result()
    assert isinstance(result, Decided)
    return Complete(token=result.record.answer.token)  # type: ignore[union-attr]  # it was granted


async def wandered(journal: FaultyJournal, seed: int, **settings: Any) -> Node:
    """Take 80 turns of commands that touch everything a checkpoint stores."""
    chance = random.Random(seed)
    clock = Clock()
    node = Node(journal, clock, **settings)
    for number in range(80):
        clock.now += chance.choice((0, 5, -3))
        command = chance.choice(
            [
                Spawn(inline=chance.choice((None, TRIGGERED))),
                Despawn(),
                DeclareRig(name="humanoid", rig=chance.choice((rig(), TRIGGERED))),
                RUN,
                Enqueue(clip_instance=chance.randrange(4), loop=chance.randrange(3), frame=1, kind="step", payload=[1]),
                CommitLoop(clip_instance=chance.randrange(4), loop=chance.randrange(3)),
                CommitParameters(values=[ParameterValue(value=True, name="Fire")]),
                RequestGraph(name="A"),
                candidate(chance.randrange(3)),
                CloseScene(),
            ]
        )
        alone = isinstance(command, CloseScene | DeclareRig)
        if isinstance(command, CloseScene) and chance.random() < 0.8:
            continue
        key = f"key-{chance.randrange(20)}" if chance.random() < 0.5 else None
        await node.ask(command, who=None if alone else chance.choice(NAMES), key=key, caller=f"c{number % 2}")
    return node


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("checkpoint_decisions", [1, 7, 10_000])
@pytest.mark.parametrize("remains_max", [1, 50])
async def test_a_reopened_scene_is_the_live_one_byte_for_byte(
    journal: FaultyJournal, seed: int, checkpoint_decisions: int, remains_max: int
):
    settings: dict[str, Any] = {
        "checkpoint_decisions": checkpoint_decisions,
        "remains_max": remains_max,
        "receipts_ms": 60,
    }
    node = await wandered(journal, seed, **settings)

    assert_same_scene(await reopened(journal, **settings), node.scene)


@pytest.mark.parametrize("seed", range(8))
async def test_a_checkpoint_and_its_tail_equal_a_replay_from_the_first_entry(journal: FaultyJournal, seed: int):
    journal.failing.add("trim")
    settings: dict[str, Any] = {"checkpoint_decisions": 9, "remains_max": 1, "receipts_ms": 60}
    node = await wandered(journal, seed, **settings)

    whole = await replayed(journal, **settings)

    assert_same_scene(await reopened(journal, **settings), whole)
    assert_same_scene(node.scene, whole)


async def test_a_checkpoint_stores_only_what_changed_since_the_last(journal: FaultyJournal):
    node = Node(journal)
    for who in NAMES:
        await node.ask(SPAWN, who=who)
    await node.sequencer.leave()
    written: list[set[str]] = []
    checkpoint = journal.inner.checkpoint

    async def noted(
        scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        written.append(set(changed))
        await checkpoint(scene, position=position, header=header, changed=changed, listed=listed)

    journal.inner.checkpoint = noted  # type: ignore[method-assign]  # it is watched
    await node.ask(RUN, who="hero")
    await node.sequencer.leave()
    await node.sequencer.leave()

    assert written == [{"hero"}]


async def test_a_forgotten_dead_id_leaves_the_checkpoint_too(journal: FaultyJournal):
    node = Node(journal, remains_max=1)
    for who in NAMES:
        await node.ask(SPAWN, who=who)
        await node.ask(Despawn(), who=who)
        await node.sequencer.leave()

    checkpoint = await journal.load("room")

    assert checkpoint is not None
    assert list(checkpoint.characters) == ["ghost"]
    assert list((await reopened(journal, remains_max=1)).remains) == ["ghost"]


async def test_tallies_of_living_characters_are_exact_over_a_restart(journal: FaultyJournal):
    node = Node(journal)
    await node.ask(SPAWN)
    late = await granted(node)
    await granted(node)
    await node.ask(late)
    await node.sequencer.leave()
    await node.ask(late)
    node.sequencer.mailbox.drain()

    other = Node(journal)
    await other.ask()

    assert other.sequencer.store.tally("hero").layers == {"base": LayerTally(stale=2)}
    assert node.sequencer.store.tally("hero") == other.sequencer.store.tally("hero")


async def test_a_tally_ends_with_its_life(journal: FaultyJournal):
    node = Node(journal)
    await node.ask(SPAWN)
    late = await granted(node)
    await granted(node)
    await node.ask(late)

    await node.ask(Despawn(), SPAWN)

    assert node.sequencer.store.tally("hero").layers == {}


async def test_a_tally_holds_nothing_of_layers_that_do_not_exist_after_a_checkpoint(journal: FaultyJournal):
    node = Node(journal)
    await node.ask(SPAWN)
    token = (await granted(node)).token
    for number in range(5):
        await node.ask(Complete(token=type(token)("hero", f"tail-{number}", 1, 1, "a", "b", "1-0")))

    await node.sequencer.leave()

    checkpoint = await journal.load("room")
    assert checkpoint is not None
    stored = decode_character(checkpoint.characters["hero"])
    assert stored.tally is not None
    assert stored.tally.layers == {}


async def test_history_beyond_retention_is_forgotten_at_a_checkpoint(journal: FaultyJournal):
    node = Node(journal, history_decisions_max=5)
    await node.ask(SPAWN)
    for _ in range(20):
        await node.ask(RUN)

    await node.sequencer.leave()

    entries = await journal.read("room", after=START, limit=99)
    assert [entry.first for entry in entries] == [16, 17, 18, 19, 20, 21]
    assert_same_scene(await reopened(journal), node.scene)


async def test_an_entry_that_a_receipt_still_needs_is_kept(journal: FaultyJournal):
    clock = Clock()
    node = Node(journal, clock, history_decisions_max=1, receipts_ms=100)
    await node.ask(SPAWN)
    await granted(node, "key-one")
    for _ in range(5):
        await node.ask(RUN)
    await node.sequencer.leave()
    kept = [entry.first for entry in await journal.read("room", after=START, limit=99)]
    clock.now += 101
    await node.ask(RUN)

    await node.sequencer.leave()

    assert kept[0] == 2
    assert [entry.first for entry in await journal.read("room", after=START, limit=99)] == [7, 8]


async def test_of_a_closed_scene_only_floors_remain(journal: FaultyJournal):
    node = Node(journal)
    await node.ask(SPAWN)
    await node.ask(RUN, key="key-one")

    await node.ask(CloseScene(), who=None)

    checkpoint = await journal.load("room")
    assert checkpoint is not None
    assert checkpoint.characters == {}
    assert await journal.read("room", after=START, limit=9) == []
    scene = await reopened(journal)
    assert (scene.sequence, scene.state.exists, scene.state.floor.life, scene.state.floor.epoch) == (3, False, 1, 1)


async def test_a_scene_that_comes_back_after_closing_is_listed_and_continues_its_sequence(journal: FaultyJournal):
    node = Node(journal)
    await node.ask(SPAWN)
    await node.ask(CloseScene(), who=None)

    await node.ask(SPAWN, Begin(layer="base", target="Run"))

    [entry] = await journal.read("room", after=START, limit=9)
    assert decode_head(entry.blob).first == 3
    assert await journal.scenes(after="", limit=9) == ["room"]
    assert_same_scene(await reopened(journal), node.scene)


async def test_a_failed_checkpoint_is_made_up_for_by_the_next_one(journal: FaultyJournal):
    node = Node(journal)
    await node.ask(SPAWN, who="villain")
    journal.failing.add("checkpoint")
    await node.sequencer.leave()
    journal.failing.clear()
    await node.ask(SPAWN)

    await node.sequencer.leave()

    checkpoint = await journal.load("room")
    assert checkpoint is not None
    assert sorted(checkpoint.characters) == ["hero", "villain"]
    assert_same_scene(await reopened(journal), node.scene)


async def test_after_a_turn_characters_go_to_sleep_a_few_at_a_time_while_others_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pace_module, "WORK_S_MAX", 0.0)
    room, pauses = Played(bounds=Bounds(hot_characters_max=8)), 0
    room.turn(*((f"hero-{number}", Spawn()) for number in range(COOLED_MAX)))
    before = {name: room.scene.roster.blob(name) for name in room.scene.roster}

    class Counted(Pace):
        async def pause(self) -> None:
            nonlocal pauses
            pauses += 1
            await super().pause()

    assert room.scene.roster.is_warm, "an adoption lets few go to sleep"
    await cooled(room.scene, Counted())

    assert not room.scene.roster.is_warm
    assert pauses == COOLED_MAX // 64 - 1
    assert {name: room.scene.roster.blob(name) for name in room.scene.roster} == before
