"""Where a journal on NATS is: the URL taken apart, and how it is shown without what is secret in it."""

import re
import ssl
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES = ("nats", "tls")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAME_DEFAULT = "posegate"
PORT_DEFAULT = 4222
REPLICAS_MAX = 5
OPTIONS = ("replicas", "ca", "cert", "key", "creds")
SERVERS_MAX = 64

_UNKNOWN_CA = frozenset({18, 19, 20, 21})
# OpenSSL's numbers for a certificate that nobody who is trusted has signed.

FORM = (
    "`nats://USER:PASSWORD@HOST:4222,HOST:4222/NAME?replicas=3` "
    "(`tls://` for TLS; `ca`, `cert`, `key`, `creds` name files)"
)


class Server(NamedTuple):
    """One server of a cluster: where it listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Address(NamedTuple):
    """What a URL says. Only `str` of it, which leaves out user, password and files, may be logged or shown."""

    servers: tuple[Server, ...]
    name: str
    replicas: int
    is_tls: bool
    user: str | None = None
    password: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    creds: str | None = None

    def __str__(self) -> str:
        return f"{self.name} at {', '.join(map(str, self.servers))}"

    def __repr__(self) -> str:
        return f"<Address {self}>"

    def context(self) -> ssl.SSLContext | None:
        """Give what TLS is to be spoken with; None when it is not to be spoken. Reads the files it names.

        Raises:
            ValueError: A file cannot be read, or is not what it should be.
        """
        if not self.is_tls:
            return None
        try:
            made = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                made.load_cert_chain(self.cert, self.key)
        except OSError as error:
            raise ValueError(f"the files for TLS cannot be used: {error.strerror or type(error).__name__}") from None
        return made


def ca_advice(error: Exception) -> str:
    """Give what to add to why a server was not connected: whom to trust, where that is not known; else nothing."""
    is_unknown = isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _UNKNOWN_CA
    return "; name the CA's file with ?ca=FILE" if is_unknown else ""


def parse_address(url: str) -> Address:
    """Take a journal's URL apart.

    Raises:
        ValueError: It names no journal on NATS. The text shows nothing of what is secret in it.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unreadable("it is no URL") from None
    if parts.scheme not in SCHEMES:
        raise _unreadable(f"it does not begin with {' or '.join(f'{each}://' for each in SCHEMES)}")
    if parts.fragment:
        raise _unreadable("a `#` in a user or password is written `%23`")
    login, _, hosts = parts.netloc.rpartition("@")
    user, separator, password = login.partition(":")
    if "/" in parts.path[1:] or "@" in parts.path:
        raise _unreadable("a `/` in a user or password is written `%2F`, and a name has none")
    name = unquote(parts.path[1:]) or NAME_DEFAULT
    if not NAME.fullmatch(name):
        raise _unreadable("the name after the hosts has letters, digits, `_` and `-` only, at most 64")
    options = _options(parts.query)
    replicas = options.pop("replicas", "1")
    if not replicas.isascii() or not replicas.isdigit() or not 1 <= int(replicas) <= REPLICAS_MAX:
        raise _unreadable(f"replicas is a number from 1 to {REPLICAS_MAX}")
    if login and not (user and separator and password):
        raise _unreadable("a user comes with a password: `USER:PASSWORD@`")
    is_tls = parts.scheme == "tls"
    if not is_tls and options.keys() & {"ca", "cert", "key"}:
        raise _unreadable("`ca`, `cert` and `key` are for `tls://`")
    if "key" in options and "cert" not in options:
        raise _unreadable("a `key` comes with its `cert`")
    for option, path in options.items():
        if not Path(path).is_file():
            raise _unreadable(f"the file that `{option}` names is not there")
    return Address(
        servers=_servers(hosts),
        name=name,
        replicas=int(replicas),
        is_tls=is_tls,
        user=unquote(user) or None,
        password=unquote(password) or None,
        **options,
    )


def _options(query: str) -> dict[str, str]:
    """Give what stands behind the `?`, each option once."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise _unreadable("what follows the `?` is not `option=value`") from None
    options = dict(pairs)
    if len(options) != len(pairs) or not all(options.values()) or options.keys() - set(OPTIONS):
        raise _unreadable(f"options are {', '.join(OPTIONS)}, each at most once and with a value")
    return options


def _servers(hosts: str) -> tuple[Server, ...]:
    """Give the servers that the URL names, each once and in order."""
    found: dict[Server, None] = {}
    for each in hosts.split(","):
        try:
            one = urlsplit(f"//{each}")
            host, port = one.hostname, one.port
        except ValueError:
            host, port = None, None
        if not host or port == 0 or any(sign.isspace() for sign in each):
            raise _unreadable("a host is `HOST` or `HOST:PORT`, several are separated by commas")
        found[Server(host, port or PORT_DEFAULT)] = None
    if len(found) > SERVERS_MAX:
        raise _unreadable(f"it names more than {SERVERS_MAX} hosts")
    return tuple(found)


def _unreadable(why: str) -> ValueError:
    """Give what is raised for a URL that cannot be used. Never the URL itself: a password may stand in it."""
    return ValueError(f"the journal's URL cannot be used: {why}; accepted is {FORM}")
