"""The parameter gate: a whole batch, or nothing. Source: 2026-07-23-1930; contract, sections 5 and 10."""

from typing import Any

import msgspec
import pytest

from app.gates.parameter import CommitParameters, ParameterRefusal, ParametersCommitted, ParameterValue, Snapshot
from app.gates.rig import Rig, parameter_id
from tests.support.played import Played
from tests.support.rigs import parameter, rig

FREE = rig()
DECLARED = rig(
    declared={
        "Speed": parameter("Speed", low=0, high=20, required=True),
        "Turn": parameter("Turn", low=-1, high=1, default=-0.5),
        "Ammo": parameter("Ammo", "int", high=30),
        "Armed": parameter("Armed", "bool", default=False),
        "Fire": parameter("Fire", "trigger"),
    }
)
FULL = msgspec.structs.replace(DECLARED, mode="full")
LARGEST_FLOAT32 = 3.4028234663852886e38
SMALLEST_INFINITE = 3.4028235677973366e38


def batch(*pairs: tuple[str | int, Any], **fields: Any) -> CommitParameters:
    values = [
        ParameterValue(value=value, id=named) if isinstance(named, int) else ParameterValue(value=value, name=named)
        for named, value in pairs
    ]
    return CommitParameters(values=values, **fields)


def fresh(of: Rig) -> Snapshot:
    return Snapshot(0, of.defaults())


def refused(command: CommitParameters, of: Rig = DECLARED) -> tuple[str, object]:
    snapshot = fresh(of)
    answer = snapshot.decide(command, of)
    assert not isinstance(answer, ParametersCommitted)
    return str(answer.outcome), answer.at


def committed(snapshot: Snapshot, command: CommitParameters, of: Rig) -> Snapshot:
    fact = snapshot.decide(command, of)
    assert isinstance(fact, ParametersCommitted), fact
    return snapshot.evolve(command, fact, of)


def kept(value: Any, of: Rig = FREE, name: str = "x") -> Any:
    return committed(fresh(of), batch((name, value)), of).values[name]


def test_a_refused_batch_writes_none_of_its_values():
    """Speed alone would be fine; with a Turn of NaN the old Turn is still -0.5 and Speed still 0."""
    played = Played()
    played.spawn(DECLARED)
    before = msgspec.json.encode(played.hero().parameters)

    answer = played.ask(batch(("Speed", 4.25), ("Turn", float("nan"))))

    assert (answer.outcome, answer.at) == ("non_finite_value", "Turn")
    assert msgspec.json.encode(played.hero().parameters) == before
    assert played.hero().parameters.values["Turn"] == -0.5


LADDER: list[Any] = [
    ("duplicate_parameter", ("Armed", True), ("Armed", True)),
    ("non_finite_value", ("Speed", None)),
    ("unknown_parameter", ("Wind", 1)),
    ("type_mismatch", ("Ammo", 1.5)),
    ("out_of_range", ("Turn", 2)),
]


@pytest.mark.parametrize("rung", range(len(LADDER)))
@pytest.mark.parametrize("of", [DECLARED, FULL], ids=["sparse", "full"])
def test_the_first_rung_that_applies_is_the_answer_whatever_else_is_wrong_behind_it(rung: int, of: Rig):
    """Everything below the rung is wrong too, stands earlier in the list, and must not be named."""
    wrong = [pair for _, *pairs in reversed(LADDER[rung:]) for pair in pairs]

    outcome, _ = refused(batch(*wrong, base_version=9), of)

    assert outcome == LADDER[rung][0]


def test_a_missing_parameter_is_named_before_a_stale_version():
    assert refused(batch(("Turn", 0), base_version=9), FULL) == ("missing_parameter", "Speed")
    assert refused(batch(("Speed", 1), base_version=9), FULL) == ("stale_version", "base_version")


def test_the_refusals_are_listed_in_the_order_of_the_checks():
    assert [refusal.value for refusal in ParameterRefusal] == [
        *(word for word, *_ in LADDER),
        "missing_parameter",
        "stale_version",
    ]


def test_the_same_parameter_by_name_and_by_id_is_a_duplicate():
    assert refused(batch(("Speed", 1), (parameter_id("Speed"), 2))) == (
        "duplicate_parameter",
        str(parameter_id("Speed")),
    )


def test_ids_are_the_crc32_of_the_name_as_unity_hashes_it():
    """0xCBF43926 is the published check value of CRC-32; Unity shows the same 32 bits as the signed -823668238."""
    assert parameter_id("123456789") == 0xCBF4_3926
    assert parameter_id("Speed") == -823_668_238 % 2**32


def test_a_parameter_is_set_by_its_id():
    after = committed(fresh(DECLARED), batch((parameter_id("Speed"), 4.25)), DECLARED)

    assert after.values["Speed"] == 4.25


def test_an_id_that_a_rig_gives_replaces_the_crc():
    own = rig(declared={"Speed": parameter("Speed", identity=7)})

    after = committed(fresh(own), batch((7, 2.5)), own)

    assert after.values == {"Speed": 2.5}
    assert refused(batch((parameter_id("Speed"), 1)), own)[0] == "unknown_parameter"


def test_an_id_is_unknown_where_a_rig_declares_nothing():
    assert refused(batch((parameter_id("Speed"), 1)), FREE) == ("unknown_parameter", str(parameter_id("Speed")))


@pytest.mark.parametrize(
    "value",
    [
        None,
        float("nan"),
        float("inf"),
        float("-inf"),
        SMALLEST_INFINITE,
        -SMALLEST_INFINITE,
        1e39,
        10**39,
        -(10**400),
        "NaN",
        "nan",
        "-NaN",
        "Infinity",
        "-Infinity",
        "+inf",
        " inf ",
    ],
    ids=str,
)
@pytest.mark.parametrize("of", [FREE, DECLARED], ids=["free", "declared"])
def test_what_an_engine_would_hold_as_nan_or_infinity_is_non_finite(value: Any, of: Rig):
    assert refused(batch(("Speed", value)), of) == ("non_finite_value", "Speed")


@pytest.mark.parametrize("value", [LARGEST_FLOAT32, -LARGEST_FLOAT32, 3.4028235677973362e38, 5e-324, -0.0])
def test_what_a_32_bit_float_can_hold_is_accepted_as_sent(value: float):
    assert kept(value) == value


def test_values_are_kept_as_sent():
    after = kept(4), kept(4.0), kept(True), kept(0.1)

    assert [(type(value), value) for value in after] == [(int, 4), (float, 4.0), (bool, True), (float, 0.1)]


def test_a_whole_number_beyond_what_clients_keep_is_the_float_it_is_to_an_engine():
    assert type(kept(10**30)) is float


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Speed", True),
        ("Speed", "4"),
        ("Ammo", False),
        ("Ammo", 1.5),
        ("Ammo", "3"),
        ("Armed", 1),
        ("Armed", 0.0),
        ("Armed", "true"),
        ("Fire", False),
        ("Fire", 1),
        ("Fire", "fire"),
    ],
)
def test_a_value_of_another_type_is_a_mismatch(name: str, value: Any):
    assert refused(batch((name, value))) == ("type_mismatch", name)


def test_text_is_a_mismatch_where_nothing_is_declared_too():
    assert refused(batch(("x", "walk")), FREE) == ("type_mismatch", "x")


def test_a_rig_that_declares_no_parameter_knows_none():
    assert refused(batch(("x", 1)), rig(declared={})) == ("unknown_parameter", "x")


def test_ranges_are_inclusive():
    assert kept(0, DECLARED, "Speed") == 0
    assert kept(20, DECLARED, "Speed") == 20
    assert refused(batch(("Speed", 20.000001))) == ("out_of_range", "Speed")
    assert refused(batch(("Speed", -0.000001))) == ("out_of_range", "Speed")


@pytest.mark.parametrize("value", [2**53, -(2**53), float(2**53)])
def test_an_integer_parameter_is_one_that_every_client_keeps(value: float):
    of = rig(declared={"Count": parameter("Count", "int")})

    assert refused(batch(("Count", value)), of) == ("out_of_range", "Count")
    assert kept(2**53 - 1, of, "Count") == 2**53 - 1


def test_an_integer_parameter_takes_4_0_as_4():
    value = kept(4.0, DECLARED, "Ammo")

    assert (type(value), value) == (int, 4)


def test_sparse_mode_keeps_what_is_not_named():
    before = committed(fresh(DECLARED), batch(("Speed", 3)), DECLARED)

    after = committed(before, batch(("Turn", 0.25)), DECLARED)

    assert after.values == {"Speed": 3, "Turn": 0.25, "Ammo": 0, "Armed": False, "Fire": 0}
    assert (before.version, after.version) == (1, 2)
    assert before.values["Turn"] == -0.5


def test_full_mode_is_the_whole_snapshot_and_leaves_the_trigger_counts():
    before = committed(fresh(FULL), batch(("Speed", 3), ("Turn", 1), ("Fire", True)), FULL)

    after = committed(before, batch(("Speed", 4)), FULL)

    assert after.values == {"Speed": 4, "Turn": -0.5, "Ammo": 0, "Armed": False, "Fire": 1}


def test_full_mode_takes_a_required_parameter_by_id():
    after = committed(fresh(FULL), batch((parameter_id("Speed"), 2)), FULL)

    assert after.values["Speed"] == 2


def test_a_missing_answer_names_every_missing_parameter():
    of = rig(mode="full", declared={name: parameter(name, required=True) for name in ("a", "b", "c")})

    answer = fresh(of).decide(batch(("b", 1)), of)

    assert not isinstance(answer, ParametersCommitted)
    assert answer.missing == ["a", "c"]


def test_a_trigger_counts_its_firings():
    snapshot = fresh(DECLARED)
    for _ in range(3):
        snapshot = committed(snapshot, batch(("Fire", True)), DECLARED)

    assert snapshot.values["Fire"] == 3
    assert snapshot.version == 3


def test_trigger_counts_go_on_over_lives_and_everything_else_starts_at_its_default():
    played = Played()
    played.spawn(DECLARED)
    played.ask(batch(("Fire", True), ("Speed", 9)))

    played.respawn(DECLARED)

    assert played.hero().parameters.values == DECLARED.defaults() | {"Fire": 1}
    assert played.hero().parameters.version == 2


def test_trigger_counts_go_on_over_a_life_whose_rig_has_no_such_trigger():
    played = Played()
    played.spawn(DECLARED)
    played.ask(batch(("Fire", True)))

    played.respawn(rig(declared={}))
    played.respawn(DECLARED)

    assert played.hero().parameters.values["Fire"] == 1


def test_a_base_version_must_be_the_present_one():
    snapshot = committed(fresh(FREE), batch(("x", 1)), FREE)

    stale = snapshot.decide(batch(("x", 2), base_version=0), FREE)

    assert not isinstance(stale, ParametersCommitted)
    assert (stale.outcome, stale.by) == ("stale_version", {"version": 1})
    assert snapshot.decide(batch(("x", 2), base_version=1), FREE) == ParametersCommitted(2)


def test_an_empty_batch_is_committed_without_a_new_version_or_revision():
    played = Played()
    played.spawn()
    before = played.hero()

    answer = played.ask(batch())

    assert answer == ParametersCommitted(0)
    assert played.hero() == before


def test_an_empty_batch_still_meets_missing_parameter_and_stale_version():
    assert refused(batch(), FULL)[0] == "missing_parameter"
    assert refused(batch(base_version=1), FREE)[0] == "stale_version"


def test_a_name_is_compared_code_point_by_code_point():
    snapshot = fresh(FREE)
    for name in ("speed", "Speed", "Spéed", "Spe\u0301ed", "two words"):
        snapshot = committed(snapshot, batch((name, 1)), FREE)

    assert len(snapshot.values) == 5


@pytest.mark.parametrize("fields", [{}, {"name": "a", "id": 1}, {"name": "a\tb"}])
def test_a_value_names_one_parameter_by_a_name_or_an_id(fields: dict[str, Any]):
    with pytest.raises(ValueError, match="name"):
        ParameterValue(value=1, **fields)


def test_a_character_without_declared_parameters_holds_a_bounded_number_of_them():
    played = Played()
    played.spawn()
    played.ask(batch(*((f"p{number}", 1) for number in range(4096))))

    again, beyond = played.word(batch(("p0", 2))), played.word(batch(("p0", 2), ("one more", 1)))

    assert (again, beyond) == ("committed", "too-large")
