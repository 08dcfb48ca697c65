"""Undoing: a scene goes back to the end of an earlier tick; numbers, graphs and lives go on. Contract, section 8."""

from typing import Any

from msgspec import UNSET

from app.gates.bundle import Bundle
from app.gates.candidate import Candidate, finished
from app.gates.decision import Refused
from app.gates.event_commands import Enqueue
from app.gates.graph import RequestGraph, WithdrawGraph
from app.gates.identity import Token
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.receipt import mark
from app.gates.scene import Bounds, Record
from app.gates.tick import RolledBack, Tick, Ticked
from app.gates.transition import Begin, Cancel, Complete
from tests.support.played import Played, member, request, word
from tests.support.rigs import candidate, parameter, rig
from tests.support.steps import taken

RUN, HIT = Begin(layer="base", target="Run"), Begin(layer="base", target="Hit")
ARMED = rig(declared={"Speed": parameter("Speed"), "Fire": parameter("Fire", "trigger")})


def speed(value: int) -> CommitParameters:
    return CommitParameters(values=[ParameterValue(value=value, name="Speed")])


def fire() -> CommitParameters:
    return CommitParameters(values=[ParameterValue(value=True, name="Fire")])


# ---- what comes back


def test_committed_states_come_back(room: Played):
    room.complete(room.begin("Run"))
    room.tick(seal=1)
    room.complete(room.begin("Hit"))
    room.tick(seal=2)

    fact = room.tick(rollback=1).rollback

    assert fact == RolledBack(1, 1, ["hero"])
    assert (room.current(), room.scene.ticks.sealed) == ("Run", 1)


def test_a_token_pending_then_is_valid_again_whatever_became_of_it(room: Played):
    ended: list[Any] = [room.complete, lambda token: room.ask(Cancel(token=token))]
    ended += [lambda token: room.begin("Hit"), lambda token: None]
    for tick, end in enumerate(ended, start=1):
        token = room.begin("Run")
        room.tick(seal=tick)
        end(token)

        room.tick(rollback=tick)

        assert room.complete(token) == "committed"


def test_a_token_that_expired_since_is_valid_again_and_expires_again(room: Played):
    room.tick(seal=1)
    token = room.begin("Hit", deadline_ticks=1)
    room.tick(seal=2)
    room.tick(seal=5)
    expired = room.complete(token)

    room.tick(rollback=2)
    pending = room.pending()
    again = room.tick(seal=3).seal.ticks

    assert (expired, pending) == ("expired", "Hit")
    assert [ended.token.generation for tick in again for ended in tick.expired.ended] == [1]
    assert room.complete(token) == "expired"


def test_a_token_granted_since_is_rolled_back_and_names_what_stands(room: Played):
    room.begin("Run")
    room.tick(seal=1)
    token = room.begin("Hit")

    room.tick(rollback=1)
    refused = room.ask(Complete(token=token))

    assert refused == Refused(
        "rolled_back", at="token", by={"generation": 1, "to": "Run"}, layer=room.hero().layers["base"].now()
    )
    assert refused.layer.generation == 2


def test_a_token_that_committed_since_its_grant_is_rolled_back_too(room: Played):
    room.tick(seal=1)
    token = room.begin("Hit")
    room.complete(token)

    room.tick(rollback=1)

    assert room.complete(token) == "rolled_back"


def test_a_layer_that_began_nothing_before_names_no_newest(room: Played):
    room.tick(seal=1)
    token = room.begin("Hit")

    room.tick(rollback=1)

    assert room.ask(Complete(token=token)).by is UNSET


def test_generations_go_on_and_the_next_token_is_told_from_those_rolled_back(room: Played):
    room.tick(seal=1)
    lost = [room.begin("Hit"), room.begin("Run")]

    room.tick(rollback=1)
    token = room.begin("Hit")

    assert token.generation == 3
    assert [room.complete(each) for each in lost] == ["rolled_back", "rolled_back"]
    assert room.complete(token) == "committed"
    assert [room.complete(each) for each in lost] == ["rolled_back", "rolled_back"]


def test_the_newest_generation_that_stands_is_what_a_begin_is_compared_with(room: Played):
    room.begin("Run")
    room.tick(seal=1)
    room.begin("Hit")

    room.tick(rollback=1)

    conflict = room.ask(Begin(layer="base", target="Hit", if_generation=2))
    assert (conflict.outcome, conflict.by) == ("generation_conflict", {"generation": 1, "to": "Run"})
    assert room.word(Begin(layer="base", target="Hit", if_generation=1)) == "granted"


def test_more_rolled_back_generations_than_a_layer_remembers_are_old_ones(room: Played):
    first = room.begin("Run")
    room.tick(seal=1)
    for _ in range(70):
        lost = room.begin("Hit")

    room.tick(rollback=1)
    held = room.complete(lost)
    room.begin("Hit")

    assert held == "rolled_back"
    assert (room.complete(lost), room.complete(first)) == ("rolled_back", "stale_generation")


def test_parameter_values_come_back_as_a_new_version(room: Played):
    room.ask(speed(1))
    room.tick(seal=1)
    room.ask(speed(2))
    room.ask(speed(3))

    room.tick(rollback=1)

    assert (room.hero().parameters.version, room.hero().parameters.values) == (4, {"Speed": 1})
    assert room.word(CommitParameters(values=[], base_version=1)) == "stale_version"


def test_a_parameter_that_was_not_there_is_not_there_again(room: Played):
    room.tick(seal=1)
    room.ask(speed(2))

    room.tick(rollback=1)

    assert room.hero().parameters.values == {}


def test_parameters_that_nobody_committed_since_keep_their_version(room: Played):
    room.ask(speed(1))
    room.tick(seal=1)
    room.begin("Run")

    room.tick(rollback=1)

    assert room.hero().parameters.version == 1


def test_firings_of_a_trigger_are_never_taken_back(room: Played):
    room.respawn(ARMED)
    room.tick(seal=1)
    room.ask(fire())
    room.ask(CommitParameters(values=[*speed(4).values, *fire().values]))

    room.tick(rollback=1)

    assert room.hero().parameters.values == {"Speed": 0, "Fire": 2}


def test_a_character_that_nobody_touched_since_keeps_its_revision(room: Played):
    room.tick(seal=1)
    room.begin("Run")
    untouched = room.hero("villain").revision

    room.tick(rollback=1)

    assert (room.hero("villain").revision, room.hero().revision) == (untouched, 3)


def test_commands_of_the_tick_being_open_are_undone_too(room: Played):
    room.tick(seal=3)
    room.begin("Run")

    room.tick(rollback=3)

    assert room.pending() is None


# ---- what never comes back


def test_a_graph_and_its_epochs_stay(room: Played):
    room.begin("Run")
    room.tick(seal=1)
    token = room.begin("Hit")
    room.ask(RequestGraph(name="A"))
    room.ask(candidate(1, "CombatV9"))
    room.ask(RequestGraph(name="B"))

    room.tick(rollback=1)

    slot, layer = room.hero().graphs["main"], room.hero().layers["base"]
    assert slot.active is not None
    assert (slot.active.name, slot.epoch, slot.latest_request, layer.epoch) == ("CombatV9", 2, 2, 2)
    assert room.complete(token) == "stale_epoch"
    assert room.word(WithdrawGraph(request=2)) == "withdrawn"


def test_a_token_pending_then_is_lost_when_its_epoch_ended_since(room: Played):
    token = room.begin("Run")
    room.tick(seal=1)
    room.ask(RequestGraph(name="A"))
    room.ask(candidate(1))

    room.tick(rollback=1)

    assert room.pending() is None
    assert room.complete(token) == "stale_epoch"
    assert room.begin("Hit").epoch == 2


def test_the_state_committed_then_comes_back_under_the_graph_of_now(room: Played):
    room.complete(room.begin("Run"))
    room.tick(seal=1)
    room.ask(RequestGraph(name="A"))
    room.ask(candidate(1))
    room.complete(room.begin("Hit"))

    room.tick(rollback=1)

    assert (room.current(), room.hero().layers["base"].epoch) == ("Run", 2)


def test_a_life_that_ended_since_stays_ended(room: Played):
    room.begin("Run")
    room.tick(seal=1)
    room.ask(Despawn())

    assert room.tick(rollback=1).rollback.timeline == 1

    assert room.scene.roster.names() == ["villain"]


def test_a_life_that_began_since_stays_and_is_as_it_was_born(room: Played):
    room.tick(seal=1)
    room.spawn(who="squire")
    room.complete(room.begin("Run", "squire"))
    room.ask(speed(1), "squire")
    room.tick(seal=2)
    room.begin("Hit", "squire")

    room.tick(rollback=1)

    assert (room.current("squire"), room.pending("squire")) == ("Idle", None)
    assert (room.hero("squire").life, room.hero("squire").parameters.values) == (1, {})


def test_the_next_life_is_not_made_what_the_former_one_was(room: Played):
    room.complete(room.begin("Run"))
    room.tick(seal=1)
    room.respawn()
    room.complete(room.begin("Hit"))

    room.tick(rollback=1)

    assert (room.hero().life, room.current()) == (2, "Idle")


def test_a_life_that_began_in_a_tick_that_stays_goes_back_to_that_tick(room: Played):
    room.tick(seal=1)
    room.spawn(who="squire")
    room.complete(room.begin("Run", "squire"))
    room.tick(seal=2)
    room.complete(room.begin("Hit", "squire"))

    room.tick(rollback=2)

    assert room.current("squire") == "Run"


def test_no_number_falls(room: Played):
    room.respawn(ARMED)
    room.tick(seal=1)
    room.complete(room.begin("Run"))
    room.ask(speed(2))
    room.ask(RequestGraph(name="A"))
    before, sequence = room.hero(), room.scene.sequence

    room.tick(rollback=1)

    after = room.hero()
    assert after.revision > before.revision
    assert after.layers["base"].generation == before.layers["base"].generation
    assert after.layers["base"].committed == before.layers["base"].committed
    assert after.parameters.version == before.parameters.version + 1
    assert after.graphs["main"].latest_request == 1
    assert room.scene.sequence == sequence + 1


# ---- what is forgotten


def asked(room: Played, key: str, target: str = "Run", who: str = "villain") -> tuple[str, Any, Any]:
    command = Begin(layer="base", target=target)
    return (who, command, mark("server", key, who, command))


def keys(room: Played) -> int:
    return sum(len(held) for held in room.scene.receipts.dump().values())


def test_a_key_of_an_undone_command_is_decided_afresh_and_that_of_a_kept_one_is_not(room: Played):
    room.tick(seal=1)
    room.turn(asked(room, "kept"))
    room.tick(seal=2)
    room.turn(asked(room, "undone-1"))
    room.tick(seal=3)
    room.turn(asked(room, "undone-2"))
    before = keys(room)

    room.tick(rollback=2)

    assert (before, keys(room)) == (3, 1)


def test_a_key_used_before_its_rollback_in_the_same_turn_is_decided_afresh_in_it(room: Played):
    room.tick(seal=1)
    [who, command, marked] = asked(room, "once")

    first, _, again = room.turn((who, command, marked), (None, Tick(rollback=1)), (who, command, marked))

    assert (first.token.generation, again.token.generation) == (1, 2)
    assert keys(room) == 1


def test_a_key_used_in_an_earlier_turn_is_decided_afresh_behind_a_rollback_in_the_same_turn(room: Played):
    room.tick(seal=1)
    [who, command, marked] = asked(room, "once")
    room.turn((who, command, marked))

    turn = Candidate(room.scene, room.at)
    before = turn.earlier(marked)
    turn.decide(None, Tick(rollback=1))

    assert before is not None
    assert turn.earlier(marked) is None


def test_the_key_of_a_seal_that_reached_beyond_is_decided_afresh_and_of_one_that_did_not_is_not(room: Played):
    """A client that seals again under the same key would otherwise be told of ticks that were undone."""
    room.begin("Run")
    for through in (2, 6):
        seal = Tick(requests=[request(through, HIT, number=through)], seal=through)
        room.ask(seal, None, mark("server", f"seal-{through}", None, seal))

    room.tick(rollback=4)
    left = keys(room)
    room.tick(rollback=2)
    still = keys(room)
    room.tick(rollback=1)

    assert (left, still, keys(room)) == (1, 1, 0)


def test_held_requests_and_their_numbers_are_forgotten(room: Played):
    room.tick(seal=1, requests=[request(3, RUN, number=1), request(1, HIT, number=2)])

    room.tick(rollback=0)
    ticked = room.tick(requests=[request(1, RUN, number=1), request(1, HIT, number=2)])

    assert ticked.requests == [None, None]


def test_the_answers_of_undone_ticks_are_forgotten(room: Played):
    room.tick(requests=[request(1, RUN, number=1), request(2, HIT, number=2)], seal=2)

    room.tick(rollback=1)

    assert list(room.scene.ticks.answered) == [1]


# ---- how far


def test_a_rollback_above_the_sealed_tick_is_refused_before_all_else(room: Played):
    room.tick(seal=5, confirm=5)

    ticked = room.tick(rollback=6, requests=[request(7, RUN)], seal=7)

    assert ticked.refused == {"rollback": Refused("unsealed", at="rollback", by={"tick": 5})}
    assert (ticked.requests, ticked.seal) == (UNSET, UNSET)
    assert room.scene.ticks.held == {}


def test_a_rollback_below_the_confirmed_tick_is_refused_before_it_is_too_far(room: Played):
    room.tick(seal=99)
    room.tick(confirm=98)

    refused = [room.tick(rollback=tick).refused["rollback"] for tick in (97, 1)]

    assert refused == [Refused("below_confirmed", at="rollback", by={"tick": 98})] * 2
    assert room.tick(rollback=98).rollback.tick == 98


def test_a_rollback_beyond_the_ticks_that_are_kept_is_refused(room: Played):
    room.tick(seal=100)

    assert room.tick(rollback=35).refused["rollback"] == Refused("beyond_rollback", at="rollback", by={"tick": 36})
    assert room.tick(rollback=36).rollback.tick == 36


def test_a_rollback_does_not_let_a_scene_go_back_further_than_before(room: Played):
    room.tick(seal=100)
    room.tick(rollback=40)

    assert room.tick(rollback=35).refused["rollback"].outcome == "beyond_rollback"


def test_what_is_confirmed_cannot_be_undone_and_nothing_more_of_it_is_kept(room: Played):
    for tick in (1, 2, 3):
        room.tick(requests=[request(tick, RUN, number=tick)], seal=tick)

    room.tick(confirm=2)

    assert list(room.scene.ticks.past) == [2, 3]
    assert room.scene.ticks.past[2].before == {}
    assert room.tick(rollback=2).rollback.characters == ["hero"]
    assert room.tick(rollback=1).refused["rollback"].outcome == "below_confirmed"


def test_a_scene_that_sealed_nothing_goes_back_to_when_its_ticks_began(room: Played):
    room.begin("Run")
    room.tick(requests=[])
    room.begin("Hit")

    room.tick(rollback=0)

    assert room.pending() == "Run"


def test_a_first_rollback_to_where_the_scene_is_lets_its_ticks_run(room: Played):
    room.begin("Run")

    fact = room.tick(rollback=0).rollback

    assert (fact.characters, room.pending(), room.scene.ticks.is_running) == ([], "Run", True)


def test_too_many_deliveries_in_a_tick_that_nobody_seals_end_what_can_be_undone():
    room = Played(bounds=Bounds(tick_deliveries_max=1))
    room.spawn(rig(kinds={"spark": "immediate"}))
    room.tick(seal=1)
    for frame in (1, 2):
        room.ask(Enqueue(clip_instance=1, loop=0, frame=frame, kind="spark"))

    assert room.tick(rollback=1).refused["rollback"] == Refused("beyond_rollback", at="rollback", by={"tick": 2})
    assert room.tick(seal=2).seal.tick == 2
    room.check()


# ---- again and again


def test_two_rollbacks_in_a_row_are_as_one_to_the_lower_tick(room: Played):
    for tick, target in enumerate(("A", "B", "C"), start=1):
        room.complete(room.begin(target))
        room.tick(seal=tick)

    room.tick(rollback=2)
    two = room.current()
    room.tick(rollback=2)
    same = room.current()
    room.tick(rollback=1)

    assert (two, same, room.current()) == ("B", "B", "A")
    assert room.scene.ticks.timeline == 3


def test_rollbacks_nest(room: Played):
    """Rolled back to 2, resimulated to 4, rolled back to 1: everything in between is undone at once."""
    for tick, target in enumerate(("A", "B", "C", "D"), start=1):
        room.complete(room.begin(target))
        room.tick(seal=tick)
    room.tick(rollback=2)
    late = room.begin("X")
    room.complete(late)
    room.tick(seal=4)

    room.tick(rollback=3)
    three = room.current()
    room.tick(rollback=1)

    assert (three, room.current()) == ("X", "A")
    assert room.complete(late) == "rolled_back"


def test_a_tick_rolls_back_takes_late_input_and_seals_again_in_one_decision(room: Played):
    first = room.tick(requests=[request(tick, RUN, number=tick) for tick in (1, 2, 3)], seal=3)

    again = room.tick(rollback=1, requests=[request(2, HIT, number=9), request(3, RUN, number=3)], seal=3, confirm=2)

    assert [tick.tick for tick in first.seal.ticks] == [1, 2, 3]
    assert [(tick.tick, tick.applied[0].number) for tick in again.seal.ticks] == [(2, 9), (3, 3)]
    assert (room.pending(), room.scene.ticks.confirmed) == ("Run", 2)


def test_resimulation_of_the_same_requests_has_the_digest_of_never_having_gone_astray(room: Played):
    straight = Played()
    straight.spawn()
    straight.spawn(who="villain")
    requests = [request(tick, RUN, number=tick) for tick in (1, 2, 3)]
    straight.tick(requests=requests, seal=3)

    room.tick(requests=[*requests[:1], request(2, HIT, number=8)], seal=3)
    astray = room.scene.ticks.digest
    room.tick(rollback=1, requests=requests[1:], seal=3)

    assert astray != straight.scene.ticks.digest == room.scene.ticks.digest


def test_a_deadline_that_was_rolled_back_leaves_nothing_behind(room: Played):
    room.tick(seal=1)
    room.begin("Hit", deadline_ticks=3)

    sealed = room.tick(rollback=1, seal=9).seal

    assert (sealed.ticks, sealed.digest) == ([], "")


# ---- holders


def test_a_holder_is_what_it_was(room: Played):
    attack = room.begin("Attack")
    room.tick(seal=1)
    room.begin("Hit")
    lost = room.word(Begin(layer="base", target="Run", holder=attack), "villain")

    room.tick(rollback=1)

    assert lost == "holder_lost"
    assert room.word(Begin(layer="base", target="Run", holder=attack), "villain") == "granted"


def test_a_token_that_is_rolled_back_holds_nothing(room: Played):
    room.tick(seal=1)
    attack = room.begin("Attack")
    room.complete(attack)

    room.tick(rollback=1)

    assert room.word(Begin(layer="base", target="Run", holder=attack), "villain") == "holder_lost"


def test_spawns_and_bundles_of_ticks_are_undone_as_far_as_they_can_be(room: Played):
    bundle = Bundle(commands=[member("squire", Spawn()), member("squire", RUN), member("hero", HIT)])
    room.tick(requests=[request(1, bundle, None)], seal=1)

    room.tick(rollback=0)
    again = room.tick(requests=[request(1, bundle, None)], seal=1)

    answer = again.seal.ticks[0].applied[0].answered.answer
    assert [word(given.answer) for given in answer.answers] == ["spawned", "granted", "granted"]
    assert (answer.answers[0].answer.created, room.pending("squire")) == (False, "Run")
    assert isinstance(answer.answers[1].answer.token, Token)


def test_many_characters_come_back_in_steps_when_it_is_decided_and_when_it_is_replayed(room: Played):
    names = [f"hero-{number}" for number in range(64)]
    room.turn(*((name, Spawn()) for name in names))
    room.tick(seal=1)
    room.turn(*((name, RUN) for name in names))
    decided = Candidate(room.scene, room.at)

    record, steps = taken(decided.decide_in_steps(Tick(rollback=1)))
    assert isinstance(record, Record)
    again, others = taken(Candidate(room.scene, room.at).apply_in_steps(record))

    assert record == again == finished(Candidate(room.scene, room.at).decide_in_steps(Tick(rollback=1)))
    assert isinstance(record.answer, Ticked)
    assert record.answer.rollback == RolledBack(1, 1, names)
    assert (steps, others) == (12, 12)
