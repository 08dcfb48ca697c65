"""The codec: what was packed comes back equal, and what is not known is refused by name, never skipped."""

import msgspec
import pytest
from msgspec import UNSET

from app.gates.bundle import Answered, Bundle, Bundled, Member
from app.gates.clip import Event
from app.gates.decision import Command, Refused
from app.gates.event_commands import Enqueue, LoopDelivered, Play
from app.gates.identity import Granted, Token
from app.gates.lives import CloseScene, Remains, SceneClosed
from app.gates.parameter import CommitParameters, ParameterRefusal, ParameterValue
from app.gates.receipt import mark
from app.gates.scene import OpenTicks, Record, SceneState
from app.gates.tally import LayerTally, Tally
from app.gates.tick import Applied, Tick, TickAnswers, Ticks
from app.gates.transition import Begin, Complete, TransitionCommitted, TransitionGranted, TransitionRefusal
from app.journal.codec import (
    FORMAT,
    RULES,
    StoredCharacter,
    Traced,
    TracedGrant,
    decode_character,
    decode_checkpoint,
    decode_checkpoint_in_steps,
    decode_entry,
    decode_entry_in_steps,
    decode_granted,
    decode_head,
    encode_character,
    encode_checkpoint,
    encode_checkpoint_in_steps,
    encode_entry,
    encode_entry_in_steps,
    encode_granted,
)
from app.journal.port import JournalDamaged
from tests.support.played import Played, request
from tests.support.steps import taken

TOKEN = Token("hero", "base", 1, 1, "Idle", "Run", "1-abc")
BEGIN = Begin(layer="base", target="Run", data={"clip": "run"})
GRANTED = Record("hero", BEGIN, TransitionGranted(TOKEN, None), 2, mark("server", "key-1", "hero", BEGIN))
REFUSED = Record("villain", Complete(token=TOKEN), Refused(TransitionRefusal.UNKNOWN_TOKEN, at="token"), 1)
CLOSED = Record(None, CloseScene(), SceneClosed(), 0)
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def packed(*records: Record) -> bytes:
    return encode_entry(at=1_000, first=7, records=list(records))


def through(record: Record) -> Record:
    [back] = decode_entry(packed(record)).records
    return back


def changed(blob: bytes, *path: int | str, to: object) -> bytes:
    """Change one place deep in a packed value."""
    whole = msgspec.msgpack.decode(blob)
    place = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return msgspec.msgpack.encode(whole)


def test_an_entry_comes_back_as_it_was_packed():
    entry = decode_entry(packed(GRANTED, REFUSED, CLOSED))

    assert (entry.rules, entry.at, entry.first, entry.last) == (RULES, 1_000, 7, 9)
    assert entry.records == [GRANTED, REFUSED, CLOSED]


def test_an_entrys_head_names_the_characters_it_touched_once_each():
    head = decode_head(packed(REFUSED, GRANTED, CLOSED, REFUSED))

    assert (head.format, head.at, head.first, head.characters) == (FORMAT, 1_000, 7, ["villain", "hero"])


def test_an_entry_says_which_of_its_decisions_came_from_traced_requests():
    traced = [Traced(7, 8, PARENT), Traced(9, 9, PARENT.replace("4bf9", "5bf9"))]

    blob = encode_entry(at=1_000, first=7, records=[GRANTED, REFUSED, CLOSED], traced=traced)

    assert decode_entry(blob).traced == traced
    assert decode_head(blob).characters == ["hero", "villain"]


def test_an_entry_without_traced_requests_does_not_pay_for_those_that_have_them():
    plain = packed(GRANTED)

    assert encode_entry(at=1_000, first=7, records=[GRANTED], traced=[]) == plain
    assert len(msgspec.msgpack.decode(plain)) == 6
    assert decode_entry(plain).traced == []


def test_a_checkpoint_carries_the_traces_of_grants():
    traced = [TracedGrant("hero", "base", 1, 2, PARENT)]

    blob = encode_checkpoint(SceneState(), {}, OpenTicks(), closed=False, traced=traced)

    assert decode_checkpoint(blob).traced == traced


def test_the_same_word_is_another_fact_for_another_command():
    """`committed` is a transition, a snapshot and a graph: the command tells which."""
    transition = Record("hero", Complete(token=TOKEN), TransitionCommitted("Run"), 3)

    assert through(transition) == transition


@pytest.mark.parametrize(
    "payload", [None, True, 1, -(2**53) + 1, 1.5, 4.0, "é", [], {}, {"a": [None, {"b": 2.0}]}], ids=str
)
def test_payloads_come_back_as_they_were_sent(payload: object):
    command = Enqueue(clip_instance=1, loop=0, frame=0, kind="step", payload=payload)
    fact = LoopDelivered([Event(1, 0, 0, "step", payload)], 1, 0)
    record = through(Record("hero", command, Refused("late_loop"), 1))

    [event] = msgspec.msgpack.decode(msgspec.msgpack.encode(fact), type=LoopDelivered).events

    assert repr(event.payload) == repr(payload)
    assert record.command == Enqueue(clip_instance=1, loop=0, frame=0, kind="step")


@pytest.mark.parametrize(
    ("command", "stored"),
    [
        (
            Enqueue(clip_instance=1, loop=0, frame=0, kind="step", payload="secret"),
            Enqueue(clip_instance=1, loop=0, frame=0, kind="step"),
        ),
        (BEGIN, Begin(layer="base", target="Run")),
        (Play(clip="Walk", data=[1]), Play(clip="Walk")),
    ],
)
def test_a_refused_command_is_stored_without_its_payload(command: Command, stored: Command):
    assert through(Record("hero", command, Refused("stale_life", at="life"), 1)).command == stored


def test_a_value_that_is_no_number_is_stored_with_its_refusal():
    command = CommitParameters(values=[ParameterValue(value=float("nan"), name="x"), ParameterValue(value="inf", id=7)])

    back = through(Record("hero", command, Refused(ParameterRefusal.NON_FINITE_VALUE, at="x"), 1))

    assert repr(back.command) == repr(command)


def test_another_format_is_refused_and_named():
    with pytest.raises(JournalDamaged, match="format 2"):
        decode_entry(changed(packed(GRANTED), 0, to=FORMAT + 1))


def test_an_unknown_command_is_refused_and_its_place_named():
    with pytest.raises(JournalDamaged, match="from sequence 7"):
        decode_entry(changed(packed(GRANTED), 5, 0, 1, "command", to="teleport"))


def test_an_unknown_fact_is_refused_and_not_taken_for_a_refusal():
    with pytest.raises(JournalDamaged, match="teleported"):
        decode_entry(changed(packed(GRANTED), 5, 0, 2, "outcome", to="teleported"))


def test_a_fact_of_another_command_is_refused():
    with pytest.raises(JournalDamaged, match="delivered"):
        decode_entry(changed(packed(GRANTED), 5, 0, 2, "outcome", to="delivered"))


def test_an_unknown_field_of_a_command_is_refused():
    with pytest.raises(JournalDamaged, match="from sequence 7"):
        decode_entry(changed(packed(GRANTED), 5, 0, 1, "author", to="somebody"))


def test_an_answer_without_an_outcome_is_refused():
    with pytest.raises(JournalDamaged, match="from sequence 7"):
        decode_entry(changed(packed(GRANTED), 5, 0, 2, to={}))


BUNDLED = Record(
    None,
    Bundle(commands=[Member("hero", BEGIN)]),
    Bundled([Answered("hero", "begin", TransitionGranted(TOKEN, None), 2)]),
    0,
)
NO_ANSWERS_INSIDE: list[object] = [
    7,
    None,
    [],
    {},
    {"outcome": []},
    {"outcome": "teleported"},
    {"outcome": "delivered"},
    {"problem": 7},
]
"""What may not stand as the answer to one `begin` of a bundle or a sealed tick."""


def test_an_answer_inside_another_comes_back_as_it_was_packed():
    assert through(BUNDLED) == BUNDLED


@pytest.mark.parametrize("answer", NO_ANSWERS_INSIDE, ids=str)
def test_what_is_no_answer_of_its_command_is_refused_inside_another_too(answer: object):
    with pytest.raises(JournalDamaged):
        decode_entry(changed(packed(BUNDLED), 5, 0, 2, "answers", 0, 2, to=answer))


@pytest.mark.parametrize("answer", NO_ANSWERS_INSIDE, ids=str)
def test_what_is_no_answer_of_its_command_is_refused_in_a_checkpoint_too(answer: object):
    applied = Applied("ai", 7, Answered("hero", "begin", answer, 2))
    open_ticks = OpenTicks(ticks=Ticks(answered={3: TickAnswers(9, [applied])}))

    with pytest.raises(JournalDamaged):
        decode_checkpoint(encode_checkpoint(SceneState(), {}, open_ticks, closed=False))


def test_an_answer_that_is_nested_without_end_is_refused():
    """Damage can look like this; no door lets it in."""
    nested = b"\x91" * 5_000 + b"\x90"
    whole = packed(BUNDLED)
    answer = msgspec.msgpack.encode(msgspec.msgpack.decode(whole)[5][0][2]["answers"][0][2])

    with pytest.raises(JournalDamaged):
        decode_entry(whole.replace(answer, nested))


@pytest.mark.parametrize("cut", [0, 1, 10, -1])
@pytest.mark.parametrize("decode", [decode_entry, decode_head])
def test_an_entry_that_was_cut_off_is_refused(decode: object, cut: int):
    with pytest.raises(JournalDamaged):
        decode_entry(packed(GRANTED)[:cut])


def test_a_checkpoints_head_comes_back_as_it_was_packed():
    state = SceneState(9, 1_000, True, {}, Remains(life=3))

    head = decode_checkpoint(encode_checkpoint(state, {}, OpenTicks(), closed=False))

    assert (head.state, head.receipts, head.closed, head.open_ticks) == (state, {}, False, OpenTicks())


@pytest.mark.parametrize("blob", [b"", b"\xc1", b"\x90", b"garbage"])
def test_what_is_no_checkpoint_is_refused(blob: bytes):
    with pytest.raises(JournalDamaged):
        decode_checkpoint(blob)
    with pytest.raises(JournalDamaged):
        decode_character(blob)


def test_a_checkpoint_of_another_format_is_refused():
    blob = changed(encode_checkpoint(SceneState(), {}, OpenTicks(), closed=False), 0, to=FORMAT + 1)

    with pytest.raises(JournalDamaged, match="format 2"):
        decode_checkpoint(blob)


@pytest.mark.parametrize(
    "stored",
    [
        StoredCharacter(b"frozen", None, None),
        StoredCharacter(None, Remains(life=2, triggers={"Fire": 3}), None),
        StoredCharacter(b"frozen", None, Tally({"base": LayerTally(1, 2, 3)}, {4: 1}, {})),
    ],
)
def test_a_stored_character_comes_back_as_it_was_packed(stored: StoredCharacter):
    assert decode_character(encode_character(stored)) == stored


def test_what_was_not_given_is_not_stored():
    back = through(Record("hero", Begin(layer="base", target="Run"), TransitionGranted(TOKEN, None), 2))

    assert isinstance(back.command, Begin)
    assert (back.command.data, back.command.life) == (UNSET, UNSET)


def test_what_was_granted_before_a_repair_comes_back():
    granted = Granted(3, {"hero": 5}, {"hero": {"base": 7}})

    assert decode_granted(encode_granted(granted)) == granted
    with pytest.raises(JournalDamaged, match="before a repair"):
        decode_granted(b"nothing of the kind")


def ticking() -> Played:
    """Give a scene that has sealed 400 requests of 40 characters in four ticks, and touched them again since."""
    room, names = Played(), [f"hero-{number}" for number in range(40)]
    for name in names:
        room.spawn(None, name)
    for tick in range(1, 5):
        asked = [request(tick, BEGIN, names[number % 40], number=number) for number in range(100)]
        room.ask(Tick(requests=asked), None)
        room.tick(seal=tick)
    room.turn(*((name, BEGIN, mark("server", f"key-{name}", name, BEGIN)) for name in names))
    return room


def test_the_head_of_a_checkpoint_is_packed_and_read_in_steps_as_it_is_at_once():
    scene = ticking().scene
    parts = (scene.state, scene.receipts.dump(), scene.open_ticks())

    packed, steps = taken(encode_checkpoint_in_steps(*parts, closed=False, traced=[]))
    read, others = taken(decode_checkpoint_in_steps(packed))

    assert packed == encode_checkpoint(*parts, closed=False)
    assert (read.state, read.receipts, read.open_ticks) == parts
    assert steps >= 4
    assert others >= 4


def test_an_entry_of_many_decisions_is_packed_and_read_in_steps_as_it_is_at_once():
    records = [GRANTED, REFUSED] * 400
    traced = [Traced(7, 8, PARENT)]

    blob, steps = taken(encode_entry_in_steps(at=1_000, first=7, records=records, traced=traced))
    entry, others = taken(decode_entry_in_steps(blob))

    assert blob == encode_entry(at=1_000, first=7, records=records, traced=traced)
    assert entry.records == records
    assert steps >= 20
    assert others >= 20


def test_one_decision_that_holds_many_is_read_in_steps():
    room = ticking()
    entries = [taken(decode_entry_in_steps(blob)) for blob in room.entries]

    assert max(steps for entry, steps in entries if len(entry.records) == 1) >= 1
