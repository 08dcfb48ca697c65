"""The watch of both clients: against a service over sockets, and against scripts of what a service seldom says."""

import itertools
import json

import pytest

from posegate_client import (
    Forbidden,
    Limits,
    NotPosegate,
    NotThere,
    Reset,
    SceneClosed,
    SceneSnapshot,
    Turn,
    Unanswered,
    Unavailable,
    Wanted,
    commands,
)
from tests.client.relay import relayed
from tests.client.scripted import HANG_UP, HOLD, answered, problem, scripted
from tests.support.process import process

_numbers = itertools.count(1)

QUICK = Limits(attempt_s=2, pause_s_first=0.001, pause_s_max=0.01, resume_s_max=0.5, silence_s_max=5)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"


def decision(sequence, outcome="granted"):
    answer = {"accepted": True, "retryable": False, "sequence": sequence, "revision": 1, "outcome": outcome}
    more = {"at": "2026-11-30T10:00:00.000Z", "character": "hero", "command": "begin", "asked": {"target": "Run"}}
    return {"sequence": sequence, **more, "answer": {**answer, "token": None, "superseded": None}}


def told(*sequences, last=None, event="decisions"):
    rows = {"decisions": [decision(each, "kept") for each in sequences]}
    return f"event: {event}\nid: {last or sequences[-1]}\ndata: {json.dumps(rows)}\n\n".encode()


def ended(reason, sequence, **more):
    body = {"reason": reason, "sequence": sequence}
    if more:
        body["problem"] = problem(reason, **more)
    return f"event: end\ndata: {json.dumps(body)}\n\n".encode()


def sequences(items):
    return [each.sequence for item in items if isinstance(item, Turn) for each in item.decisions]


def taken(watch, count):
    """The next items; the watch itself goes on."""
    return list(itertools.islice(iter(watch), count))


def until(watch, last):
    """Items up to the one that ends with a sequence."""
    items = []
    for item in watch:
        items.append(item)
        if isinstance(item, Turn) and item.last >= last:
            return items
    raise AssertionError(f"the feed ended before {last}: {items}")


def test_everything_that_is_decided_is_told_as_the_history_has_it(scene):
    scene.batch([commands.spawn("hero"), commands.begin("hero", "base", "Run"), commands.begin("hero", "tail", "Run")])

    with scene.watch(after=0) as watch:
        before = until(watch, 3)
        scene.character("hero").begin("base", "Hit")
        after = until(watch, 4)
        place = watch.place

    decisions = [each for item in (*before, *after) for each in item.decisions]
    assert decisions == list(scene.history())
    assert place == 4


def test_a_watch_from_now_on_begins_now(scene):
    hero = scene.character("hero")
    hero.spawn()
    with scene.watch() as watch:
        hero.begin("base", "Run")

        assert sequences([next(iter(watch))]) == [2]


def test_only_what_is_wanted_is_told(scene):
    for name in ("hero", "villain"):
        scene.character(name).spawn()
        scene.character(name).begin("base", "Run")
        scene.character(name).begin("tail", "Run")
    last = scene.inspect().sequence

    def seen(**wanted):
        with scene.watch(Wanted(**wanted), after=0) as watch:
            scene.character("hero").begin("base", "Fly")
            scene.character("hero").begin("tail", "Fly")
            scene.character("villain").play("Walk")
            found = []
            for item in watch:
                found += item.decisions
                if item.last > last:
                    return {(each.character, each.command, each.answer.accepted) for each in found}
        return None

    assert {name for name, _, _ in seen(character="hero")} == {"hero"}
    assert {accepted for _, _, accepted in seen(accepted=False)} == {False}
    assert {accepted for _, _, accepted in seen(accepted=True, gate="transition")} == {True}
    assert {command for _, command, _ in seen(gate="event")} == {"play"}


def test_a_snapshot_comes_first_and_the_feed_goes_on_behind_it(scene):
    scene.batch([commands.spawn(f"npc-{number:03}") for number in range(300)])
    with scene.watch(Wanted(snapshot=True)) as watch:
        parts = []
        for item in watch:
            parts.append(item)
            if not item.more:
                break
        scene.character("npc-000").begin("base", "Run")
        turn = next(iter(watch))

    assert {type(part) for part in parts} == {SceneSnapshot}
    assert len(parts) > 1
    assert (parts[0].scene.characters, parts[0].sequence, parts[1].scene) == (300, 300, None)
    assert sorted(view.character for part in parts for view in part.characters) == [
        f"npc-{number:03}" for number in range(300)
    ]
    assert sequences([turn]) == [301]


def test_a_place_that_the_scene_never_reached_is_a_reset(scene):
    scene.character("hero").spawn()

    with scene.watch(after=1000) as watch:
        reset = next(iter(watch))
        scene.character("hero").begin("base", "Run")
        turn = next(iter(watch))

    assert isinstance(reset, Reset)
    assert (reset.reason, reset.sequence, reset.more) == ("ahead", 1, False)
    assert [view.character for view in reset.characters] == ["hero"]
    assert sequences([turn]) == [2]


def test_the_end_of_the_scene_is_the_end_of_the_feed(scene):
    scene.character("hero").spawn()
    with scene.watch(after=1) as watch:
        scene.close()

        items = list(watch)

    assert isinstance(items[-1], SceneClosed)
    assert items[-1].sequence == 2
    assert list(watch) == []


def test_a_scene_that_is_not_there_is_not_watched(scene):
    with pytest.raises(NotThere), scene.watch() as watch:
        next(iter(watch))
    with pytest.raises(NotThere), scene.watch(after=3) as watch:
        next(iter(watch))


def test_a_service_that_is_killed_in_the_middle_leaves_no_gap_and_no_repeat(connect, tmp_path):
    journal = f"sqlite:{tmp_path}/posegate.db"
    with relayed() as relay:
        scene = connect(relay.url, limits=Limits(pause_s_max=0.5)).scene("match-7")
        with process(journal) as first:
            relay.target = first.port
            scene.batch([commands.spawn("hero"), *[commands.begin("hero", "base", "Run") for _ in range(20)]])
            watch = scene.watch(after=0)
            seen = until(watch, 10)
            first.kill()
        with process(journal) as second:
            relay.target = second.port
            scene.batch([commands.begin("hero", "base", "Hit") for _ in range(20)])
            seen += until(watch, 41)
            history = [each.sequence for each in scene.history()]
            watch.close()

    assert sequences(seen) == history
    assert history == list(range(1, 42))


def test_lines_that_are_cut_while_others_write_lose_nothing(connect, url):
    with relayed(int(url.rpartition(":")[2])) as relay:
        scene = connect(relay.url, limits=Limits(pause_s_max=0.05)).scene(f"cut-{next(_numbers)}")
        scene.character("hero").spawn()
        seen, last = [], 1
        with scene.watch(after=0) as watch:
            for _ in range(8):
                scene.batch([commands.begin("hero", "base", "Run") for _ in range(10)])
                relay.cut()
                last += 10
                seen += until(watch, last)

    assert sequences(seen) == list(range(1, last + 1))


def test_a_feed_is_resumed_behind_what_was_given_whatever_was_cut(connect):
    half = STREAM + told(1, 2) + told(3)[:-10]
    with (
        scripted(HANG_UP, half, STREAM + b"id: 4\n\n" + told(3), STREAM + told(4, 5) + ended("closed", 6)) as script,
        connect(script.url, limits=QUICK).scene("m").watch(after=0) as watch,
    ):
        items = list(watch)

    asked = [heard.split(b" ")[1] for heard in script.heard]
    assert asked == [f"/v1/scenes/m/watch?after={after}".encode() for after in (0, 0, 2, 4)]
    assert sequences(items) == [1, 2, 5]
    assert items[-1] == SceneClosed(6)


def test_a_service_that_stops_is_watched_again_when_it_is_back(connect):
    stops = ended("draining", 1, status=503, retryable=True, retry_after=1)
    busy = answered(503, problem("too-many-watchers", 503, retryable=True, retry_after=1))
    with (
        scripted(STREAM + told(1) + stops, busy, STREAM + told(2)) as script,
        connect(script.url, limits=QUICK).scene("m").watch(after=0) as watch,
    ):
        assert sequences(taken(watch, 2)) == [1, 2]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (answered(403, problem("forbidden", 403)), Forbidden),
        (STREAM + ended("forbidden", 1, status=403), Forbidden),
        (STREAM + ended("journal-damaged", 1, status=503), Unavailable),
        (answered(200, {"hello": 1}), NotPosegate),
        (STREAM + b"event: decisions\ndata: {}\n\n", NotPosegate),
        (STREAM + b"data: " + b"x" * 2000, NotPosegate),
    ],
    ids=["forbidden", "revoked", "damaged", "no-stream", "no-decisions", "too-large"],
)
def test_what_ends_a_watch_for_good_is_raised(connect, said, kind):
    limits = Limits(pause_s_first=0.001, event_bytes_max=1000)
    with (
        scripted(said) as script,
        pytest.raises(kind),
        connect(script.url, limits=limits).scene("m").watch(after=0) as watch,
    ):
        next(iter(watch))


def test_events_that_a_newer_service_adds_are_passed_over(connect):
    newer = b"event: weather\nid: 1\ndata: rain\n\n"
    with (
        scripted(STREAM + newer + told(2)) as script,
        connect(script.url, limits=QUICK).scene("m").watch(after=0) as watch,
    ):
        assert sequences(taken(watch, 1)) == [2]


def test_a_service_that_does_not_come_back_is_given_up(connect):
    limits = Limits(attempt_s=1, pause_s_first=0.01, pause_s_max=0.02, resume_s_max=0.1)
    with scripted(STREAM + told(1)) as script:
        watch = connect(script.url, limits=limits).scene("m").watch(after=0)
        assert sequences(taken(watch, 1)) == [1]
    with pytest.raises(Unanswered, match="not there again"):
        next(iter(watch))
    watch.close()


def test_silence_is_a_lost_connection(connect):
    silent = Limits(silence_s_max=0.2, pause_s_first=0.001)
    with scripted(HOLD, STREAM + told(1)) as script:
        watch = connect(script.url, limits=silent).scene("m").watch(after=0)

        assert sequences(taken(watch, 1)) == [1]
        watch.close()
    assert len(script.heard) == 2


def test_a_watch_that_was_closed_gives_nothing_more(scene):
    scene.character("hero").spawn()
    watch = scene.watch(after=0)
    assert sequences(taken(watch, 1)) == [1]

    watch.close()
    watch.close()

    assert list(watch) == []
