"""The passage says which request is being answered here, and to nobody else."""

import asyncio

from app.telemetry.passage import Passage, entered, left, note_problem, present, request_id


def test_a_passage_is_present_until_it_is_left():
    passage = Passage(b"r-1", None)

    token = entered(passage)
    inside = present()
    left(token)

    assert inside is passage
    assert present() is None


async def test_requests_under_way_together_do_not_see_each_other():
    seen: list[Passage | None] = []

    async def answered(name: bytes) -> None:
        entered(Passage(name, None))
        await asyncio.sleep(0)
        seen.append(present())

    await asyncio.gather(answered(b"one"), answered(b"two"))

    assert [passage.id for passage in seen if passage is not None] == [b"one", b"two"]
    assert present() is None


def test_a_problem_is_noted_on_the_request_it_answers_and_outside_of_one_on_none():
    passage = Passage(b"r-1", None)

    token = entered(passage)
    note_problem("mailbox-full")
    left(token)
    note_problem("draining")

    assert passage.problem == "mailbox-full"


def test_a_scope_keeps_the_id_of_its_request():
    assert request_id({"posegate.passage": Passage(b"r-1", None)}) == "r-1"
    assert request_id({}) is None
