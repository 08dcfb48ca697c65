"""Growth: no character grows beyond its bound, whatever it is fed, and what lets go of something is always taken."""

import pytest

from app.gates import growth
from app.gates.character import Character
from app.gates.decision import Problem, Undecided
from app.gates.event_commands import Acknowledge, CommitLoop, Enqueue, Play, Retire
from app.gates.graph import Evaluation, RequestGraph, SubmitCandidate
from app.gates.lives import Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.roster import freeze
from app.gates.scene import Bounds
from app.gates.transition import Begin, Complete, TransitionGranted
from tests.support.played import Played

LIMIT = 20_000
PAYLOAD = "x" * 900


def room(limit: int = LIMIT) -> Played:
    played = Played(bounds=Bounds(character_bytes_max=limit))
    played.ask(Spawn())
    return played


def size(played: Played) -> int:
    character = played.scene.roster.get("hero")
    assert character is not None
    return len(freeze(character))


def feed(number: int, kind: str):
    match kind:
        case "enqueue":
            return Enqueue(clip_instance=number // 8 + 1, loop=0, frame=number, kind="step", payload=PAYLOAD)
        case "parameters":
            return CommitParameters(
                values=[ParameterValue(name=f"{number}-{part}-{'p' * 100}", value=1) for part in range(9)]
            )
        case "begin":
            return Begin(layer="base", target=f"{number}" + "s" * 120, data=PAYLOAD)
        case "play":
            return Play(clip=f"{number}" + "c" * 120, data=PAYLOAD)
        case _:
            return RequestGraph(name=f"{number}" + "g" * 120)


@pytest.mark.parametrize("kind", ["enqueue", "parameters", "begin", "play", "request-graph"])
def test_what_is_fed_for_long_stays_within_the_bound(kind: str):
    played, turned_away = room(), 0

    for number in range(300):
        answer = played.ask(feed(number, kind))
        if isinstance(answer, Undecided):
            assert answer.problem is Problem.TOO_LARGE
            turned_away += 1
        assert size(played) <= LIMIT

    assert bool(turned_away) == (kind in ("enqueue", "parameters", "play"))


def test_a_pose_that_does_not_fit_is_turned_away_and_changes_nothing():
    played = room()
    played.ask(RequestGraph(name="A"))
    before = size(played)
    pose: dict[str, list[int | float | bool | str | None]] = {
        f"bone-{number}": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0] for number in range(400)
    }

    answer = played.ask(
        SubmitCandidate(
            request=1,
            name="A",
            outputs=["Animator", "GameplayEvents"],
            evaluation=Evaluation(succeeded=True, pose=pose),
        ),
    )

    assert isinstance(answer, Undecided)
    assert size(played) == before


def test_a_full_character_completes_commits_retires_and_acknowledges_and_has_room_again():
    played = room()
    granted = played.ask(Begin(layer="base", target="Run"))
    assert isinstance(granted, TransitionGranted)
    number = 0
    while not isinstance(played.ask(feed(number, "enqueue")), Undecided):
        number += 1

    for command in (
        Complete(token=granted.token),
        CommitLoop(clip_instance=1, loop=0),
        Acknowledge(through=1),
        Retire(clip_instance=2),
    ):
        assert not isinstance(played.ask(command), Undecided), command
    assert not isinstance(played.ask(feed(number + 1, "enqueue")), Undecided)


def test_an_ordinary_command_is_not_measured(monkeypatch: pytest.MonkeyPatch):
    measured: list[int] = []

    def noted(character: Character) -> bytes:
        measured.append(1)
        return freeze(character)

    monkeypatch.setattr(growth, "freeze", noted)
    played = room(1_000_000)

    for number in range(100):
        played.ask(feed(number, "begin"))

    assert len(measured) == 1
