"""Shortcuts: whatever is asked, and in whatever order, they give what the gates give without them."""

import random
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from app.gates import settling
from app.gates.candidate import Candidate
from app.gates.decision import Command, Undecided
from app.gates.event_commands import CommitLoop, Enqueue, Play, Retire
from app.gates.lives import Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.rig import ParameterRule, Rig, parameter_id
from app.gates.roster import freeze
from app.gates.scene import Bounds, Scene
from app.gates.shortcut import SHORTCUTS
from app.gates.tick import Tick
from app.gates.transition import Begin, Cancel, Complete, TransitionGranted
from tests.model.drawn import RIGS
from tests.support.rigs import rig

SECRET = b"a secret of thirty-two bytes    "
LAYERS, STATES = ("base", "face", "tail"), ("Idle", "Run", "Hit", "Fly")
VALUES = (0.5, 1, -3, True, float("nan"), 1e39, "NaN", None, 2**53)
SEEDS, COMMANDS = 150, 80
SPEED = ParameterRule("float", parameter_id("Speed"), 0.0, True, None, None)
FULL = rig(mode="full", declared={"Speed": SPEED, "Turn": replace(SPEED, id=parameter_id("Turn"))})
DRAWN = {"none": None, "whole": FULL, **RIGS}

Asked = Command | tuple[type[Command], int, Any]
"""A command, or one that ends a token: which of those granted last, and the life it names."""


def drawn(draw: random.Random) -> Asked:
    """Draw a command, most of them ordinary, with small numbers so that they meet."""

    def rarely(*values: Any) -> Any:
        return draw.choice(values) if draw.random() < 0.15 else UNSET

    small, life = draw.choice((0, 0, 1, 1, 2, 3)), rarely(1, 2)
    match draw.randrange(8):
        case 0 | 1:
            layer, target = draw.choice(LAYERS), draw.choice(STATES)
            more = {"data": rarely({"clip": 1}), "min_ticks": rarely(1), "if_same": rarely("keep"), "life": life}
            return Begin(layer=layer, target=target, if_generation=rarely(0, 1, 2), **more)
        case 2:
            return draw.choice((Complete, Complete, Cancel)), draw.choice((0, 0, 0, 1, 2)), life
        case 3:
            names = draw.choices(("Speed", "Turn", "Nothing"), k=draw.choice((0, 1, 1, 1, 2)))
            values = [ParameterValue(name=name, value=draw.choice(VALUES)) for name in names]
            return CommitParameters(values=values, base_version=rarely(0, 1, 2), life=life)
        case 4 | 5:
            more = {"payload": rarely({"foot": "left"}), "mark": rarely("left"), "tick": rarely(1), "life": life}
            kind = draw.choice(("footstep", "spark", "hit"))
            return Enqueue(clip_instance=draw.choice((0, 1)), loop=small, frame=draw.randrange(9), kind=kind, **more)
        case 6:
            return CommitLoop(clip_instance=draw.choice((0, 1)), loop=small, life=life)
        case _:
            number = draw.choice((0, 1, 2, 3))
            return Retire(clip_instance=number) if draw.random() < 0.3 else Play(clip="Walk", clip_instance=number)


def played(rig: Rig | None, asked: list[Asked], *, ticks: bool, bytes_max: int) -> tuple[list[Any], bytes, Any]:
    """Play commands in turns of five; give every record, the character at the end, and what its size was taken for."""
    scene = Scene("room", SECRET, Bounds(character_bytes_max=bytes_max))
    spawn: Command = Spawn() if rig is None else Spawn(inline=rig)
    records: list[Any] = []
    granted: list[Any] = []
    turns: list[list[tuple[str | None, Any]]] = [[("hero", spawn), *([(None, Tick(seal=1))] if ticks else [])]]
    turns += [[("hero", each) for each in asked[start : start + 5]] for start in range(0, len(asked), 5)]
    for at, turn in enumerate(turns, 1):
        candidate = Candidate(scene, at * 1_000)
        for name, each in turn:
            command = each
            if isinstance(each, tuple):
                if not granted:
                    continue
                command = each[0](token=granted[-1 - each[1] % len(granted)], life=each[2])
            record = candidate.decide(name, command)
            records.append(record)
            if not isinstance(record, Undecided) and isinstance(record.answer, TransitionGranted):
                granted.append(record.answer.token)
        scene.adopt(candidate)
    hero = scene.roster.get("hero")
    return records, b"" if hero is None else freeze(hero), scene.roster.size("hero")


@pytest.mark.parametrize("ticks", [False, True])
@pytest.mark.parametrize("name", DRAWN)
def test_with_shortcuts_and_without_everything_is_the_same(name: str, ticks: bool):
    for seed in range(SEEDS):
        draw = random.Random(seed)
        asked, bytes_max = [drawn(draw) for _ in range(COMMANDS)], draw.choice((4_194_304, 9_000))
        with_them = played(DRAWN[name], asked, ticks=ticks, bytes_max=bytes_max)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(settling, "SHORTCUTS", {})
            without = played(DRAWN[name], asked, ticks=ticks, bytes_max=bytes_max)

        assert repr(with_them) == repr(without), seed


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (Begin(layer="base", target="Run"), Begin),
        (Begin(layer="base", target="Idle", if_same="keep"), Begin),
        (Begin(layer="base", target="Run", if_same="keep"), Begin),
        (CommitParameters(values=[ParameterValue(name="Speed", value=0.5)]), CommitParameters),
        (Enqueue(clip_instance=1, loop=1, frame=2, kind="footstep"), Enqueue),
        (CommitLoop(clip_instance=1, loop=1), CommitLoop),
    ],
)
def test_an_ordinary_command_takes_its_shortcut(monkeypatch: pytest.MonkeyPatch, command: Command, kind: type[Command]):
    scene = Scene("room", SECRET, Bounds())
    opening = Candidate(scene, 1_000)
    opening.decide("hero", Spawn())
    opening.decide("hero", CommitLoop(clip_instance=1, loop=0))
    scene.adopt(opening)
    taken: list[bool] = []

    def watched(*given: Any) -> Any:
        found = SHORTCUTS[kind](*given)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(settling, "SHORTCUTS", {kind: watched})
    Candidate(scene, 2_000).decide("hero", command)

    assert taken == [True]
