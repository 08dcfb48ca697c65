"""`posegate key`: a key that opens what it says, printed for a person or put into a file."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.api.keys import Keyring, new_key, read_keys
from app.cli import keys
from tests.support.lines import is_one_line


def test_a_printed_key_opens_with_its_printed_entry(call):
    code, shown, told = call("key", "match", "--role", "server", "--prefix", "match-", "--prefix", "duel-")

    assert (code, told) == (0, "")
    made = json.loads(shown)
    caller = Keyring(given=json.dumps({"keys": [made["entry"]]})).find(made["key"])
    assert caller is not None
    assert caller.prefixes == ("match-", "duel-")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("key",), "Missing argument 'name'"),
        (("key", "a"), "Missing option '--role'"),
        (("key", "a", "--role", "god"), "Invalid value for '--role'"),
        (("key", "a b", "--role", "ops"), "'a b' cannot be the name of a key"),
        (("key", "a", "--role", "server", "--prefix", "ok-", "--prefix", "b c"), "--prefix 'b c' starts no scene"),
        (("key", "a", "--role", "server"), "a key of role server needs --prefix"),
        (("key", "a", "--role", "ops", "--prefix", "match-"), "takes no --prefix"),
    ],
)
def test_a_key_that_cannot_be_is_told_in_one_line_with_the_part_at_fault(call, arguments, fault):
    code, shown, told = call(*arguments)

    assert (code, shown) == (2, "")
    assert fault in told
    assert is_one_line(told)


def test_the_keys_file_that_help_shows_is_one(call):
    _, shown, _ = call("key", "--help")

    lines = "\n".join(line.rstrip() for line in shown.splitlines())
    [example] = re.findall(r"^ +\{\n.*?\],\n.*?\}$", lines, re.MULTILINE | re.DOTALL)
    held = read_keys(example, "the example")
    assert [key.name for key in held.keys] == ["grafana"]


def test_an_added_key_opens_with_the_file_that_was_made_for_it_alone(call, tmp_path):
    path = tmp_path / "keys.json"

    code, shown, told = call("key", "match", "--role", "server", "--prefix", "match-", "--add", path)
    _, second, _ = call("key", "grafana", "--role", "ops", "--add", path)

    assert (code, told) == (0, "")
    keyring = Keyring(file=path)
    for printed, name in ((shown, "key/match"), (second, "key/grafana")):
        caller = keyring.find(printed.removesuffix("\n"))
        assert caller is not None
        assert caller.name == name
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["keys.json"]


def test_a_file_that_is_there_keeps_its_mode_its_link_and_what_it_revokes(call, tmp_path):
    (tmp_path / "mounted").mkdir()
    path, link = tmp_path / "mounted" / "keys.json", tmp_path / "keys.json"
    path.write_text('{"keys": [], "revoked": ["lost"]}')
    path.chmod(0o640)
    link.symlink_to(path)

    code, _, _ = call("key", "grafana", "--role", "ops", "--add", link)

    assert code == 0
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    held = read_keys(path.read_text(), "it")
    assert ([key.name for key in held.keys], held.revoked) == (["grafana"], ["lost"])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (json.dumps({"keys": [new_key("grafana", "ops", []).entry.model_dump()]}), "has a key named 'grafana' already"),
        ('{"revoked": ["grafana"]}', "says that 'grafana' is revoked"),
        ("[]", "at the whole"),
        ("\udcff", "it is not UTF-8"),
    ],
)
def test_a_file_that_takes_no_such_key_is_left_as_it_was(call, tmp_path, text, fault):
    path = tmp_path / "keys.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    before = path.read_bytes()

    code, shown, told = call("key", "grafana", "--role", "ops", "--add", path)

    assert (code, shown) == (2, "")
    assert fault in told
    assert is_one_line(told)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["keys.json"]


@pytest.mark.parametrize("place", [".", "absent/keys.json"])
def test_a_place_where_no_file_can_be_written_is_told_in_one_line(call, tmp_path, place):
    code, shown, told = call("key", "grafana", "--role", "ops", "--add", tmp_path / place)

    assert (code, shown) == (2, "")
    assert "the key was not made" in told
    assert is_one_line(told)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(call, tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    call("key", "first", "--role", "ops", "--add", path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    code, shown, told = call("key", "second", "--role", "ops", "--add", path)

    assert (code, shown) == (2, "")
    assert "No space left on device" in told
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["keys.json"]


def test_keys_that_are_added_at_once_are_all_there(tmp_path):
    path = tmp_path / "keys.json"
    names = [f"server-{number}" for number in range(40)]

    with ThreadPoolExecutor(8) as adding:
        list(adding.map(lambda name: keys._put(new_key(name, "ops", []).entry, path), names))

    assert sorted(key.name for key in read_keys(path.read_text(), "it").keys) == sorted(names)
