"""Rounds: what is looked at by the clock: scenes without traffic, and watched scenes that others may have written."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from app.journal.port import JournalDamaged, JournalUnavailable
from app.sequencing.feed import Feeds
from app.sequencing.past import Past
from app.sequencing.sequencer import Sequencer
from app.settings import Settings


class Rounds:
    """Goes round the scenes that are held and watched. It only asks: the scenes' own tasks do what is to be done."""

    def __init__(self, held: Mapping[str, Sequencer], feeds: Feeds, past: Past, settings: Settings) -> None:
        self._held = held
        self._feeds = feeds
        self._past = past
        self._idle_s = settings.scene_idle_ms / 1000
        self._round_s = settings.follow_look_ms / 1000
        self._is_shared = False

    async def sweep(self, touched: Mapping[str, float], ask_to_leave: Callable[[str], None]) -> None:
        """Ask scenes without traffic to leave, for ever: `touched` says when there was some, seconds of the event loop.

        Where others may write it, a scene that is watched stays: only as long as it is held it hears of their turns.
        """
        while True:
            await asyncio.sleep(self._idle_s / 4)
            now = asyncio.get_running_loop().time()
            for scene, since in list(touched.items()):
                if now - since >= self._idle_s and not self._is_followed(scene):
                    ask_to_leave(scene)

    def _is_followed(self, scene: str) -> bool:
        return self._feeds.get(scene) is not None and self._held[scene].following.is_shared

    async def look(self, open_again: Callable[[str], Awaitable[object]]) -> None:
        """Let every scene that is watched, or owes a look, be looked at once a round, for ever: a hint may be lost."""
        while True:
            scenes = self._to_look_at()
            pause_s = self._round_s / (len(scenes) + 1)
            for scene in scenes:
                await asyncio.sleep(pause_s)
                await self._look_at(scene, open_again)
            await asyncio.sleep(pause_s)

    def _to_look_at(self) -> list[str]:
        shared = {scene: held.following for scene, held in self._held.items() if held.following.is_shared}
        self._is_shared = self._is_shared or bool(shared)
        watched = [scene for scene in self._feeds.scenes() if scene in shared or scene not in self._held]
        owing = [scene for scene, following in shared.items() if following.is_owed and scene not in watched]
        return [*watched, *owing] if self._is_shared else []

    async def _look_at(self, scene: str, open_again: Callable[[str], Awaitable[object]]) -> None:
        held, feed = self._held.get(scene), self._feeds.get(scene)
        if held is not None:
            held.following.look_again()
        elif feed is not None:
            # It had to leave although it is watched: more are than can be held.
            with suppress(JournalUnavailable, JournalDamaged):
                if await self._past.turn_after(scene, feed.last) is not None:
                    await open_again(scene)
