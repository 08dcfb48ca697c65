"""Tying: tokens of one link end together. Contract, section 8, "Bundle" (`link`)."""

from collections.abc import Callable
from typing import Any

import pytest

from app.gates.bundle import Bundle
from app.gates.candidate import Candidate
from app.gates.decision import Command
from app.gates.graph import RequestGraph
from app.gates.identity import Token
from app.gates.lives import CloseScene, Despawn
from app.gates.transition import Begin, Cancel, Complete, Fail
from tests.support.played import Played, member, request, word
from tests.support.rigs import ANY_STATE, candidate, graph_rule, rig

NOTHING = Token("", "", 0, 0, "", "")
GRAB, GRABBED, HIT = (Begin(layer="base", target=target) for target in ("Grab", "Grabbed", "Hit"))
TWO_LAYERS = rig(
    layers={"base": ANY_STATE, "face": ANY_STATE}, graphs={"main": graph_rule("base"), "mask": graph_rule("face")}
)


def grabbed(room: Played) -> tuple[Token, Token]:
    """Let the hero grab the villain; give both tokens."""
    answer = room.bundle(member("hero", GRAB), member("villain", GRABBED), link=True)
    hero, villain = (given.answer.token for given in answer.answers)
    return hero, villain


def decided(room: Played, command: Command, who: str) -> Any:
    """Decide a command; give its record."""
    return Candidate(room.scene, room.at).decide(who, command)


ENDS: dict[str, tuple[Callable[[Token], Command], str]] = {
    "begin": (lambda token: HIT, "stale_generation"),
    "cancel": (lambda token: Cancel(token=token), "already_cancelled"),
    "fail": (lambda token: Fail(token=token, why="no clip"), "already_failed"),
    "despawn": (lambda token: Despawn(), "stale_generation"),
}


@pytest.mark.parametrize("ticking", [False, True])
@pytest.mark.parametrize(("end", "becomes"), ENDS.values(), ids=ENDS)
def test_what_ends_one_of_two_linked_tokens_ends_both(
    room: Played, end: Callable[[Token], Command], becomes: str, ticking: bool
):
    if ticking:
        room.tick(seal=1)
    hero, villain = grabbed(room)

    record = decided(room, end(villain), "villain")
    room.ask(end(villain), "villain")

    assert [ended.token.character for ended in record.consequences.ended] == ["hero"]
    assert room.pending() is None
    assert room.complete(hero) == becomes
    assert room.current() == "Idle"


def test_a_third_partys_hit_frees_grabber_and_grabbed_in_one_answer(room: Played):
    """The answer names, without its seal, the token that ended with the one it superseded."""
    hero, _ = grabbed(room)

    record = decided(room, HIT, "villain")

    [ended] = record.consequences.ended
    assert (ended.token.character, ended.token.generation, ended.token.to) == ("hero", hero.generation, "Grab")
    assert not isinstance(ended.token.seal, str)


def test_the_commit_of_a_graph_ends_the_linked_tokens_of_others_too(room: Played):
    hero, villain = grabbed(room)
    room.ask(RequestGraph(name="A"), "villain")

    record = decided(room, candidate(1), "villain")
    room.ask(candidate(1), "villain")

    assert [token.character for token in record.answer.ended] == ["villain"]
    assert [ended.token.character for ended in record.consequences.ended] == ["hero"]
    assert (room.complete(hero), room.complete(villain)) == ("stale_generation", "stale_epoch")


def test_a_deadline_ends_the_linked_token_without_one(room: Played):
    answer = room.bundle(
        member("hero", Begin(layer="base", target="Grab", deadline_ticks=1)), member("villain", GRABBED), link=True
    )
    hero, villain = (given.answer.token for given in answer.answers)
    room.tick(seal=1)
    before = (room.pending(), room.pending("villain"))

    sealed = room.tick(seal=2)

    [applied] = sealed.seal.ticks
    assert before == ("Grab", "Grabbed")
    assert [(ended.token.character, ended.how) for ended in applied.expired.ended] == [("hero", "t"), ("villain", "t")]
    assert (room.complete(hero), room.complete(villain)) == ("expired", "expired")


def test_completing_one_leaves_the_others(room: Played):
    hero, villain = grabbed(room)

    assert room.complete(hero) == "committed"
    assert room.pending("villain") == "Grabbed"
    assert room.complete(villain) == "committed"


def test_what_is_committed_is_not_ended_by_a_linked_token(room: Played):
    hero, villain = grabbed(room)
    room.complete(hero)

    room.ask(Cancel(token=villain), "villain")

    assert (room.current(), room.complete(hero)) == ("Grab", "already_completed")


def test_a_linked_token_kept_by_the_same_begin_ends_nothing(room: Played):
    grabbed(room)

    assert room.word(Begin(layer="base", target="Grabbed", if_same="keep"), "villain") == "kept"
    assert (room.pending(), room.pending("villain")) == ("Grab", "Grabbed")


def test_tokens_of_a_bundle_without_link_end_alone(room: Played):
    room.bundle(member("hero", GRAB), member("villain", GRABBED))

    room.ask(HIT, "villain")

    assert room.pending() == "Grab"


def test_links_do_not_touch_each_other(room: Played):
    room.spawn(who="squire")
    room.spawn(who="dragon")
    grabbed(room)
    room.bundle(member("squire", GRAB), member("dragon", GRABBED), link=True)

    room.ask(HIT, "dragon")

    assert (room.pending("squire"), room.pending()) == (None, "Grab")


def test_two_layers_of_one_character_may_be_linked(room: Played):
    room.respawn(TWO_LAYERS)
    room.bundle(member("hero", GRAB), member("hero", Begin(layer="face", target="Grin")), link=True)
    revision = room.hero().revision

    record = decided(room, HIT, "hero")
    room.ask(HIT)

    assert [ended.token.layer for ended in record.consequences.ended] == ["face"]
    assert (room.pending(), room.pending(layer="face")) == ("Hit", None)
    assert record.revision == room.hero().revision == revision + 2


def test_the_linked_tokens_of_two_lost_layers_are_named_once_each(room: Played):
    room.respawn(TWO_LAYERS)
    room.bundle(
        member("hero", GRAB),
        member("hero", Begin(layer="face", target="Grin")),
        member("villain", GRABBED),
        link=True,
    )

    record = decided(room, Despawn(), "hero")
    room.ask(Despawn())

    assert [ended.token.character for ended in record.consequences.ended] == ["villain"]


def test_a_token_that_ends_in_its_own_bundle_was_never_linked(room: Played):
    answer = room.bundle(
        member("hero", GRAB),
        member("villain", GRABBED),
        member("hero", HIT),
        member("villain", Cancel(token=NOTHING), token=1),
        link=True,
    )

    assert [word(given.answer) for given in answer.answers] == ["granted", "granted", "granted", "cancelled"]
    assert room.pending() == "Hit"
    assert room.scene.ticks.links[1].members == [("hero", "base", 2)]


def test_what_is_committed_in_its_own_bundle_is_not_linked(room: Played):
    room.bundle(
        member("hero", GRAB), member("hero", Complete(token=NOTHING), token=0), member("villain", GRABBED), link=True
    )

    room.ask(Cancel(token=room.begin("Hit", "villain")), "villain")

    assert room.current() == "Grab"


def test_a_linked_bundle_that_grants_nothing_links_nothing(room: Played):
    room.bundle(link=True)

    assert room.scene.ticks.links == {}


def test_a_link_is_forgotten_when_no_token_of_it_is_pending(room: Played):
    """Without ticks there is nobody who could roll it back."""
    hero, villain = grabbed(room)
    room.complete(hero)
    assert list(room.scene.ticks.links) == [1]

    room.complete(villain)

    assert room.scene.ticks.links == {}


def test_a_link_that_ended_is_forgotten_once_no_rollback_can_reach_it(room: Played):
    room.tick(seal=1)
    hero, villain = grabbed(room)
    room.complete(hero)
    room.complete(villain)
    room.tick(seal=2)
    held = dict(room.scene.ticks.links)

    room.tick(confirm=2, seal=3)
    room.tick(seal=66)

    assert [link.ended_in for link in held.values()] == [2]
    assert room.scene.ticks.links == {}


def test_a_rollback_ties_again_what_was_tied_and_unties_what_was_not(room: Played):
    room.tick(seal=1)
    hero, villain = grabbed(room)
    room.tick(seal=2)
    room.ask(HIT, "villain")
    room.bundle(member("hero", GRAB), member("villain", GRABBED), link=True)

    room.tick(rollback=2)
    room.ask(Cancel(token=hero))

    assert (room.pending(), room.pending("villain")) == (None, None)
    assert room.complete(villain) == "already_cancelled"


def test_a_link_from_before_the_first_tick_survives_a_rollback_to_it(room: Played):
    """What a scene is when its ticks begin, it was at the end of the last tick: its links too."""
    grabbed(room)
    room.tick(seal=1)

    room.tick(rollback=0)
    room.ask(HIT, "villain")

    assert room.pending() is None


def test_a_link_made_by_a_request_ends_like_any_other(room: Played):
    grab = Bundle(commands=[member("hero", GRAB), member("villain", GRABBED)], link=True)

    sealed = room.tick(requests=[request(1, grab, None), request(2, HIT, "villain", number=2)], seal=2)

    [first, second] = sealed.seal.ticks
    assert word(first.applied[0].answered.answer) == "bundled"
    assert [ended.token.character for ended in second.applied[0].answered.consequences.ended] == ["hero"]
    assert room.pending() is None


def test_a_scene_that_is_closed_has_no_links(room: Played):
    grabbed(room)

    room.ask(CloseScene(), None)

    assert room.scene.ticks.links == {}


def test_a_linked_token_does_not_come_back_without_one_whose_epoch_ended_for_good(room: Played):
    """A rollback takes back no graph: the villain would hold a grab that the hero can never finish."""
    room.tick(seal=1)
    hero, villain = grabbed(room)
    room.tick(seal=2)
    room.ask(RequestGraph(name="A"))
    room.ask(candidate(1))

    fact = room.tick(rollback=2).rollback

    assert [ended.token.character for ended in fact.consequences.ended] == ["villain"]
    assert room.pending("villain") is None
    assert (room.complete(hero), room.complete(villain)) == ("stale_epoch", "stale_generation")


def test_a_linked_token_does_not_come_back_without_one_whose_life_ended(room: Played):
    room.tick(seal=1)
    _, villain = grabbed(room)
    room.tick(seal=2)
    room.ask(Despawn())

    room.tick(rollback=2)

    assert room.complete(villain) == "stale_generation"


def test_linked_tokens_come_back_together_when_nothing_of_them_ended_for_good(room: Played):
    room.tick(seal=1)
    hero, villain = grabbed(room)
    room.tick(seal=2)
    room.ask(HIT)
    before = room.pending("villain")

    fact = room.tick(rollback=2).rollback

    assert (before, fact.consequences) == (None, None)
    assert (room.complete(villain), room.complete(hero)) == ("committed", "committed")
