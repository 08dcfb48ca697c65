"""Cutting: the entry of a turn, and what of the turn fits into one entry, where not all of it does."""

from app.gates.candidate import Candidate
from app.gates.decision import Problem, Undecided
from app.journal.codec import Traced, encode_entry, encode_entry_in_steps
from app.journal.port import NotTheWriter
from app.sequencing.mailbox import Decided, Earlier, Result, Submission
from app.sequencing.pace import Pace

AT_ONCE_DECISIONS = 4_096
"""How many decisions are packed in one step, about 3 ms; in several it takes twice as long."""

PACED = 64
"""After how many decisions that are measured it is looked whether others should run."""

TRACED_BYTES = 96
"""More than a traced request takes in an entry besides its decisions, bytes."""


class Unproved(NotTheWriter):
    """No append shows that what was decided still holds, and others may have written: the journal is read first."""


async def encoded(candidate: Candidate, traced: list[Traced]) -> bytes:
    """Give the entry of a candidate; nothing where nothing was decided. Others run while one of many is made."""
    at, first, records = candidate.at, candidate.first, candidate.records
    if not records:
        return b""
    if len(records) <= AT_ONCE_DECISIONS:
        return encode_entry(at=at, first=first, records=records, traced=traced)
    pace = Pace()
    blob = await pace.through(encode_entry_in_steps(at=at, first=first, records=records, traced=traced))
    if pace.is_due:
        await pace.pause()
    return blob


async def fitting(candidate: Candidate, traced: list[Traced], bytes_max: int) -> int:
    """Give the last sequence up to which a candidate's decisions surely fit into one entry of `bytes_max` bytes.

    It is measured decision by decision, up to the bound: once, instead of deciding again by halves until it fits. An
    entry says once what decisions have in common, so together they take less than their sum.
    """
    size, pace, begins = 0, Pace(), {part.first for part in traced}
    for sequence, record in enumerate(candidate.records, candidate.first):
        size += len(encode_entry(at=candidate.at, first=sequence, records=[record]))
        size += TRACED_BYTES if sequence in begins else 0
        if size > bytes_max:
            return sequence - 1
        if sequence % PACED == 0 and pace.is_due:
            await pace.pause()
    return candidate.sequence


def cut(
    submissions: list[Submission],
    results: list[list[Result | Earlier]],
    *,
    first: int,
    last: int,
    bytes_max: int,
    is_current: bool,
) -> list[Submission]:
    """Leave in `submissions` what was decided up to `last`, and give the others, in order, to wait for the next turn.

    `first` and `last` are sequences of what was decided of them and is not durable; not all of it is up to `last`.
    Whole submissions stay, where there are any; of one that is too large alone, a part. A command that does not fit by
    itself is no command: the submission that it stands in is told so at its place, and all of them stay.

    Raises:
        Unproved: A submission would be told so, and not only that but each problem before it, of a state that is not
            known to be the journal's (`is_current`). Nothing was changed.
    """
    for index, (submission, answers) in enumerate(zip(submissions, results, strict=True)):
        for place in range(len(submission.decided), len(answers)):
            result = answers[place]
            if type(result) is not Decided or result.sequence <= last:
                continue
            if result.sequence == first:
                if not is_current:
                    raise Unproved
                said = f"what is decided of it takes more than {bytes_max} bytes, the journal's largest entry"
                submission.decided = [*answers[:place], Undecided(Problem.TOO_LARGE, said, at="command")]
                return []
            if any(each.part for each in submissions[:index]):
                return _from(submissions, index)
            submission.until = place
            return _from(submissions, index + 1)
    raise AssertionError("decisions that fit one by one are too large together")


def _from(submissions: list[Submission], index: int) -> list[Submission]:
    rest = submissions[index:]
    del submissions[index:]
    return rest
