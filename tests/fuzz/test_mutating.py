"""The mutator changes a value into another of the same kind, and leaves alone what it shares with others."""

import copy
import json
import random

import msgspec

from tests.fuzz.mutating import SCALARS, mutated

VALUE = {"commands": [{"command": "begin", "layer": "base", "target": "Run"}, {"values": [1, 2.5, None, True, "x"]}]}


def test_a_mutated_value_can_be_written_again_and_is_mostly_another():
    made = [mutated(copy.deepcopy(VALUE), random.Random(seed), ["begin", "loop"]) for seed in range(500)]

    texts = {json.dumps(each) for each in made}
    assert len(texts) > 250
    assert all(len(text) < 20_000 for text in texts)


def test_a_value_with_numbers_for_names_is_mutated_too():
    for seed in range(200):
        msgspec.msgpack.encode(mutated([{1: [2], "a": {b"x": 3}}], random.Random(seed), ["begin"]))


def test_the_shared_scalars_stay_as_they_are():
    before = repr(SCALARS)

    for seed in range(500):
        mutated([[[]], {}], random.Random(seed), ["begin"])

    assert repr(SCALARS) == before
