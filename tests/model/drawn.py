"""Draws commands for the model: small alphabets and numbers near the true ones, so that they collide all the time."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from app.gates.decision import Command
from app.gates.event_commands import Acknowledge, CommitLoop, Enqueue, Play, Retire
from app.gates.graph import Evaluation, RequestGraph, SubmitCandidate, WithdrawGraph
from app.gates.identity import Token
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.rig import GraphRule, LayerRule, ParameterRule, Rig, parameter_id
from app.gates.transition import Begin, Cancel, Complete, Fail
from tests.model.plain import SPECS, PlainScene, Spec
from tests.support.rigs import rig

Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several: Hypothesis, which can shrink, or a seeded generator, which is even and fast."""

WHO = ("hero", "villain")
LAYERS = ("base", "face", "tail")
STATES = ("Idle", "Run", "Hit", "Fly")
FROM_THE_START = Token("hero", "base", 1, 1, "Idle", "Run", "1-0")


def app_rig(spec: Spec) -> Rig:
    """Give the gates' rig of a spec."""
    declared = spec["declared"]
    return rig(
        layers={
            name: LayerRule(initial, None if states is None else frozenset(states))
            for name, (initial, states) in spec["layers"].items()
        },
        mode=spec["mode"],
        declared=None
        if declared is None
        else {
            name: ParameterRule(kind, parameter_id(name), default, required, low, high)
            for name, (kind, low, high, default, required) in declared.items()
        },
        kinds=spec["kinds"],
        graphs={name: GraphRule(*rule) for name, rule in spec["graphs"].items()},
        **{name: spec[name] for name in ("loop_window", "events_per_instance", "events_bytes")},
        **{name: spec[name] for name in ("instances_open", "deliveries_kept")},
    )


RIGS = {name: app_rig(spec) for name, spec in SPECS.items()}


def rarely(pick: Pick, options: Sequence[Any], otherwise: Any = UNSET, *, times_in: int = 4) -> Any:
    """Choose once in a while."""
    return pick(options) if pick(range(times_in)) == times_in - 1 else otherwise


def near(pick: Pick, value: int) -> int:
    """Choose a number, mostly the true one."""
    return max(0, int(pick((value, value, value, value, value, value - 1, value + 1, 0))))


class Drawer:
    """Draws commands for one character, with the model at hand so that many of them are nearly right."""

    def __init__(self, pick: Pick, plain: PlainScene, who: str, tokens: list[Token]) -> None:
        self.pick = pick
        self.who = who
        self.tokens = tokens
        self.held: dict[str, Any] = plain.alive.get(who, {})
        self.numbers = plain.numbers.get(who, plain.floor)

    def life(self) -> dict[str, Any]:
        """Name a life now and then, mostly the right one."""
        is_named = self.pick(range(8)) == 7
        return {"life": near(self.pick, self.numbers["life"])} if is_named else {}

    def command(self) -> Command:
        """Draw a command of any gate."""
        make: Callable[[Drawer], Command] = self.pick(MAKERS)
        return make(self)

    def begin(self) -> Command:
        """Draw a begin."""
        layer = self.pick(LAYERS)
        generation = self.held.get("layers", {}).get(layer, {"generation": 0})["generation"]
        is_conditional = self.pick(range(4)) == 3
        return Begin(
            layer=layer,
            target=self.pick(STATES),
            if_same=rarely(self.pick, ("keep", "keep", "restart"), times_in=2),
            if_generation=near(self.pick, generation) if is_conditional else UNSET,
            data=rarely(self.pick, (None, {"clip": "run"}, [1, 4.0])),
            **self.life(),
        )

    def token(self) -> Token:
        """Choose a token that was given out, mostly a recent one of this character; change one field now and then."""
        own = [token for token in self.tokens if token.character == self.who][-5:]
        chosen: Token = self.pick(self.pick((own, own, own, self.tokens)) or [FROM_THE_START])
        changes = {
            "character": WHO,
            "layer": LAYERS,
            "epoch": range(5),
            "generation": range(6),
            "from_": STATES,
            "to": STATES,
            "seal": (UNSET, "", "1-0", flipped(chosen.seal)),
        }
        name = rarely(self.pick, sorted(changes), times_in=5)
        return chosen if name is UNSET else replace(chosen, **{name: self.pick(changes[name])})

    def complete(self) -> Command:
        """Draw a complete."""
        return Complete(token=self.token(), **self.life())

    def cancel(self) -> Command:
        """Draw a cancel."""
        return Cancel(token=self.token(), **self.life())

    def fail(self) -> Command:
        """Draw a fail."""
        return Fail(token=self.token(), why="no clip", **self.life())

    def commit_parameters(self) -> Command:
        """Draw a batch of up to three values."""
        pairs = [self.pick(VALUES) for _ in range(self.pick((0, 1, 1, 2, 2, 3)))]
        is_conditional = self.pick(range(4)) == 3
        return CommitParameters(
            values=[ParameterValue(value=value, name=name) for name, value in pairs],
            base_version=near(self.pick, max(0, self.numbers["version"])) if is_conditional else UNSET,
            **self.life(),
        )

    def play(self) -> Command:
        """Draw a play."""
        layer, number = rarely(self.pick, LAYERS, times_in=2), rarely(self.pick, (self.instance(),), times_in=2)
        return Play(clip="Walk", layer=layer, clip_instance=number, **self.life())

    def instance(self) -> int:
        """Choose an instance: mostly one that is open, or a number near the highest."""
        highest = self.numbers["instance"]
        numbers = sorted(self.held.get("instances", ())) * 4
        return int(
            self.pick((*numbers, 0, 1, 2, highest, highest + 1, highest + 1, highest + 2**20 + self.pick((0, 1))))
        )

    def enqueue(self) -> Command:
        """Draw an event, with a payload now and then."""
        payloads = (1, 1.0, True, None, "seven", {"a": 1, "b": 2}, {"b": 2, "a": 1.0})
        return Enqueue(
            clip_instance=self.instance(),
            loop=self.pick((0, 0, 0, 1, 1, 2, 3, 4)),
            frame=self.pick((0, 1)),
            kind=self.pick(("step", "step", "step", "spark", "roar")),
            payload=rarely(self.pick, payloads, times_in=2),
            **self.life(),
        )

    def commit_loop(self) -> Command:
        """Draw a commit-loop."""
        return CommitLoop(clip_instance=self.instance(), loop=self.pick((0, 0, 0, 1, 1, 2, 3)), **self.life())

    def retire(self) -> Command:
        """Draw a retire."""
        return Retire(clip_instance=self.instance(), **self.life())

    def acknowledge(self) -> Command:
        """Draw an ack."""
        return Acknowledge(through=near(self.pick, self.numbers["delivery"]), **self.life())

    def graph(self) -> dict[str, Any]:
        """Choose a graph, and nearly always its newest request."""
        graph = self.pick(("main", "main", "mask", "mask", "mask", "tail"))
        return {
            "graph": graph,
            "request": near(self.pick, self.held.get("graphs", {}).get(graph, {"latest": 0})["latest"]),
        }

    def request_graph(self) -> Command:
        """Draw a request for a graph."""
        return RequestGraph(name=self.pick("AB"), graph=self.graph()["graph"], **self.life())

    def submit_candidate(self) -> Command:
        """Draw a candidate, mostly a complete one."""
        return SubmitCandidate(
            name=self.pick("AB"),
            outputs=self.pick((["A", "B"], ["A", "B"], ["A", "B"], ["A"], [])),
            evaluation=self.pick((*[Evaluation(True)] * 3, Evaluation(True, "tpose"), Evaluation(False))),
            if_idle=self.pick((False, True)),
            **self.graph(),
            **self.life(),
        )

    def withdraw_graph(self) -> Command:
        """Draw a withdrawal."""
        return WithdrawGraph(**self.graph(), **self.life())

    def despawn(self) -> Command:
        """Draw a despawn."""
        return Despawn(**self.life())

    def spawn(self) -> tuple[Command, str]:
        """Draw a spawn, and the name of the spec it carries (empty when it names a rig)."""
        spec = self.pick(("actor", "actor", "actor", "full", "bare", ""))
        is_named = self.pick(range(8)) == 7
        life: dict[str, Any] = {"life": near(self.pick, self.numbers["life"] + (not self.held))} if is_named else {}
        return (Spawn(inline=RIGS[spec], **life) if spec else Spawn(rig="named", **life)), spec


def flipped(seal: Any) -> Any:
    """Change a seal's last digit."""
    return seal if not isinstance(seal, str) else seal[:-1] + ("1" if seal[-1:] == "0" else "0")


VALUES = (
    [("Speed", value) for value in (1, 4.5, 0, 20, 21, -1, True, None)]
    + [("Fire", True), ("Fire", True), ("Fire", True), ("Fire", 1), ("Fire", False)]
    + [("Ammo", value) for value in (1.0, 30, 31, 1.5, "NaN")]
    + [("Armed", True), ("Armed", 1), ("Armed", "walk"), ("Wind", 1), ("Wind", 1e39)]
)

MAKERS = (
    (Drawer.begin,) * 5
    + (Drawer.complete,) * 3
    + (Drawer.cancel, Drawer.fail)
    + (Drawer.commit_parameters,) * 3
    + (Drawer.play, Drawer.play, Drawer.retire, Drawer.acknowledge)
    + (Drawer.enqueue,) * 6
    + (Drawer.commit_loop,) * 3
    + (Drawer.request_graph, Drawer.request_graph, Drawer.withdraw_graph)
    + (Drawer.submit_candidate,) * 3
)
