"""`posegate key`: a key that opens what it says, printed for a person and a file."""

import json

import pytest

from app.api.keys import Keyring
from tests.support.lines import is_one_line


def test_a_printed_key_opens_with_its_printed_entry(call):
    code, shown, told = call("key", "match", "--role", "server", "--prefix", "match-", "--prefix", "duel-")

    assert (code, told) == (0, "")
    made = json.loads(shown)
    caller = Keyring(given=json.dumps({"keys": [made["entry"]]})).find(made["key"])
    assert caller is not None
    assert caller.prefixes == ("match-", "duel-")


@pytest.mark.parametrize(
    "arguments",
    [
        ("key",),
        ("key", "a"),
        ("key", "a", "--role", "god"),
        ("key", "a b", "--role", "ops"),
        ("key", "a", "--role", "server"),
        ("key", "a", "--role", "ops", "--prefix", "match-"),
    ],
)
def test_a_key_that_cannot_be_is_told_in_one_line(call, arguments):
    code, shown, told = call(*arguments)

    assert (code, shown) == (2, "")
    assert is_one_line(told)
