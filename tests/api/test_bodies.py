"""Rigs and spawns are checked whole, with their defaults; what does not fit names its place."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.api.bodies import RigBody, SpawnBody
from app.gates.lives import Spawn, rig_key
from app.gates.parameter import FLOAT32_INFINITE
from app.gates.rig import REQUIRED_OUTPUTS, ClipRule, KindRule, ManifestEvent
from tests.support.caller import RIG, Caller


def declared(rule: dict[str, Any]) -> dict[str, Any]:
    return {"parameters": {"declared": {"Speed": rule}}}


def walk(*events: dict[str, Any], frames: int = 30, **fields: Any) -> dict[str, Any]:
    return {"clips": {"Walk": {"frames": frames, "events": list(events), **fields}}}


def test_a_rig_of_nothing_has_every_default():
    rig = RigBody.model_validate({}).to_rig()

    assert {name: (rule.initial, rule.states) for name, rule in rig.layers.items()} == {"base": ("Idle", None)}
    assert (rig.mode, rig.declared, rig.kinds) == ("sparse", None, None)
    assert (rig.loop_window, rig.events_per_instance, rig.events_bytes) == (8, 1024, 262_144)
    assert (rig.instances_open, rig.deliveries_kept) == (64, 256)
    assert rig.graphs["main"].required_outputs == tuple(REQUIRED_OUTPUTS)
    assert rig.graphs["main"].layers == ("base",)
    assert rig.clips == {}


def test_a_kind_is_its_class_or_says_what_ends_it_too():
    kinds = {"step": "presentation", "spark": {"class": "immediate"}, "on": {"class": "gameplay", "ends": "off"}}

    rig = RigBody.model_validate({"events": {"kinds": kinds}}).to_rig()

    assert rig.kinds == {
        "step": KindRule("presentation"),
        "spark": KindRule("immediate"),
        "on": KindRule("gameplay", "off"),
        "off": KindRule("gameplay"),
    }


def test_what_ends_a_kind_may_be_listed_and_end_otherwise_itself():
    kinds = {"on": {"class": "gameplay", "ends": "off"}, "off": {"class": "gameplay", "ends": "on"}}

    rig = RigBody.model_validate({"events": {"kinds": kinds}}).to_rig()

    assert rig.kinds == {"on": KindRule("gameplay", "off"), "off": KindRule("gameplay", "on")}


def test_a_clip_lists_its_events_in_order_and_of_kinds_that_are_known():
    """A kind that is only named as what ends another is known; without a list every kind is."""
    events = [{"frame": 12.0, "kind": "on"}, {"frame": 29, "kind": "off", "mark": "left"}, {"frame": 12, "kind": "off"}]
    kinds = {"on": {"class": "gameplay", "ends": "off"}}

    rig = RigBody.model_validate({**walk(*events), "events": {"kinds": kinds}}).to_rig()

    assert rig.clips == {
        "Walk": ClipRule(30, (ManifestEvent(12, "off"), ManifestEvent(12, "on"), ManifestEvent(29, "off", "left")))
    }
    assert rig.clips == RigBody.model_validate(walk(*events)).to_rig().clips


def test_rigs_that_list_the_same_events_in_another_order_are_one_rig():
    events = [{"frame": 12, "kind": "step"}, {"frame": 2, "kind": "step"}]

    one, other = (RigBody.model_validate(walk(*listed)).to_rig() for listed in (events, events[::-1]))

    assert one == other
    assert rig_key(Spawn(inline=one)) == rig_key(Spawn(inline=other)) != rig_key(Spawn())


def test_a_layer_that_no_graph_names_is_driven_by_the_graph_that_names_none():
    body = {"layers": {"base": {}, "face": {}}, "graphs": {"main": {}, "face": {"layers": ["face"]}}}

    rig = RigBody.model_validate(body).to_rig()

    assert (rig.graphs["main"].layers, rig.graphs["face"].layers) == (("base",), ("face",))


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ({"type": "float"}, 0),
        ({"type": "float", "min": 2.5}, 2.5),
        ({"type": "float", "max": -2.5}, -2.5),
        ({"type": "float", "min": -1, "max": 1}, 0),
        ({"type": "float", "default": 3}, 3),
        ({"type": "int", "default": 4.0}, 4),
        ({"type": "int", "min": 0.5}, 1),
        ({"type": "int", "max": -1.5}, -2),
        ({"type": "bool"}, False),
        ({"type": "bool", "default": True}, True),
        ({"type": "trigger"}, 0),
    ],
)
def test_a_parameter_starts_at_its_default_or_nearest_to_0(call: Caller, rule: dict[str, Any], start: Any):
    reply = call.spawn("other", {"rig": declared(rule)})

    value = reply.body["parameters"]["values"]["Speed"]
    assert (value, type(value)) == (start, type(start))


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "double"},
        {"type": "float", "min": 2, "max": 1},
        {"type": "float", "min": 0, "default": -1},
        {"type": "float", "default": True},
        {"type": "float", "default": "1"},
        {"type": "float", "max": FLOAT32_INFINITE},
        {"type": "int", "default": 4.5},
        {"type": "int", "default": 1e38},
        {"type": "int", "default": 2**53},
        {"type": "int", "min": 1e38},
        {"type": "int", "min": 0.2, "max": 0.7},
        {"type": "bool", "default": 0},
        {"type": "bool", "min": 0},
        {"type": "trigger", "default": True},
        {"type": "trigger", "max": 1},
        {"type": "float", "id": 2**32},
        {"type": "float", "id": -1},
        {"type": "float", "unit": "m/s"},
    ],
)
def test_a_parameter_that_contradicts_itself_is_invalid_and_its_scene_goes_on(call: Caller, rule: dict[str, Any]):
    """A whole number beyond 2^53 cannot be recorded: it must never reach the gate."""
    kind, status, at = call.spawn("other", {"rig": declared(rule)}).problem

    assert (kind, status) == ("invalid", 422)
    assert at is not None
    assert at.startswith("rig.parameters.declared.Speed")
    assert call.accepted("begin", {"layer": "base", "target": "Run"})["sequence"] == 2


def test_two_parameters_of_one_id_are_invalid():
    with pytest.raises(ValidationError, match="have the same id"):
        RigBody.model_validate(
            {"parameters": {"declared": {"A": {"type": "int", "id": 7}, "B": {"type": "int", "id": 7}}}}
        )


@pytest.mark.parametrize(
    ("rig", "at"),
    [
        ({"layers": {"base": {"initial": "Idle", "states": ["Run"]}}}, "rig.layers.base"),
        ({"layers": {"base": {"initial": "a\nb"}}}, "rig.layers.base.initial"),
        ({"layers": {"base": {"states": ["Idle", 4]}}}, "rig.layers.base.states[1]"),
        ({"layers": {"": {}}}, "rig.layers."),
        ({"layers": []}, "rig.layers"),
        ({"layers": {"base": {}}, "graphs": {"main": {"layers": ["face"]}}}, "rig"),
        ({"graphs": {"main": {}, "other": {}}}, "rig"),
        ({"graphs": {"main": {"bind_pose": {"hips": [0, 0, 0]}}}}, "rig.graphs.main.bind_pose.hips"),
        ({"events": {"kinds": {"step": "loud"}}}, "rig.events.kinds.step"),
        ({"events": {"kinds": {"on": {"class": "loud"}}}}, "rig.events.kinds.on.class"),
        ({"events": {"kinds": {"on": {"ends": "off"}}}}, "rig.events.kinds.on.class"),
        ({"events": {"kinds": {"on": {"class": "gameplay", "ends": ""}}}}, "rig.events.kinds.on.ends"),
        ({"events": {"kinds": {"on": {"class": "gameplay", "starts": "off"}}}}, "rig.events.kinds.on.starts"),
        ({"events": {"kinds": {"on": {"class": "gameplay", "ends": "on"}}}}, "rig.events"),
        ({"events": {"kinds": {"on": {"class": "gameplay", "ends": "off"}, "off": "immediate"}}}, "rig.events"),
        ({"events": {"kinds": {"on": "gameplay"}, "deliveries_kept": 0}}, "rig.events"),
        (walk(events=[], frames=0), "rig.clips.Walk.frames"),
        (walk(events=[], frames=2**31 + 1), "rig.clips.Walk.frames"),
        (walk(events=[], fps=30), "rig.clips.Walk.fps"),
        ({"clips": {"Walk": {}}}, "rig.clips.Walk.frames"),
        (walk({"frame": -1, "kind": "step"}), "rig.clips.Walk.events[0].frame"),
        (walk({"frame": 1, "kind": "a\nb"}), "rig.clips.Walk.events[0].kind"),
        (walk({"frame": 1, "kind": "step", "mark": ""}), "rig.clips.Walk.events[0].mark"),
        (walk({"frame": 30, "kind": "step"}), "rig.clips.Walk"),
        (walk({"frame": 1, "kind": "step", "mark": "left"}, {"frame": 1, "kind": "step"}), "rig.clips.Walk"),
        (walk(*({"frame": number, "kind": "step"} for number in range(1025)), frames=2000), "rig.clips.Walk.events"),
        ({"clips": {f"Walk{number}": {"frames": 1} for number in range(1025)}}, "rig.clips"),
        ({**walk({"frame": 1, "kind": "cough"}), "events": {"kinds": {"step": "presentation"}}}, "rig"),
        ({"events": {"loop_window": -1}}, "rig.events.loop_window"),
        ({"events": {"instances_open": 0}}, "rig.events.instances_open"),
        ({"parameters": {"mode": "loose"}}, "rig.parameters.mode"),
    ],
)
def test_a_rig_that_does_not_fit_names_its_place_alike_inline_and_declared(call: Caller, rig: dict[str, Any], at: str):
    inline, named = call.spawn("other", {"rig": rig}), call.ask("PUT", "rigs/humanoid", rig)

    assert inline.problem == ("invalid", 422, at)
    assert named.problem == ("invalid", 422, at.removeprefix("rig").removeprefix(".") or None)
    assert inline.body["detail"] == named.body["detail"]


def test_whole_numbers_of_a_rig_may_be_written_with_a_fraction_of_zero():
    events = {"loop_window": 4.0, "events_per_instance": 5.0, "events_bytes": 6.0, "instances_open": 7.0}

    rig = RigBody.model_validate({"events": events, **declared({"type": "float", "id": 8.0})}).to_rig()

    assert (rig.loop_window, rig.events_per_instance, rig.events_bytes, rig.instances_open) == (4, 5, 6, 7)
    assert rig.declared is not None
    assert rig.declared["Speed"].id == 8


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a b", "\uff48ero", "x" * 129, 4, ["humanoid"]])
def test_a_spawn_names_a_rig_by_an_identifier(name: Any):
    with pytest.raises(ValidationError):
        SpawnBody.model_validate({"rig": name})


def test_a_spawn_may_bring_a_rig_with_every_kind_of_parameter(call: Caller):
    """The digest of an inline rig takes in every part of it, ids included."""
    again = call.spawn("hero", {"rig": RIG})

    assert again.status == 200
    assert again.body["parameters"]["values"] == {"Speed": 0, "Weapon": 0, "Grounded": False, "Jump": 0}
