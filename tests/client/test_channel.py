"""The channel of both clients: against a service over sockets, and a server that says what a service seldom does."""

import itertools
import json
import threading
from contextlib import contextmanager

import msgspec
import pytest
from websockets.sync.server import serve
from websockets.typing import Subprotocol

from posegate_client import (
    AppliedRequests,
    ChannelEnded,
    Forbidden,
    Invalid,
    Limits,
    Missed,
    NotPosegate,
    NotThere,
    Problem,
    Request,
    Reset,
    SceneClosed,
    SceneSnapshot,
    Turn,
    Unanswered,
    Unauthenticated,
    Unavailable,
    Wanted,
    commands,
)
from posegate_client import answers as said
from tests.client.relay import relayed
from tests.client.scripted import answered, problem, scripted
from tests.client.test_clients import EXPECTED, RIG
from tests.support.keyed import KEYS, LOBBY, MATCH
from tests.support.process import process

QUICK = Limits(deadline_s=5, attempt_s=2, attempts_max=3, pause_s_first=0.001, pause_s_max=0.05, resume_s_max=5)
_numbers = itertools.count(1)


class Through:
    """A character that is spoken to on a channel, with the methods of one that is not."""

    def __init__(self, channel, name):
        self._channel = channel
        self._name = name

    def __getattr__(self, command):
        build = getattr(commands, command)
        return lambda *args, **kwargs: self._channel.ask(build(self._name, *args, **kwargs))


def unsealed(answers):
    """Answers as any scene gives them: seals differ from one scene to another."""
    text = msgspec.json.encode(answers)
    return json.loads(text, object_hook=lambda row: {name: value for name, value in row.items() if name != "seal"})


@pytest.mark.parametrize("story", EXPECTED, ids=lambda story: story.__name__)
def test_every_command_gets_the_answer_that_it_gets_alone(scene, posegate, story):
    other = posegate.scene(f"{scene.name}-alone")
    other.character("hero").spawn(rig=RIG)
    alone = list(story(other.character("hero")))

    with scene.channel() as channel:
        hero = Through(channel, "hero")
        assert hero.spawn(rig=RIG).life == 1
        together = list(story(hero))

    assert unsealed(together) == unsealed(alone)
    assert [type(each) for each in together] == [type(each) for each in alone]


def test_scene_commands_go_on_a_channel_too(scene):
    with scene.channel() as channel:
        channel.ask(commands.spawn("hero"))
        snap = channel.ask(commands.bundle([commands.begin("hero", "base", "Run")], link=True))
        ticked = channel.ask(commands.tick(seal=1))
        ended = channel.ask(commands.despawn("hero"))

    assert [type(each) for each in (snap, ticked, ended)] == [said.Bundled, said.TickAnswer, said.Despawned]


def test_many_are_under_way_and_each_gets_its_own_answer_in_order(scene):
    with scene.channel() as channel:
        channel.ask(commands.spawn("hero"))
        pending = [channel.send(commands.begin("hero", "base", f"State {number}")) for number in range(200)]
        answers = [each.answer() for each in reversed(pending)]

    assert [each.token.to for each in reversed(answers)] == [f"State {number}" for number in range(200)]
    assert [each.token.generation for each in reversed(answers)] == list(range(1, 201))
    assert pending[0].answer() == answers[-1]


def test_problems_stand_at_their_places_and_are_raised_where_one_was_asked(scene):
    with scene.channel() as channel:
        answers = channel.ask_all(
            [commands.spawn("hero"), commands.begin("no", "base", "Run"), commands.play("hero", "W")]
        )
        with pytest.raises(NotThere) as missing:
            channel.ask(commands.begin("no", "base", "Run"))
        with pytest.raises(Invalid) as invalid:
            channel.send(commands.begin("hero", "", "Run")).answer()

    assert [type(each) for each in answers] == [said.Spawned, Problem, said.InstanceOpened]
    assert missing.value.command.key is not None
    assert invalid.value.problem.at == "layer"


def test_a_key_is_the_same_on_every_door(scene):
    command = commands.begin("hero", "base", "Run", key="a-key-of-mine")
    scene.character("hero").spawn()

    with scene.channel() as channel:
        assert channel.ask(command) == channel.ask(command) == scene.ask(command)


def turns(channel, last):
    """The items of the feed, up to the turn that ends with a sequence."""
    items = []
    for item in channel:
        items.append(item)
        if isinstance(item, Turn) and item.last >= last:
            return items
    raise AssertionError(f"the feed ended before {last}: {items}")


def sequences(items):
    return [each.sequence for item in items if isinstance(item, Turn) for each in item.decisions]


def test_the_feed_tells_what_is_decided_while_commands_go_on(scene):
    with scene.channel() as channel:
        channel.ask_all([commands.spawn("hero"), commands.begin("hero", "base", "Run")])
        channel.watch(after=0)
        channel.ask_all([commands.begin("hero", "base", "Hit")] * 3)

        items = turns(channel, 5)

        assert channel.place == 5
        channel.unwatch()
        channel.ask(commands.begin("hero", "base", "Run"))
        assert list(channel) == []
    assert [each for item in items for each in item.decisions] == list(scene.history())[:5]


def test_a_feed_begins_with_the_scene_where_that_is_asked_for(scene):
    with scene.channel() as channel:
        channel.ask(commands.spawn("hero"))
        channel.watch(Wanted(snapshot=True, accepted=True))
        channel.ask_all([commands.begin("hero", "tail", "Run"), commands.begin("hero", "base", "Run")])
        first, second = next(iter(channel)), next(iter(channel))

    assert isinstance(first, SceneSnapshot)
    assert (first.sequence, [view.character for view in first.characters]) == (1, ["hero"])
    assert sequences([second]) == [3]


def test_what_cannot_be_told_any_more_is_a_reset_and_the_end_of_the_scene_the_end(scene):
    with scene.channel() as channel:
        channel.ask(commands.spawn("hero"))
        channel.watch(after=1000)
        reset = next(iter(channel))
        scene.close()
        rest = list(channel)

    assert isinstance(reset, Reset)
    assert reset.reason == "ahead"
    assert isinstance(rest[-1], SceneClosed)


def test_a_feed_that_is_not_allowed_says_so_and_the_channel_goes_on(scene):
    scene.character("hero").spawn()
    with scene.channel() as channel:
        channel.watch(Wanted(gate="weather"))

        with pytest.raises(Invalid) as invalid:
            next(iter(channel))

        assert invalid.value.problem.at == "watch.gate"
        assert list(channel) == []
        assert channel.ask(commands.begin("hero", "base", "Run")).accepted


def test_a_feed_that_nobody_takes_is_left_and_taken_up_again_without_a_gap(connect, url):
    limits = Limits(feed_items_max=4)
    with connect(url, limits=limits).scene(f"slow-{next(_numbers)}").channel() as channel:
        channel.ask(commands.spawn("hero"))
        channel.watch(after=0)
        for _ in range(40):
            channel.ask(commands.begin("hero", "base", "Run"))
        held = channel._held._exchange if hasattr(channel, "_held") else channel._exchange

        assert len(held._feed) <= 4
        assert sequences(turns(channel, 41)) == list(range(1, 42))


def test_requests_are_answered_again_when_their_tick_is_sealed(scene):
    ask = commands.begin("hero", "base", "Run")
    with scene.channel() as channel:
        channel.ask(commands.spawn("hero"))
        queued = channel.ask(commands.tick(requests=[Request(2, "ai", 1, ask), Request(2, "ai", 2, ask)]))
        scene.tick(seal=2)
        applied = next(iter(channel))

        assert list(channel) == []
    assert [each.outcome for each in queued.requests] == ["queued", "queued"]
    assert isinstance(applied, AppliedRequests)
    assert applied.rows == scene.tick_answers(2).answers
    assert isinstance(applied.rows[0].answer, said.Granted)
    assert applied.rows[0].answer.token.seal is not None


def test_requests_that_wait_while_the_line_is_cut_are_told_as_missed(connect, url):
    ask = commands.begin("hero", "base", "Run")
    with relayed(int(url.rpartition(":")[2])) as relay:
        scene = connect(relay.url, limits=QUICK).scene(f"cut-{next(_numbers)}")
        with scene.channel() as channel:
            channel.ask(commands.spawn("hero"))
            channel.ask(commands.tick(requests=[Request(2, "ai", 1, ask)]))
            relay.cut()
            channel.ask(ask)
            scene.tick(seal=2)

            assert list(channel) == [Missed((2,))]
            assert channel.connections == 2
        assert len(scene.tick_answers(2).answers) == 1


def test_lines_that_are_cut_lose_no_command_repeat_none_and_leave_no_gap_in_the_feed(connect, url):
    with relayed(int(url.rpartition(":")[2])) as relay:
        scene = connect(relay.url, limits=QUICK).scene(f"cut-{next(_numbers)}")
        with scene.channel() as channel:
            channel.ask(commands.spawn("hero"))
            channel.watch(after=0)
            pending = []
            for number in range(120):
                pending.append(channel.send(commands.begin("hero", "base", f"S{number}")))
                if number % 20 == 10:
                    relay.cut()
            answers = [each.answer() for each in pending]
            items = turns(channel, 121)
            assert channel.connections > 3
        history = list(scene.history())

    assert [each.token.to for each in answers] == [f"S{number}" for number in range(120)]
    assert [each.token.generation for each in answers] == list(range(1, 121))
    assert sequences(items) == [each.sequence for each in history] == list(range(1, 122))


def test_a_service_that_is_killed_in_the_middle_decides_each_command_once(connect, tmp_path):
    journal = f"sqlite:{tmp_path}/posegate.db"
    limits = Limits(pause_s_max=0.5, under_way_max=16)
    with relayed() as relay:
        scene = connect(relay.url, limits=limits).scene("match-7")
        with process(journal) as first:
            relay.target = first.port
            channel = scene.channel()
            channel.ask(commands.spawn("hero"))
            channel.watch(after=0)
            pending = [channel.send(commands.begin("hero", "base", f"S{number}")) for number in range(40)]
            answers = [each.answer() for each in pending[:30]]
            pending += [channel.send(commands.begin("hero", "base", f"S{number}")) for number in range(40, 50)]
            first.kill()
            relay.cut()
        with process(journal) as second:
            relay.target = second.port
            answers += [each.answer() for each in pending[30:]]
            items = turns(channel, 51)
            history = list(scene.history())
            channel.close()

    assert [each.token.to for each in answers] == [f"S{number}" for number in range(50)]
    assert sequences(items) == [each.sequence for each in history] == list(range(1, 52))


def test_a_service_that_stops_answers_what_it_took_and_the_rest_is_asked_of_the_next(connect, tmp_path):
    journal = f"sqlite:{tmp_path}/posegate.db"
    with relayed() as relay:
        scene = connect(relay.url, limits=Limits(pause_s_max=0.5)).scene("match-7")
        with process(journal) as first:
            relay.target = first.port
            channel = scene.channel()
            channel.ask(commands.spawn("hero"))
            first.terminate()
            first.ended()
        with process(journal) as second:
            relay.target = second.port
            assert channel.ask(commands.begin("hero", "base", "Run")).sequence == 2
            assert channel.connections == 2
            channel.close()


@pytest.mark.parametrize(
    ("key", "kind"), [(None, Unauthenticated), ("posegate_none", Unauthenticated), (LOBBY, Forbidden)]
)
def test_who_may_not_come_is_told_at_the_door(connect, key, kind):
    with process("memory:", keys=json.dumps(KEYS)) as serving:
        with pytest.raises(kind), connect(serving.url, key=key).scene("match-7").channel() as channel:
            channel.ask(commands.spawn("hero"))
        with connect(serving.url, key=MATCH).scene("match-7").channel() as channel:
            assert channel.ask(commands.spawn("hero")).life == 1


def test_a_door_that_says_to_come_again_is_asked_again_until_the_deadline(connect):
    busy = answered(503, problem("draining", 503, retryable=True, retry_after=0))
    with (
        scripted(*[busy] * 3, answered(403, problem("forbidden", 403))) as script,
        pytest.raises(Forbidden),
        connect(script.url, limits=QUICK).scene("m").channel(),
    ):
        pass
    assert len(script.heard) == 4
    assert b"GET /v1/scenes/m/channel HTTP/1.1" in script.heard[0]


def test_nobody_there_is_given_up(connect):
    limits = Limits(resume_s_max=0.2, pause_s_max=0.05)
    with (
        pytest.raises(Unanswered, match="not there"),
        connect("http://127.0.0.1:9", limits=limits).scene("m").channel(),
    ):
        pass


def test_a_channel_that_was_closed_takes_nothing_more(scene):
    with scene.channel() as channel:
        channel.ask(commands.spawn("hero"))
        pending = channel.send(commands.begin("hero", "base", "Run"))
    channel.close()

    with pytest.raises(Unanswered) as lost:
        pending.answer()
    with pytest.raises(Unanswered):
        channel.ask(commands.begin("hero", "base", "Run"))
    assert list(channel) == []
    assert lost.value.may_be_decided is True
    assert scene.ask(lost.value.command).token.generation == 1


GRANTED = {
    "accepted": True,
    "retryable": False,
    "sequence": 2,
    "revision": 2,
    "outcome": "kept",
    "superseded": None,
    "token": None,
}


class Server:
    """A WebSocket server that answers each message as a function says, and keeps what it heard."""

    def __init__(self, answer):
        self.heard = []
        self.connections = 0
        self._answer = answer
        self._server = serve(self._serve, "127.0.0.1", 0, subprotocols=[Subprotocol("posegate.json.v1")])
        self.url = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _serve(self, connection):
        self.connections += 1
        for text in connection:
            message = json.loads(text)
            self.heard.append(message)
            for reply in self._answer(message, len(self.heard), connection):
                connection.send(reply if isinstance(reply, str | bytes) else json.dumps(reply))

    def stop(self):
        self._server.shutdown()
        self._thread.join(10)


@contextmanager
def serving(answer):
    server = Server(answer)
    try:
        yield server
    finally:
        server.stop()


BEGIN = commands.begin("hero", "base", "Run")


def test_who_is_faster_than_the_answers_waits_and_at_last_is_told(connect):
    limits = Limits(deadline_s=0.3, under_way_max=8)
    with (
        serving(lambda message, count, connection: []) as server,
        connect(server.url, limits=limits).scene("m").channel() as channel,
    ):
        for _ in range(8):
            channel.send(BEGIN)
        with pytest.raises(Unanswered, match=r"0\.3 s"):
            channel.send(BEGIN)
    assert len(server.heard) == 8


def test_a_command_that_is_not_answered_in_time_is_let_go_with_its_key(connect):
    with (
        serving(lambda message, count, connection: []) as server,
        connect(server.url, limits=Limits(deadline_s=0.2)).scene("m").channel() as channel,
        pytest.raises(Unanswered) as lost,
    ):
        channel.ask(BEGIN)
    assert lost.value.may_be_decided is True
    assert lost.value.command.key == server.heard[0]["key"]


def test_one_that_may_be_decided_later_is_asked_again_with_its_key_where_it_is_waited_for(connect):
    def busy_once(message, count, connection):
        later = problem("mailbox-full", 503, retryable=True, retry_after=0)
        return [{"id": message["id"], "problem": later} if count == 1 else {"id": message["id"], "answer": GRANTED}]

    with serving(busy_once) as server, connect(server.url, limits=QUICK).scene("m").channel() as channel:
        assert channel.ask(BEGIN).accepted
        assert len({message["key"] for message in server.heard}) == 1
        assert len(server.heard) == 2


def test_one_of_many_is_not_since_it_would_come_behind_the_others(connect):
    def busy(message, count, connection):
        return [{"id": message["id"], "problem": problem("mailbox-full", 503, retryable=True)}]

    with serving(busy) as server, connect(server.url, limits=QUICK).scene("m").channel() as channel:
        with pytest.raises(Unavailable):
            channel.send(BEGIN).answer()
        assert [each.name for each in channel.ask_all([BEGIN])] == ["mailbox-full"]
        assert len(server.heard) == 2
        with pytest.raises(Unavailable):
            channel.ask(BEGIN)
        assert len(server.heard) == 2 + QUICK.attempts_max


def test_a_connection_that_ends_is_made_again_and_says_the_same_in_the_same_order(connect):
    def ends_once(message, count, connection):
        if count == 3:
            connection.close(1001, "the service is stopping")
            return []
        return [] if count < 3 else [{"id": message["id"], "answer": GRANTED}]

    with serving(ends_once) as server, connect(server.url, limits=QUICK).scene("m").channel() as channel:
        pending = [channel.send(BEGIN) for _ in range(3)]
        answers = [each.answer() for each in pending]
    keys = [message["key"] for message in server.heard]

    assert [each.outcome for each in answers] == ["kept"] * 3
    assert keys[:3] == keys[3:]
    assert server.connections == 2


@pytest.mark.parametrize("code", [1002, 1003, 1007, 1009, 4401, 4403])
def test_an_end_for_good_says_why(connect, code: int):
    def ends(message, count, connection):
        connection.close(code, "as scripted")
        return []

    with serving(ends) as server, connect(server.url, limits=QUICK).scene("m").channel() as channel:
        with pytest.raises(ChannelEnded, match=f"{code}: as scripted") as ended:
            channel.ask(BEGIN)
        with pytest.raises(ChannelEnded):
            channel.ask(BEGIN)
    assert (ended.value.code, ended.value.reason, server.connections) == (code, "as scripted", 1)


@pytest.mark.parametrize("nonsense", ["[]", "{", b"\x00", '{"id":"x"}', '{"id":1,"answer":{}}', '{"id":1,"answer":7}'])
def test_what_is_no_posegate_is_noticed(connect, nonsense):
    with (
        serving(lambda message, count, connection: [nonsense]) as server,
        connect(server.url, limits=QUICK).scene("m").channel() as channel,
        pytest.raises(NotPosegate),
    ):
        channel.ask(BEGIN)


def test_messages_that_a_newer_service_adds_are_passed_over(connect):
    def more(message, count, connection):
        newer = [{"weather": "rain"}, {"id": 77, "answer": GRANTED}, {"problem": problem("invalid", 422)}]
        return [*newer, {"id": message["id"], "answer": GRANTED, "colour": "red"}]

    with serving(more) as server, connect(server.url, limits=QUICK).scene("m").channel() as channel:
        assert channel.ask(BEGIN).accepted


def test_a_feed_that_ends_for_now_is_taken_up_on_another_connection(connect):
    ended = {"end": {"reason": "x", "sequence": 1, "problem": problem("journal-unavailable", 503, retryable=True)}}

    def fed(message, count, connection):
        turn = {"decisions": [row(count)], "last": count}
        return [{"id": message["id"], "watching": {"after": count - 1}}, turn, *([ended] if count == 1 else [])]

    with serving(fed) as server, connect(server.url, limits=QUICK).scene("m").channel() as channel:
        channel.watch(after=0)

        assert sequences(turns(channel, 2)) == [1, 2]
    assert [message["watch"] for message in server.heard] == [{"after": 0}, {"after": 1}]
    assert server.connections == 2


def row(sequence):
    more = {"at": "2026-11-30T10:00:00.000Z", "character": "hero", "command": "begin", "asked": {}}
    return {"sequence": sequence, **more, "answer": {**GRANTED, "sequence": sequence}}
