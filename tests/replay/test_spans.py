"""Footsteps of recorded walks, reported one by one against a manifest, and as the spans that the clock crossed.

Everything is derived from the lines of a recording. The manifest: `frames` of the `play` lines, and every (frame, kind)
that an `event` line ever names. The steps: each time `t` that any line of the file was written at. A clip that starts
at t0 and is neither sought nor stopped is at frame (t - t0) * fps, counted from frame 0 of loop 0; that this is where
the engine was is asserted first, from what the lines say of it. A playing counts until its character plays again, for
from then on the engine shows the newer one under both numbers. Left out of the spans are two of Godot's clients: one
seeks, one runs in an AnimationTree, and the recording does not say where either of them was.
"""

import json
import math
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from msgspec import UNSET

from app.api.bodies import RigBody
from app.gates.event_commands import CommitLoop, Covered, Enqueue, Play
from app.gates.rig import Rig
from tests.support.played import Played, word
from tests.support.recorded import TRACES

NAMES = ("godot3-walk-footsteps-irregular", "panda3d-walk-footsteps-irregular")
WITHOUT_POSITION = {"godot_seek", "godot_tree"}
FPS = 30
ROUNDED = 0.01
"""Frames that a time of four decimals may be off."""

Line = dict[str, Any]


@cache
def lines(name: str) -> tuple[Line, ...]:
    return tuple(json.loads(text) for text in (TRACES / f"{name}.jsonl").read_text().splitlines())


def of(name: str, *ops: str) -> list[Line]:
    return [line for line in lines(name) if line["op"] in ops]


def frames(name: str) -> int:
    [found] = {line["frames"] for line in of(name, "play")}
    return int(found)


def marks(name: str) -> list[tuple[int, str]]:
    return sorted({(line["frame"], line["kind"]) for line in of(name, "event")})


def rig(name: str) -> Rig:
    events = [{"frame": frame, "kind": kind} for frame, kind in marks(name)]
    return RigBody.model_validate({"clips": {"walk": {"frames": frames(name), "events": events}}}).to_rig()


def played(name: str) -> Played:
    alive = Played()
    for character in {line["character"]: None for line in of(name, "play")}:
        alive.spawn(rig(name), character)
    return alive


def open_instance(alive: Played, line: Line) -> None:
    asked = Play(clip=line["clip"], layer=line["layer"], clip_instance=line["clip_instance"])
    assert alive.word(asked, line["character"]) == "opened"


# One by one


def singly(name: str) -> tuple[list[tuple[int, int, int, str]], Counter[str]]:
    """Play the lines as they are; give what was missing, by instance, loop, frame and kind, and the outcomes."""
    alive = played(name)
    found: list[tuple[int, int, int, str]] = []
    outcomes = Counter[str]()
    for line in of(name, "play", "event", "commit_loop"):
        number, who = line["clip_instance"], line["character"]
        if line["op"] == "play":
            open_instance(alive, line)
        elif line["op"] == "event":
            event = Enqueue(clip_instance=number, loop=line["loop"], frame=line["frame"], kind=line["kind"])
            outcomes[alive.word(event, who)] += 1
        else:
            answer = alive.ask(CommitLoop(clip_instance=number, loop=line["loop"]), who)
            outcomes[word(answer)] += 1
            if word(answer) == "delivered" and answer.missing is not UNSET:
                assert answer.missing_count is UNSET
                found += [(number, event.loop, event.frame, event.kind) for event in answer.missing]
    return found, outcomes


def skipped(name: str) -> list[tuple[int, int, int, str]]:
    """Work out from the lines alone which marks no line had named when a line ended their loop, or a later one."""
    named = defaultdict[int, set[tuple[int, int, str]]](set)
    ended: dict[int, int] = {}
    found = []
    for line in of(name, "event", "commit_loop"):
        number, loop = line["clip_instance"], line["loop"]
        if line["op"] == "event":
            named[number].add((loop, line["frame"], line["kind"]))
            continue
        for passed in range(ended.get(number, -1) + 1, loop + 1):
            found += [(number, passed, *mark) for mark in marks(name) if (passed, *mark) not in named[number]]
        ended[number] = max(loop, ended.get(number, -1))
    return found


@pytest.mark.parametrize(("name", "count"), list(zip(NAMES, (126, 90), strict=True)))
def test_what_is_missing_of_single_events_is_what_the_recording_skipped(name: str, count: int):
    """By the client's own count of loops, which falls behind: what it lost count of, it cannot miss."""
    found, _ = singly(name)

    assert found == skipped(name)
    assert len(found) == count


@pytest.mark.parametrize("name", NAMES)
def test_every_playing_is_counted_from_loop_0(name: str):
    """So the first commit of an instance adds what the recording ended, and nothing before."""
    first: dict[int, int] = {}
    for line in of(name, "event", "commit_loop"):
        first.setdefault(line["clip_instance"], line["loop"])

    assert set(first.values()) == {0}


# As spans


def positions(name: str) -> dict[int, tuple[Line, list[float]]]:
    """Give each playing's `play` line, and the frame it was at after each step of the engine, until it is replaced."""
    times = sorted({line["t"] for line in lines(name)})
    plays = [line for line in of(name, "play") if line["character"] not in WITHOUT_POSITION]
    until = {one["clip_instance"]: other["t"] for one, other in _successors(plays)}
    found = {}
    for line in plays:
        number, start = line["clip_instance"], line["t"]
        steps = [t for t in times if start <= t <= until.get(number, times[-1])]
        found[number] = line, [(t - start) * FPS + ROUNDED for t in steps]
    return found


def _successors(plays: list[Line]) -> list[tuple[Line, Line]]:
    by_character = defaultdict[str, list[Line]](list)
    for line in plays:
        by_character[line["character"]].append(line)
    return [pair for mine in by_character.values() for pair in pairwise(mine)]


def test_godot_reports_a_mark_after_the_step_in_which_the_clock_crossed_it():
    name = "godot3-walk-footsteps-irregular"
    checked = 0
    for number, (play, _) in positions(name).items():
        if play["character"] != "godot_deferred":
            continue
        for line in of(name, "event"):
            if line["clip_instance"] == number:
                end = (line["t"] - play["t"]) * FPS
                whole = math.floor((end - line["frame"] + ROUNDED) / frames(name)) * frames(name)
                assert end - line["dt"] * FPS - 2 * ROUNDED < whole + line["frame"]
                checked += 1

    assert checked == 109


def test_panda3d_reports_the_position_that_the_clock_gives():
    """To a frame: its intervals take a loop for 2.033 s and run ahead. Their last position stands for any loop end."""
    name = "panda3d-walk-footsteps-irregular"
    seconds, checked = frames(name) / FPS, 0
    for number, (play, at) in positions(name).items():
        for line in of(name, "event"):
            if line["clip_instance"] == number and line.get("engine_t", seconds) < 2.033:
                elapsed = line["t"] - play["t"]
                if elapsed * FPS <= at[-1]:
                    off = (line["engine_t"] - elapsed + seconds / 2) % seconds - seconds / 2
                    assert abs(off) < 1 / FPS
                    checked += 1

    assert checked == 210


def by_spans(name: str) -> dict[int, list[tuple[int, int, str]]]:
    """Report each step as a span that begins in the frame where the last one ended; give what was delivered.

    A loop is committed as soon as the clock has left it, the last one at the end; nothing may be missing but there.
    """
    alive, per_loop = played(name), frames(name)
    delivered = defaultdict[int, list[tuple[int, int, str]]](list)

    def commit(number: int, loop: int, who: str) -> Any:
        answer = alive.ask(CommitLoop(clip_instance=number, loop=loop), who)
        delivered[number] += [(event.loop, event.frame, event.kind) for event in answer.events]
        return answer

    for number, (play, at) in positions(name).items():
        open_instance(alive, play)
        who, before = play["character"], 0
        for now in map(math.floor, at):
            loop = before // per_loop
            first, last = before - loop * per_loop, now - loop * per_loop
            span = Covered(clip_instance=number, loop=loop, from_frame=first, to_frame=last)
            assert alive.word(span, who) == "covered"
            if now // per_loop > loop:
                assert commit(number, now // per_loop - 1, who).missing is UNSET
            before = now
        commit(number, before // per_loop, who)
    return delivered


def crossed(name: str, last: float) -> list[tuple[int, int, str]]:
    """List every mark that the clock crossed up to a frame, each once."""
    loops = range(math.floor(last) // frames(name) + 1)
    return [(loop, *mark) for loop in loops for mark in marks(name) if loop * frames(name) + mark[0] <= last]


@pytest.mark.parametrize("name", NAMES)
def test_spans_deliver_every_mark_that_was_crossed_exactly_once(name: str):
    delivered = by_spans(name)

    assert delivered == {number: crossed(name, at[-1]) for number, (_, at) in positions(name).items()}


@pytest.mark.parametrize(
    ("name", "expected"),
    list(
        zip(
            NAMES,
            (
                {"godot_deferred": (235, 109, 89), "godot_immediate": (235, 109, 89)},
                {"panda_func": (236, 150, 150), "panda_poll": (236, 44, 23), "panda_both": (236, 194, 150)},
            ),
            strict=True,
        )
    ),
)
def test_the_engines_skipped_and_doubled_what_the_spans_deliver_once(
    name: str, expected: dict[str, tuple[int, int, int]]
):
    """By character: marks the clock crossed, lines the recording has of them, and keys that those lines name."""
    found = defaultdict[str, list[int]](lambda: [0, 0, 0])
    for number, (play, at) in positions(name).items():
        end = play["t"] + at[-1] / FPS
        mine = [line for line in of(name, "event") if line["clip_instance"] == number and line["t"] < end]
        counts = (
            len(crossed(name, at[-1])),
            len(mine),
            len({(line["loop"], line["frame"], line["kind"]) for line in mine}),
        )
        found[play["character"]] = [one + other for one, other in zip(found[play["character"]], counts, strict=True)]

    assert {character: tuple(counts) for character, counts in found.items()} == expected
