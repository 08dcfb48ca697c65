"""Settling: every command is asked whether its holder still has its right. Contract, section 8, "Holder"."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from app.gates.bundle import Bundle
from app.gates.candidate import Candidate
from app.gates.decision import Command, Refused
from app.gates.event_commands import Acknowledge, CommitLoop, Covered, Enqueue, Play, Retire
from app.gates.graph import RequestGraph, WithdrawGraph
from app.gates.identity import Token
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters
from app.gates.tick import Tick
from app.gates.transition import Begin, Cancel, Complete, Fail
from tests.support.played import Played, member
from tests.support.rigs import candidate

STRANGE = Token("hero", "tail", 9, 9, "A", "B", "9-f")
FORGED = Token("hero", "base", 1, 1, "Idle", "Attack", "1-0")
COMMANDS: dict[str, Callable[..., Command]] = {
    "begin": lambda **named: Begin(layer="tail", target="Run", **named),
    "complete": lambda **named: Complete(token=STRANGE, **named),
    "cancel": lambda **named: Cancel(token=STRANGE, **named),
    "fail": lambda **named: Fail(token=STRANGE, why="no clip", **named),
    "commit-parameters": lambda **named: CommitParameters(values=[], base_version=9, **named),
    "play": lambda **named: Play(clip="Walk", layer="tail", **named),
    "enqueue": lambda **named: Enqueue(clip_instance=2**40, loop=0, frame=0, kind="step", **named),
    "covered": lambda **named: Covered(clip_instance=2**40, loop=0, from_frame=0, to_frame=1, **named),
    "commit-loop": lambda **named: CommitLoop(clip_instance=2**40, loop=0, **named),
    "retire": lambda **named: Retire(clip_instance=2**40, **named),
    "ack": lambda **named: Acknowledge(through=9, **named),
    "request-graph": lambda **named: RequestGraph(name="A", graph="mask", **named),
    "submit-candidate": lambda **named: candidate(9, graph="mask", **named),
    "withdraw-graph": lambda **named: WithdrawGraph(request=9, graph="mask", **named),
    "spawn": lambda **named: Spawn(rig="unknown", **named),
    "despawn": Despawn,
}
"""One of each, and each would be refused, or be a problem, by the check behind the holder's; the last is accepted."""


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_asks_for_its_holder_right_after_its_life(room: Played, command: Callable[..., Command]):
    attack = room.begin("Attack")

    lost = room.ask(command(holder=FORGED, life=1), "villain")
    stale = room.ask(command(holder=FORGED, life=2), "villain")
    held = room.ask(command(holder=attack, life=1), "villain")

    assert (lost.outcome, lost.at) == ("holder_lost", "holder")
    assert not lost.is_retryable
    assert stale.outcome == "stale_life"
    assert not isinstance(held, Refused) or held.outcome != "holder_lost"


def test_a_candidate_without_its_holder_is_to_be_released(room: Played):
    assert room.ask(candidate(1, holder=FORGED)).release == "candidate"


@pytest.mark.parametrize("whole", [Bundle(commands=[], holder=FORGED), Tick(seal=1, holder=FORGED)], ids=type)
def test_what_is_for_a_whole_scene_may_have_a_holder_too(room: Played, whole: Command):
    assert room.ask(whole, None) == Refused("holder_lost", at="holder")


def holds(room: Played, token: Token) -> bool:
    """Ask the other character to do something that only its holder keeps it from."""
    return room.word(CommitParameters(values=[], holder=token), "villain") == "committed"


def test_a_pending_token_holds_and_goes_on_holding_when_it_commits(room: Played):
    attack = room.begin("Attack")
    pending = holds(room, attack)
    room.complete(attack)

    assert (pending, holds(room, attack)) == (True, True)


ENDINGS: dict[str, Callable[[Played, Token], object]] = {
    "superseded": lambda room, attack: room.begin("Hit"),
    "superseded after it committed": lambda room, attack: (room.complete(attack), room.begin("Hit")),
    "cancelled": lambda room, attack: room.ask(Cancel(token=attack)),
    "failed": lambda room, attack: room.ask(Fail(token=attack, why="no clip")),
    "epoch ended": lambda room, attack: (room.ask(RequestGraph(name="A")), room.ask(candidate(1))),
    "epoch ended after it committed": lambda room, attack: (
        room.complete(attack),
        room.ask(RequestGraph(name="A")),
        room.ask(candidate(1)),
    ),
    "dead": lambda room, attack: room.ask(Despawn()),
    "of a former life": lambda room, attack: room.respawn(),
    "expired": lambda room, attack: room.tick(seal=8),
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_a_token_that_lost_its_right_holds_nothing(room: Played, end: Callable[[Played, Token], object]):
    attack = room.begin("Attack", deadline_ticks=7)
    before = holds(room, attack)

    end(room, attack)

    assert (before, holds(room, attack)) == (True, False)


def test_a_newer_token_that_ended_gives_the_older_its_right_not_back(room: Played):
    attack = room.begin("Attack")
    room.complete(attack)

    room.ask(Cancel(token=room.begin("Hit")))

    assert not holds(room, attack)


@pytest.mark.parametrize(
    "changed",
    [
        {"character": "villain"},
        {"character": "nobody"},
        {"layer": "tail"},
        {"epoch": 2},
        {"epoch": 0},
        {"generation": 2},
        {"generation": 0},
        {"from_": "Run"},
        {"to": "Hit"},
        {"seal": UNSET},
        {"seal": "1-0"},
        {"seal": ""},
        {"layer": "base\0", "seal": "1-0"},
    ],
    ids=str,
)
@pytest.mark.parametrize("committed", [False, True])
def test_a_token_changed_in_any_field_holds_nothing(room: Played, changed: dict[str, Any], committed: bool):
    attack = room.begin("Attack")
    if committed:
        room.complete(attack)

    assert holds(room, attack)
    assert not holds(room, replace(attack, **changed))


def test_a_token_of_another_scene_or_journal_holds_nothing(room: Played):
    other = Played(name="elsewhere")
    other.spawn()
    token = other.begin("Attack")
    room.begin("Attack")

    assert not holds(room, token)


def test_a_character_may_hold_its_own_commands(room: Played):
    attack = room.begin("Attack")

    assert room.word(Play(clip="Slash", holder=attack)) == "opened"
    room.begin("Hit")
    assert room.word(Play(clip="Slash", holder=attack)) == "holder_lost"


def test_a_begin_may_name_as_its_holder_the_token_it_supersedes(room: Played):
    """Combo: the second blow is begun only if nothing came in between."""
    first = room.begin("Blow1")
    room.complete(first)

    assert room.word(Begin(layer="base", target="Blow2", holder=first)) == "granted"
    assert room.word(Begin(layer="base", target="Blow2", holder=first)) == "holder_lost"


def test_a_holder_of_a_character_on_its_way_in_the_same_turn_is_seen_as_it_is_then(room: Played):
    attack = room.begin("Attack")

    before, _, after = room.turn(
        ("villain", Begin(layer="base", target="Hurt", holder=attack)),
        ("hero", Begin(layer="base", target="Hit")),
        ("villain", Begin(layer="base", target="Hurt", holder=attack)),
    )

    assert (type(before).__name__, after) == ("TransitionGranted", Refused("holder_lost", at="holder"))


def test_refusals_are_noted_beside_the_gates_and_those_of_dropped_bundles_are_not(room: Played):
    turn = Candidate(room.scene, room.at)
    refused = Complete(token=FORGED)

    turn.decide("hero", refused)
    turn.decide(None, Bundle(commands=[member("hero", refused)]))
    turn.decide("nobody", refused)

    assert [(who, command) for who, command, _ in turn.refusals] == [("hero", refused)]
