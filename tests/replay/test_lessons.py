"""What real engines report, asserted on the recordings themselves: why the gates ask for what they ask for."""

import json
from collections import Counter, defaultdict
from functools import cache

import pytest

from tests.support.recorded import NAMES, TRACES

TRANSITIONS = [name for name in NAMES if "crowd" in name or "hit" in name]


def pinned(*counts):
    """Pair the recordings that have transitions with what is counted in each."""
    return list(zip(TRANSITIONS, counts, strict=True))


@cache
def lines(name):
    return tuple(json.loads(text) for text in (TRACES / f"{name}.jsonl").read_text().splitlines())


def of(name, *ops):
    return [line for line in lines(name) if line["op"] in ops]


def place(line):
    return line["character"], line["layer"]


def superseded(name):
    """Completions of a begin that another one followed on its layer: (completion, the newest begin then)."""
    newest = {}
    found = []
    for line in of(name, "begin", "complete"):
        if line["op"] == "begin":
            newest[place(line)] = line
        elif newest[place(line)]["handle"] != line["handle"]:
            found.append((line, newest[place(line)]))
    return found


def never_completed(name):
    """Begins that never get a completion of their own."""
    completed = {line["handle"] for line in of(name, "complete")}
    return [line for line in of(name, "begin") if line["handle"] not in completed]


@pytest.mark.parametrize(("name", "late"), pinned(180, 17, 383, 16), ids=TRANSITIONS)
def test_callbacks_of_interrupted_transitions_come_all_the_same(name, late):
    assert len(superseded(name)) == late


@pytest.mark.parametrize(("name", "inside"), pinned(66, 8, 282, 10), ids=TRANSITIONS)
def test_some_come_in_the_frame_of_the_begin_that_interrupts(name, inside):
    """From inside the call that stops the old clip: so a client begins the new transition before it stops the old."""
    assert sum(late["tick"] == newer["tick"] for late, newer in superseded(name)) == inside


@pytest.mark.parametrize(("name", "missing"), pinned(310, 11, 203, 4), ids=TRANSITIONS)
def test_some_completions_never_come(name, missing):
    """A layer must not wait for them: the next begin takes the right without asking."""
    assert len(never_completed(name)) == missing


@pytest.mark.parametrize("name", TRANSITIONS)
def test_these_engines_name_the_request_of_every_completion_once(name):
    """What other clients do (no handle, a second callback) is met by the adapter; no recording here needs it."""
    handles = Counter(line["handle"] for line in of(name, "complete"))

    assert set(handles) <= {line["handle"] for line in of(name, "begin")}
    assert set(handles.values()) == {1}


@pytest.mark.parametrize(("name", "within"), pinned(164, 6, 0, 0), ids=TRANSITIONS)
def test_a_transition_may_be_over_in_the_tick_it_began(name, within):
    """So the token of a begin may be needed before the batch of its tick is answered."""
    newest = {}
    count = 0
    for line in of(name, "begin", "complete"):
        if line["op"] == "begin":
            newest[place(line)] = line
        else:
            begun = newest[place(line)]
            count += begun["handle"] == line["handle"] and begun["tick"] == line["tick"]

    assert count == within


@pytest.mark.parametrize("name", TRANSITIONS)
def test_each_engine_has_a_belief_of_its_own_and_neither_is_what_was_committed(name):
    """Godot's client takes what was begun last for the state, Panda3D's what was completed last, late or not."""
    begun: dict[tuple[str, str], str] = {}
    completed: dict[tuple[str, str], str] = {}
    for line in of(name, "begin", "complete"):
        if line["op"] == "complete":
            completed[place(line)] = line["target"]
            continue
        believed = begun if name.startswith("godot") else completed
        assert line["from"] == believed.get(place(line), "idle")
        begun[place(line)] = line["target"]


@pytest.mark.parametrize(("name", "broken"), pinned(7, 6, 10, 4), ids=TRANSITIONS)
def test_a_frame_of_no_length_makes_nan_beside_good_values(name, broken):
    """One value of the batch is broken and another is not: a client that writes one by one keeps half of a frame."""
    batches = [line for line in of(name, "commit_parameters") if any(value == "NaN" for _, value in line["values"])]

    assert len(batches) == broken
    assert {line["dt"] for line in batches} == {0}
    assert all(any(value != "NaN" for _, value in line["values"]) for line in batches)


def test_marks_of_a_long_step_repeat_because_the_client_counts_one_loop_for_several():
    """A step of several seconds spans several loops of 2 s, the client sees one wrap: the same key, frames later."""
    keys = defaultdict(list)
    for line in of("godot3-walk-footsteps-irregular", "event"):
        keys[line["clip_instance"], line["loop"], line["frame"], line["kind"]].append(line)

    repeats = [second for _, *later in keys.values() for second in later]

    assert len(repeats) == 73
    assert all(line["source"] == "method track" for line in repeats)
    assert all(len({line["tick"] for line in lines}) == len(lines) for lines in keys.values())


def test_loops_are_lost_count_of_and_never_skipped_in_a_commit():
    """156 s hold 77 loops of 2 s; every client that counts wraps committed fewer, one after the other."""
    loops = defaultdict(list)
    for line in of("godot3-walk-footsteps-irregular", "commit_loop"):
        loops[line["character"], line["clip_instance"]].append(line["loop"])

    assert all(counted == list(range(len(counted))) for counted in loops.values())
    by_character = Counter(character for character, _ in loops for _ in loops[character, _])
    assert by_character == {"godot_deferred": 35, "godot_immediate": 35, "godot_seek": 53, "godot_tree": 35}


def test_two_observers_of_one_clip_report_each_mark_and_disagree_about_the_loop():
    """An interval and a poll watch `panda_both`: 26 keys came from both, and the poll falls up to 21 loops behind."""
    sources = defaultdict(set)
    ahead: dict[int, int] = {}
    behind = 0
    for line in of("panda3d-walk-footsteps-irregular", "event", "commit_loop"):
        if line["character"] != "panda_both":
            continue
        if line["op"] == "event":
            sources[line["clip_instance"], line["loop"], line["frame"], line["kind"]].add(line["source"])
        else:
            clip = line["clip_instance"]
            behind = max(behind, ahead.get(clip, 0) - line["loop"])
            ahead[clip] = max(ahead.get(clip, 0), line["loop"])

    assert sum(len(each) == 2 for each in sources.values()) == 26
    assert behind == 21


def test_one_frame_of_a_clip_may_carry_two_marks():
    """The frame alone is no key: step and dust are two events."""
    marks = {
        (line["frame"], line["kind"]) for name in NAMES for line in of(name, "event") if line["clip_instance"] == 1
    }

    assert {(12, "footstep_l"), (12, "dust")} <= marks


@pytest.mark.parametrize(("name", "overtaken"), [("godot3-graph-race", 25), ("panda3d-graph-race", 27)])
def test_loads_finish_in_another_order_than_they_were_asked_for(name, overtaken):
    newest = 0
    late = []
    for line in of(name, "graph_request", "graph_candidate"):
        if line["op"] == "graph_request":
            newest = line["request"]
        elif line["request"] != newest:
            late.append(line["name"])

    assert len(late) == overtaken


@pytest.mark.parametrize(("name", "unfit"), [("godot3-graph-race", 12), ("panda3d-graph-race", 19)])
def test_a_load_that_ended_is_not_a_graph_that_can_be_shown(name, unfit):
    """No model, no such bone, an output missing, a pose of NaN: a callback without an error says none of it."""
    candidates = of(name, "graph_candidate")

    assert sum(not line["evaluated"] or len(line["outputs"]) < 2 for line in candidates) == unfit


def test_a_candidate_may_claim_an_evaluated_frame_and_still_lack_an_output():
    claims = [line for line in of("panda3d-graph-race", "graph_candidate") if line["evaluated"]]

    assert sum(len(line["outputs"]) < 2 for line in claims) == 10
