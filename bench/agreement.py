"""Agreement: before batches are measured, sees that posegate and Redis answer the mix alike, and a repeat as before."""

import json
from typing import Any

import msgspec

from bench.load import Caller, connected
from bench.mix import Batches
from bench.redis_rules import RedisMix
from bench.servers import Address

BATCHES = 3
"""How many batches are compared: with grants, with completes, and one more."""

Outcome = tuple[str, int]
"""What became of a command, and how many events it gave out."""


def of_posegate(answer: dict[str, Any]) -> Outcome:
    """Read an answer of posegate."""
    return answer["outcome"], len(answer.get("events", ()))


def of_redis(command: dict[str, Any], answer: Any) -> Outcome:
    """Read an answer of a script."""
    said = answer.decode() if isinstance(answer, bytes) else answer
    match command["command"]:
        case "begin":
            return "granted" if said.count(":") == 3 else said, 0
        case "commit-parameters":
            return "committed" if str(said).isdigit() else said, 0
        case "commit-loop":
            return "delivered", len(json.loads(said) if isinstance(said, str) else said)
        case _:
            return said, 0


async def require_agreement(ours: Address, redis: Address, *, keyed: bool) -> None:
    """Send both sides the same batches, those with keys twice.

    Raises:
        RuntimeError: They were answered otherwise, or a repeat otherwise than before.
    """
    mine, its = Batches(keyed=keyed), RedisMix(same_work=keyed)
    asking = await connected(ours.host, ours.port, Caller(mine.reading()))
    scripts = await connected(redis.host, redis.port, Caller(its.reading()))
    my_answer = its_answers = None
    for _ in range(BATCHES):
        my_request, its_request = mine.following(0, my_answer), its.following(0, its_answers)
        my_answer, its_answers = await asking.ask(my_request), await scripts.ask(its_request)
        answers = msgspec.json.decode(my_answer)["answers"]
        for answer, command, said in zip(answers, its.asked(0), its_answers, strict=True):
            if of_posegate(answer) != of_redis(command, said):
                raise RuntimeError(f"{command} is answered {answer} here and {said!r} by Redis")
        if keyed and await asking.ask(my_request) != my_answer:
            raise RuntimeError("posegate answers a batch that is sent again otherwise than before")
        if keyed and await scripts.ask(its_request) != its_answers:
            raise RuntimeError("Redis answers a pipeline that is sent again otherwise than before")
    asking.close()
    scripts.close()
