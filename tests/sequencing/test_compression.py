"""Compression: sleepers come back as they were, in fewer bytes, whatever their rig."""

import random

from hypothesis import given
from hypothesis import strategies as st

from app.gates.lives import Remains, Spawn, newborn
from app.gates.rig import default_rig
from app.gates.roster import Roster, freeze
from app.sequencing.compression import COMMON_BYTES_MAX, RIGS_MAX, CommonCompression


@given(st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=200)), min_size=1, max_size=20))
def test_what_is_packed_is_unpacked_as_it_was_in_any_order(blobs: list[tuple[str, bytes]]):
    compression = CommonCompression()
    compressed = [compression.compress(rig, blob) for rig, blob in blobs]

    assert [compression.decompress(each) for each in reversed(compressed)] == [blob for _, blob in reversed(blobs)]
    assert [compression.size(each) for each in compressed] == [len(blob) for _, blob in blobs]


def test_what_blobs_of_a_rig_have_in_common_is_kept_once():
    compression, draw = CommonCompression(), random.Random(1)
    common = draw.randbytes(1_000)
    compression.compress("humanoid", common)
    compression.compress("horse", draw.randbytes(1_000))

    assert len(compression.compress("humanoid", common + b"own")) < 100
    assert len(compression.compress("horse", common + b"own")) > 1_000


def test_blobs_of_more_rigs_than_it_learns_of_are_packed_all_the_same():
    compression = CommonCompression()
    compressed = [compression.compress(f"rig-{number}", bytes(number)) for number in range(RIGS_MAX + 10)]

    assert [compression.decompress(each) for each in compressed] == [bytes(number) for number in range(RIGS_MAX + 10)]


def test_a_first_blob_beyond_what_is_looked_back_on_packs_the_others_too():
    compression = CommonCompression()
    large = random.Random(2).randbytes(3 * COMMON_BYTES_MAX)

    assert [compression.decompress(compression.compress("a", each)) for each in (large, large, b"small")] == [
        large,
        large,
        b"small",
    ]


def test_a_roster_gives_sleepers_and_loads_them_through_its_compression():
    compressed, plain = Roster(hot_max=1, compression=CommonCompression()), Roster(hot_max=1)
    held = [newborn(Spawn(), default_rig(), Remains(), at=at) for at in range(5)]
    for roster in (compressed, plain):
        for number, character in enumerate(held):
            roster.put(f"c{number}", character)
            roster.cool(1)
        roster.load("loaded", freeze(held[2]))

    names = [*(f"c{number}" for number in range(5)), "loaded", "nobody"]
    assert [compressed.get(name) for name in names] == [plain.get(name) for name in names] == [*held, held[2], None]
    assert [compressed.blob(name) for name in names] == [plain.blob(name) for name in names]
    assert [compressed.size(name) for name in names] == [plain.size(name) for name in names]
    assert [compressed.still().get(name) for name in names] == [*held, held[2], None]
