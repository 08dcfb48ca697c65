"""The rig: what is derived from its parts. Contract, section 5."""

import msgspec

from app.gates.lives import Spawn, rig_key
from app.gates.rig import MAIN, KindRule, Rig, default_rig, is_immediate, parameter_id
from tests.support.rigs import clip, parameter, rig


def test_a_rig_finds_its_parameters_by_id_and_knows_which_are_required():
    built = rig(declared={"Speed": parameter("Speed", required=True), "Turn": parameter("Turn", identity=7)})

    assert built.names == {str(parameter_id("Speed")): "Speed", "7": "Turn"}
    assert built.required == ("Speed",)


def test_a_fresh_snapshot_holds_the_defaults_in_the_order_of_declaration():
    built = rig(declared={"b": parameter("b", default=2), "a": parameter("a", "bool", default=True)})

    assert list(built.defaults().items()) == [("b", 2), ("a", True)]
    assert rig().defaults() == {}


def test_the_default_rig_accepts_any_parameter_and_kind():
    built = default_rig()

    assert (built.declared, built.kinds, built.mode) == (None, None, "sparse")
    assert built.layers["base"].initial == "Idle"
    assert built.layers["base"].states is None
    assert built.graphs[MAIN].layers == ("base",)


def test_rigs_of_equal_parts_have_one_key_whatever_the_order_of_their_states():
    one = rig(declared={"Speed": parameter("Speed"), "Turn": parameter("Turn")}, kinds={"a": "immediate"})
    other = rig(declared={"Turn": parameter("Turn"), "Speed": parameter("Speed")}, kinds={"a": "immediate"})

    assert rig_key(Spawn(inline=one)) == rig_key(Spawn(inline=other))
    assert rig_key(Spawn(inline=one)) != rig_key(Spawn(inline=rig()))
    assert rig_key(Spawn(inline=one)).startswith("#")


def test_only_a_listed_immediate_kind_is_delivered_by_its_acceptance():
    kinds = {"spark": KindRule("immediate"), "step": KindRule("presentation"), "on": KindRule("gameplay", "off")}

    assert [is_immediate(rig(kinds=kinds), kind) for kind in kinds] == [True, False, False]
    assert not is_immediate(rig(), "spark")


def test_rigs_that_differ_in_what_ends_a_kind_or_in_a_clip_have_two_keys():
    rigs = [
        rig(kinds={"on": KindRule("gameplay")}),
        rig(kinds={"on": KindRule("gameplay", "off")}),
        rig(clips={"Walk": clip(30, (12, "step"))}),
        rig(clips={"Walk": clip(30, (12, "step", "left"))}),
        rig(clips={"Walk": clip(31, (12, "step"))}),
    ]

    assert len({rig_key(Spawn(inline=each)) for each in rigs}) == len(rigs)


def test_a_rig_is_stored_and_read_again_and_one_without_clips_is_still_read():
    whole = rig(kinds={"on": KindRule("gameplay", "off")}, clips={"Walk": clip(30, (12, "step", "left"))})
    before = msgspec.to_builtins(rig())[:-1]

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(whole), type=Rig) == whole
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(before), type=Rig) == rig()
