"""`posegate openapi`: the documents of the wire."""

import json
from pathlib import Path
from typing import Annotated

import typer

from app.api.channel_contract import channel_document
from app.cli.frame import FAILED, MISUSED, cli, fail, settings_from
from app.main import build


@cli.command(
    epilog="""Examples:

    posegate openapi | less

    posegate openapi --write openapi/v1.json

    posegate openapi --check openapi/v1.json

    posegate openapi --channel --write openapi/channel.json"""
)
def openapi(
    write: Annotated[
        Path | None, typer.Option(envvar="POSEGATE_OPENAPI_WRITE", help="Write it to this file instead.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(envvar="POSEGATE_OPENAPI_CHECK", help="Say whether this file equals it: 0 if so, 1 if not."),
    ] = None,
    channel: Annotated[
        bool,
        typer.Option(
            "--channel", envvar="POSEGATE_OPENAPI_CHANNEL", help="The messages of the channel (AsyncAPI) instead."
        ),
    ] = False,
) -> None:
    """Print the OpenAPI document of the service: what it takes and answers at every path."""
    if write is not None and check is not None:
        fail("--write and --check together would check what was just written. Leave one away.", MISUSED)
    document = build(settings_from(journal="memory:")).openapi()
    made = channel_document(document) if channel else document
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    path = write or check
    if path is None:
        typer.echo(text, nl=False)
        return
    try:
        if write is not None:
            write.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            asked = "--channel --write" if channel else "--write"
            fail(f"{path} is not what the code says. Run `posegate openapi {asked} {path}`, read the diff.", FAILED)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: {error}. Name a file that can be read or written.", MISUSED)
