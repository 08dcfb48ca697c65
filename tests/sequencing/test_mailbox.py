"""The mailbox: a bound, an order, and no lost wake-up."""

import asyncio

from app.gates.decision import Problem, Undecided
from app.gates.scene import Record
from app.gates.transition import TransitionKept
from app.journal.port import CommitUnknown, JournalUnavailable
from app.sequencing.mailbox import Addressed, Decided, Mailbox, Submission, awaited
from tests.support.sequenced import RUN


def submission(commands: int) -> Submission:
    return Submission([Addressed("hero", RUN)] * commands, "", lambda _: None)


async def test_what_waits_is_taken_whole_in_the_order_it_came():
    mailbox = Mailbox(10)
    put = [submission(number) for number in (2, 3, 1)]
    for one in put:
        assert mailbox.put(one)

    first, rest = mailbox.take(5), mailbox.take(5)

    assert (first, rest) == (put[:2], put[2:])
    assert (len(mailbox), mailbox.has_waiting) == (0, False)


async def test_a_submission_larger_than_a_turn_is_taken_alone():
    mailbox = Mailbox(100)
    put = [submission(number) for number in (50, 1)]
    for one in put:
        mailbox.put(one)

    assert mailbox.take(5) == put[:1]


async def test_beyond_the_bound_the_newest_is_turned_away_and_the_others_stay():
    mailbox = Mailbox(3)
    held = submission(2)

    answers = [mailbox.put(held), mailbox.put(submission(2)), mailbox.put(submission(1))]

    assert answers == [True, False, True]
    assert len(mailbox) == 3
    assert mailbox.take(9)[0] is held


async def test_an_empty_mailbox_takes_a_submission_of_any_size():
    assert Mailbox(3).put(submission(50))


async def test_an_empty_submission_waits_like_any_other():
    mailbox = Mailbox(1)
    mailbox.put(submission(0))

    assert mailbox.has_waiting
    await mailbox.wait()
    assert len(mailbox.take(9)) == 1


async def test_waiting_ends_with_a_submission_that_comes_and_with_one_that_was_there():
    mailbox = Mailbox(3)
    waiting = asyncio.ensure_future(mailbox.wait())
    await asyncio.sleep(0)

    mailbox.put(submission(1))
    await waiting
    await mailbox.wait()

    assert mailbox.has_waiting


async def test_waiting_goes_on_after_what_waited_was_taken():
    mailbox = Mailbox(3)
    mailbox.put(submission(1))
    mailbox.take(9)

    waiting = asyncio.ensure_future(mailbox.wait())
    await asyncio.sleep(0)

    assert not waiting.done()
    mailbox.wake()
    await waiting


async def test_draining_takes_everything():
    mailbox = Mailbox(9)
    put = [submission(1), submission(0)]
    for one in put:
        mailbox.put(one)

    assert mailbox.drain() == put
    assert (len(mailbox), mailbox.has_waiting) == (0, False)


async def test_a_submission_has_one_reply():
    heard: list[object] = []
    once = Submission([], "", heard.append)

    once.answer([])
    once.refuse(RuntimeError("too late"))

    assert heard == [[]]


async def test_a_caller_who_has_gone_is_not_answered():
    waited, reply = awaited()
    waited.cancel()

    reply([])
    reply(RuntimeError("too late"))

    assert waited.cancelled()


async def test_what_is_put_back_comes_before_all_that_waits_whatever_the_bound_says():
    mailbox = Mailbox(5)
    put = [submission(number) for number in (2, 3, 2)]
    for one in put[:2]:
        mailbox.put(one)
    taken = mailbox.take(9)
    mailbox.put(put[2])

    mailbox.put_back(taken)

    assert len(mailbox) == 7
    assert not mailbox.put(submission(1))
    assert mailbox.take(9) == put


async def test_a_submission_that_is_settled_in_part_waits_with_the_rest_and_is_answered_once():
    replies: list[object] = []
    told = Undecided(Problem.INVALID, "it is none")
    one = Submission([Addressed("hero", RUN)] * 3, "", replies.append)
    mailbox = Mailbox(5)
    mailbox.put(one)
    mailbox.take(9)
    one.until = 1

    is_settled = one.settle([told])
    mailbox.put_back([one])

    assert (is_settled, len(mailbox), len(one.part), replies) == (False, 2, 2, [])
    assert one.settle([told] * 3)
    assert replies == [[told] * 3]


async def test_a_submission_of_which_a_part_is_durable_never_hears_that_nothing_was_decided():
    replies: list[object] = []
    decided = Decided(1, 1_000, Record("hero", RUN, TransitionKept(token=None), 1))
    one = Submission([Addressed("hero", RUN)] * 2, "", replies.append)
    one.settle([decided])

    one.refuse(JournalUnavailable("the disk is full"))

    assert [type(reply) for reply in replies] == [CommitUnknown]
