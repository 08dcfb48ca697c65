"""`posegate replay`: plays recorded engine traces through a service, and reports what was decided."""

import re
from pathlib import Path
from typing import Annotated

import typer

from app.cli.frame import JsonOption, cli


def _url(given: str | None) -> str | None:
    if given is not None and not given.startswith(("http://", "https://")):
        raise typer.BadParameter("an address starts with http:// or https://, as http://127.0.0.1:8080 does.")
    return given


def _scene(given: str | None) -> str | None:
    if given is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}", given):
        raise typer.BadParameter("a scene is 1 to 128 of A-Z a-z 0-9 . _ ~ - and starts with a letter or digit.")
    return given


TracesArgument = Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Recorded traces, JSON Lines.")]
UrlOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_URL",
        callback=_url,
        help="The service to play through.",
        show_default="one of its own, on a free port",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_KEY", help="An API key of that service, where it has keys.", show_default="none is sent"
    ),
]
SceneOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_SCENE",
        callback=_scene,
        help="The scene to play in; with several traces, the start of its name.",
        show_default="a new one for each trace",
    ),
]
KeepOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_KEEP",
        metavar="JOURNAL",
        help="The journal of a service of its own, to look at afterwards.",
        show_default="a temporary file",
    ),
]


@cli.command(
    name="replay",
    epilog="""Examples:

    posegate replay tests/traces/godot3-crowd-50x20s.jsonl

    posegate replay --json tests/traces/*.jsonl > report.json

    posegate replay tests/traces/godot3-hit-interrupt.jsonl --url http://127.0.0.1:8080 --scene match-7

    posegate replay tests/traces/godot3-hit-interrupt.jsonl --keep sqlite:var/replayed.db

Exit codes: 0 every command was decided, 1 one was not or the service was lost, 2 a trace or option cannot be used.""",
)
def replay_command(
    traces: TracesArgument,
    url: UrlOption = None,
    key: KeyOption = None,
    scene: SceneOption = None,
    keep: KeepOption = None,
    as_json_object: JsonOption = False,
) -> None:
    """Play recorded engine traces through a service, and say what a client without it would have shown.

    Each trace plays in a scene of its own, a batch for each tick of the engine.

    The report counts what each gate was asked, what it accepted, and what it refused as which outcome.

    It also counts where a client that believes every callback would differ from what was committed.
    """
    # Imported when something is played: a service that starts does not wait for it.
    from app.cli.playing import play  # noqa: PLC0415

    play(traces, url=url, key=key, scene=scene, keep=keep, as_json_object=as_json_object)
