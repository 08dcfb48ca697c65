"""Asking: a caller has the same share at every door, a session from before a repair has none; failures have names."""

from typing import Any

import pytest

from app.api.asking import FAILURES, note_refusals, problem_of_failure, require_share, require_share_now, take_inside
from app.api.callers import ANYBODY, Caller, Role
from app.api.problems import KINDS, ProblemError
from app.api.quota import Quota
from app.gates.bundle import Bundle, Member
from app.gates.decision import Problem, Undecided
from app.gates.tick import Tick
from app.gates.transition import Begin
from app.journal import open_journal
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.settings import Settings
from tests.support.keyed import MATCH, keyed
from tests.support.wire import until

BEGIN = Begin(layer="base", target="Run")
ONE = [Addressed("hero", BEGIN)]


def quota(**settings: Any) -> Quota:
    return Quota(Settings(journal="memory:", **settings))


def player(under: str) -> Caller:
    return Caller("session/match/p", Role.SESSION, scene="match-7", characters={"hero": 1}, under=under)


def registry() -> Registry:
    return Registry(open_journal("memory:"), Settings(journal="memory:"))


@pytest.mark.parametrize("kind", FAILURES, ids=lambda kind: kind.__name__)
def test_every_failure_is_a_problem_with_its_own_words(kind: type[Exception]):
    problem = problem_of_failure(kind("the disk is full"))

    assert problem.name in KINDS
    assert problem.detail == "the disk is full"


def test_the_commands_inside_of_others_are_counted_and_single_ones_are_not():
    counted = quota(session_commands_per_s_max=5)
    member = Member("hero", BEGIN, {})
    take_inside(counted, player(""), ONE * 100)
    take_inside(counted, player(""), [Addressed(None, Bundle([member] * 2)), Addressed(None, Tick(seal=1))])
    take_inside(counted, player(""), [Addressed(None, Bundle([member] * 3))])

    with pytest.raises(ProblemError) as raised:
        take_inside(counted, player(""), [Addressed(None, Bundle([member]))])

    assert raised.value.name == "too-many-requests"


async def test_of_results_the_refusals_are_counted():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")
        refused = [Addressed("hero", Begin(layer="none", target="Run"))]
        results = await speaks.registry.submit("match-7", [*refused, *ONE, *refused], caller="key/match")
    counted = quota(session_refusals_per_minute_max=2)
    assert [type(result) for result in results] == [Decided] * 3
    note_refusals(counted, player(""), [*results[:2], Undecided(Problem.KEY_REUSED, "no decision")])
    counted.require_refusals(player(""))
    note_refusals(counted, player(""), results[2:])

    with pytest.raises(ProblemError):
        require_share_now(counted, registry(), player(""), "match-7", ONE)


async def test_a_session_from_before_a_repair_has_no_share_and_one_whose_scene_is_not_open_waits_for_it():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")
        scene = speaks.registry.in_memory("match-7")
        assert scene is not None
        under = scene.sealer.fingerprint

        assert require_share_now(quota(), speaks.registry, player(under), "match-7", ONE)
        with pytest.raises(ProblemError) as raised:
            require_share_now(quota(), speaks.registry, player("another"), "match-7", ONE)
        assert raised.value.name == "unauthenticated"
        assert require_share_now(quota(), speaks.registry, ANYBODY, "match-8", ONE)
        assert not require_share_now(quota(), speaks.registry, player(under), "match-8", ONE)
        await require_share(quota(), speaks.registry, player(under), "match-8", ONE)

        speaks.registry._ask_to_leave("match-7")
        await until(lambda: speaks.registry.in_memory("match-7") is None)
        assert not require_share_now(quota(), speaks.registry, player("another"), "match-7", ONE)
        with pytest.raises(ProblemError) as raised:
            await require_share(quota(), speaks.registry, player("another"), "match-7", ONE)
        assert raised.value.name == "unauthenticated"
