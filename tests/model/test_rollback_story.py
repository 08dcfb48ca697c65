"""A fight over a real network: the server guesses late inputs, and rolls back whenever it guessed wrong.

Eight fighters, 600 ticks at 60 Hz. Every input reaches the server 0 to 7 ticks late; until then the last one is
repeated. The other server gets every input in time. Both give out the same, apart from what the first withdrew.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest

from tests.support.caller import Caller
from tests.support.player import Send

FIGHTERS = tuple(f"fighter-{number}" for number in range(1, 9))
TICKS, LATEST = 600, 7
SEED = 20_260_803
HEARD = (12, 27)
LOOP = 30
SHOUT, ON, EARLY, STRIKE, OFF, DONE = 1, 4, 5, 8, 9, 12
RIG = {
    "layers": {"base": {"initial": "Idle", "states": ["Idle", "Walk", "Attack", "Hit"]}},
    "events": {
        "kinds": {
            "footstep": "presentation",
            "hit": "gameplay",
            "damage_on": {"class": "gameplay", "ends": "damage_off"},
            "damage_off": "gameplay",
            "trail_on": {"class": "presentation", "ends": "trail_off"},
            "trail_off": "presentation",
            "shout": "immediate",
        },
        "deliveries_kept": 4096,
    },
}

Inputs = tuple[str, ...]
"""What each fighter wants in one tick: idle, walk or attack."""


class Given(NamedTuple):
    """What identifies one event that was given out."""

    character: str
    clip_instance: int
    loop: int
    frame: int
    kind: str

    @classmethod
    def of(cls, character: str, event: dict[str, Any]) -> "Given":
        """Read it from an answer."""
        return cls(character, event["clip_instance"], event["loop"], event["frame"], event["kind"])


@dataclass(frozen=True)
class Fighter:
    """One fighter as the game knows it at the end of a tick."""

    mode: str = "idle"
    since: int = 0
    clip: int = 0
    token: Any = None


@dataclass
class Server:
    """A game server that asks posegate for everything, tick by tick, and keeps what it needs to go back."""

    caller: Caller
    past: list[tuple[Fighter, ...]] = field(default_factory=lambda: [tuple(Fighter() for _ in FIGHTERS)])
    given: list[Given] = field(default_factory=list)
    withdrawn: list[Given] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def simulate(self, tick: int, inputs: Inputs, *, goes_back: bool, confirm: int | None) -> None:
        """Decide one tick, after going back to the end of the one before it where that was guessed wrong."""
        del self.past[tick:]
        asked: list[dict[str, Any]] = []
        struck = {
            (index + 1) % len(FIGHTERS)
            for index, fighter in enumerate(self.past[-1])
            if fighter.mode == "attack" and tick - fighter.since == STRIKE
        }
        after = []
        for index, fighter in enumerate(self.past[-1]):
            moved = step(asked, tick, index, fighter, inputs[index])
            after.append(hurt(asked, tick, index, moved) if index in struck else moved)
        body = {"requests": asked, "seal": tick}
        body |= {"rollback": tick - 1} if goes_back else {}
        body |= {"confirm": confirm} if confirm is not None else {}
        answer = self.caller.ask("POST", "tick", body).body
        assert answer["accepted"], answer
        assert all(part["accepted"] for part in (answer["seal"], *answer["requests"])), answer
        self.past.append(self.heard(answer, after, {(each["source"], each["number"]): each for each in asked}))

    def heard(self, answer: dict[str, Any], after: list[Fighter], asked: dict[Any, Any]) -> tuple[Fighter, ...]:
        """Note what was given out, and give the fighters the tokens that they were granted."""
        for row in answer["seal"]["answers"]:
            inner, who = row["answer"], row["character"]
            if inner["outcome"] == "accepted" and asked[row["source"], row["number"]]["kind"] == "shout":
                self.given.append(Given.of(who, asked[row["source"], row["number"]]))
            self.outcomes[f"{row['command']} {inner['outcome']}"] += 1
            self.given += [Given.of(who, event) for event in inner.get("events", ())]
            self.closed(inner)
            if inner["outcome"] == "granted":
                index = FIGHTERS.index(who)
                after[index] = replace(after[index], token=inner["token"])
        self.closed(answer["seal"])
        self.closed(answer.get("rollback", {}))
        confirmed = answer.get("confirm", {"deliveries": [], "withdrawn": []})
        for delivery in confirmed["deliveries"]:
            self.given += [Given.of(delivery["character"], event) for event in delivery["events"]]
        self.withdrawn += [Given.of(each["character"], each["event"]) for each in confirmed["withdrawn"]]
        return tuple(after)

    def closed(self, answer: dict[str, Any]) -> None:
        """Note the windows that the gate ended by itself."""
        for row in answer.get("closed", ()):
            self.outcomes["window closed"] += 1
            if row["delivery"] is not None:
                self.given.append(Given.of(row["character"], row["event"]))


def ask(asked: list[dict[str, Any]], tick: int, who: int, command: str, priority: int = 0, **fields: Any) -> None:
    """Add one request to a tick, numbered so that the same request has the same number however often it is sent."""
    name = FIGHTERS[who]
    number = tick * 100 + sum(request["source"] == name for request in asked)
    asked.append(
        {
            "tick": tick,
            "source": name,
            "number": number,
            "priority": priority,
            "command": command,
            "character": name,
            **fields,
        }
    )


def step(asked: list[dict[str, Any]], tick: int, who: int, fighter: Fighter, wanted: str) -> Fighter:
    """Let a fighter do what it is at, and then what its input wants."""
    age, of = tick - fighter.since, {"clip_instance": fighter.clip, "loop": 0}
    if fighter.mode == "hit":
        if age < DONE:
            return fighter
        ask(asked, tick, who, "complete", token=fighter.token)
        fighter = replace(fighter, mode="idle", since=tick)
    elif fighter.mode == "attack":
        attack(asked, tick, who, fighter, age)
        if age < DONE:
            return fighter
        ask(asked, tick, who, "complete", token=fighter.token)
        ask(asked, tick, who, "commit-loop", **of)
        ask(asked, tick, who, "retire", clip_instance=fighter.clip)
        fighter = replace(fighter, mode="idle", since=tick)
    elif fighter.mode == "walk":
        walk(asked, tick, who, fighter, age)
        if wanted == "walk":
            return fighter
        stop(asked, tick, who, fighter)
        fighter = replace(fighter, mode="idle", since=tick)
    if wanted == "idle":
        return fighter
    started = Fighter(wanted, tick, fighter.clip + 1)
    least = {"min_ticks": DONE - 2} if wanted == "attack" else {}
    ask(asked, tick, who, "begin", layer="base", target=wanted.capitalize(), **least)
    ask(asked, tick, who, "play", clip=wanted, layer="base", clip_instance=started.clip)
    return started


def attack(asked: list[dict[str, Any]], tick: int, who: int, fighter: Fighter, age: int) -> None:
    of = {"clip_instance": fighter.clip, "loop": 0, "frame": age}
    if age == SHOUT:
        ask(asked, tick, who, "enqueue", kind="shout", **of)
    elif age == ON:
        for kind in ("damage_on", "trail_on"):
            ask(asked, tick, who, "enqueue", kind=kind, holder=fighter.token, **of)
        ask(asked, tick, who, "commit-loop", clip_instance=fighter.clip, loop=0)
    elif age == EARLY:
        ask(asked, tick, who, "complete", token=fighter.token)
    elif age == STRIKE:
        ask(asked, tick, who, "enqueue", kind="hit", payload={"power": who}, **of)
    elif age == OFF:
        for kind in ("damage_off", "trail_off"):
            ask(asked, tick, who, "enqueue", kind=kind, **of)


def walk(asked: list[dict[str, Any]], tick: int, who: int, fighter: Fighter, age: int) -> None:
    loop, frame = divmod(age, LOOP)
    if age == 3:
        ask(asked, tick, who, "complete", token=fighter.token)
    if frame in HEARD:
        ask(asked, tick, who, "enqueue", kind="footstep", clip_instance=fighter.clip, loop=loop, frame=frame)
    if frame == LOOP - 1:
        ask(asked, tick, who, "commit-loop", clip_instance=fighter.clip, loop=loop)


def stop(asked: list[dict[str, Any]], tick: int, who: int, fighter: Fighter) -> None:
    loop = (tick - fighter.since) // LOOP
    ask(asked, tick, who, "commit-loop", clip_instance=fighter.clip, loop=loop)
    ask(asked, tick, who, "retire", clip_instance=fighter.clip)


def hurt(asked: list[dict[str, Any]], tick: int, who: int, fighter: Fighter) -> Fighter:
    """Interrupt whatever a fighter is at: its damage window, if one is open, ends with its token."""
    if fighter.mode in ("walk", "attack"):
        ask(asked, tick, who, "commit-loop", 5, clip_instance=fighter.clip, loop=(tick - fighter.since) // LOOP)
    ask(asked, tick, who, "begin", 5, layer="base", target="Hit")
    if fighter.mode in ("walk", "attack"):
        ask(asked, tick, who, "retire", 5, clip_instance=fighter.clip)
    return replace(fighter, mode="hit", since=tick)


def drawn_inputs(seed: int) -> tuple[list[Inputs], list[tuple[int, ...]]]:
    """Draw what everybody wants in every tick, and how many ticks late the server hears of it."""
    draw = random.Random(seed)
    wants, late = [("idle",) * len(FIGHTERS)], [(0,) * len(FIGHTERS)]
    for _ in range(TICKS):
        wants.append(
            tuple(
                draw.choice(("idle", "walk", "walk", "attack")) if draw.random() < 0.04 else before
                for before in wants[-1]
            )
        )
        late.append(tuple(draw.randint(0, LATEST) for _ in FIGHTERS))
    return wants, late


def guessed(tick: int, now: int, wants: list[Inputs], late: list[tuple[int, ...]]) -> Inputs:
    """Give the inputs of a tick as far as they are known now: of what is not, the newest known is repeated."""
    return tuple(
        next(wants[at][who] for at in range(tick, -1, -1) if at + late[at][who] <= now) for who in range(len(FIGHTERS))
    )


def spawned(send: Send, scene: str) -> Server:
    caller = Caller(send, scene)
    for name in FIGHTERS:
        assert caller.spawn(name, {"rig": RIG}).status == 201
    return Server(caller)


class Told(NamedTuple):
    """A server at the end, and how often and how far it went back."""

    server: Server
    rollbacks: int
    simulated_again: int


@pytest.fixture(scope="module")
def predicting(send: Send) -> Told:
    """Play the fight with late inputs."""
    wants, late = drawn_inputs(SEED)
    server, used, rollbacks, again = spawned(send, "late"), [wants[0]], 0, 0
    for now in range(1, TICKS + LATEST + 1):
        last = min(now, TICKS)
        known = [guessed(tick, now, wants, late) for tick in range(max(now - LATEST, 1), last + 1)]
        first = last + 1 - len(known)
        wrong = next((at for at, inputs in enumerate(known, first) if at < len(used) and used[at] != inputs), None)
        start = len(used) if wrong is None else wrong
        rollbacks += wrong is not None
        again += 0 if wrong is None else len(used) - wrong
        del used[start:]
        for tick in range(start, last + 1):
            confirm = max(now - LATEST, 0) if tick == last else None
            server.simulate(tick, known[tick - first], goes_back=tick == wrong, confirm=confirm)
            used.append(known[tick - first])
        if start > last:
            confirm_only(server, now - LATEST)
    return Told(server, rollbacks, again)


def confirm_only(server: Server, tick: int) -> None:
    answer = server.caller.ask("POST", "tick", {"confirm": tick}).body
    assert answer["accepted"], answer
    server.heard({**answer, "seal": {"answers": []}}, [], {})


@pytest.fixture(scope="module")
def knowing(send: Send) -> Server:
    """Play the same fight with every input in time."""
    wants, _ = drawn_inputs(SEED)
    server = spawned(send, "in-time")
    for tick in range(1, TICKS + 1):
        server.simulate(tick, wants[tick], goes_back=False, confirm=max(tick - LATEST, 0))
    confirm_only(server, TICKS)
    return server


def visible(server: Server) -> dict[str, Any]:
    """Give what a player sees: states, what is pending, and which clips are open, numbers given out aside."""
    shown = {}
    for name in FIGHTERS:
        body = server.caller.inspect(name)
        layer = body["layers"]["base"]
        pending = layer["pending"] and (layer["pending"]["from"], layer["pending"]["to"])
        clips = [(each["clip_instance"], each["committed_loop"], each["pending"]) for each in body["clip_instances"]]
        shown[name] = (layer["current"], pending, body["parameters"]["values"], clips)
    return shown


def ticks_of(server: Server) -> dict[str, Any]:
    ticks: dict[str, Any] = server.caller.ask("GET", "").body["ticks"]
    return ticks


def test_the_fight_mispredicts_and_rolls_back_all_the_time(predicting: Told, knowing: Server):
    assert (predicting.rollbacks, predicting.simulated_again) == (145, 556)
    assert (ticks_of(predicting.server)["timeline"], ticks_of(knowing)["timeline"]) == (145, 0)
    assert (len(predicting.server.given), len(predicting.server.withdrawn), len(knowing.given)) == (750, 6, 744)
    assert Counter(event.kind for event in predicting.server.withdrawn) == {"shout": 3, "footstep": 2, "trail_on": 1}
    assert predicting.server.outcomes["enqueue duplicate"] == 277
    assert predicting.server.outcomes["window closed"] == 34


def test_in_time_the_fight_is_told_once(knowing: Server):
    assert knowing.withdrawn == []
    assert Counter(event.kind for event in knowing.given) == {
        "shout": 113,
        "trail_on": 110,
        "trail_off": 109,
        "damage_on": 110,
        "damage_off": 109,
        "hit": 106,
        "footstep": 87,
    }
    assert knowing.outcomes == {
        "begin granted": 330,
        "complete committed": 261,
        "complete too_early": 108,
        "play opened": 223,
        "enqueue accepted": 734,
        "commit-loop delivered": 356,
        "retire retired": 217,
        "window closed": 16,
    }


def test_nothing_is_given_twice_however_often_its_tick_is_simulated(predicting: Told, knowing: Server):
    for server in (predicting.server, knowing):
        assert [event for event, times in Counter(server.given).items() if times > 1] == []


def test_what_is_given_and_not_withdrawn_is_what_is_given_when_every_input_comes_in_time(
    predicting: Told, knowing: Server
):
    given, withdrawn = set(predicting.server.given), set(predicting.server.withdrawn)

    assert withdrawn <= given
    assert given - withdrawn == set(knowing.given)


def test_gameplay_is_never_withdrawn(predicting: Told):
    assert {event.kind for event in predicting.server.withdrawn} <= {"footstep", "trail_on", "trail_off", "shout"}


def test_every_window_that_was_opened_was_ended_once_but_the_one_that_is_open_at_the_end(predicting: Told):
    stands = Counter(event.kind for event in set(predicting.server.given) - set(predicting.server.withdrawn))

    assert (stands["damage_on"], stands["damage_off"]) == (110, 109)
    assert (stands["trail_on"], stands["trail_off"]) == (110, 109)


def test_at_the_end_both_show_the_same_and_have_the_same_digest(predicting: Told, knowing: Server):
    one, other = ticks_of(predicting.server), ticks_of(knowing)

    assert visible(predicting.server) == visible(knowing)
    assert (one["sealed"], one["confirmed"], one["digest"]) == (other["sealed"], other["confirmed"], other["digest"])
