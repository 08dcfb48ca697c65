"""Heads: one that was read is known again by its bytes, without its key; whatever is not those bytes is read anew."""

import pytest

from app.api.heads import HEAD_BYTES_MAX, HEADS_KEPT, Head, Heads, Target

TARGET = Target("s", "hero", "begin", "/v1/scenes/{scene}/characters/{character}/begin")
BODY = b'{"layer": "base"}'


def head(size: int = len(BODY)) -> Head:
    fields = [(b"host", b"a"), (b"content-length", str(size).encode())]
    return Head(TARGET, b"/v1/scenes/s/characters/hero/begin", fields, None, None, True)


def request(key: bytes = b"", *, body: bytes = BODY, name: bytes = b"Idempotency-Key: ", host: bytes = b"a") -> bytes:
    line = name + key + b"\r\n" if key else b""
    start = b"POST /v1/scenes/s/characters/hero/begin HTTP/1.1\r\nHost: " + host + b"\r\n"
    return start + line + b"Content-Length: %d\r\n\r\n" % len(BODY) + body


def test_a_head_is_known_once_it_was_read():
    heads = Heads()
    assert heads.find(request()) is None

    heads.learn(request(), head(), None)

    assert heads.find(request()) == (head(), None, BODY)
    assert heads.find(request(body=b"x" * len(BODY))) == (head(), None, b"x" * len(BODY))


@pytest.mark.parametrize("name", [b"Idempotency-Key: ", b"idempotency-key: "])
def test_it_is_known_with_whatever_key_it_has(name: bytes):
    heads = Heads()
    heads.learn(request(b"first-key", name=name), head(), b"first-key")

    assert heads.find(request(b"second-key", name=name)) == (head(), b"second-key", BODY)
    assert heads.find(request()) == (head(), None, BODY)


@pytest.mark.parametrize(
    "key",
    [b"a key", b"key ", b" key", b"k\x00y", b"k\xe9y", b"key\r\n folded", b"key\r\n\tfolded", b"key\nX: y", b"k\ry"],
)
def test_a_key_that_is_not_plainly_one_word_is_for_the_parser(key: bytes):
    heads = Heads()
    heads.learn(request(b"first-key"), head(), b"first-key")

    assert heads.find(request(key)) is None


@pytest.mark.parametrize(
    "data",
    [
        request() + b"G",
        request()[:-1],
        b"\r\n" + request(),
        request(host=b"b"),
        request().replace(b"POST", b"post"),
        request().replace(b"Host", b"host"),
        request(b"key-of-eight", name=b"IDEMPOTENCY-KEY: "),
        request(b"key-of-eight\r\nIdempotency-Key: another-key"),
        b"",
        b"\r\n\r\n",
    ],
)
def test_what_is_not_the_same_bytes_and_nothing_more_is_not_known(data: bytes):
    heads = Heads()
    heads.learn(request(), head(), None)
    heads.learn(request(b"first-key"), head(), b"first-key")

    assert heads.find(data) is None


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (request() + request(), None),
        (request()[:-1], None),
        (request(b"first-key", name=b"IDEMPOTENCY-KEY: "), b"first-key"),
        (request(b"first-key", name=b"Idempotency-Key:   "), b"first-key"),
        (request(host=b"a" * HEAD_BYTES_MAX), None),
    ],
)
def test_what_would_not_be_found_again_is_not_remembered(data: bytes, key: bytes | None):
    heads = Heads()

    heads.learn(data, head(), key)

    assert heads.find(data) is None
    assert heads.find(request()) is None


def test_beyond_the_bound_all_are_forgotten():
    heads = Heads()
    for number in range(HEADS_KEPT + 1):
        heads.learn(request(host=b"%d" % number), head(), None)

    assert heads.find(request(host=b"0")) is None
    assert heads.find(request(host=b"%d" % HEADS_KEPT)) is not None
