"""A run: some traces through one service, the caller's or one of its own, a scene each."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from app.replay.own import own_service
from app.replay.player import Player, scene_of
from app.replay.report import Report
from app.replay.service import Service, ServiceError
from app.replay.trace import Trace
from posegate_client import AsyncPosegate

Advance = Callable[[int], None]
"""Takes how many lines of a trace were played since the last call."""


async def replay(
    traces: Sequence[Trace],
    *,
    url: str | None = None,
    key: str | None = None,
    scene: str | None = None,
    journal: str | None = None,
    started: Callable[[Trace], Advance] = lambda trace: lambda lines: None,
) -> list[Report]:
    """Play traces one after the other; give a report each. Without `url` a service is started, and stopped at the end.

    Each trace has a scene of its own, new by default; `scene` names it, with the trace's name behind it where several
    are played. `key` is an API key of that service, where it has any. `started` is called for each trace, and gives
    what is told of its progress.

    Raises:
        ServiceError: The service cannot be reached, does not start, or was lost on the way.
        SceneTaken: The named scene holds characters of the trace already.
    """
    async with AsyncExitStack() as stack:
        if url is None:
            url = await stack.enter_async_context(own_service(journal))
        try:
            posegate = AsyncPosegate(url, key=key)
        except ValueError as error:
            raise ServiceError(f"{error}; check --url and --key") from error
        service = Service(await stack.enter_async_context(posegate))
        await service.reach()
        reports = []
        for trace in traces:
            run = secrets.token_hex(4)
            place = scene or scene_of(trace.name, run)
            if scene is not None and len(traces) > 1:
                place = scene_of(scene, trace.name)
            reports.append(await Player(service, trace, scene=place, run=run, advance=started(trace)).play())
        return reports
