"""Deciding: onto a candidate that nobody sees, from where a submission's settled commands end."""

from app.gates.candidate import Candidate
from app.gates.decision import Problem, Undecided
from app.gates.scene import Bounds, Scene
from app.gates.transition import Begin
from app.journal.memory import MemoryJournal
from app.sequencing.deciding import Deciding
from app.sequencing.mailbox import Addressed, Decided, Earlier, Result, Submission
from tests.support.sequenced import RUN, SPAWN, words

HIT = Begin(layer="base", target="Hit")


def submission(*commands: Addressed) -> Submission:
    return Submission(commands, "", lambda results: None)


async def decided(candidate: Candidate, *submissions: Submission) -> list[list[Result | Earlier]]:
    results, traced = await Deciding("room", MemoryJournal(), candidate).decide(list(submissions))
    assert traced == []
    return results


def candidate() -> Candidate:
    return Candidate(Scene("room", bytes(32), Bounds()), 1_000)


async def test_submissions_are_decided_in_order_and_the_scene_stays_as_it_is():
    made = candidate()

    results = await decided(made, submission(Addressed("hero", SPAWN), Addressed("hero", RUN)), submission())

    assert [words(each) for each in results] == [["spawned", "granted"], []]
    assert (made.sequence, made.scene.sequence) == (2, 0)


async def test_what_is_settled_stands_before_what_is_decided_and_nothing_is_decided_behind_the_part():
    made = candidate()
    given = submission(
        Addressed("hero", SPAWN), Addressed("hero", SPAWN), Addressed("hero", RUN), Addressed("hero", HIT)
    )
    settled = Undecided(Problem.TOO_LARGE, "it does not fit")
    given.decided, given.until = [settled], 3

    [results] = await decided(made, given)

    assert results[0] is settled
    assert words(results) == ["too-large", "spawned", "granted"]
    assert made.sequence == 2
    assert given.decided == [settled], "nothing is settled before it is durable"


async def test_a_key_is_decided_once_and_another_command_under_it_is_told_so():
    made = candidate()
    asked = [Addressed("hero", SPAWN), *(Addressed("hero", command, "key-one") for command in (RUN, RUN, HIT))]

    [results] = await decided(made, submission(*asked))

    assert words(results) == ["spawned", "granted", "granted", "key-reused"]
    assert [each.sequence for each in results if isinstance(each, Decided)] == [1, 2, 2]
