"""What fuzzing has found worth keeping keeps every promise still; no fuzzer is needed to see that."""

import pytest

from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS

CORPUS_BYTES_MAX = 200_000


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_keeps_every_promise(target: str):
    inputs = corpus.read(target)

    for each in inputs:
        try:
            TARGETS[target](each)
        except BaseException as error:
            error.add_note(f"input {each!r}")
            raise
    assert len(inputs) >= 4


def test_the_corpus_reaches_decisions_and_problems():
    """A corpus that no longer fits what it is given to would pass every test by being refused early."""
    came = {part for each in corpus.read("body") for part in TARGETS["body"](each)}
    stored = {part for each in corpus.read("codec") for part in TARGETS["codec"](each)}

    assert {("begin", "granted"), ("tick", "ticked"), ("bundle", "bundled"), ("malformed-json", "")} <= came
    assert {("begin", "granted"), ("tick", "ticked"), ("commit-loop", "delivered")} <= stored
    assert len(came) > 40
    assert len(stored) > 40


def test_the_corpus_stays_small():
    assert sum(path.stat().st_size for path in corpus.FOLDER.iterdir()) < CORPUS_BYTES_MAX


def test_a_distilled_corpus_shows_all_that_the_inputs_show_in_fewer_of_them():
    body = TARGETS["body"]
    begin, long, broken = b'\x00{"layer":"base","target":"Run"}', b'\x00{"target":  "Run","layer":  "base"}', b"\x00{"

    assert set(corpus.distilled(body, [begin, long, broken, broken + b"{"])) == {begin, broken}


def test_inputs_are_read_as_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "FOLDER", tmp_path / "corpus")

    corpus.write("body", [b"\x00\xff\n", b"\x01", b"\x01"])

    assert corpus.read("body") == [b"\x01", b"\x00\xff\n"]
    assert corpus.read("nothing") == []
