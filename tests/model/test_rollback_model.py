"""A Hypothesis state machine: a scene that mispredicts and rolls back, beside one that only saw what was right.

Whatever is sealed, rolled back, sent again or changed: once everything is sealed, committed and confirmed, both have
given out the same, apart from what the first has withdrawn.
"""

import os
from collections import defaultdict

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.gates.decision import Command
from app.gates.event_commands import CommitLoop, Covered, Enqueue, InstanceRetired, Play, Retire
from app.gates.scene import Bounds
from app.gates.tick import Request
from tests.support.rigs import clip
from tests.support.ticked import Key, TickedScene, ticked

settings.register_profile("rollback-quick", max_examples=30, stateful_step_count=20)
settings.register_profile("rollback-long", max_examples=1_000, stateful_step_count=40)
PROFILE = settings.get_profile("rollback-" + os.environ.get("POSEGATE_HYPOTHESIS", "quick"))

WHO = ("hero", "villain")
KINDS = ("step", "spark", "hit", "swing", "swung", "flash", "flashed", "danger", "safe")
ENDED_BY = {"swung", "flashed", "safe"}
"""These stand in frames of their own: an end that the gate gives stands where its window was opened."""
GAMEPLAY = {"hit", "danger", "safe"}
ALL_LOOPS = 9
MANIFEST = clip(10, (1, "step"), (3, "spark"), (5, "hit"), (7, "flash"), (8, "flashed"))

Asked = tuple[str, Command]
"""Who is asked what."""


class RollbackMachine(RuleBasedStateMachine):
    """`final` holds by tick what was asked in it, as it was asked last: `asked` alone, then `requested`."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = world()
        self.asked: dict[int, list[Asked]] = defaultdict(list)
        self.requested: dict[int, list[Asked]] = {}

    @property
    def sealed(self) -> int:
        return self.scene.scene.ticks.sealed

    @property
    def confirmed(self) -> int:
        return self.scene.scene.ticks.confirmed

    # Rules

    @rule(data=st.data())
    def ask_outside_a_tick(self, data: st.DataObject) -> None:
        tick = self.sealed + 1
        who, command = data.draw(asked_in(tick - 1))
        self.scene.turn((who, command))
        self.asked[tick].append((who, command))

    @rule(data=st.data(), ticks=st.integers(1, 3))
    def seal(self, data: st.DataObject, ticks: int) -> None:
        first, last = self.sealed + 1, self.sealed + ticks
        for tick in range(first, last + 1):
            self.requested[tick] = data.draw(plan(tick))
        self.scene.tick(requests=self.requests(first, last), seal=last)

    @rule(data=st.data(), back=st.integers(0, 6), is_changed=st.booleans(), outside=st.booleans())
    @precondition(lambda self: self.sealed > max(self.confirmed, 1))
    def roll_back_and_simulate_again(self, data: st.DataObject, back: int, is_changed: bool, outside: bool) -> None:
        to, last = max(self.confirmed, self.sealed - back, 1), self.sealed
        undone = {tick: self.asked.pop(tick) for tick in [*self.asked] if tick > to}
        for tick in range(to + 1, last + 1):
            if is_changed and data.draw(st.booleans()):
                self.requested[tick] = data.draw(plan(tick))
            elif outside:
                self.requested[tick] = [*self.requested[tick], *undone.get(tick, ())]
        requests = self.requests(to + 1, last)
        if last > to:
            self.scene.tick(rollback=to, requests=requests, seal=last)
        else:
            self.scene.rollback(to)

    @rule(data=st.data())
    @precondition(lambda self: self.sealed > self.confirmed)
    def confirm(self, data: st.DataObject) -> None:
        self.scene.confirm(data.draw(st.integers(self.confirmed + 1, self.sealed)))

    def requests(self, first: int, last: int) -> list[Request]:
        return [
            Request(tick, f"tick {tick}", number, 0, who, command)  # type: ignore[arg-type]  # of one character
            for tick in range(first, last + 1)
            for number, (who, command) in enumerate(self.requested[tick])
        ]

    # What always holds

    @invariant()
    def nothing_is_given_twice_but_what_was_withdrawn_in_between(self) -> None:
        given, withdrawn = self.scene.gave_keys(), self.scene.withdrawn_keys()

        assert all(given.count(key) <= 1 + withdrawn.count(key) for key in set(given))

    @invariant()
    def only_what_was_given_is_withdrawn_and_never_gameplay(self) -> None:
        withdrawn = self.scene.withdrawn_keys()

        assert set(withdrawn) <= set(self.scene.gave_keys())
        assert not [key for key in withdrawn if key[-1] in GAMEPLAY]

    def teardown(self) -> None:
        last = self.sealed + 1
        self.requested[last] = [
            (who, CommitLoop(clip_instance=number, loop=ALL_LOOPS)) for who in WHO for number in range(1, last + 1)
        ]
        self.scene.tick(requests=self.requests(last, last), seal=last)
        self.scene.confirm(last)
        self.hold_equal(last)
        self.scene.check()

    def hold_equal(self, last: int) -> None:
        """Hold what was given out equal to what a scene gives that never rolled back."""
        right = world()
        for tick in range(2, last + 1):
            if self.asked[tick]:
                right.turn(*self.asked[tick])
            right.tick(requests=self.requests(tick, tick), seal=tick)
        right.confirm(last)
        given, withdrawn = set(self.scene.gave_keys()), set(self.scene.withdrawn_keys())
        expected = set(right.gave_keys())
        more = given - withdrawn - expected - ended_already(self.scene, by=self.scene)
        less = expected - given - ended_already(right, by=self.scene)

        assert not less, sorted(less)
        assert more <= never_seen(right), sorted(more)
        assert not [key for key in more if key[-1] in GAMEPLAY]


def ended_already(scene: TickedScene, by: TickedScene) -> set[Key]:
    """Give the ends of the gate where a real one was given too: one of both is enough, in whatever order they came.

    What was given stays given, in its order; what is right may have another order, and other windows open in between.
    """
    real = {(*gave.key[:2], gave.key[-1]) for gave in by.gave if gave.event.synthetic is not True}
    return {gave.key for gave in scene.gave if gave.event.synthetic is True and (*gave.key[:2], gave.key[-1]) in real}


def never_seen(scene: TickedScene) -> set[Key]:
    """Give the keys of what was accepted and never delivered, since its instance was retired before its loop.

    After a rollback it counts as come again when it is reported again, committed or not.
    """
    found: set[Key] = set()
    for asked, answers in zip(scene.asked, scene.answered, strict=True):
        for (who, _), answer in zip(asked, answers, strict=True):
            for given in [(who, answer)] if isinstance(answer, InstanceRetired) else sealed_answers(answer):
                if isinstance(given[1], InstanceRetired):
                    found |= {
                        (str(given[0]), event.clip_instance, event.loop, event.frame, event.kind)
                        for event in given[1].undelivered
                    }
    ends = {"swing": "swung"}
    return found | {(*key[:-1], ends[key[-1]]) for key in found if key[-1] in ends}


def sealed_answers(answer: object) -> list[tuple[str | None, object]]:
    seal = getattr(answer, "seal", None)
    return [
        (applied.answered.character, applied.answered.answer)
        for tick in getattr(seal, "ticks", ())
        for applied in tick.applied
    ]


def world() -> TickedScene:
    """Spawn who there is, play instance 1 and seal tick 1: from there on ticks run."""
    scene = ticked(who=WHO, bounds=Bounds(rollback_ticks=1_000, tick_window=1_000), clips={"Attack": MANIFEST})
    for who in WHO:
        scene.ask(Play(clip="Attack", clip_instance=1), who)
    scene.seal(1)
    return scene


def asked_in(tick: int) -> st.SearchStrategy[Asked]:
    """Draw one command for an instance that is played in a tick up to one."""
    number = st.integers(max(1, tick - 3), max(1, tick))
    loop, frame = st.integers(0, 2), st.integers(0, 2)
    commands = st.one_of(
        st.builds(
            lambda number, loop, frame, kind: Enqueue(
                clip_instance=number, loop=loop, frame=frame + 20 * (kind in ENDED_BY), kind=kind
            ),
            number,
            loop,
            frame,
            st.sampled_from(KINDS),
        ),
        st.builds(
            lambda number, loop, first, last: Covered(clip_instance=number, loop=loop, from_frame=first, to_frame=last),
            number,
            loop,
            st.integers(0, 9),
            st.integers(0, 19),
        ),
        st.builds(lambda number, loop: CommitLoop(clip_instance=number, loop=loop), number, loop),
        st.builds(lambda number: Retire(clip_instance=number), number),
    )
    return st.tuples(st.sampled_from(WHO), commands)


def plan(tick: int) -> st.SearchStrategy[list[Asked]]:
    """Draw what is requested in a tick: each character plays the instance of its number, then up to five more."""
    plays: list[Asked] = [(who, Play(clip="Attack", clip_instance=tick)) for who in WHO]
    return st.lists(asked_in(tick), max_size=5).map(lambda drawn: [*plays, *drawn])


TestRollback = RollbackMachine.TestCase
TestRollback.settings = settings(PROFILE, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
