"""Draws what a simulated caller asks: small alphabets and numbers near the true ones, so that callers collide."""

import random
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from app.gates.bundle import Bundle, Bundled, Member
from app.gates.decision import Command
from app.gates.event_commands import Acknowledge, CommitLoop, Covered, Enqueue, Play, Retire
from app.gates.graph import Evaluation, RequestGraph, SubmitCandidate, WithdrawGraph
from app.gates.identity import Token
from app.gates.lives import DeclareRig, Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.rig import ClipRule, LayerRule, Rig
from app.gates.scene import Scene
from app.gates.tick import Request, Tick, Ticked
from app.gates.transition import Begin, Cancel, Complete, Fail, TransitionGranted, TransitionKept
from app.sequencing.mailbox import Addressed
from tests.support.rigs import OUTPUTS, clip, parameter, rig
from tests.support.ticked import KINDS

WHO = ("hero", "villain", "horse")
STATES = ("Idle", "Run", "Hit")
TOKENS_KEPT = 12
NO_TOKEN = Token("hero", "base", 1, 1, "Idle", "Run", "1-0")
"""Stands where a token is missing: one that was never granted, or one that an earlier answer gives."""

_LAYERS = {"base": LayerRule("Idle", None), "face": LayerRule("Idle", frozenset(STATES))}
_CLIPS: dict[str, ClipRule] = {"Attack": clip(10, (1, "step"), (3, "spark"), (5, "hit"), (7, "flash"), (8, "flashed"))}
RIGS: dict[str, Rig] = {
    "small": rig(
        layers=_LAYERS,
        kinds=KINDS,
        clips=_CLIPS,
        loop_window=3,
        events_per_instance=6,
        instances_open=3,
        deliveries_kept=3,
    ),
    "declared": rig(
        layers=_LAYERS,
        kinds=KINDS,
        clips=_CLIPS,
        declared={"Speed": parameter("Speed", high=9), "Fire": parameter("Fire", "trigger")},
    ),
}


class Asker:
    """Draws commands for one scene, with its durable state at hand so that many of them are nearly right.

    `tokens` are those that any caller was granted, the newest last; `asked` counts what was drawn.
    """

    def __init__(self, chance: random.Random, scene: Callable[[], Scene], *, ticks: bool) -> None:
        self.tokens: list[Token] = []
        self.asked = 0
        self._chance = chance
        self._scene = scene
        self._ticks = ticks

    def learn(self, answer: Any) -> None:
        """Remember the tokens of an answer."""
        if isinstance(answer, TransitionGranted | TransitionKept) and answer.token is not None:
            self.tokens.append(answer.token)
        elif isinstance(answer, Bundled):
            for given in answer.answers:
                self.learn(given.answer)
        elif isinstance(answer, Ticked) and answer.seal is not UNSET:
            for tick in answer.seal.ticks:
                for applied in tick.applied:
                    self.learn(applied.answered.answer)
        del self.tokens[:-TOKENS_KEPT]

    def addressed(self, key: str | None) -> Addressed:
        """Draw one command of any kind; without a key, one whose decision can be told from all others."""
        self.asked += 1
        if key is None:
            data = {"asked": self.asked}
            return Addressed(self._who(), Begin(layer=self._pick(("base", "face")), target="Run", data=data))
        drawn = self._chance.random()
        if drawn < 0.08:
            return Addressed(None, self.bundle(), key)
        if drawn < 0.22 and self._ticks:
            return Addressed(None, self.tick(), key)
        if drawn < 0.24:
            return Addressed(None, DeclareRig(name="named", rig=self._pick(tuple(RIGS.values()))), key)
        if drawn < 0.37:
            return Addressed(self._who(), self._life(), key)
        who = self._who()
        return Addressed(who, self.command(who), key)

    def referring(self, key: str, earlier: list[Addressed]) -> Addressed | None:
        """Draw a command that takes its token or instance from an earlier one of the same submission."""
        for index, addressed in enumerate(earlier):
            if isinstance(addressed.command, Begin):
                return Addressed(addressed.character, Complete(token=NO_TOKEN), key, {"token": index})
            if isinstance(addressed.command, Play):
                late = CommitLoop(clip_instance=0, loop=self._chance.randrange(3))
                return Addressed(addressed.character, late, key, {"clip_instance": index})
        return None

    def spawn(self) -> Command:
        """Draw a spawn, always with a rig that knows every kind of event."""
        return Spawn(inline=self._pick(tuple(RIGS.values())))

    def bundle(self) -> Bundle:
        """Draw a bundle over several characters; its last command may refer to its first."""
        members = []
        for _ in range(self._chance.randint(1, 3)):
            who = self._who()
            members.append(Member(who, self.command(who)))  # type: ignore[arg-type]  # one of a character
        first = members[0]
        if isinstance(first.command, Begin) and self._chance.random() < 0.5:
            members.append(Member(first.character, Complete(token=NO_TOKEN), {"token": 0}))
        return Bundle(commands=members, link=self._chance.random() < 0.4)

    def tick(self) -> Tick:
        """Draw a tick of one to four parts, near what is sealed and confirmed."""
        chance, ticks = self._chance, self._scene().ticks
        parts: dict[str, Any] = {}
        sealed = ticks.sealed
        if chance.random() < 0.2:
            sealed = parts["rollback"] = max(0, sealed - chance.randrange(4))
        if chance.random() < 0.5:
            parts["requests"] = [self._request(sealed) for _ in range(chance.randint(1, 3))]
        if chance.random() < 0.6 or not parts:
            parts["seal"] = max(0, sealed + self._pick((0, 1, 1, 1, 2, 5)))
        if chance.random() < 0.35:
            parts["confirm"] = max(0, sealed - self._pick((-1, 0, 0, 1, 2)))
        return Tick(**parts)

    def _request(self, sealed: int) -> Request:
        self.asked += 1
        number = self.asked - self._pick((0, 0, 0, 0, 1, 2))
        tick, priority = sealed + self._pick((0, 1, 1, 1, 2, 3)), self._chance.randrange(2)
        if self._chance.random() < 0.15:
            return Request(tick, "ai", number, priority, None, self.bundle())
        who = self._who()
        return Request(tick, "ai", number, priority, who, self.command(who))  # type: ignore[arg-type]  # as above

    def command(self, who: str) -> Command:
        """Draw a command for a character, of any of its four gates."""
        return _MAKERS[int(self._chance.random() * len(_MAKERS))](self, who)

    def _pick(self, options: Any) -> Any:
        return options[int(self._chance.random() * len(options))]

    def _who(self) -> str:
        return str(self._pick(WHO))

    def _life(self) -> Command:
        drawn = self._chance.random()
        if drawn < 0.4:
            return Despawn()
        return Spawn(rig="named") if drawn < 0.5 else self.spawn()

    def _token(self, who: str) -> Token:
        own = [token for token in self.tokens if token.character == who] or self.tokens
        return own[-1 - int(self._chance.random() ** 2 * len(own))] if own else NO_TOKEN

    def _near(self, value: int) -> int:
        return max(0, value + int(self._pick((0, 0, 0, 0, 0, -1, 1))))

    def _begin(self, who: str) -> Command:
        ticked: dict[str, Any] = {}
        if self._ticks and self._chance.random() < 0.4:
            ticked["deadline_ticks"] = self._chance.randint(1, 3)
        if self._ticks and self._chance.random() < 0.2:
            ticked["min_ticks"] = 1
        keep: Any = "keep" if self._chance.random() < 0.2 else UNSET
        return Begin(
            layer=self._pick(("base", "base", "face", "tail")), target=self._pick(STATES), if_same=keep, **ticked
        )

    def _complete(self, who: str) -> Command:
        return Complete(token=self._token(who))

    def _end(self, who: str) -> Command:
        token = self._token(who)
        return Cancel(token=token) if self._chance.random() < 0.5 else Fail(token=token, why="no clip")

    def _parameters(self, who: str) -> Command:
        values = [
            ParameterValue(value=self._pick((1, 2.5, 9, 10)), name="Speed"),
            ParameterValue(value=True, name="Fire"),
            ParameterValue(value=self._pick((1, "NaN")), name="Wind"),
        ]
        held = self._scene().roster.get(who)
        version = 0 if held is None else held.parameters.version
        base = self._near(version) if self._chance.random() < 0.3 else UNSET
        return CommitParameters(values=values[: self._chance.randrange(4)], base_version=base)

    def _instance(self, who: str) -> int:
        held = self._scene().roster.get(who)
        return self._near(int(self._pick((*held.events.instances, held.events.highest)))) if held is not None else 1

    def _play(self, who: str) -> Command:
        number = self._instance(who) if self._chance.random() < 0.3 else UNSET
        return Play(clip=self._pick(("Attack", "Walk")), layer=self._pick(("base", UNSET)), clip_instance=number)

    def _enqueue(self, who: str) -> Command:
        kind, fields = self._pick(tuple(KINDS)), dict[str, Any]()
        if self._chance.random() < 0.2:
            fields["payload"] = {"by": who}
        if self._chance.random() < 0.2 and self.tokens:
            fields["holder"] = self._token(who)
        loop, frame = self._pick((0, 0, 1, 1, 2, 5)), self._chance.randrange(3)
        return Enqueue(clip_instance=self._instance(who), loop=loop, frame=frame, kind=kind, **fields)

    def _covered(self, who: str) -> Command:
        loop, first = self._chance.randrange(3), self._chance.randrange(10)
        last = first + self._chance.randrange(-5, 15)
        return Covered(clip_instance=self._instance(who), loop=loop, from_frame=first, to_frame=last)

    def _commit_loop(self, who: str) -> Command:
        return CommitLoop(clip_instance=self._instance(who), loop=self._pick((0, 0, 1, 1, 2, 3)))

    def _retire(self, who: str) -> Command:
        return Retire(clip_instance=self._instance(who))

    def _acknowledge(self, who: str) -> Command:
        held = self._scene().roster.get(who)
        return Acknowledge(through=self._near(0 if held is None else held.events.last_delivery))

    def _request_graph(self, who: str) -> Command:
        return RequestGraph(name=self._pick("AB"))

    def _newest_request(self, who: str) -> int:
        held = self._scene().roster.get(who)
        return self._near(0 if held is None else held.graphs["main"].latest_request)

    def _submit_candidate(self, who: str) -> Command:
        outputs, is_good = OUTPUTS[: self._pick((1, 2, 2, 2))], self._chance.random() < 0.8
        evaluation, is_idle = Evaluation(is_good, "combat@0"), self._chance.random() < 0.3
        request = self._newest_request(who)
        return SubmitCandidate(request=request, name="A", outputs=outputs, evaluation=evaluation, if_idle=is_idle)

    def _withdraw_graph(self, who: str) -> Command:
        return WithdrawGraph(request=self._newest_request(who))


_MAKERS: tuple[Callable[[Asker, str], Command], ...] = (
    *(Asker._begin,) * 5,
    *(Asker._complete,) * 4,
    Asker._end,
    *(Asker._parameters,) * 2,
    *(Asker._play,) * 2,
    *(Asker._enqueue,) * 6,
    Asker._covered,
    *(Asker._commit_loop,) * 3,
    Asker._retire,
    Asker._acknowledge,
    *(Asker._request_graph,) * 2,
    *(Asker._submit_candidate,) * 2,
    Asker._withdraw_graph,
)
