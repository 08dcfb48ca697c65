import logging
import ssl
from pathlib import Path

import pytest

from app.journal.nats_address import Address, Server, parse_address

SECRET = "s3cr%2Fet"


def test_a_url_says_hosts_name_login_and_copies():
    address = parse_address("nats://me:pass%2Fword@one:4222,two:5222/arena?replicas=3")

    assert address.servers == (Server("one", 4222), Server("two", 5222))
    assert (address.name, address.replicas, address.is_tls) == ("arena", 3, False)
    assert (address.user, address.password) == ("me", "pass/word")


def test_what_is_left_out_has_a_default():
    address = parse_address("nats://one")

    assert address == Address(servers=(Server("one", 4222),), name="posegate", replicas=1, is_tls=False)
    assert address.context() is None


def test_a_host_is_asked_once_and_may_be_an_address_of_either_kind():
    address = parse_address("nats://[::1]:4222,127.0.0.1,127.0.0.1:4222/x")

    assert [str(server) for server in address.servers] == ["[::1]:4222", "127.0.0.1:4222"]


@pytest.mark.parametrize(
    "url",
    [
        f"nats://me:{SECRET}@",
        f"nats://me:{SECRET}@one:x/name",
        f"nats://me:{SECRET}@one:0",
        f"nats://me:{SECRET}@one:99999",
        f"nats://me:{SECRET}@one,,two",
        f"nats://me:{SECRET}@one/na.me",
        f"nats://me:{SECRET}@one/na me",
        f"nats://me:{SECRET}@one/a/b",
        f"nats://me:{SECRET}@one/name?replicas=0",
        f"nats://me:{SECRET}@one/name?replicas=6",
        f"nats://me:{SECRET}@one/name?replicas=three",
        f"nats://me:{SECRET}@one/name?replicas=1&replicas=3",
        f"nats://me:{SECRET}@one/name?copies=3",
        f"nats://me:{SECRET}@one/name?replicas",
        f"nats://me:{SECRET}@one/name#x",
        f"nats://me:{SECRET}@one/name?ca=absent.pem",
        f"tls://me:{SECRET}@one/name?ca=absent.pem",
        f"tls://me:{SECRET}@one/name?key=absent.pem",
        f"tls://me:{SECRET}@one/name?creds=absent.creds",
        f"nats://{SECRET}@one/name",
        f"nats://me:{SECRET}/x@one/name",
        f"nats://[::1:{SECRET}@one/name",
        f"http://me:{SECRET}@one/name",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_showing_what_is_secret(url: str):
    with pytest.raises(ValueError, match=r"the journal's URL cannot be used: .*; accepted is `nats://") as refused:
        parse_address(url)

    assert "s3cr" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_an_address_is_shown_without_what_is_secret(caplog: pytest.LogCaptureFixture):
    address = parse_address(f"nats://me:{SECRET}@one:4222/arena")

    logging.getLogger("any").warning("%s %r", address, address)

    assert str(address) == "arena at one:4222"
    assert "s3cr" not in caplog.text
    assert "me" not in repr(address).replace("<Address", "")


def test_files_for_tls_that_are_none_are_refused(tmp_path: Path):
    (tmp_path / "ca.pem").write_text("no certificate", encoding="utf-8")

    with pytest.raises(ValueError, match="files for TLS"):
        parse_address(f"tls://one/x?ca={tmp_path / 'ca.pem'}").context()


def test_tls_without_files_trusts_whom_the_system_trusts():
    context = parse_address("tls://one").context()

    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
