"""A Hypothesis state machine: a scene behind registry and journal, and beside it a model too simple to be wrong.

`POSEGATE_HYPOTHESIS=long` takes more and longer examples. A failure prints the steps that lead to it.
"""

import asyncio
import os
import random
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.gates.candidate import Candidate, replay
from app.gates.decision import Command
from app.gates.event_commands import Enqueue, EventAccepted, LoopDelivered
from app.gates.identity import Token
from app.gates.lives import CloseScene, DeclareRig, Spawn
from app.gates.scene import Bounds, Scene
from app.gates.transition import Complete, TransitionCommitted, TransitionGranted
from app.journal import open_journal
from app.journal.codec import decode_entry
from app.journal.port import CommitUnknown, Journal, JournalUnavailable
from app.sequencing.mailbox import Addressed, Decided, Result
from app.sequencing.registry import Registry
from app.settings import Settings
from tests.model import drawn
from tests.model.plain import PlainScene
from tests.model.views import plain_view, shown, view
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import assert_same_scene
from tests.support.sequenced import Clock, idle, word

settings.register_profile("quick", max_examples=60, stateful_step_count=40)
settings.register_profile("long", max_examples=2_000, stateful_step_count=80)
PROFILE = settings.get_profile(os.environ.get("POSEGATE_HYPOTHESIS", "quick"))

STEP_S = 20
"""No step waits for time; one that takes longer hangs."""

Asked = tuple[str | None, Command, str]
"""Who is asked what, and the name of the rig's spec when the command carries one."""

WHO = st.sampled_from(drawn.WHO)
FAULTS = st.sampled_from((Fault.UNAVAILABLE, Fault.UNKNOWN_WRITTEN, Fault.UNKNOWN_LOST))
SEEDS = st.integers(0, 2**32)
KEYS = st.sampled_from(("key-1", "key-2", "key-3"))
KEPT_MS = 1_000


class SceneMachine(RuleBasedStateMachine):
    """Asks both for the same and holds them equal after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.journal = FaultyJournal(self.runner.run(self.opened()))
        self.settings = Settings(checkpoint_decisions=5, hot_characters_max=1, receipts_ms=KEPT_MS)
        self.registry = Registry(self.journal, self.settings, clock=self.clock)
        self.plain = PlainScene()
        self.tokens: list[Token] = []
        self.answered: dict[str, tuple[bytes, Result, int]] = {}
        self.delivered: set[tuple[Any, ...]] = set()
        self.highest: dict[Any, int] = {}

    async def opened(self) -> Journal:
        """Open the journal, a new one."""
        return open_journal("memory:")

    def teardown(self) -> None:
        self.run(self.registry.close())
        self.run(self.journal.inner.close())
        self.runner.close()

    def run(self, waiting: Any) -> Any:
        """Run one step to its end."""

        async def timed() -> Any:
            async with asyncio.timeout(STEP_S):
                return await waiting

        return self.runner.run(timed())

    # Rules

    @initialize()
    def populate(self) -> None:
        self.hold_equal([(who, Spawn(inline=drawn.RIGS["actor"]), "actor") for who in drawn.WHO])

    @rule(data=st.data(), who=WHO)
    def ask(self, data: st.DataObject, who: str) -> None:
        self.hold_equal([(who, self.drawer(data, who).command(), "")])

    @rule(data=st.data(), who=WHO, key=KEYS)
    def ask_with_a_key(self, data: st.DataObject, who: str, key: str) -> None:
        self.hold_equal([(who, self.drawer(data, who).command(), "")], key=key)

    @rule(data=st.data(), who=WHO, key=KEYS, fault=FAULTS)
    def ask_until_the_journal_answers(self, data: st.DataObject, who: str, key: str, fault: Fault) -> None:
        self.hold_equal([(who, self.drawer(data, who).command(), "")], key=key, fault=fault)

    @rule(seed=SEEDS, number=st.integers(10, 30))
    def ask_one_after_another(self, seed: int, number: int) -> None:
        pick = random.Random(seed).choice
        for _ in range(number):
            drawer = self.drawer(pick, who := pick(drawn.WHO))
            is_alive = who in self.plain.alive or pick(range(3)) == 2
            self.hold_equal([(who, drawer.command(), "") if is_alive else (who, *drawer.spawn())])

    @rule(seed=SEEDS, number=st.integers(2, 12))
    def ask_many_at_once(self, seed: int, number: int) -> None:
        pick = random.Random(seed).choice
        asked: list[Asked] = []
        for _ in range(number):
            drawer = self.drawer(pick, who := pick(drawn.WHO))
            asked.append((who, drawer.command(), ""))
            if pick(range(8)) == 7:
                asked.append((who, drawer.despawn(), ""))
            if pick(range(8)) == 7:
                asked.append((who, *drawer.spawn()))
        self.hold_equal(asked)

    @rule(data=st.data(), who=WHO, key=st.none() | KEYS)
    def spawn(self, data: st.DataObject, who: str, key: str | None) -> None:
        self.hold_equal([(who, *self.drawer(data, who).spawn())], key=key)

    @rule(data=st.data(), who=WHO, key=st.none() | KEYS)
    @precondition(lambda self: len(self.plain.alive) > 1)
    def despawn(self, data: st.DataObject, who: str, key: str | None) -> None:
        self.hold_equal([(who, self.drawer(data, who).despawn(), "")], key=key)

    @rule(spec=st.sampled_from(sorted(drawn.RIGS)))
    def declare_rig(self, spec: str) -> None:
        self.hold_equal([(None, DeclareRig(name="named", rig=drawn.RIGS[spec]), spec)])

    @rule(is_sure=st.sampled_from((False, False, False, True)))
    @precondition(lambda self: self.plain.exists)
    def close_scene(self, is_sure: bool) -> None:
        if is_sure:
            self.hold_equal([(None, CloseScene(), "")])
            self.answered.clear()

    @rule()
    @precondition(lambda self: not self.plain.alive)
    def repopulate(self) -> None:
        self.populate()

    @rule()
    def leave_memory(self) -> None:
        if "room" in self.registry._held:
            self.run(idle(self.registry))

    @rule()
    def restart(self) -> None:
        self.run(self.registry.close())
        self.journal.is_closed = False
        self.registry = Registry(self.journal, self.settings, clock=self.clock)

    @rule(passed=st.sampled_from((1, 400, KEPT_MS + 1)))
    def let_time_pass(self, passed: int) -> None:
        self.clock.now += passed

    def drawer(self, by: Any, who: str) -> drawn.Drawer:
        """Give what draws commands for a character, by a generator's choice or by Hypothesis."""
        pick = by if callable(by) else lambda options: by.draw(st.sampled_from(options))
        return drawn.Drawer(pick, self.plain, who, self.tokens)

    # What every step holds equal

    def hold_equal(self, asked: list[Asked], *, key: str | None = None, fault: Fault = Fault.NONE) -> None:
        """Ask the scene, then the model, and compare outcome by outcome; tell the model of tokens given out."""
        before = {who: self.blob(who) for who in drawn.WHO}
        results = self.run(self.submit([Addressed(who, command, key) for who, command, _ in asked], fault))
        known = None if key is None else self.answered.get(key)
        if known is not None and self.clock.now - known[2] <= KEPT_MS:
            [(who, command, _)] = asked
            if known[0] == asked_under(who, command):
                assert answer_of(results[0]) == answer_of(known[1])
            else:
                assert word(results[0]) == "key-reused"
            return
        for (who, command, spec), result in zip(asked, results, strict=True):
            expected, details = self.plain.ask(who, command, spec)
            if fault is Fault.UNKNOWN_WRITTEN and expected in RETRYABLE:
                self.plain.sequence += 1  # It keeps no receipt, so it was decided, and recorded, twice.
            assert word(result) == expected, (who, command, result)
            if isinstance(result, Decided):
                self.compare_details(who, command, result, details)
        if all(not isinstance(result, Decided) or not result.record.accepted for result in results):
            assert before == {who: self.blob(who) for who in drawn.WHO}, "a refusal leaves the state equal"
        if key is not None and isinstance(results[0], Decided) and word(results[0]) not in RETRYABLE:
            self.answered[key] = (asked_under(*asked[0][:2]), results[0], results[0].at)

    async def submit(self, commands: list[Addressed], fault: Fault) -> list[Result]:
        """Submit; when the journal fails, once, submit again under the same key."""
        if fault is not Fault.NONE:
            self.journal.next(fault)
            try:
                return await self.registry.submit("room", commands)
            except (JournalUnavailable, CommitUnknown):
                pass
            finally:
                self.journal.clear()
        return await self.registry.submit("room", commands)

    def compare_details(self, who: str | None, command: Command, result: Decided, details: dict[str, Any]) -> None:
        """Hold an answer's numbers and lists equal to the model's, and note what it gave out."""
        answer: Any = result.record.answer
        assert result.sequence == self.plain.sequence
        for name, expected in details.items():
            assert shown(answer, name) == expected, (name, answer, expected)
        if isinstance(answer, TransitionGranted):
            self.tokens.append(answer.token)
            assert who is not None
            self.plain.granted(who, answer.token)
        if isinstance(answer, LoopDelivered):
            for event in answer.events:
                self.deliver(who, event.clip_instance, event.loop, event.frame, event.kind)
        if isinstance(answer, EventAccepted) and isinstance(command, Enqueue) and command.kind == "spark":
            assert who is not None
            if self.plain.alive[who]["spec"]["kinds"] is not None:
                self.deliver(who, command.clip_instance, command.loop, command.frame, command.kind)

    def deliver(self, *key: Any) -> None:
        """Note a delivery: no key is ever delivered twice, in no life."""
        assert key not in self.delivered, f"delivered twice: {key}"
        self.delivered.add(key)

    def scene(self) -> Scene | None:
        """Give the scene as a reader sees it."""
        opened = self.run(self.registry.opened("room"))
        return None if opened is None else opened.scene

    def blob(self, who: str) -> bytes | None:
        """Give a character's stored bytes."""
        scene = self.scene()
        return None if scene is None else scene.roster.blob(who)

    @invariant()
    def the_visible_state_is_the_models(self) -> None:
        scene = self.scene()
        assert (scene is not None) == self.plain.exists
        living = [] if scene is None else scene.roster.names()
        assert living == sorted(self.plain.alive)
        for who in living:
            assert scene is not None
            character = scene.roster.get(who)
            assert character is not None
            assert view(character) == plain_view(self.plain, who)

    @invariant()
    def at_most_one_token_a_layer_can_end_a_transition(self) -> None:
        scene = self.scene()
        if scene is None:
            return
        candidate = Candidate(scene, self.clock.now)
        for who in scene.roster.names():
            good = [
                token.layer
                for token in self.tokens
                if token.character == who
                and isinstance(candidate.answer(who, Complete(token=token)), TransitionCommitted)
            ]
            assert len(good) == len(set(good)), (who, good)

    @invariant()
    def no_number_ever_falls(self) -> None:
        scene = self.scene()
        if scene is None:
            return
        self.not_fallen("sequence", scene.sequence)
        self.not_fallen("at", scene.state.at)
        for who in scene.roster.names():
            held = scene.roster.get(who)
            assert held is not None
            self.not_fallen((who, "life"), held.life)
            self.not_fallen((who, "revision"), held.revision)
            self.not_fallen((who, "version"), held.parameters.version)
            self.not_fallen((who, "delivery"), held.events.last_delivery)
            self.not_fallen((who, "instance"), held.events.highest)
            for layer, arbiter in held.layers.items():
                self.not_fallen((who, layer, "epoch"), arbiter.epoch)
                self.not_fallen((who, held.life, layer, "generation"), arbiter.generation)
            for graph, slot in held.graphs.items():
                self.not_fallen((who, graph, "request"), slot.latest_request)
            for number, instance in held.events.instances.items():
                self.not_fallen(
                    (who, number, "watermark"), -1 if instance.committed_loop is None else instance.committed_loop
                )

    def not_fallen(self, name: Any, value: int) -> None:
        assert value >= self.highest.get(name, value), name
        self.highest[name] = value

    @invariant()
    def replaying_every_entry_gives_the_scene_byte_for_byte(self) -> None:
        scene = self.scene()
        fresh = Scene("room", self.journal.secret, Bounds(receipts_ms=KEPT_MS))
        for blob in self.journal.written:
            entry = decode_entry(blob)
            replay(fresh, entry.first, entry.at, entry.records)
        assert fresh.state.exists == (scene is not None)
        if scene is not None:
            assert_same_scene(scene, fresh)


RETRYABLE = {"beyond_window", "queue_full", "instances_full", "layer_busy"}


def asked_under(who: str | None, command: Command) -> bytes:
    """Give what two commands under one key must share to be the same."""
    return msgspec.msgpack.encode((who, command), order="deterministic")


def answer_of(result: Result) -> object:
    """Give what a caller is told; of a refused command the record keeps no payload."""
    assert isinstance(result, Decided)
    return result.sequence, result.at, result.record.answer, result.record.revision


TestScene = SceneMachine.TestCase
TestScene.settings = settings(PROFILE, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
