"""Slices: what is packed and read piece by piece is, byte for byte, what is packed and read at once."""

from collections import OrderedDict
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from app.journal.slices import PACED, PIECE_BYTES, decoded_in_steps, encoded_in_steps
from tests.support.steps import taken


class Inner(Struct, frozen=True, array_like=True):
    """A struct that is not taken apart when it is packed."""

    name: str
    values: dict[str, int] = {}


class Whole(Struct, frozen=True, array_like=True):
    """A struct that is taken apart, wherever it stands."""

    number: int
    inner: dict[str, Inner] = {}
    many: list[int] = []
    nested: dict[int, dict[tuple[str, int], Inner]] = {}
    more: "dict[int, Whole]" = {}
    receipts: dict[str, dict[bytes, int]] = {}


OPENED: frozenset[type[Struct]] = frozenset({Whole})


def whole(size: int, depth: int = 2) -> Whole:
    inner = {f"hero-{number}": Inner("x" * (number % 40), {"a": number}) for number in range(size)}
    nested = {number: {("ai", number): Inner("y")} for number in range(size // 4)}
    receipts: dict[str, dict[bytes, int]] = {
        "caller": OrderedDict((number.to_bytes(16, "big"), number) for number in range(size))
    }
    more = {number: whole(size // 2, depth - 1) for number in range(3)} if depth else {}
    return Whole(size, inner, list(range(size)), nested, more, receipts)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 63, 64, 65, 129, 1_000, 65_535, 65_536])
def test_a_list_and_a_dictionary_of_any_size_are_packed_as_at_once(size: int):
    value = Whole(1, many=list(range(size)), inner={str(number): Inner("z") for number in range(size)})

    packed, steps = taken(encoded_in_steps(value, OPENED))

    assert packed == msgspec.msgpack.encode(value)
    assert steps == 2 * (size // PACED)


def test_what_holds_others_of_its_kind_is_packed_as_at_once():
    packed, steps = taken(encoded_in_steps(whole(500), OPENED))

    assert packed == msgspec.msgpack.encode(whole(500))
    assert steps > 30


def test_what_is_large_is_read_as_at_once_in_many_steps():
    blob = msgspec.msgpack.encode(whole(2_000))

    read, steps = taken(decoded_in_steps(blob, Whole))

    assert read == whole(2_000)
    assert list(read.inner) == list(whole(2_000).inner)
    assert steps > 60


def test_what_is_small_is_read_in_no_step():
    blob = msgspec.msgpack.encode(whole(8, 1))

    assert len(blob) < PIECE_BYTES
    assert taken(decoded_in_steps(blob, Whole)) == (whole(8, 1), 0)


def test_members_that_an_older_writer_did_not_know_have_their_defaults():
    blob = msgspec.msgpack.encode([7, {"hero": ["x" * 2 * PIECE_BYTES]}])

    assert taken(decoded_in_steps(blob, Whole))[0] == Whole(7, {"hero": Inner("x" * 2 * PIECE_BYTES)})


@pytest.mark.parametrize(
    "value",
    [
        [],
        ["no number", {"hero": ["x" * 2 * PIECE_BYTES]}],
        [1, {"hero": ["x" * 2 * PIECE_BYTES, 5]}],
        [1, {}, [*range(2 * PIECE_BYTES), "no number"]],
        {"x": "x" * 2 * PIECE_BYTES},
    ],
    ids=["a member is missing", "a wrong member", "a wrong value", "a wrong item", "no array"],
)
def test_what_is_no_such_value_cannot_be_read(value: Any):
    blob = msgspec.msgpack.encode(value)

    with pytest.raises(msgspec.DecodeError):
        taken(decoded_in_steps(blob, Whole))


@pytest.mark.parametrize("cut", [1, 100, 20_000])
def test_bytes_that_end_too_early_cannot_be_read(cut: int):
    blob = msgspec.msgpack.encode(whole(2_000))

    with pytest.raises(msgspec.DecodeError):
        taken(decoded_in_steps(blob[:-cut], Whole))
