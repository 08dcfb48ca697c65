"""`posegate serve`: checks what the service needs, then serves until told to stop."""

import asyncio
import signal
import socket
from typing import Annotated

import typer

from app.api.keys import Keyring, KeysUnreadable
from app.api.security import is_loopback
from app.cli.frame import FAILED, MISUSED, cli, default_of, fail, settings_from
from app.journal import connect_journal, shown_url
from app.journal.port import JournalDamaged, JournalUnavailable
from app.main import serve as serve_until_told
from app.settings import Settings
from app.telemetry.log import configure

STOP_AGAIN_S = 0.1
"""How often what waits for the journal is told to stop, seconds, until it does."""

HostOption = Annotated[
    str | None,
    typer.Option(envvar="POSEGATE_HOST", help="Address to listen on.", show_default=default_of("host")),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        envvar="POSEGATE_PORT",
        min=0,
        max=65535,
        help="Port to listen on; 0 takes a free one.",
        show_default=default_of("port"),
    ),
]
JournalOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_JOURNAL",
        help="Where decisions are kept: sqlite:PATH, nats://HOST/NAME, or memory: for trying.",
        show_default=default_of("journal"),
    ),
]


@cli.command(
    epilog="""Examples:

    posegate serve

    posegate serve --port 0 --journal memory:

    POSEGATE_HOST=0.0.0.0 POSEGATE_KEYS_FILE=keys.json posegate serve

Any other address than this machine's own (127.0.0.1) needs API keys, made with `posegate key`."""
)
def serve(host: HostOption = None, port: PortOption = None, journal: JournalOption = None) -> None:
    """Serve until told to stop (SIGINT, SIGTERM). Prints the address it listens on when it is ready.

    Limits are settings too: each has a POSEGATE_ variable, and GET /v1/info shows them.
    """
    settings = settings_from(host=host, port=port, journal=journal)
    configure(settings.log_level)
    _check_keys(settings)
    _check_journal(settings.journal)
    _check_address(settings.host, settings.port)
    serve_until_told(settings)


def _check_keys(settings: Settings) -> None:
    """Read the keys, and see that without any nobody but this machine is served."""
    try:
        keyring = Keyring(given=settings.keys, file=settings.keys_file)
    except KeysUnreadable as error:
        fail(f"the keys cannot be read: {error}. `posegate key --help` shows what they look like.", MISUSED)
    if not keyring.is_configured and not is_loopback(settings.host):
        advice = "Make one with `posegate key` and set POSEGATE_KEYS_FILE, or give --host 127.0.0.1."
        fail(f"without API keys posegate serves this machine only, not {settings.host}. {advice}", MISUSED)


def _check_journal(url: str) -> None:
    """Open and close the journal, so that what stands in its way is said in a line and not in a traceback.

    It may be waited for; told to stop meanwhile, that is an end as when it serves.
    """

    async def opened_and_closed() -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop() -> None:
            # A connection that is just being made may take one such word for its own, and swallow it.
            task.cancel()
            loop.call_later(STOP_AGAIN_S, stop)

        for told in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(told, stop)
        await (await connect_journal(url)).close()

    try:
        asyncio.run(opened_and_closed())
    except asyncio.CancelledError:
        raise typer.Exit from None
    except ValueError as error:
        fail(f"{error}. Give one of these as --journal or POSEGATE_JOURNAL.", MISUSED)
    except JournalUnavailable as error:
        fail(f"{error}. The journal is named by --journal or POSEGATE_JOURNAL.", FAILED)
    except JournalDamaged as error:
        fail(
            f"journal {shown_url(url)} is damaged: {error}. The journal is named by --journal or POSEGATE_JOURNAL.",
            FAILED,
        )


def _check_address(host: str, port: int) -> None:
    """Listen for a moment, for the same reason."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except OSError as error:
        said = error.strerror or str(error)
        advice = "Give another --host or --port (POSEGATE_HOST, POSEGATE_PORT)."
        fail(f"cannot listen on {host} port {port} ({said}). {advice}", FAILED)
