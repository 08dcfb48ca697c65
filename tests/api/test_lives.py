"""Lives over HTTP: rigs are declared, characters spawned and despawned, scenes closed."""

from tests.support.caller import RIG, Caller


def test_the_same_spawn_again_changes_nothing_and_another_is_a_conflict(call: Caller):
    before = call.state()

    again, other = call.spawn(), call.spawn(body={})

    assert (again.status, again.body["life"]) == (200, 1)
    assert other.problem[:2] == ("conflicting-spawn", 409)
    assert call.state() == before


def test_a_spawn_answers_with_the_character_as_inspected(call: Caller):
    reply = call.spawn("other", {})

    assert (reply.status, reply.body) == (201, call.inspect("other"))


def test_a_despawn_ends_the_life_and_the_next_goes_on_above_it(call: Caller):
    call.accepted("begin", {"layer": "base", "target": "Run"})

    ended = call.ask("DELETE", "characters/hero")
    gone = call.ask("GET", "characters/hero")
    again = call.spawn()

    assert (ended.status, ended.content) == (204, b"")
    assert gone.problem[:2] == ("unknown-character", 404)
    assert (again.status, again.body["life"], again.body["layers"]["base"]["epoch"]) == (201, 2, 2)


def test_a_despawn_of_another_life_is_refused_with_200(call: Caller):
    reply = call.ask("DELETE", "characters/hero?life=2")

    assert (reply.status, reply.body["outcome"], reply.body["by"]) == (200, "stale_life", {"life": 1})
    assert call.inspect()["life"] == 1


def test_a_spawn_for_another_life_is_refused_with_200(call: Caller):
    reply = call.spawn(body={"rig": RIG, "life": 2})

    assert (reply.status, reply.body["outcome"]) == (200, "stale_life")


def test_a_retried_despawn_gets_its_first_answer_in_the_next_life_too(call: Caller):
    first = call.ask("DELETE", "characters/hero", idempotency_key="despawn-1")
    call.spawn()

    again = call.ask("DELETE", "characters/hero", idempotency_key="despawn-1")

    assert first.status == again.status == 204
    assert call.inspect()["life"] == 2


def test_a_retried_spawn_is_shown_what_it_made_then(call: Caller):
    first = call.ask("PUT", "characters/other", {}, idempotency_key="spawn-001")
    call.ask("DELETE", "characters/other")

    again = call.ask("PUT", "characters/other", {}, idempotency_key="spawn-001")

    assert (first.status, again.status) == (201, 201)
    assert again.body == first.body
    assert call.ask("GET", "characters/other").status == 404


def test_a_key_of_a_spawn_is_not_another_commands(call: Caller):
    call.ask("PUT", "characters/other", {}, idempotency_key="spawn-001")

    reply = call.command("begin", {"layer": "base", "target": "Run"}, idempotency_key="spawn-001")

    assert reply.problem[:2] == ("key-reused", 422)


def test_a_rig_is_declared_redeclared_and_kept_while_somebody_lives_by_it(call: Caller):
    declared = call.ask("PUT", "rigs/humanoid", RIG)
    equal = call.ask("PUT", "rigs/humanoid", RIG)
    spawned = call.spawn("other", {"rig": "humanoid"})
    taken = call.ask("PUT", "rigs/humanoid", {})
    call.ask("DELETE", "characters/other")
    changed = call.ask("PUT", "rigs/humanoid", {})

    assert (declared.status, equal.status, spawned.status, changed.status) == (201, 200, 201, 201)
    assert declared.body == equal.body
    assert declared.body["events"]["loop_window"] == 8
    assert spawned.body["rig"] == "humanoid"
    assert taken.problem[:2] == ("conflicting-rig", 409)


def test_a_spawn_with_a_rig_that_is_not_there_is_a_problem_and_makes_no_life(call: Caller):
    assert call.spawn("other", {"rig": "nobody"}).problem[:2] == ("unknown-rig", 404)
    assert call.ask("GET", "characters/other").status == 404


def test_a_closed_scene_is_gone_and_comes_back_above_itself(call: Caller):
    closed = call.ask("DELETE", "")
    gone = call.ask("GET", "")
    again = call.spawn()

    assert (closed.status, gone.problem[:2]) == (204, ("unknown-scene", 404))
    assert again.body["life"] > 1
    assert again.body["sequence"] > 1


def test_a_scene_that_is_not_there_cannot_be_closed(call: Caller):
    assert call.elsewhere().ask("DELETE", "").problem[:2] == ("unknown-scene", 404)


def test_the_answer_to_a_rig_is_a_rig_that_is_equal(call: Caller):
    rig = {
        "events": {"kinds": {"on": {"class": "gameplay", "ends": "off"}, "step": "presentation"}},
        "clips": {"Walk": {"frames": 30, "events": [{"frame": 12, "kind": "step", "mark": "left"}]}},
    }
    first = call.ask("PUT", "rigs/armed", rig)

    again = call.ask("PUT", "rigs/armed", first.body)

    assert (first.status, again.status) == (201, 200)
    assert again.body == first.body
