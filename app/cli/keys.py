"""`posegate key`: makes API keys."""

import json
from typing import Annotated, Literal

import typer
from pydantic import ValidationError

from app.api.keys import new_key
from app.cli.frame import MISUSED, cli, fail


@cli.command(
    epilog="""Examples:

    posegate key match-servers --role server --prefix match-

    posegate key grafana --role ops

    POSEGATE_KEYS_FILE=keys.json posegate serve

The keys file is one JSON object:

    {"keys": [the printed entry, another, ...], "revoked": ["a name"]}

It is read again when it changes: adding, removing and revoking need no restart."""
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
) -> None:
    """Make an API key, and print it with its entry for the keys file. The key itself is shown this once only."""
    try:
        made = new_key(name, role, prefix or [])
    except ValidationError as error:
        fail(f"no such key can be made: {error.errors()[0]['msg']}. See `posegate key --help`.", MISUSED)
    typer.echo(json.dumps({"key": made.secret, "entry": made.entry.model_dump()}, indent=2))
