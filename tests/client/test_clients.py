"""Both clients against a service over sockets: each test runs with the async and with the sync one."""

import inspect
import json
import re

import httpx
import msgspec
import pytest

from posegate_client import (
    AsyncCharacter,
    AsyncPosegate,
    AsyncScene,
    Character,
    Conflicting,
    FromAnswer,
    Invalid,
    Limits,
    NotThere,
    Posegate,
    Problem,
    Refused,
    Request,
    Scene,
    Unavailable,
    commands,
)
from posegate_client import answers as said
from posegate_client.rigs import Clip, ClipEvent, Events, Kind, Layer, Parameter, Parameters, Rig
from posegate_client.values import ActiveGraph, Evaluation, ParameterValue

RIG = Rig(
    layers={"base": Layer(states=["Idle", "Run", "Hit"]), "face": Layer("Neutral")},
    parameters=Parameters(declared={"Speed": Parameter("float", 0, 20), "Jump": Parameter("trigger", id=7)}),
    events=Events(kinds={"step": "presentation", "spark": "immediate", "damage": Kind("gameplay")}),
    clips={"Walk": Clip(30, [ClipEvent(12, "step", "left")])},
)
WORKS = Evaluation(True, "combat@0")


@pytest.fixture
def hero(scene):
    hero = scene.character("hero")
    hero.spawn(rig=RIG)
    return hero


def transitions(hero):
    run = hero.begin("base", "Run", data={"clip": "run"})
    hit = hero.begin("base", "Hit", if_generation=1, min_ticks=0, deadline_ticks=60)
    yield from (run, hit)
    yield hero.begin("base", "Hit", if_same="keep")
    yield hero.begin("base", "Fly")
    yield hero.complete(run.token)
    yield hero.complete(hit.token)
    yield hero.complete(hit.token)
    cancelled = hero.begin("face", "Smile")
    yield hero.cancel(cancelled.token)
    yield hero.cancel(cancelled.token)
    failed = hero.begin("face", "Smile", holder=hit.token)
    yield hero.fail(failed.token, "no such clip")
    yield hero.fail(failed.token, "no such clip")
    yield hero.begin("face", "Smile", life=7)


def parameters(hero):
    yield hero.commit_parameters({"Speed": 4.25, "Jump": True})
    yield hero.commit_parameters([ParameterValue(True, id=7)], base_version=1)
    yield hero.commit_parameters({"Speed": float("nan")})
    yield hero.commit_parameters({"Speed": 21})
    yield hero.commit_parameters({}, base_version=1)


def events(hero):
    opened = hero.play("Walk", layer="base", data=None)
    yield opened
    number = opened.clip_instance
    yield hero.play("Walk", clip_instance=number)
    yield hero.enqueue(number, 0, 3, "step", payload={"foot": "left"}, group="blend", mark="left")
    yield hero.enqueue(number, 0, 3, "step", payload=None)
    yield hero.enqueue(number, 0, 4, "spark")
    yield hero.enqueue(number, 0, 5, "damage", tick=1)
    yield hero.covered(number, 0, 10, 42)
    yield hero.covered(99, 0, 10, 42)
    yield hero.commit_loop(number, 0)
    yield hero.commit_loop(number, 1)
    yield hero.commit_loop(number, 0)
    yield hero.enqueue(number, 2, 3, "step")
    yield hero.retire(number)
    yield hero.retire(number)
    yield hero.ack(1)
    yield hero.ack(9)


def graphs(hero):
    old = hero.request_graph("CombatV8")
    new = hero.request_graph("CombatV9", graph="main")
    yield from (old, new)
    outputs = ["Animator", "GameplayEvents"]
    yield hero.request_graph("CombatV9", graph="none")
    yield hero.submit_candidate(old.request, "CombatV8", outputs, WORKS)
    yield hero.submit_candidate(new.request, "CombatV9", ["Animator"], WORKS, if_idle=True)
    yield hero.submit_candidate(new.request, "CombatV9", outputs, Evaluation(False))
    hero.begin("base", "Run")
    yield hero.submit_candidate(new.request, "CombatV9", outputs, WORKS)
    last = hero.request_graph("CombatV10")
    yield hero.withdraw_graph(last.request)
    yield hero.withdraw_graph(new.request)


EXPECTED = {
    transitions: "granted granted kept unknown_state stale_generation committed already_completed cancelled "
    "already_cancelled failed already_failed stale_life",
    parameters: "committed committed non_finite_value out_of_range stale_version",
    events: "opened instance_open accepted duplicate accepted accepted covered unknown_instance delivered delivered "
    "loop_rollback accepted retired retired_instance acknowledged unknown_delivery",
    graphs: "requested requested unknown_graph stale_request missing_output evaluation_failed committed withdrawn "
    "stale_request",
}
TYPES: dict[str, set[type]] = {
    "granted": {said.Granted},
    "kept": {said.Kept},
    "committed": {said.TransitionCommitted, said.ParametersCommitted, said.GraphCommitted},
    "cancelled": {said.TransitionCancelled},
    "failed": {said.TransitionFailed},
    "opened": {said.InstanceOpened},
    "accepted": {said.EventAccepted},
    "covered": {said.SpanCovered},
    "delivered": {said.LoopDelivered},
    "retired": {said.InstanceRetired},
    "acknowledged": {said.DeliveriesAcknowledged},
    "requested": {said.GraphRequested},
    "withdrawn": {said.GraphWithdrawn},
}


@pytest.mark.parametrize("story", EXPECTED, ids=lambda story: story.__name__)
def test_every_command_is_accepted_and_refused_as_a_value(hero, story):
    answers = list(story(hero))

    assert [answer.outcome for answer in answers] == EXPECTED[story].split()
    for answer in answers:
        assert type(answer) in TYPES.get(answer.outcome, set()) if answer.accepted else type(answer) is Refused, answer


def test_what_a_refusal_says_is_there(hero):
    hero.begin("base", "Run")

    refused = hero.begin("base", "Hit", if_generation=0)

    assert (refused.at, refused.by) == ("if_generation", {"generation": 1, "to": "Run"})
    assert (refused.layer.current, refused.layer.pending.to) == ("Idle", "Run")


def test_lives_begin_and_end(scene):
    hero = scene.character("hero")

    spawned, again = hero.spawn(), hero.spawn()
    ended = hero.despawn(life=1)
    graph = ActiveGraph("LocomotionV7", "explore@0", ["Animator", "GameplayEvents"])
    reborn = hero.spawn(graphs={"main": graph})
    late = hero.despawn(life=1)

    assert [(each.life, each.created) for each in (spawned, again, reborn)] == [(1, True), (1, False), (2, True)]
    assert (type(ended), ended.life) == (said.Despawned, 1)
    assert (late.outcome, late.by) == ("stale_life", {"life": 2})
    assert hero.inspect().graphs["main"].active.name == "LocomotionV7"


def test_rigs_are_declared_and_scenes_closed(scene):
    first, again = scene.declare_rig("fighter", RIG), scene.declare_rig("fighter", RIG)
    scene.character("hero").spawn(rig="fighter")

    assert (first.created, again.created) == (True, False)
    assert first.rig.layers == RIG.layers
    assert first.rig.events.loop_window == 8
    with pytest.raises(Conflicting) as conflict:
        scene.declare_rig("fighter", {})
    assert conflict.value.problem.name == "conflicting-rig"
    assert scene.inspect().rigs == ("fighter",)
    assert scene.close() is None
    with pytest.raises(NotThere):
        scene.inspect()


def test_a_batch_has_an_answer_or_a_problem_at_each_place(hero, scene):
    answers = scene.batch(
        [
            commands.begin("hero", "base", "Run"),
            commands.begin("nobody", "base", "Run"),
            commands.complete("hero", FromAnswer(0)),
            commands.spawn("villain"),
        ]
    )

    assert [getattr(each, "outcome", each) for each in (answers[0], *answers[2:])] == [
        "granted",
        "committed",
        "spawned",
    ]
    assert isinstance(answers[1], Problem)
    assert (answers[1].name, answers[1].status, answers[1].retryable) == ("unknown-character", 404, False)


def test_an_empty_batch_has_no_answers(scene):
    assert scene.batch([]) == ()


def test_a_bundle_is_accepted_whole_or_says_where_it_failed(hero, scene):
    snap = scene.bundle([commands.begin("hero", "base", "Run"), commands.complete("hero", FromAnswer(0))], link=True)
    refused = scene.bundle([commands.begin("hero", "base", "Run"), commands.begin("hero", "tail", "Run")])

    assert [type(each) for each in snap.answers] == [said.Granted, said.TransitionCommitted]
    assert (type(refused), refused.failed_at) == (said.BundleRefused, 1)
    assert [each and each.outcome for each in refused.answers] == [None, "unknown_layer"]
    assert scene.bundle([], holder=snap.answers[0].token).outcome == "bundled"


def test_ticks_hold_seal_confirm_and_go_back(hero, scene):
    asked = [
        Request(2, "player", 1, commands.begin("hero", "base", "Run"), priority=10),
        Request(2, "ai", 1, commands.begin("hero", "base", "Hit")),
        Request(2, "ai", 1, commands.begin("hero", "base", "Hit")),
    ]

    sealed = scene.tick(seal=1)
    queued = scene.tick(requests=asked)
    applied = scene.tick(seal=2)
    late = scene.tick(seal=2)
    back = scene.tick(rollback=1, confirm=1)

    assert [each.outcome for each in queued.requests] == ["queued", "queued", "duplicate"]
    assert (sealed.seal.tick, sealed.requests, sealed.rollback) == (1, None, None)
    rows = applied.seal.answers
    assert [(row.source, row.command, type(row.answer)) for row in rows] == [
        ("ai", "begin", said.Granted),
        ("player", "begin", said.Granted),
    ]
    assert (late.accepted, late.outcome, late.seal.by) == (False, "already_sealed", {"tick": 2})
    assert (back.rollback.characters, back.confirm.deliveries) == (("hero",), ())
    assert rows[1].answer.token.seal is not None
    assert scene.tick(seal=3).seal.tick == 3


def test_the_answers_of_a_tick_are_read_again(hero, scene):
    command = commands.begin("hero", "base", "Run")
    sealed = scene.tick(requests=[Request(1, "ai", 1, command), Request(1, "player", 1, command)], seal=1)

    read = scene.tick_answers(1, source="player")

    assert read.answers == tuple(row for row in sealed.seal.answers if row.source == "player")


def test_what_is_read_is_what_the_service_shows(hero, scene, url):
    for story in (transitions, parameters, events, graphs):
        list(story(hero))
    path = f"{url}/v1/scenes/{scene.name}"

    def raw(more):
        response = httpx.get(f"{path}{more}")
        assert response.status_code == 200, response.text
        return response.json()

    shown = raw("/characters/hero")
    view = hero.inspect()
    assert (view.layers["base"].newest, view.revision) == (shown["layers"]["base"]["newest"], shown["revision"])
    assert [each.clip_instance for each in view.clip_instances] == [
        each["clip_instance"] for each in shown["clip_instances"]
    ]
    assert as_json(view) == shown
    assert as_json(scene.inspect()) == raw("")
    assert as_json(scene.characters_page()) == raw("/characters")
    assert {**as_json(hero.parameters()), "etag": None} == {**raw("/characters/hero/parameters"), "etag": None}
    assert as_json(hero.deliveries(after=0)) == raw("/characters/hero/deliveries")["deliveries"]
    decisions = raw("/history?limit=1000")["decisions"]
    assert as_json([each.answer for each in scene.history()]) == [each["answer"] for each in decisions]
    assert as_json([each.asked for each in scene.history()]) == [each["asked"] for each in decisions]


def as_json(value):
    return json.loads(msgspec.json.encode(value))


def test_a_snapshot_that_did_not_change_is_not_read_again(hero, posegate):
    hero.commit_parameters({"Speed": 1.5})
    known = hero.parameters()

    same = hero.parameters(known=known)
    hero.commit_parameters({"Speed": 2.5})
    other = hero.parameters(known=known)

    assert same is known
    assert (known.etag, known.values["Speed"]) == ('"1-1"', 1.5)
    assert other.values["Speed"] == 2.5


def test_history_is_read_page_by_page_and_filtered(hero, scene):
    for target in ("Run", "Fly", "Hit", "Fly"):
        hero.begin("base", target)

    page = scene.history_page(limit=2)
    rest = scene.history_page(after=page.next, limit=1000)

    assert [each.sequence for each in page.decisions + rest.decisions] == [1, 2, 3, 4, 5]
    assert rest.next is None
    assert [each.answer.outcome for each in scene.history(refused=True, command="begin")] == ["unknown_state"] * 2
    assert [each.asked["target"] for each in scene.history(outcome="granted", character="hero")] == ["Run", "Hit"]


def test_lists_are_walked_to_their_end(scene, posegate):
    scene.batch([commands.spawn(f"npc-{number:03}") for number in range(25)])

    first = scene.characters_page(limit=10)

    assert (len(first.characters), first.next) == (10, "npc-009")
    assert [row.character for row in scene.characters()] == [f"npc-{number:03}" for number in range(25)]
    assert scene.name in list(posegate.scenes())


def test_the_service_says_what_it_is(posegate):
    assert posegate.info().name == "posegate"
    assert posegate.info().limits["batch_commands_max"] == 10_000
    assert posegate.ready().ready is True
    assert "posegate" in posegate.metrics()


def test_a_session_is_minted_for_a_player(hero, scene):
    session = scene.mint_session("player-7", {"hero": 1}, begin_layers=["face"], commands=["complete"], ttl_s=60)

    assert session.token.count(".") == 2
    assert session.token not in repr(session)


def test_the_same_key_gives_the_same_answer_at_every_door(hero, scene):
    command = commands.begin("hero", "base", "Run", key="a-key-of-mine")

    first = scene.ask(command)

    assert scene.ask(command) == first
    assert scene.batch([command]) == (first,)
    with pytest.raises(Invalid) as reused:
        hero.begin("base", "Hit", key="a-key-of-mine")
    assert reused.value.problem.name == "key-reused"


def test_a_command_without_a_key_gets_one_of_its_own(hero):
    first, second = hero.begin("base", "Run"), hero.begin("base", "Run")

    assert (first.token.generation, second.token.generation) == (1, 2)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a%2fb", "é", "x" * 129, "-x", "a?b", "a#b", "a b", "a\n"])
def test_a_name_that_no_path_takes_is_the_callers_mistake_and_not_sent(posegate, scene, name: str):
    with pytest.raises(ValueError, match="identifier"):
        posegate.scene(name)
    with pytest.raises(ValueError, match="identifier"):
        scene.character(name)


def test_what_does_not_fit_raises_and_says_where(hero, scene):
    with pytest.raises(Invalid) as invalid:
        hero.begin("", "Run")
    assert (invalid.value.problem.status, invalid.value.problem.at) == (422, "layer")
    with pytest.raises(NotThere) as missing:
        scene.character("nobody").begin("base", "Run")
    assert (missing.value.problem.name, missing.value.may_be_decided) == ("unknown-character", False)
    with pytest.raises(ValueError, match="no key"):
        commands.bundle([commands.begin("hero", "base", "Run", key="a-key-of-mine")])


PAIRS = [(AsyncPosegate, Posegate), (AsyncScene, Scene), (AsyncCharacter, Character)]


@pytest.mark.parametrize(("asynchronous", "synchronous"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_clients_offer_the_same(asynchronous, synchronous):
    def offered(kind):
        return {
            name: re.sub(r"Async|Coroutine.*?-> |posegate_client\.\w+\.", "", str(inspect.signature(member).parameters))
            for name, member in inspect.getmembers(kind, callable)
            if not name.startswith("_")
        }

    assert offered(asynchronous).keys() == offered(synchronous).keys()
    mine = {name: text for name, text in offered(asynchronous).items() if "Transport" not in text}
    assert mine == {name: text for name, text in offered(synchronous).items() if "Transport" not in text}


def test_what_is_read_may_have_to_show_a_decision(scene, hero):
    granted = hero.begin("base", "Run")
    hero.commit_parameters({"Speed": 4.25})
    seen = granted.sequence

    assert scene.inspect(min_sequence=seen).sequence >= seen
    assert [row.character for row in scene.characters(min_sequence=seen)] == ["hero"]
    assert [each.command for each in scene.history(min_sequence=seen)][:2] == ["spawn", "begin"]
    assert hero.inspect(min_sequence=seen).layers["base"].pending.to == "Run"
    assert hero.parameters(min_sequence=seen).values["Speed"] == 4.25
    assert hero.deliveries(min_sequence=seen) == ()
    assert scene.tick(seal=1).seal.accepted
    assert scene.tick_answers(1, min_sequence=seen).answers == ()


@pytest.mark.parametrize("read", ["inspect", "characters_page", "history_page", "tick_answers"])
def test_a_decision_that_no_node_has_is_asked_for_until_the_bounds_and_then_unavailable(
    connect, url, scene, hero, read
):
    hasty = connect(url, limits=Limits(attempts_max=1)).scene(scene.name)

    with pytest.raises(Unavailable) as raised:
        getattr(hasty, read)(*([1] if read == "tick_answers" else []), min_sequence=1_000)

    assert raised.value.problem.name == "sequence-ahead"
