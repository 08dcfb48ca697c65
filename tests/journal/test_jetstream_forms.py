import os

import msgspec
import pytest

from app.journal.jetstream_forms import (
    CHARACTER,
    FORMAT,
    PREFIX_BYTES,
    Change,
    Head,
    Merged,
    Piece,
    packed_entry,
    pieces_of,
    scene_of,
    token_of,
    unpacked_entry,
    unpacked_head,
    unpacked_piece,
)
from app.journal.port import Checkpoint, JournalDamaged, SealSecret, StoredEntry

SMALLEST = 1024


def merged(pieces: list[bytes]) -> Checkpoint:
    whole = Merged()
    for number, piece in enumerate(pieces):
        whole.add(unpacked_piece("room", number, piece))
    return whole.checkpoint(7)


@pytest.mark.parametrize("scene", ["a", "a.b", "a..", "A-~_.", "x" * 128])
def test_a_name_is_one_token_and_back(scene: str):
    token = token_of(scene)

    assert "." not in token
    assert scene_of(token) == scene


def test_an_entry_is_read_as_it_was_packed():
    payload = packed_entry(3, 10, 12) + b"blob"

    assert unpacked_entry("room", 9, payload) == (3, StoredEntry(9, 10, 12, b"blob"))
    assert len(payload) == PREFIX_BYTES + 4


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x01", b"\x02" + packed_entry(3, 10, 12)[1:], packed_entry(9, 10, 12), packed_entry(3, 12, 10)],
    ids=["empty", "short", "later format", "behind itself", "ends before it begins"],
)
def test_what_is_no_entry_is_damage_that_says_what_to_do(payload: bytes):
    with pytest.raises(JournalDamaged, match=r"scene 'room': message 9 .* restore the streams"):
        unpacked_entry("room", 9, payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"text",
        msgspec.msgpack.encode(Head(FORMAT + 1, 1, 0, True, [])),
        msgspec.msgpack.encode(Head(FORMAT, 1, 0, True, [Change([], 0)])),
    ],
    ids=["empty", "text", "later format", "a change of nothing"],
)
def test_what_is_no_head_is_damage(payload: bytes):
    with pytest.raises(JournalDamaged, match="its head"):
        unpacked_head("room", payload)


@pytest.mark.parametrize(
    "payload", [b"", b"text", msgspec.msgpack.encode(Piece(FORMAT + 1, []))], ids=["empty", "text", "later format"]
)
def test_what_is_no_piece_is_damage(payload: bytes):
    with pytest.raises(JournalDamaged, match="piece 4"):
        unpacked_piece("room", 4, payload)


def test_a_piece_with_an_unknown_row_is_damage():
    with pytest.raises(JournalDamaged, match="piece 4"):
        unpacked_piece("room", 4, msgspec.msgpack.encode(Piece(FORMAT, [(9, "", b"", False)])))


def test_secrets_that_are_none_are_damage():
    with pytest.raises(JournalDamaged, match="the secrets of a checkpoint"):
        Merged().add(Piece(FORMAT, [(2, "", b"text", False)]))


def test_a_small_checkpoint_is_one_piece():
    secrets = (SealSecret(4, b"s" * 32, b"granted"),)

    pieces = list(pieces_of(b"head", {"hero": b"1", "empty": b""}, secrets, bytes_max=SMALLEST))

    assert len(pieces) == 1
    assert merged(pieces) == Checkpoint(7, b"head", {"hero": b"1", "empty": b""}, secrets)


@pytest.mark.parametrize("seed", range(20))
def test_no_piece_is_larger_than_allowed_and_nothing_is_lost(seed: int):
    sizes = [int.from_bytes(os.urandom(2)) % 5_000 for _ in range(40)]
    header = os.urandom(sizes[0] * 3)
    characters = {f"{'n' * (size % 120)}{size}-{n}": os.urandom(size) for n, size in enumerate(sizes)}

    pieces = list(pieces_of(header, characters, None, bytes_max=SMALLEST))

    assert max(map(len, pieces)) <= SMALLEST, seed
    assert merged(pieces) == Checkpoint(7, header, characters)


def test_a_later_change_takes_the_place_of_an_earlier_one():
    first = list(
        pieces_of(b"one", {"hero": b"x" * 4_000, "orc": b"1"}, (SealSecret(1, b"s", b""),), bytes_max=SMALLEST)
    )
    second = list(pieces_of(b"two", {"orc": None, "hero": b"2", "nobody": None}, None, bytes_max=SMALLEST))

    assert merged([*first, *second]) == Checkpoint(7, b"two", {"hero": b"2"}, (SealSecret(1, b"s", b""),))


def test_a_head_knows_the_first_piece_it_needs():
    assert Head(FORMAT, 1, 0, True, [Change([5, 6], 10), Change([9], 1)]).first_piece == 5
    assert Head(FORMAT, 1, 0, True, []).first_piece is None
    assert CHARACTER == 1
