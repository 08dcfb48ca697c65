"""`posegate key`: makes API keys, and puts them into the keys file."""

import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError

from app.api.keys import KeyEntry, KeysFile, KeysUnreadable, new_key, read_keys
from app.cli.frame import MISUSED, cli, fail

OWN_MODE = 0o600
"""Who may read a keys file that is made here: nobody but its owner."""

_NAMED = "1 to 128 of A-Z a-z 0-9 . _ ~ -, of which the first is a letter or digit"


@cli.command(
    epilog=r"""Examples:

    posegate key match-servers --role server --prefix match- --add keys.json

    posegate key grafana --role ops --add keys.json

    POSEGATE_KEYS_FILE=keys.json posegate serve

The keys file is one JSON object; what is printed as "entry" without --add goes into its list "keys":

    {
      "keys": \[
        {
          "name": "grafana", "role": "ops", "prefixes": \[], "sha256":
          "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        }
      ],
      "revoked": \[]
    }

A name in "revoked" opens nothing. The file is read again when it changes: that needs no restart."""
)
def key(
    name: Annotated[str, typer.Argument(envvar="POSEGATE_KEY_NAME", help="The key's name, as logs show it.")],
    role: Annotated[
        Literal["server", "ops"],
        typer.Option(envvar="POSEGATE_KEY_ROLE", help="server: everything in its scenes; ops: every read."),
    ],
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            envvar="POSEGATE_KEY_PREFIX",
            help='What the names of a server\'s scenes start with; "" is every scene. May stand several times.',
        ),
    ] = None,
    add: Annotated[
        Path | None,
        typer.Option(
            envvar="POSEGATE_KEY_ADD",
            metavar="FILE",
            help="Put the entry into this keys file, made when missing, and print only the key.",
            show_default="both are printed",
        ),
    ] = None,
) -> None:
    """Make an API key. The key itself is shown this once only.

    Without --add an object is printed: the key, and the entry to put into the list `keys` of the keys file.
    """
    try:
        made = new_key(name, role, prefix or [])
    except ValidationError as error:
        fail(_fault(error, name, role), MISUSED)
    if add is None:
        typer.echo(json.dumps({"key": made.secret, "entry": made.entry.model_dump()}, indent=2))
        return
    try:
        _put(made.entry, add.resolve())
    except KeysUnreadable as error:
        fail(
            f"the key was not made: {error}. {add} is as it was; `posegate key --help` shows what it may hold.", MISUSED
        )
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        fail(f"the key was not made: {add}: {said}. Name a keys file that can be read and written.", MISUSED)
    typer.echo(made.secret)


def _fault(error: ValidationError, name: str, role: str) -> str:
    """Say which part of a key cannot be, and what can."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = first["loc"][0] if first["loc"] else "the whole"
    if place == "name":
        return f"{name!r} cannot be the name of a key. Give one of {_NAMED}."
    if place == "prefixes":
        return f'--prefix {first["input"]!r} starts no scene\'s name. Give {_NAMED}; or "" for every scene.'
    if role == "server":
        return 'a key of role server needs --prefix: what its scenes\' names start with, or "" for every scene.'
    return f"a key of role {role} reads every scene, so it takes no --prefix. Leave it away."


def _put(entry: KeyEntry, path: Path) -> None:
    """Put an entry into a keys file in one step; what was in it stays, and so do its owner and mode.

    Raises:
        KeysUnreadable: The file is none, or the entry cannot be added to it. Nothing was changed.
        OSError, UnicodeDecodeError: The file cannot be read or written. Nothing was changed.
    """
    with _alone(path.parent):
        is_new = not path.exists()
        held = KeysFile() if is_new else read_keys(path.read_text(encoding="utf-8"), str(path))
        if any(each.name == entry.name for each in held.keys):
            raise KeysUnreadable(f"{path} has a key named {entry.name!r} already, so take another name")
        if entry.name in held.revoked:
            raise KeysUnreadable(f"{path} says that {entry.name!r} is revoked, so take another name")
        text = KeysFile.model_construct(keys=[*held.keys, entry], revoked=held.revoked).model_dump_json(indent=2) + "\n"
        read_keys(text, str(path))
        _replaced(path, text, None if is_new else path.stat())


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep others who add keys in this directory waiting: of two at once, the first one's entry would be lost."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replaced(path: Path, text: str, former: os.stat_result | None) -> None:
    """Write a file beside and rename it, so that a server which reads meanwhile sees the former or the new one."""
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if former is not None and (former.st_uid, former.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, former.st_uid, former.st_gid)
            os.fchmod(descriptor, OWN_MODE if former is None else stat.S_IMODE(former.st_mode))
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        Path(beside).replace(path)
    finally:
        with suppress(FileNotFoundError):
            Path(beside).unlink()
