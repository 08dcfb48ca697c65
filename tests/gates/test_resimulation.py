"""Resimulation: a scene that went astray and was rolled back is what it would be, had it never gone astray."""

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from app.gates.bundle import Bundle
from app.gates.candidate import Candidate
from app.gates.character import Character
from app.gates.decision import Command
from app.gates.graph import RequestGraph
from app.gates.identity import Token
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.tick import Request
from app.gates.transition import Begin, Cancel, Complete, Fail, TransitionGranted
from tests.support.played import Played, member, request, word
from tests.support.rigs import ANY_STATE, candidate, graph_rule, parameter, rig

ARMED = rig(
    layers={"base": ANY_STATE, "face": ANY_STATE},
    graphs={"main": graph_rule("base"), "mask": graph_rule("face")},
    declared={"Speed": parameter("Speed"), "Fire": parameter("Fire", "trigger")},
)
WHO = ("hero", "villain")


class Ask(NamedTuple):
    """What one producer wants in a tick; `nth` counts the tokens granted in earlier ticks from the newest back."""

    name: str
    who: str
    nth: int
    layer: str
    target: str
    value: int
    priority: int


MAKERS: dict[str, Callable[[Ask, Token], Command]] = {
    "begin": lambda ask, token: Begin(layer=ask.layer, target=ask.target),
    "keep": lambda ask, token: Begin(layer=ask.layer, target=ask.target, if_same="keep"),
    "if": lambda ask, token: Begin(layer=token.layer, target=ask.target, if_generation=token.generation),
    "slow": lambda ask, token: Begin(
        layer=ask.layer, target=ask.target, min_ticks=ask.nth, deadline_ticks=ask.nth + ask.value
    ),
    "complete": lambda ask, token: Complete(token=token),
    "cancel": lambda ask, token: Cancel(token=token),
    "fail": lambda ask, token: Fail(token=token, why="no clip"),
    "set": lambda ask, token: CommitParameters(values=[ParameterValue(value=ask.value, name="Speed")]),
    "hold": lambda ask, token: CommitParameters(values=[ParameterValue(value=ask.value, name="Speed")], holder=token),
    "fire": lambda ask, token: CommitParameters(values=[ParameterValue(value=True, name="Fire")]),
    "graph": lambda ask, token: RequestGraph(name="A"),
    "spawn": lambda ask, token: Spawn(inline=ARMED),
    "despawn": lambda ask, token: Despawn(),
}
"""What each name asks; `swap` and `grab` need the scene."""


class World:
    """A scene that is played tick by tick, with the tokens that stand in its present timeline."""

    def __init__(self) -> None:
        self.room = Played()
        for who in WHO:
            self.room.spawn(ARMED, who)
        self.room.tick(requests=[])
        self.tokens: list[tuple[int, Token]] = []
        self.words: dict[int, list[str]] = {}

    @property
    def sealed(self) -> int:
        """Give the last sealed tick."""
        return self.room.scene.ticks.sealed

    def play(self, asks: list[Ask]) -> None:
        """Request what is asked in the next tick, and seal it."""
        tick = self.sealed + 1
        requests = [self._request(tick, number, ask) for number, ask in enumerate(asks)]
        sealed = self.room.tick(requests=requests, seal=tick).seal
        applied = [each.answered.answer for one in sealed.ticks for each in one.applied]
        self.words[tick] = [word(answer) for answer in applied]
        for answer in applied:
            for given_ in [answer] if word(answer) != "bundled" else [inner.answer for inner in answer.answers]:
                if isinstance(given_, TransitionGranted):
                    self.tokens.append((tick, given_.token))

    def roll_back(self, tick: int) -> None:
        """Go back to a tick; the tokens granted since stand no more."""
        self.room.tick(rollback=tick)
        self.tokens = [(granted, token) for granted, token in self.tokens if granted <= tick]

    def _request(self, tick: int, number: int, ask: Ask) -> Request:
        who, command = (None, self._grab()) if ask.name == "grab" else (ask.who, self.command(ask))
        return request(tick, command, who, number=number, priority=ask.priority)

    @staticmethod
    def _grab() -> Bundle:
        grab, grabbed = Begin(layer="base", target="Grab"), Begin(layer="base", target="Grabbed")
        return Bundle(commands=[member("hero", grab), member("villain", grabbed)], link=True)

    def command(self, ask: Ask) -> Command:
        """Give the command that is asked, with a token of the present timeline where it needs one."""
        own = [token for _, token in reversed(self.tokens) if token.character == ask.who or ask.name == "hold"]
        token = own[ask.nth % len(own)] if own else Token(ask.who, "base", 1, 99, "Idle", "Run", "1-0")
        if ask.name == "swap":
            return candidate(self.room.hero(ask.who).graphs["main"].latest_request if self._lives(ask.who) else 1)
        return MAKERS[ask.name](ask, token)

    def _lives(self, who: str) -> bool:
        return who in self.room.scene.roster

    def visible(self) -> dict[str, Any]:
        """Give the visible state, numbers and firings aside."""
        return {who: visible(self.room.hero(who)) for who in self.room.scene.roster.names()}


def visible(character: Character) -> Any:
    layers = {
        name: (layer.current, layer.pending and (layer.pending.from_, layer.pending.to, layer.pending.deadline))
        for name, layer in character.layers.items()
    }
    return layers, {name: value for name, value in character.parameters.values.items() if name != "Fire"}


def asks(*names: str) -> st.SearchStrategy[list[list[Ask]]]:
    one = st.builds(
        Ask,
        st.sampled_from(names),
        st.sampled_from(WHO),
        st.integers(0, 3),
        st.sampled_from(("base", "base", "face")),
        st.sampled_from(("Idle", "Run", "Hit")),
        st.integers(0, 2),
        st.integers(-1, 1),
    )
    return st.lists(st.lists(one, max_size=4), min_size=1, max_size=5)


TAKEN_BACK = (
    *["begin", "complete"] * 3,
    "keep",
    "if",
    "slow",
    "cancel",
    "fail",
    "hold",
    "fire",
    "graph",
    "grab",
    "set",
)
WHATEVER = (*TAKEN_BACK, "swap", "swap", "graph", "spawn", "despawn")


@settings(max_examples=150, deadline=None)
@given(right=asks(*TAKEN_BACK), wrong=asks(*TAKEN_BACK), data=st.data())
def test_after_a_rollback_the_same_requests_give_the_state_of_never_having_gone_astray(
    right: list[list[Ask]], wrong: list[list[Ask]], data: st.DataObject
):
    straight, astray = World(), World()
    for asked in right:
        straight.play(asked)

    for asked in right[: data.draw(st.integers(0, len(right)))]:
        astray.play(asked)
    for _ in range(data.draw(st.integers(1, 3))):
        back = data.draw(st.integers(0, astray.sealed))
        for asked in wrong[: data.draw(st.integers(0, len(wrong)))]:
            astray.play(asked)
        if data.draw(st.booleans()):
            astray.room.begin("Astray", data.draw(st.sampled_from(WHO)))
        astray.roll_back(back)
        for asked in right[back : data.draw(st.integers(back, len(right)))]:
            astray.play(asked)
    for asked in right[astray.sealed :]:
        astray.play(asked)

    assert astray.visible() == straight.visible()
    assert astray.words == {**astray.words, **straight.words}
    assert astray.room.scene.ticks.digest == straight.room.scene.ticks.digest
    astray.room.check()


@settings(max_examples=150, deadline=None)
@given(plan=asks(*WHATEVER), then=asks(*WHATEVER), data=st.data())
def test_a_rollback_takes_back_states_and_values_and_never_a_graph_an_epoch_a_life_or_a_number(
    plan: list[list[Ask]], then: list[list[Ask]], data: st.DataObject
):
    plan = [[ask for ask in asked if ask.name != "grab"] for asked in plan]
    world = World()
    ends = {0: living(world.room)}
    for asked in plan:
        world.play(asked)
        ends[world.sealed] = living(world.room)
    back = data.draw(st.integers(0, world.sealed))
    granted = list(world.tokens)
    before, sequence = living(world.room), world.room.scene.sequence

    world.roll_back(back)

    after = living(world.room)
    assert after.keys() == before.keys()
    assert world.room.scene.sequence == sequence + 1
    for who, now in after.items():
        check_restored(now, before[who], ends[back].get(who))
    for tick, token in granted:
        check_token(world.room, tick, token, back, ends[back].get(token.character))
    for asked in then:
        world.play(asked)
    for who, now in living(world.room).items():
        if who in after and after[who].life == now.life:
            assert_no_number_fell(now, after[who])
    world.room.check()


def living(room: Played) -> dict[str, Character]:
    return {who: room.hero(who) for who in room.scene.roster.names()}


def check_restored(now: Character, before: Character, then: Character | None) -> None:
    """Hold a character against what it was before the rollback, and at the end of the tick that it went back to."""
    assert (now.life, now.graphs) == (before.life, before.graphs)
    assert_no_number_fell(now, before)
    assert {name: layer.epoch for name, layer in now.layers.items()} == {
        name: layer.epoch for name, layer in before.layers.items()
    }
    assert now.parameters.values["Fire"] == before.parameters.values["Fire"]
    if then is None or then.life != now.life:
        assert all((layer.current, layer.pending) == ("Idle", None) for layer in now.layers.values())
        assert now.parameters.values["Speed"] == 0
        return
    assert now.parameters.values["Speed"] == then.parameters.values["Speed"]
    for name, layer in now.layers.items():
        was = then.layers[name]
        assert layer.current == was.current
        assert layer.pending == (was.pending if layer.epoch == was.epoch else None)


def assert_no_number_fell(now: Character, before: Character) -> None:
    assert now.revision >= before.revision
    assert now.parameters.version >= before.parameters.version
    for name, layer in now.layers.items():
        was = before.layers[name]
        assert (layer.epoch, layer.generation) >= (was.epoch, was.generation)
        assert (layer.committed, layer.superseded) >= (was.committed, was.superseded)
    for name, slot in now.graphs.items():
        assert slot.latest_request >= before.graphs[name].latest_request


def check_token(room: Played, tick: int, token: Token, back: int, then: Character | None) -> None:
    """A token that was pending then completes; one that was granted since never does."""
    answer = word(Candidate(room.scene, room.at).answer(token.character, Complete(token=token)))
    if token.character not in room.scene.roster:
        assert answer == "unknown-character"
        return
    now = room.hero(token.character)
    layer, was = now.layers[token.layer], None if then is None else then.layers[token.layer]
    if tick > back:
        assert answer in ("rolled_back", "stale_epoch")
    elif was is None or then is None or then.life != now.life or not token.epoch == was.epoch == layer.epoch:
        assert answer == "stale_epoch"
    elif was.pending is not None and was.pending.generation == token.generation:
        assert answer in ("committed", "too_early")
    else:
        assert answer not in ("committed", "too_early", "rolled_back")
