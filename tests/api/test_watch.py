"""Watching: every decision once and in order, over real connections; resumed, reset, ended, and free for the others."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from app.api.watch import WRITTEN_BYTES, place_of
from tests.support.keyed import KEYS, MATCH, OPS
from tests.support.watching import Service, Watch, service
from tests.support.wire import until, wire


async def test_who_watches_is_told_every_turn_as_one_event_as_the_history_shows_it():
    async with service() as served:
        await served.spawn("hero")
        async with served.watch() as watch:
            await served.begin(3)
            await served.begin()
            first, second = await watch.told("decisions"), await watch.told("decisions")
        history = (await served.client.get("/v1/scenes/room/history?after=1")).json()

    assert "content-type: text/event-stream" in watch.head
    assert "x-request-id: " in watch.head
    assert "cache-control: no-store" in watch.head
    assert (first.sequences, first.id) == ([2, 3, 4], 4)
    assert (second.sequences, second.id) == ([5], 5)
    assert first.data["decisions"] + second.data["decisions"] == history["decisions"]
    assert '"seal"' not in json.dumps(history)


async def test_a_place_is_resumed_and_the_header_wins_over_the_query():
    async with service() as served:
        await served.spawn("hero")
        await served.begin(4)
        async with (
            served.watch("?after=0") as all_of_it,
            served.watch("?after=0", headers="Last-Event-ID: 3\r\n") as rest,
            served.watch("?snapshot=true", headers="Last-Event-ID: 4\r\n") as no_snapshot,
        ):
            assert await all_of_it.decisions(5) == [1, 2, 3, 4, 5]
            assert await rest.decisions(2) == [4, 5]
            assert await no_snapshot.decisions(1) == [5]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?after=0&character=other", [2, 6]),
        ("?after=0&accepted=false", [4]),
        ("?after=0&accepted=true", [1, 2, 3, 5, 6]),
        ("?after=0&gate=parameter", [5]),
        ("?after=0&gate=transition&character=hero", [3, 4]),
        ("?after=0&layer=base", [3, 4, 6]),
        ("?after=3&layer=base", [4, 6]),
    ],
)
async def test_what_is_told_can_be_narrowed(query: str, expected: list[int]):
    async with service() as served:
        await served.spawn("hero", "other")
        await served.begin()
        scene = served.client
        token = {"character": "hero", "layer": "base", "epoch": 1, "generation": 9, "from": "Idle", "to": "Hit"}
        at = "/v1/scenes/room/characters/hero"
        await scene.post(f"{at}/complete", json={"token": {**token, "seal": "none"}})
        await scene.post(f"{at}/commit-parameters", json={"values": [{"name": "Speed", "value": 1}]})
        await served.begin(character="other")
        async with served.watch(query) as watch:
            assert await watch.decisions(len(expected)) == expected


async def test_a_watch_can_begin_with_the_whole_scene():
    async with service() as served:
        await served.spawn("hero", "other")
        async with served.watch("?snapshot=true") as watch:
            [piece] = await watch.portrait("snapshot")
            shown = (await served.client.get("/v1/scenes/room/characters/hero")).json()
            await served.begin()

            assert watch.last_id == piece["sequence"] == 2
            assert next(each for each in piece["characters"] if each["character"] == "hero") == shown
            assert piece["scene"] == {**(await served.client.get("/v1/scenes/room")).json(), **as_of(piece)}
            assert await watch.decisions(1) == [3]


def as_of(piece: dict[str, Any]) -> dict[str, Any]:
    """Give what a scene shows of its newest decision, as a piece has it."""
    return {"sequence": piece["sequence"], "at": piece["scene"]["at"]}


async def test_a_snapshot_that_was_cut_off_is_begun_anew(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.api.portrait.PIECE_BYTES", 1)
    async with service() as served:
        await served.spawn("hero", "other", "third")
        async with served.watch("?snapshot=true") as watch:
            half = await watch.told("snapshot")
        async with served.watch("?snapshot=true") as again:
            pieces = await again.portrait("snapshot")

    assert (half.id, half.data["more"]) == (None, True)
    assert (len(pieces), again.last_id) == (3, 3)


async def test_a_place_that_retention_has_trimmed_is_reset_with_the_present_state():
    async with service(history_decisions_max=3, checkpoint_decisions=4, receipts_ms=1) as served:
        await served.spawn("hero")
        for _ in range(12):
            await served.begin()
        async with served.watch(headers="Last-Event-ID: 2\r\n") as watch:
            [piece] = await watch.portrait("reset")
            await served.begin()

            assert (piece["reason"], piece["sequence"], watch.last_id) == ("gone", 13, 13)
            assert piece["characters"][0]["layers"]["base"]["generation"] == 12
            assert await watch.decisions(1) == [14]


async def test_a_place_beyond_what_there_is_belongs_to_another_life_and_is_reset():
    async with service() as served:
        await served.spawn("hero")
        async with served.watch("?after=9007199254740991") as watch:
            [piece] = await watch.portrait("reset")

    assert (piece["reason"], piece["sequence"]) == ("ahead", 1)


@pytest.mark.parametrize(
    ("query", "headers", "at"),
    [
        ("?after=-1", "", "after"),
        ("?after=1.5", "", "after"),
        ("?after=", "", "after"),
        ("?after=9007199254740992", "", "after"),
        ("?after=1&snapshot=true", "", "after"),
        ("?snapshot=perhaps", "", "snapshot"),
        ("?accepted=perhaps", "", "accepted"),
        ("?gate=gate", "", "gate"),
        ("?character=..", "", "character"),
        (f"?character={'x' * 129}", "", "character"),
        (f"?layer={'x' * 129}", "", "layer"),
        ("?layer=", "", "layer"),
        ("?seal=1", "", "seal"),
        ("?After=1", "", "After"),
        ("", "Last-Event-ID: \r\n", "last-event-id"),
        ("", "Last-Event-ID: -1\r\n", "last-event-id"),
        ("", "Last-Event-ID: 1e3\r\n", "last-event-id"),
        ("", "Last-Event-ID: 007x\r\n", "last-event-id"),
        ("", "Last-Event-ID: 9007199254740992\r\n", "last-event-id"),
        ("", f"Last-Event-ID: {'9' * 5000}\r\n", "last-event-id"),
        ("", "Last-Event-ID: \xb2\r\n", "last-event-id"),
        ("", "Last-Event-ID: 1\r\nLast-Event-ID: 1\r\n", "last-event-id"),
    ],
)
async def test_what_cannot_be_watched_is_invalid(query: str, headers: str, at: str):
    async with service() as served:
        await served.spawn("hero")
        answer = await served.refused(query, headers=headers)

        assert (answer.status, answer.problem, answer.body["at"]) == (422, "invalid", at)
        assert served.registry.feeds.watchers == 0


async def test_a_scene_that_is_not_there_is_unknown_and_one_watcher_too_many_is_told_to_wait():
    async with service(scene_watchers_max=1) as served:
        await served.spawn("hero")
        unknown = await served.refused(scene="nowhere")
        invalid = await served.refused(scene="..%2e")
        async with served.watch():
            refused = await served.refused()

    assert (unknown.status, unknown.problem) == (404, "unknown-scene")
    assert (invalid.status, invalid.problem) == (422, "invalid")
    assert (refused.status, refused.problem, refused.body["limit"]) == (503, "too-many-watchers", 1)


def test_a_place_is_read_strictly():
    assert place_of([]) is None
    assert place_of(["0017"]) == 17


async def test_the_last_decision_of_a_scene_is_told_and_then_the_end():
    async with service() as served:
        await served.spawn("hero")
        async with served.watch() as watch:
            await served.client.delete("/v1/scenes/room")
            assert await watch.decisions(1) == [2]
            assert await watch.end() == {"reason": "closed", "sequence": 2}
        answer = await served.refused(headers="Last-Event-ID: 2\r\n")

    assert answer.problem == "unknown-scene"


async def test_a_client_that_goes_leaves_nothing():
    async with service() as served:
        await served.spawn("hero")
        async with AsyncExitStack() as stack:
            watches = [await stack.enter_async_context(served.watch()) for _ in range(50)]
            seen = (served.registry.feeds.watchers, served.registry.metrics.watchers())
            await served.begin()
            for watch in watches[:25]:
                await watch.decisions(1)
        await until(lambda: not served.registry.feeds.watchers)

        assert seen == (50, 50)
        assert served.registry.feeds.get("room") is None
        assert len(served.registry.feeds.shelf) == 0
        await until(lambda: not served.server.server_state.tasks)


async def test_the_end_of_the_service_is_told_and_resumed_without_a_gap(tmp_path: Path):
    journal = f"sqlite:{tmp_path / 'posegate.db'}"
    async with service(journal=journal) as served:
        await served.spawn("hero")
        async with served.watch() as watch, served.watch("?character=nobody") as narrow:
            await served.begin()
            assert await watch.decisions(1) == [2]
            served.server.handle_exit(15, None)
            stop = asyncio.ensure_future(served.server.shutdown())
            end, same = await watch.end(), await narrow.end()
            late = await served.refused()
            await asyncio.wait_for(stop, 20)
    async with service(journal=journal) as served:
        await served.begin(2)
        async with served.watch(headers=f"Last-Event-ID: {watch.last_id}\r\n") as resumed:
            assert await resumed.decisions(2) == [3, 4]

    assert (end["reason"], end["problem"]["type"], same["reason"]) == ("draining", "/problems/draining", "draining")
    assert (late.status, late.problem) == (503, "draining")


async def test_a_client_that_does_not_read_is_closed_and_the_others_are_told_all():
    async with service(write_ms_max=300, write_buffer_bytes_max=1_024) as served:
        await served.spawn("hero")
        served.narrow()
        async with served.watch(receive_bytes=4_096), served.watch() as reads:
            begun = 1
            while served.registry.feeds.watchers == 2:
                await served.begin(200)
                begun += 200
                assert await reads.decisions(200) == list(range(begun - 199, begun + 1))

            assert served.registry.feeds.watchers == 1
            assert await served.begin() == begun + 1
            assert await reads.decisions(1) == [begun + 1]


async def test_a_watch_without_decisions_is_kept_alive_beyond_the_idle_time():
    async with service(idle_ms_max=50, first_byte_ms_max=50, watch_beat_ms=100) as served:
        await served.spawn("hero")
        async with served.watch() as watch:
            beats = [await watch.event() for _ in range(4)]
            await served.spawn("other")

            assert [beat.kind for beat in beats if beat is not None] == [None] * 4
            assert await watch.decisions(1) == [2]


async def test_a_key_that_is_revoked_ends_its_streams(tmp_path: Path):
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(KEYS), encoding="utf-8")
    async with service(keys_file=file, watch_beat_ms=100) as served:
        served.client.headers["Authorization"] = f"Bearer {MATCH}"
        await served.spawn("hero", scene="match-7")
        ops = f"Authorization: Bearer {OPS}\r\n"
        own = f"Authorization: Bearer {MATCH}\r\n"
        async with (
            served.watch(scene="match-7", headers=own) as revoked,
            served.watch(scene="match-7", headers=ops) as stays,
        ):
            file.write_text(json.dumps({**KEYS, "revoked": ["match"]}), encoding="utf-8")
            end = await revoked.end()
            beat = await stays.event()

    assert (end["reason"], end["problem"]["status"]) == ("unauthenticated", 401)
    assert beat is not None


async def test_a_scene_of_others_cannot_be_watched_nor_by_a_session(tmp_path: Path):
    async with service(keys=json.dumps(KEYS)) as served:
        served.client.headers["Authorization"] = f"Bearer {MATCH}"
        await served.spawn("hero", scene="match-7")
        body = {"sub": "player-7", "characters": {"hero": 1}}
        token = (await served.client.post("/v1/scenes/match-7/sessions", json=body)).json()["token"]
        headers = [f"Authorization: Bearer {credential}\r\n" for credential in (token, MATCH)]
        session = await served.refused(scene="match-7", headers=headers[0])
        other = await served.refused(scene="lobby-1", headers=headers[1])
        nobody = await served.refused(scene="match-7")

    assert [answer.problem for answer in (session, other, nobody)] == ["forbidden", "forbidden", "unauthenticated"]


async def stalled(served: Service, stack: AsyncExitStack, count: int) -> list[Watch]:
    """Have so many watch who do not read, with as little room as the system gives."""
    return [await stack.enter_async_context(served.watch(receive_bytes=4_096)) for _ in range(count)]


async def test_five_hundred_who_do_not_read_hold_nothing_and_the_writer_is_answered():
    """What they hold is counted: turns on the shelves, and bytes that connections have not got rid of."""
    bounds = {"feed_decisions_max": 1_000, "feed_bytes_max": 2_000_000, "write_buffer_bytes_max": 4_096}
    async with service(**bounds, write_ms_max=60_000) as served, AsyncExitStack() as stack:
        await served.spawn("hero")
        served.narrow()
        slow = await stalled(served, stack, 500)
        reads = await stack.enter_async_context(served.watch())
        feeds, past, last = served.registry.feeds, served.registry._past, 1
        for _ in range(30):
            last = await served.begin(100)
            assert await reads.decisions(100) == list(range(last - 99, last + 1))
            assert max(feeds.shelf.decisions, past.shelf.decisions) <= 1_000
            assert max(feeds.shelf.bytes, past.shelf.bytes) <= 2_000_000

        feed = feeds.get("room")
        assert feed is not None
        assert sum(watcher.is_behind for watcher in feed._watchers) >= 490
        unread = [connection._wire.get_write_buffer_size() for connection in served.connections]
        assert max(unread) <= WRITTEN_BYTES + 4_096 + 1_024
        assert await slow[0].decisions(last - 1) == list(range(2, last + 1)), "who reads after all has missed nothing"


async def test_half_a_request_that_goes_leaves_no_watcher():
    async with service() as served:
        await served.spawn("hero")
        async with wire(served.port) as connection:
            connection.ask("GET", "/v1/scenes/room/watch")
            connection.reset()
        await served.begin()
        await until(lambda: not served.registry.feeds.watchers)

        assert served.registry.feeds.get("room") is None
