"""Spawning: what begins and ends lives asks for the life first, then for the holder, then for everything else."""

from typing import Any

import pytest

from app.gates.decision import Problem, Refused
from app.gates.identity import Token
from app.gates.lives import CloseScene, DeclareRig, Despawn, Despawned, Spawn, Spawned
from tests.support.played import Played
from tests.support.rigs import rig

FORGED = Token("hero", "base", 1, 1, "Idle", "Run", "1-0")


def test_a_spawn_may_name_a_token_that_has_its_right(room: Played):
    token = room.begin()

    answer = room.ask(Spawn(holder=token), "squire")

    assert isinstance(answer, Spawned)
    assert room.scene.roster.names() == ["hero", "squire", "villain"]


@pytest.mark.parametrize(
    "spawn",
    [Spawn(holder=FORGED), Spawn(rig="humanoid", holder=FORGED), Spawn(inline=rig(mode="full"), holder=FORGED)],
    ids=["fine", "of an unknown rig", "inline"],
)
def test_a_spawn_without_its_holder_is_refused_before_its_rig_is_looked_at(room: Played, spawn: Spawn):
    assert room.ask(spawn, "squire") == Refused("holder_lost", at="holder")
    assert room.ask(spawn, "hero") == Refused("holder_lost", at="holder")


def test_an_equal_spawn_is_refused_too_when_its_holder_is_lost(room: Played):
    token = room.begin("Run")
    room.begin("Hit")

    assert room.ask(Spawn(holder=token), "villain") == Refused("holder_lost", at="holder")


def test_a_despawn_needs_its_holder_and_leaves_everyone_alive_without(room: Played):
    token = room.begin("Run")
    kept = room.ask(Despawn(holder=FORGED), "villain")

    ended = room.ask(Despawn(holder=token), "villain")

    assert (kept, ended) == (Refused("holder_lost", at="holder"), Despawned(1))


@pytest.mark.parametrize("command", [Spawn(life=7, holder=FORGED), Despawn(life=7, holder=FORGED)], ids=type)
def test_the_life_is_asked_before_the_holder(room: Played, command: Any):
    assert room.ask(command).outcome == "stale_life"


def test_a_character_may_end_its_own_life_as_the_holder(room: Played):
    token = room.begin("Die")

    assert room.ask(Despawn(holder=token)) == Despawned(1)


@pytest.mark.parametrize("command", [Spawn(holder=FORGED), Spawn(life=7), Despawn(holder=FORGED)], ids=str)
def test_a_life_or_holder_of_a_scene_that_is_not_there_makes_no_scene(command: Any):
    room = Played()

    assert room.ask(command).problem == Problem.UNKNOWN_SCENE
    assert (room.scene.state.exists, room.scene.sequence) == (False, 0)


def test_a_despawn_of_nobody_is_a_problem_whatever_it_holds(room: Played):
    assert room.ask(Despawn(holder=FORGED), "nobody").problem == Problem.UNKNOWN_CHARACTER


def test_a_token_of_a_former_life_holds_nothing(room: Played):
    token = room.begin()
    room.respawn()

    assert room.ask(Despawn(holder=token), "villain") == Refused("holder_lost", at="holder")


def test_a_closed_scene_starts_its_ticks_again(room: Played):
    room.tick(seal=9)
    room.ask(Spawn(), "squire")

    room.ask(CloseScene(), None)
    room.spawn()

    assert (room.scene.ticks.sealed, room.scene.ticks.is_running) == (0, False)
    assert room.tick(seal=1).seal.tick == 1


def test_a_rig_is_declared_without_a_life(room: Played):
    assert room.word(DeclareRig(name="humanoid", rig=rig()), None) == "declared"
    assert room.word(Spawn(rig="humanoid"), "squire") == "spawned"
