import pytest

from app.replay.adapter import Adapter, Ask, NotYet, Unanswerable, gate_of, initial_states, played, spawns
from tests.support.recorded import Recorder


def token(generation, to):
    return {
        "character": "hero",
        "layer": "base",
        "epoch": 1,
        "generation": generation,
        "from": "idle",
        "to": to,
        "seal": "s",
    }


def granted(generation, to):
    return {"accepted": True, "outcome": "granted", "token": token(generation, to)}


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def adapter():
    return Adapter()


def asked(adapter, line, answer):
    step = adapter.step(line)
    assert isinstance(step, Ask)
    adapter.learn(line, answer)
    return step.command


def test_a_begin_asks_for_its_target_and_leaves_the_belief_at_home(adapter, recorder):
    step = adapter.step(recorder.begin("h1", "run", believed="hit"))

    assert step == Ask({"command": "begin", "character": "hero", "layer": "base", "target": "run"})


def test_a_completion_carries_the_token_of_its_handle_though_a_newer_one_was_granted(adapter, recorder):
    """The late callback: the gate must be asked about the old token, or it could not refuse it."""
    asked(adapter, recorder.begin("h1", "run"), granted(1, "run"))
    asked(adapter, recorder.begin("h2", "hit"), granted(2, "hit"))

    step = adapter.step(recorder.complete("h1", "run"))

    assert step == Ask({"command": "complete", "character": "hero", "token": token(1, "run")})


def test_a_repeated_completion_asks_again_with_the_same_token(adapter, recorder):
    asked(adapter, recorder.begin("h1", "run"), granted(1, "run"))
    first = asked(adapter, recorder.complete("h1", "run"), {"accepted": True, "outcome": "committed"})

    second = adapter.step(recorder.complete("h1", "run"))

    assert second == Ask(first)


def test_a_missing_completion_leaves_nothing_behind(adapter, recorder):
    asked(adapter, recorder.begin("h1", "run"), granted(1, "run"))

    step = adapter.step(recorder.begin("h2", "hit"))

    assert isinstance(step, Ask)


@pytest.mark.parametrize("handle", [None, "none", "h99"])
def test_a_completion_that_names_no_known_request_means_the_newest_with_its_target(adapter, recorder, handle):
    asked(adapter, recorder.begin("h1", "run"), granted(1, "run"))
    asked(adapter, recorder.begin("h2", "hit"), granted(2, "hit"))
    asked(adapter, recorder.begin("h3", "run"), granted(3, "run"))
    asked(adapter, recorder.begin("h4", "hit"), granted(4, "hit"))

    step = adapter.step(recorder.complete(handle, "run"))

    assert step == Ask({"command": "complete", "character": "hero", "token": token(3, "run")})


def test_a_completion_of_a_target_that_was_never_begun_cannot_be_asked(adapter, recorder):
    asked(adapter, recorder.begin("h1", "run"), granted(1, "run"))

    step = adapter.step(recorder.complete(None, "hit"))

    assert step == Unanswerable("no token towards hit was ever granted on hero/base")


def test_a_completion_does_not_take_the_token_of_another_layer(adapter, recorder):
    asked(adapter, recorder.begin("h1", "run"), granted(1, "run"))
    recorder.layer = "upper"

    assert isinstance(adapter.step(recorder.complete(None, "run")), Unanswerable)


def test_a_completion_of_a_begin_that_got_no_token_cannot_be_asked(adapter, recorder):
    asked(adapter, recorder.begin("h1", "run"), granted(1, "run"))
    asked(adapter, recorder.begin("h2", "run"), {"problem": {"type": "/problems/invalid"}})

    assert adapter.step(recorder.complete("h2", "run")) == Unanswerable("the begin of h2 was granted no token")


def test_a_completion_in_the_tick_of_its_begin_waits_for_the_token(adapter, recorder):
    begin, complete = recorder.begin("h1", "run"), recorder.complete("h1", "run")
    adapter.step(begin)

    assert adapter.step(complete) == NotYet()
    adapter.learn(begin, granted(1, "run"))
    assert adapter.step(complete) == Ask({"command": "complete", "character": "hero", "token": token(1, "run")})


def test_a_completion_without_handle_waits_for_a_begin_with_its_target_only(adapter, recorder):
    asked(adapter, recorder.begin("h1", "run"), granted(1, "run"))
    adapter.step(recorder.begin("h2", "hit"))

    assert isinstance(adapter.step(recorder.complete(None, "run")), Ask)
    assert adapter.step(recorder.complete(None, "hit")) == NotYet()


def test_parameters_go_out_as_recorded(adapter, recorder):
    step = adapter.step(recorder.parameters(("Speed", "NaN"), ("Speed", 1), ("Turn", -0.5)))

    values = [{"name": "Speed", "value": "NaN"}, {"name": "Speed", "value": 1}, {"name": "Turn", "value": -0.5}]
    assert step == Ask({"command": "commit-parameters", "character": "hero", "values": values})


def test_clips_keep_the_numbers_of_the_recording(adapter, recorder):
    lines = [recorder.play(7), recorder.event(7, loop=2, frame=12, kind="dust"), recorder.commit_loop(7, 2)]

    commands = [step.command for step in map(adapter.step, lines) if isinstance(step, Ask)]

    assert commands == [
        {"command": "play", "character": "hero", "clip": "walk", "layer": "base", "clip_instance": 7},
        {"command": "enqueue", "character": "hero", "clip_instance": 7, "loop": 2, "frame": 12, "kind": "dust"},
        {"command": "commit-loop", "character": "hero", "clip_instance": 7, "loop": 2},
    ]


def test_a_candidate_carries_the_number_the_gate_gave_its_request(adapter, recorder):
    asked(adapter, recorder.request(31, "CombatV8"), {"accepted": True, "outcome": "requested", "request": 1})

    step = adapter.step(recorder.candidate(31, "CombatV8", ("Animator",), evaluated=False, pose="CombatV8@NaN"))

    assert step == Ask(
        {
            "command": "submit-candidate",
            "character": "hero",
            "request": 1,
            "name": "CombatV8",
            "outputs": ["Animator"],
            "evaluation": {"succeeded": False, "pose": "CombatV8@NaN"},
        }
    )


def test_a_candidate_without_a_pose_sends_none(adapter, recorder):
    asked(adapter, recorder.request(1, "CombatV8"), {"accepted": True, "outcome": "requested", "request": 1})

    step = adapter.step(recorder.candidate(1, "CombatV8"))

    assert isinstance(step, Ask)
    assert step.command["evaluation"] == {"succeeded": True}


def test_a_candidate_waits_for_the_number_of_its_request(adapter, recorder):
    request, candidate = recorder.request(4, "CombatV8"), recorder.candidate(4, "CombatV8")
    adapter.step(request)

    assert adapter.step(candidate) == NotYet()
    adapter.learn(request, {"accepted": True, "outcome": "requested", "request": 1})
    assert isinstance(adapter.step(candidate), Ask)


def test_a_candidate_for_a_request_without_number_cannot_be_asked(adapter, recorder):
    asked(adapter, recorder.request(4, "CombatV8"), {"problem": {"type": "/problems/invalid"}})

    assert adapter.step(recorder.candidate(4, "CombatV8")) == Unanswerable("request 4 was given no number")
    assert adapter.step(recorder.candidate(5, "CombatV8")) == Unanswerable("request 5 was never made")


def test_a_line_belongs_to_the_gate_that_decides_it(recorder):
    lines = [recorder.begin("h1", "run"), recorder.complete("h1", "run"), recorder.parameters(("Speed", 1))]
    lines += [recorder.play(1), recorder.event(1), recorder.commit_loop(1)]
    lines += [recorder.request(1, "A"), recorder.candidate(1, "A")]

    gates = [gate_of(line) for line in lines]

    assert gates == ["transitions"] * 2 + ["parameters"] + ["events"] * 3 + ["graphs"] * 2


def test_lines_without_a_command_are_not_played(recorder):
    line = recorder.begin("h1", "run")

    assert played(recorder.trace()) == [line]


def test_a_layer_starts_in_what_its_first_begin_believed(recorder):
    recorder.complete(None, "fall")
    recorder.begin("h1", "run", believed="walk")
    recorder.begin("h2", "hit", believed="run")
    recorder.layer = "upper"
    recorder.play(1)

    assert initial_states(recorder.lines) == {"hero": {"base": "walk", "upper": None}}


def test_a_spawn_declares_the_layers_that_were_seen_and_leaves_parameters_open(recorder):
    recorder.begin("h1", "run", believed="walk")
    recorder.layer = "upper"
    recorder.play(1)

    rig = {
        "parameters": {"mode": "sparse"},
        "layers": {"base": {"initial": "walk"}, "upper": {}},
        "graphs": {"main": {"layers": ["base", "upper"]}},
    }
    assert spawns(recorder.lines) == [{"command": "spawn", "character": "hero", "rig": rig}]


def test_a_graph_is_no_layer(recorder):
    recorder.layer = "graph"
    recorder.request(1, "CombatV8")

    assert spawns(recorder.lines) == [
        {"command": "spawn", "character": "hero", "rig": {"parameters": {"mode": "sparse"}}}
    ]
