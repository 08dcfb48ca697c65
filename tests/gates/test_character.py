"""One character: four gates, one revision, and the life that is asked before all else."""

from typing import Any

import pytest

from app.gates.candidate import Candidate
from app.gates.decision import Command
from app.gates.event_commands import Acknowledge, CommitLoop, Enqueue, Play, Retire
from app.gates.graph import RequestGraph, WithdrawGraph
from app.gates.identity import Token
from app.gates.lives import Despawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.transition import Begin, Cancel, Complete, Fail
from app.journal.codec import decode_entry, encode_entry
from tests.support.played import Played
from tests.support.rigs import candidate, rig

STRANGE = Token("hero", "tail", 9, 9, "A", "B", "9-f")


def value(name: str = "x", held: Any = 1) -> ParameterValue:
    return ParameterValue(value=held, name=name)


def every_command(**life: Any) -> list[Command]:
    """One of each, all of which some other check would refuse, or accept, in the default rig."""
    return [
        Begin(layer="tail", target="Run", **life),
        Complete(token=STRANGE, **life),
        Cancel(token=STRANGE, **life),
        Fail(token=STRANGE, why="no clip", **life),
        CommitParameters(values=[value(held=None)], **life),
        Play(clip="Walk", layer="tail", **life),
        Enqueue(clip_instance=2**40, loop=0, frame=0, kind="step", **life),
        CommitLoop(clip_instance=2**40, loop=0, **life),
        Retire(clip_instance=2**40, **life),
        Acknowledge(through=9, **life),
        RequestGraph(name="A", graph="mask", **life),
        candidate(9, graph="mask", **life),
        WithdrawGraph(request=9, graph="mask", **life),
        Despawn(**life),
    ]


@pytest.mark.parametrize("command", every_command(life=1), ids=lambda command: type(command).__name__)
def test_another_life_is_refused_before_every_other_check(command: Command):
    played = Played()
    played.spawn()
    played.respawn()

    answer = played.ask(command)

    assert (answer.outcome, answer.at, answer.by) == ("stale_life", "life", {"life": 2})


@pytest.mark.parametrize("command", every_command(), ids=lambda command: type(command).__name__)
def test_the_present_life_changes_no_answer(command: Command):
    named, unnamed = Played(), Played()
    named.spawn()
    unnamed.spawn()

    assert named.word(type(command)(**fields(command), life=1)) == unnamed.word(command)


def fields(command: Command) -> dict[str, Any]:
    return {name: getattr(command, name) for name in command.__struct_fields__ if name != "life"}


@pytest.mark.parametrize("command", every_command(), ids=lambda command: type(command).__name__)
def test_a_dead_or_unborn_character_is_unknown_and_nothing_is_recorded(command: Command):
    played = Played()
    played.spawn()
    sequence = played.scene.sequence

    answer = played.word(command, "ghost")

    assert answer == "unknown-character"
    assert played.scene.sequence == sequence


def test_each_accepted_command_raises_the_revision_except_kept_an_empty_batch_and_ack():
    played = Played()
    played.spawn()

    def raised(command: Command) -> int:
        before = played.hero().revision
        played.ask(command)
        return played.hero().revision - before

    begin = Begin(layer="base", target="Run", if_same="keep")
    commands = [begin, begin, CommitParameters(values=[]), CommitParameters(values=[value()]), Acknowledge(through=0)]

    assert [raised(command) for command in commands] == [1, 0, 0, 1, 0]
    assert [raised(command) for command in every_command()[:-1]] == [0] * 13


def test_the_answer_carries_the_revision_after_it():
    played = Played()
    played.spawn()

    granted = Candidate(played.scene, 5).decide("hero", Begin(layer="base", target="Run"))
    refused = Candidate(played.scene, 5).decide("hero", Begin(layer="tail", target="Run"))

    assert (granted.revision, refused.revision) == (2, 1)  # type: ignore[union-attr]  # both are decided


def test_a_token_of_another_character_is_unknown_although_its_seal_is_genuine():
    played = Played()
    for who in ("hero", "villain"):
        played.spawn(who=who)
    token = played.ask(Begin(layer="base", target="Run"), "villain").token
    played.ask(Begin(layer="base", target="Run"))

    assert played.word(Complete(token=token)) == "unknown_token"
    assert played.word(Complete(token=token), "villain") == "committed"


def test_a_former_lifes_token_on_a_layer_this_life_lacks_is_stale():
    played = Played()
    played.spawn(rig(layers={"tail": rig().layers["base"]}))
    token = played.ask(Begin(layer="tail", target="Wag")).token

    played.respawn()

    assert played.word(Complete(token=token)) == "stale_epoch"


def test_a_token_on_a_layer_nobody_has_is_unknown():
    played = Played()
    played.spawn()

    answer = played.ask(Complete(token=STRANGE))

    assert answer.outcome == "unknown_token"


def story() -> Played:
    """One of every accepted command, with payloads, data, several loops, a swap and two lives."""
    played = Played()
    played.spawn(rig(kinds={"step": "presentation", "spark": "immediate"}, instances_open=2))
    first = played.ask(Begin(layer="base", target="Run", data={"clip": "run", "speed": 1.5})).token
    played.ask(Begin(layer="base", target="Run", if_same="keep"))
    played.ask(Complete(token=first))
    played.ask(Cancel(token=played.ask(Begin(layer="base", target="Hit")).token))
    played.ask(Fail(token=played.ask(Begin(layer="base", target="Fall")).token, why="no clip"))
    played.ask(CommitParameters(values=[value("x", 4.0), value("y", -1e30), value("z", True)]))
    number = played.ask(Play(clip="Walk", layer="base", data=[1, {"a": None}])).clip_instance
    for loop, frame, kind, payload in [(0, 3, "step", {"foot": "left"}), (0, 3, "spark", [1]), (2, 1, "step", None)]:
        played.ask(Enqueue(clip_instance=number, loop=loop, frame=frame, kind=kind, payload=payload))
    played.ask(CommitLoop(clip_instance=number, loop=0))
    played.ask(CommitLoop(clip_instance=9, loop=4))
    played.ask(Play(clip="Turn"))
    played.ask(Retire(clip_instance=number))
    played.ask(Acknowledge(through=1))
    played.ask(Begin(layer="base", target="Aim"))
    request = played.ask(RequestGraph(name="Combat")).request
    played.ask(candidate(request))
    played.ask(RequestGraph(name="Calm"))
    played.ask(WithdrawGraph(request=request + 1))
    for command in every_command():
        played.ask(command)
    played.spawn()
    played.ask(Begin(layer="base", target="Run"))
    return played


def test_evolving_by_decoded_facts_gives_the_live_values_byte_for_byte():
    played = story()

    replayed = played.replayed()

    assert replayed.roster.blob("hero") == played.scene.roster.blob("hero")
    assert replayed.state == played.scene.state
    assert replayed.remains == played.scene.remains


def test_every_entry_of_the_story_is_decoded_as_it_was_recorded():
    for blob in story().entries:
        entry = decode_entry(blob)

        assert encode_entry(at=entry.at, first=entry.first, records=entry.records) == blob
