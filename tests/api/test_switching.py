"""Switching: who gets a channel, who gets an answer in HTTP instead, and that the connection is sound either way."""

import asyncio
import contextlib
import json

import pytest
from websockets.frames import Opcode

from app.api.callers import Role
from app.api.formats import JSON as JSON_FORMAT
from app.api.formats import MSGPACK as MSGPACK_FORMAT
from app.api.switching import SUB_PROTOCOLS
from tests.support.channelled import ACCEPT, JSON, KEY, MSGPACK, Caller, channel, framed, handshake, refused
from tests.support.keyed import KEYS, LOBBY, MATCH, OPS
from tests.support.watching import Service, service
from tests.support.wire import request, until, wire

SPAWN = {"id": 1, "command": "spawn", "character": "hero"}


def bearer(credential: str) -> str:
    return f"Authorization: Bearer {credential}\r\n"


async def test_a_handshake_is_answered_as_the_standard_says_with_the_requests_id():
    async with service() as served, channel(served.port, more="X-Request-Id: mine-1\r\n") as caller:
        head = caller.head

        assert (head.headers["upgrade"], head.headers["connection"]) == ("websocket", "Upgrade")
        assert head.headers["sec-websocket-accept"] == ACCEPT
        assert head.headers["x-request-id"] == "mine-1"
        assert not {"content-length", "transfer-encoding", "sec-websocket-extensions"} & set(head.headers)


@pytest.mark.parametrize(
    ("offered", "agreed", "says"),
    [
        (None, None, JSON),
        (JSON, JSON, JSON),
        (MSGPACK, MSGPACK, MSGPACK),
        (f"{MSGPACK}, {JSON}", MSGPACK, MSGPACK),
        (f"graphql-ws,{JSON}", JSON, JSON),
    ],
)
async def test_the_first_sub_protocol_that_is_known_is_spoken(offered: str | None, agreed: str | None, says: str):
    async with service() as served, channel(served.port, sub_protocol=offered) as caller:
        caller.sub_protocol = says

        answer = await caller.ask(**SPAWN)

        assert caller.head.headers.get("sec-websocket-protocol") == agreed
        assert answer["answer"]["outcome"] == "spawned"


def test_a_sub_protocol_names_its_format():
    assert SUB_PROTOCOLS == {JSON: JSON_FORMAT, MSGPACK: MSGPACK_FORMAT}


@pytest.mark.parametrize(
    ("asked", "problem", "at"),
    [
        pytest.param(handshake(without="Upgrade"), "upgrade-required", None, id="no upgrade"),
        pytest.param(handshake(without="Connection"), "upgrade-required", None, id="no connection"),
        pytest.param(
            handshake(without="Upgrade", more="Upgrade: h2c\r\n"), "upgrade-required", None, id="another protocol"
        ),
        pytest.param(handshake(without="Sec-WebSocket-Version"), "upgrade-required", None, id="no version"),
        pytest.param(
            handshake(without="Sec-WebSocket-Version", more="Sec-WebSocket-Version: 8\r\n"),
            "upgrade-required",
            None,
            id="an old version",
        ),
        pytest.param(handshake(without="Sec-WebSocket-Key"), "invalid", "sec-websocket-key", id="no key"),
        pytest.param(handshake(more=f"Sec-WebSocket-Key: {KEY}\r\n"), "invalid", "sec-websocket-key", id="two keys"),
        pytest.param(
            handshake(without="Sec-WebSocket-Key", more="Sec-WebSocket-Key: short\r\n"),
            "invalid",
            "sec-websocket-key",
            id="a short key",
        ),
        pytest.param(
            handshake(more="Sec-WebSocket-Protocol: graphql-ws\r\n"),
            "invalid",
            "sec-websocket-protocol",
            id="an unknown sub-protocol",
        ),
        pytest.param(handshake(more="Content-Length: 2\r\n") + b"{}", "invalid", "content-length", id="a body"),
        pytest.param(
            handshake(more="Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n", "invalid", "content-length", id="chunks"
        ),
        pytest.param(handshake(more="Origin: https://elsewhere.example\r\n"), "forbidden", None, id="another origin"),
        pytest.param(handshake(more="Origin: null\r\n"), "forbidden", None, id="no origin to speak of"),
        pytest.param(handshake("room%2Fother"), "invalid", "path", id="a slash in the path"),
        pytest.param(
            handshake().replace(b"HTTP/1.1", b"HTTP/1.0"), "upgrade-required", None, id="an old version of HTTP"
        ),
        pytest.param(handshake("-"), "invalid", "scene", id="no identifier"),
        pytest.param(handshake("room").replace(b"/channel ", b"/channel?x=1 "), "invalid", "x", id="a query"),
        pytest.param(handshake("room").replace(b"GET", b"POST"), "method-not-allowed", None, id="a post"),
        pytest.param(handshake("room").replace(b"/channel", b"/chanel"), "not-found", None, id="another path"),
    ],
)
async def test_who_asks_wrongly_is_told_so_in_http(asked: bytes, problem: str, at: str | None):
    async with service() as served:
        answer = await refused(served.port, asked)

        assert answer.problem == problem
        assert answer.body.get("at") == at
        assert answer.headers["x-request-id"]
        assert (answer.headers.get("upgrade") == "websocket") is (problem == "upgrade-required")


async def test_a_page_of_the_same_origin_opens_a_channel():
    async with service() as served, channel(served.port, more="Origin: http://posegate\r\n") as caller:
        assert (await caller.ask(**SPAWN))["id"] == 1


async def test_a_connection_that_got_no_channel_goes_on_with_what_was_sent_behind():
    async with service() as served, wire(served.port) as client:
        client.send(request("GET", "/livez") + handshake(without="Sec-WebSocket-Key") + request("GET", "/v1/info"))

        answers = [await client.answer() for _ in range(3)]

        assert [answer.status for answer in answers] == [200, 422, 200]
        assert "version" in answers[2].body


async def test_what_asks_for_a_websocket_elsewhere_is_answered_in_http():
    async with service() as served, wire(served.port) as client:
        client.send(handshake().replace(b"/v1/scenes/room/channel", b"/v1/info") + request("GET", "/livez"))

        assert "version" in (await client.answer()).body
        assert (await client.answer()).status == 200


async def test_a_command_that_asks_for_a_websocket_is_decided_with_its_body():
    body = json.dumps({"layer": "base", "target": "Run"}).encode()
    asks = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
    async with service() as served, wire(served.port) as client:
        await served.spawn("hero")
        client.send(request("POST", "/v1/scenes/room/characters/hero/begin", body, headers=asks) * 2)

        assert [(await client.answer()).body["sequence"] for _ in range(2)] == [2, 3]


async def test_a_channel_opens_behind_requests_that_are_still_being_answered():
    async with service() as served, wire(served.port) as client:
        body = json.dumps({"layer": "base", "target": "Run"}).encode()
        caller = Caller(client, None)
        client.send(
            request("PUT", "/v1/scenes/room/characters/hero", b"{}")
            + request("POST", "/v1/scenes/room/characters/hero/begin", body)
            + handshake()
            + caller.frame({"id": 3, "command": "play", "character": "hero", "clip": "Walk"})
        )

        statuses = [(await client.answer()).status for _ in range(3)]

        assert statuses == [201, 200, 101]
        assert (await caller.hear())["answer"]["outcome"] == "opened"


async def test_what_a_client_sends_too_early_is_taken_once_the_channel_is_open():
    first = framed(Opcode.TEXT, json.dumps(SPAWN).encode())
    async with service() as served, channel(served.port, early=first + first[:9]) as caller:
        caller.wire.send(first[9:])

        outcomes = [message["answer"]["outcome"] for message in await caller.hear_all(2)]

        assert outcomes == ["spawned", "spawned"]


async def test_an_open_channel_counts_as_a_connection_and_a_closed_one_no_more():
    async with service(connections_open_max=1) as served:
        await served.client.aclose()
        async with channel(served.port) as caller:
            one_too_many = await refused(served.port, handshake())
            caller.close()
            await caller.closed()
        await until(lambda: not served.server.server_state.connections)

        assert one_too_many.problem == "too-many-connections"
        async with channel(served.port):
            assert served.app.state.metrics.open_channels == 1


async def test_the_alarms_of_a_connection_do_not_ring_for_its_channel():
    short = {"first_byte_ms_max": 50, "idle_ms_max": 50, "head_ms_max": 50}
    async with service(**short) as served, channel(served.port) as caller:
        await asyncio.sleep(0.15)

        assert (await caller.ask(**SPAWN))["id"] == 1


async def test_no_channel_opens_while_the_service_drains():
    async with service() as served, wire(served.port) as client:
        served.registry.drain()
        client.send(handshake())

        assert (await client.answer()).problem == "draining"


def keyed_service() -> "contextlib.AbstractAsyncContextManager[Service]":
    return service(keys=json.dumps(KEYS))


@pytest.mark.parametrize(
    ("credential", "scene", "problem"),
    [
        (None, "match-7", "unauthenticated"),
        ("posegate_never-given", "match-7", "unauthenticated"),
        (LOBBY, "match-7", "forbidden"),
        (MATCH, "lobby-1", "forbidden"),
    ],
)
async def test_who_may_not_gets_the_same_problem_as_elsewhere(credential: str | None, scene: str, problem: str):
    more = "" if credential is None else bearer(credential)
    async with keyed_service() as served, wire(served.port) as client:
        client.ask("GET", f"/v1/scenes/{scene}", headers=more)
        elsewhere = await client.answer()

        answer = await refused(served.port, handshake(scene, more=more))

        assert answer.problem == problem
        assert answer.content == elsewhere.content


@pytest.mark.parametrize(("credential", "role"), [(MATCH, Role.SERVER), (OPS, Role.OPS)])
async def test_a_scene_need_not_be_there_to_open_a_channel(credential: str, role: Role):
    async with keyed_service() as served, channel(served.port, "match-404", more=bearer(credential)) as caller:
        told = await caller.ask(id=1, command="play", character="hero", clip="Walk")

        expected = "forbidden" if role is Role.OPS else "unknown-scene"
        assert told["problem"]["type"] == f"/problems/{expected}"
