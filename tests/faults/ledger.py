"""The ledger: what all writers of a scene asked and were told, in order, held against everything that must agree."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import json

from app.journal import open_journal
from app.sequencing.verify import verify_scene
from app.settings import Settings
from tests.faults.connected import Asks
from tests.faults.mixed import HEROES, Mixed, Party
from tests.faults.twin import secret_of, shown, timeless, twin, without

Body = dict[str, Any]


class Row(NamedTuple):
    """One decision that a writer knows of. In `command`, answers are referred to by their place in the ledger."""

    sequence: int
    command: Body
    answer: Body


def ledger(sent: Iterable[Mixed]) -> list[Row]:
    """Put all that was answered in the order in which it was decided."""
    rows = []
    for request in sent:
        first = request.answers[0]["sequence"] if request.answers else 0
        for place, (command, answer) in enumerate(zip(request.commands, request.answers, strict=False)):
            assert answer["sequence"] == first + place, f"not decided together: {request}"
            assert not answer["retryable"], f"not what these writers may be told, since it has no receipt: {request}"
            rows.append(Row(answer["sequence"], placed(command, first - 1), answer))
    return sorted(rows, key=lambda row: row.sequence)


def placed(command: Body, before: int) -> Body:
    """Refer to answers by their place among all, for a batch behind `before` others."""
    token = command.get("token", {})
    return {**command, "token": {"answer": before + token["answer"]}} if "answer" in token else command


async def history_of(client: Asks, scene: str) -> dict[int, Body]:
    """Read every decision that is kept, by sequence: the newest ones, without a gap."""
    decisions: dict[int, Body] = {}
    after: int | None = 0
    while after is not None:
        response = await client.get(f"/v1/scenes/{scene}/history?after={after}")
        if response.status_code == 404 and not decisions:
            return {}
        assert response.status_code == 200, response.text
        page = response.json()
        decisions |= {decision["sequence"]: decision for decision in page["decisions"]}
        after = page["next"]
    last = (await client.get(f"/v1/scenes/{scene}")).json()["sequence"]
    assert list(decisions) == list(range(min(decisions, default=1), last + 1))
    return decisions


def check_kept(rows: list[Row], decisions: dict[int, Body], *, is_trimmed: bool) -> None:
    """Every answer stands in the history at its sequence, for the character and command that asked.

    Of a history that is trimmed only the newest part can be asked; the rest must be as old as that.
    """
    assert is_trimmed or not decisions or min(decisions) == 1
    oldest = min(decisions, default=1)
    for row in rows:
        if row.sequence >= oldest:
            assert row.sequence in decisions, f"lost: {row}"
            decision = decisions[row.sequence]
            held = (decision["character"], decision["command"], decision["answer"])
            told = (row.command.get("character"), row.command["command"], without({"seal"}, row.answer))
            assert held == told, f"changed: {row}, {decision}"


def check_once(rows: list[Row]) -> None:
    """Every sequence was answered to one key; no token was granted or ended twice, no event taken or given twice."""
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1)), "a decision is lost, or has two keys"
    happened: Counter[tuple[Any, ...]] = Counter()
    for command, answer in singles(rows):
        character = command["character"]
        match command["command"]:
            case "begin":
                happened["granted", *token_of(answer["token"])] += 1
            case "complete" | "cancel" | "fail":
                assert happened["granted", *token_of(command["token"])] == 1
                happened["ended", *token_of(command["token"])] += 1
            case "enqueue":
                happened["accepted", character, *event_of(command)] += 1
            case "commit-loop":
                for event in answer["events"]:
                    assert happened["accepted", character, *event_of(event)] == 1
                    happened["delivered", character, *event_of(event)] += 1
                if answer["delivery"] is not None:
                    happened["delivery", character, answer["delivery"]] += 1
            case "request-graph":
                happened["requested", character, answer["request"]] += 1
            case "submit-candidate":
                assert happened["requested", character, command["request"]] == 1
                happened["swapped", character, command["request"]] += 1
            case _:
                pass
    assert max(happened.values(), default=1) == 1, [what for what, times in happened.items() if times > 1]


def singles(rows: list[Row]) -> Iterator[tuple[Body, Body]]:
    """Give every accepted command and its answer, those inside a bundle too, with the tokens that are referred to."""
    told = [row.answer for row in rows]
    for row in rows:
        if not row.answer["accepted"]:
            continue
        if row.command["command"] == "bundle":
            answers = row.answer["answers"]
            for command, answer in zip(row.command["commands"], answers, strict=True):
                yield with_token(command, answers), answer
        else:
            yield with_token(row.command, told), row.answer


def with_token(command: Body, answers: list[Body]) -> Body:
    token = command.get("token", {})
    return {**command, "token": answers[token["answer"]]["token"]} if "answer" in token else command


def token_of(token: Body) -> tuple[Any, ...]:
    return token["character"], token["layer"], token["epoch"], token["generation"]


def event_of(event: Body) -> tuple[Any, ...]:
    return event["clip_instance"], event["loop"], event["frame"], event["kind"]


async def check_twin(client: Asks, party: Party, rows: list[Row], journal: str) -> None:
    """A service that decides the same commands in the same order, and is never killed, says and shows the same."""
    async with twin(await secret_of(journal)) as other:
        batch = {"commands": [row.command for row in rows]}
        response = await other.post(f"/v1/scenes/{party.scene}/batch", json=batch)
        assert response.status_code == 200, response.text
        for row, again in zip(rows, response.json()["answers"], strict=True):
            assert timeless(again) == timeless(row.answer), f"the twin says {again} to {row}"
        assert await shown(client, party.scene, HEROES) == await shown(other, party.scene, HEROES)


async def check_verified(journal: str, scene: str, settings: dict[str, str]) -> None:
    """`posegate verify` finds nothing in this scene."""
    opened = open_journal(journal, read_only=True)
    try:
        report = await verify_scene(opened, scene, Settings(journal=journal, **settings))  # type: ignore[arg-type]
        assert report.found == 0, report
        assert report.decided_again > 0
    finally:
        await opened.close()


def log_of(sent: Iterable[Mixed]) -> bytes:
    """Give every request and its answer, a line each."""
    return b"".join(json.encode([each.key, each.path, each.body, each.answer]) + b"\n" for each in sent)
