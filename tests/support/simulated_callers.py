"""Who uses a simulated service: callers that ask again until they know what became of it, and readers."""

import asyncio
import random
from collections import Counter, deque
from typing import NamedTuple

from msgspec import UNSET, Struct

from app.gates.decision import Problem
from app.gates.lives import CloseScene
from app.gates.tick import Ticked
from app.journal.port import CommitUnknown, JournalUnavailable
from app.sequencing.mailbox import Addressed, Decided, Result
from app.sequencing.registry import Draining, MailboxFull
from tests.support.simulated_commands import WHO, Asker
from tests.support.simulated_rules import Violation, identity_of
from tests.support.simulated_service import Down, Nodes

COMMANDS_MAX = 6
"""The most commands of one submission; receipts of a caller are never fewer, so that none is lost unsettled."""

REPEATED_MAX = 6
"""How many settled submissions a caller remembers, to send one again now and then."""

SCENES = ("arena", "room")
PATIENCE_S_MAX = 1.0


class Asked(Struct):
    """One command and what its caller knows of it: whether it may be decided, and its first answer."""

    addressed: Addressed
    may_be_decided: bool = False
    answer: Decided | None = None


class Caller:
    """Sends one submission after another, each until it is settled: again after whatever was no answer.

    What was sent without a key is sent again only after the service said that nothing was decided.
    """

    def __init__(
        self,
        name: str,
        service: Nodes,
        askers: dict[str, Asker],
        chance: random.Random,
        happened: Counter[str],
        *,
        pause_s: float,
    ) -> None:
        self.name = name
        self._pause_s = pause_s
        self._service = service
        self._askers = askers
        self._chance = chance
        self._happened = happened
        self._keys = 0
        self._settled: deque[tuple[str, list[Asked]]] = deque(maxlen=REPEATED_MAX)

    async def run(self, submissions: int) -> None:
        """Send so many submissions, and settle each."""
        for _ in range(submissions):
            scene = SCENES[self._chance.randrange(len(SCENES))]
            asked = self._draw(scene)
            await self._settle(scene, asked)
            if all(each.addressed.key is not None for each in asked):
                self._settled.append((scene, asked))
            while self._settled and self._chance.random() < 0.3:
                self._happened["repeat"] += 1
                await self._settle(*self._chance.choice(self._settled))
            await asyncio.sleep(self._pause_s * self._chance.random() ** 2)

    def _draw(self, scene: str) -> list[Asked]:
        asker = self._askers[scene]
        if self._chance.random() < 0.02:
            return [Asked(Addressed(None, CloseScene()))]
        if self._service.disk.history(scene).exists_since is None:
            born = self._chance.sample(WHO, self._chance.randint(1, len(WHO)))
            return [Asked(Addressed(who, asker.spawn(), self._key())) for who in born]
        drawn: list[Addressed] = []
        is_keyed = self._chance.random() < 0.85
        for _ in range(self._chance.choice((1, 1, 1, 2, 3))):
            key = self._key() if is_keyed or self._chance.random() < 0.5 else None
            referring = asker.referring(key, drawn) if key is not None and self._chance.random() < 0.5 else None
            drawn.append(referring or asker.addressed(key))
        return [Asked(addressed) for addressed in drawn]

    def _key(self) -> str:
        self._keys += 1
        return f"{self.name}-{self._keys:06}"

    async def _settle(self, scene: str, asked: list[Asked]) -> None:
        """Send until answered. Now and then something new goes along with what is sent again."""
        while True:
            is_known = await self._attempt(scene, asked)
            if is_known:
                return
            if any(each.may_be_decided and each.addressed.key is None for each in asked):
                self._happened["given up"] += 1
                return
            await asyncio.sleep(0.1 * self._chance.random())
            if len(asked) < COMMANDS_MAX and not _closes(asked) and self._chance.random() < 0.3:
                asked.append(Asked(self._askers[scene].addressed(self._key())))

    async def _attempt(self, scene: str, asked: list[Asked]) -> bool:
        """Send once; say whether all is known now."""
        commands = [each.addressed for each in asked]
        patience_s = None if self._chance.random() < 0.8 else PATIENCE_S_MAX * self._chance.random() ** 2
        trace = self._service.disk.trace
        sent = self._sent(scene, commands)
        try:
            reply, cancel = self._service.submit(scene, commands, self.name)
        except Down:
            return False
        trace(f"{self.name} asks {scene} {','.join(map(_told, commands))}")
        try:
            async with asyncio.timeout(patience_s):
                results = await asyncio.shield(reply)
        except (JournalUnavailable, MailboxFull, Draining, CommitUnknown, Down, TimeoutError) as error:
            self._happened[type(error).__name__] += 1
            trace(f"{self.name} hears {type(error).__name__} {error}")
            self._check_failed(scene, asked, sent, error)
            if isinstance(error, TimeoutError) and self._chance.random() < 0.5:
                cancel()
            return False
        trace(f"{self.name} hears {[result.sequence if isinstance(result, Decided) else result for result in results]}")
        for index, result in enumerate(results):
            self._check_result(scene, asked[index], sent, sent.settled[index], result)
            self._note(scene, asked[index], result)
        return True

    def _sent(self, scene: str, commands: list[Addressed]) -> "Sent":
        history, service = self._service.disk.history(scene), self._service
        settled = [history.settled(identity_of(self.name, each)) for each in commands]
        return Sent(asyncio.get_running_loop().time(), len(history.decisions), service.stops, settled)

    def _check_failed(self, scene: str, asked: list[Asked], sent: "Sent", error: Exception) -> None:
        """Hold the service to its word that nothing was decided, and to having a reason for it."""
        history = self._service.disk.history(scene)
        may_be_decided = isinstance(error, CommitUnknown | Down | TimeoutError)
        has_failed = isinstance(error, JournalUnavailable | CommitUnknown)
        if has_failed and sent.at > self._service.weather.foul_until and self._service.stops == sent.stops:
            settled = [history.settled(identity_of(self.name, each.addressed)) for each in asked]
            is_crowded = not self._service.is_alone and "written elsewhere" in str(error)
            if settled == sent.settled and not is_crowded:
                raise Violation(f"{error!r} was told, and nothing had failed or was forgotten")
        for each in asked:
            each.may_be_decided = each.may_be_decided or may_be_decided
            identity = identity_of(self.name, each.addressed)
            is_new = not each.may_be_decided and each.answer is None
            if is_new and identity is not None and history.is_decided(identity):
                raise Violation(f"{error!r} says that {each.addressed} was not decided; it was")

    def _check_result(self, scene: str, asked: Asked, sent: "Sent", settled: int | None, result: Result) -> None:
        """Hold a result against what was durable when it was asked for: a settled key, or a state with a problem."""
        history, latest = self._service.disk.history(scene), self._service.clock.latest
        identity, sequence = identity_of(self.name, asked.addressed), None
        if isinstance(result, Decided):
            sequence = result.sequence
            if sequence <= sent.length and result.record.mark is not None and sequence != settled:
                raise Violation(f"{asked.addressed} was answered as sequence {sequence}, which no longer settles it")
        elif result.at == "command" and result.problem is Problem.TOO_LARGE:
            self._happened["no entry for it"] += 1
        elif len(history.decisions) == sent.length and not asked.addressed.references:
            history.check_problem(asked.addressed, result)
        if settled is not None and identity is not None:
            self._happened["same answer again"] += sequence == settled
            if sequence != settled and history.is_settled(identity, sequence=settled, at=latest):
                raise Violation(f"{asked.addressed} was decided as sequence {settled}, and answered as {result}")

    def _note(self, scene: str, asked: Asked, result: Result) -> None:
        if isinstance(result, Decided):
            asked.answer = result
            self._askers[scene].learn(result.record.answer)
            word = "accepted" if result.record.accepted else "refused"
            self._happened[f"{type(asked.addressed.command).__name__} {word}"] += 1
            self._count_parts(result.record.answer)

    def _count_parts(self, answer: object) -> None:
        if isinstance(answer, Ticked):
            for part in ("rollback", "seal", "confirm"):
                self._happened[part] += getattr(answer, part) is not UNSET


class Sent(NamedTuple):
    """What was true when a submission was sent: the time, how much was decided, and by what each key was settled."""

    at: float
    length: int
    stops: int
    settled: list[int | None]


def _told(addressed: Addressed) -> str:
    return f"{type(addressed.command).__name__}:{addressed.character}:{addressed.key}"


def _closes(asked: list[Asked]) -> bool:
    return any(isinstance(each.addressed.command, CloseScene) for each in asked)


class Reader:
    """Looks at scenes and their histories all the time, until told that it is enough."""

    def __init__(self, service: Nodes, chance: random.Random, happened: Counter[str]) -> None:
        self.is_over = False
        self._service = service
        self._chance = chance
        self._happened = happened

    async def run(self) -> None:
        """Read; what is read is held against the durable history in the step in which it is given."""
        while not self.is_over:
            scene = SCENES[self._chance.randrange(len(SCENES))]
            await asyncio.sleep(0.1 * self._chance.random() ** 2)
            try:
                if self._chance.random() < 0.85:
                    sequence = await self._service.read(scene)
                    self._service.disk.trace(f"read {scene} at {sequence}")
                else:
                    after = int(self._chance.random() * len(self._service.disk.history(scene).decisions))
                    who = self._chance.choice((None, *WHO))
                    await self._service.read_history(scene, after=after, character=who)
                self._happened["read"] += 1
            except (Down, Draining, MailboxFull, JournalUnavailable, CommitUnknown):
                self._happened["read in vain"] += 1
