"""The ledger: counts what a gate answered, and where the naive client believed otherwise."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from app.replay.adapter import GATES, Body, Gate, Played, gate_of, initial_states
from app.replay.naive import NaiveClient, Place, is_non_finite, is_same
from app.replay.trace import (
    BeginLine,
    CommitLoopLine,
    CompleteLine,
    EventLine,
    GraphCandidateLine,
    ParametersLine,
)

EXAMPLES_MAX = 3
"""How many places a disagreement names."""


class GateCount(Struct):
    """What one gate was asked and what it answered, by outcome. `asked` is accepted + refused + problems."""

    asked: int = 0
    accepted: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)
    unanswerable: int = 0


class Disagreement(Struct):
    """Something the naive client believed and the gate did not commit: how often, of how many, for example where."""

    gate: Gate
    key: str
    what: str
    count: int = 0
    out_of: int | None = None
    examples: list[str] = field(default_factory=list)

    def add(self, example: str | None = None) -> None:
        """Count one more, and keep the first few places."""
        self.count += 1
        if example is not None and len(self.examples) < EXAMPLES_MAX:
            self.examples.append(example)


class EventFlow(Struct, frozen=True):
    """Where the events went: effects the naive client fired, events accepted, delivered, and still waiting."""

    fired: int
    accepted: int
    delivered: int
    waiting: int


def _kept(gate: Gate, key: str, what: str) -> Disagreement:
    return Disagreement(gate, key, what)


class Ledger:
    """The counts of one replay, and both sides' belief while it goes on.

    `record` takes every played line once, in the order of the trace; `close` takes the characters as the gate shows
    them at the end.
    """

    def __init__(self, lines: list[Played]) -> None:
        self.gates: dict[Gate, GateCount] = {gate: GateCount() for gate in GATES}
        self.naive = NaiveClient()
        self._delivered = 0
        self._committed: dict[Place, str | None] = {}
        for character, layers in initial_states(lines).items():
            for layer, state in layers.items():
                self._committed[character, layer] = state
                if state is not None:
                    self.naive.states[character, layer] = state
        self.writes = _kept("transitions", "state_written_while_refused", "states written though refused")
        self.shown = _kept("transitions", "wrong_state_shown", "states shown that are not committed")
        self.believed = _kept("transitions", "from_differs", "begins believed from another state")
        self.batches = _kept("parameters", "batch_written_while_refused", "batches written though refused")
        self.non_finite = _kept("parameters", "non_finite_written", "values overwritten by NaN or infinity")
        self.doubled = _kept("events", "fired_while_refused", "effects fired though refused")
        self.graphs = _kept("graphs", "unfit_graph_shown", "candidates shown though refused")

    def record(self, line: Played, answer: Body | None) -> None:
        """Count one line: its answer, `{"problem": …}`, or None if there was nothing to ask."""
        before = dict(self.naive.parameters.get(line.character, {})) if isinstance(line, ParametersLine) else {}
        self.naive.see(line)
        self._count(line, answer)
        accepted = answer is not None and answer.get("accepted") is True
        match line:
            case BeginLine():
                self.believed.out_of = (self.believed.out_of or 0) + 1
                given = (answer or {}).get("token")
                if given is not None and given["from"] != line.believed:
                    self.believed.add(f"{_at(line)}: {line.believed}, committed {given['from']}")
            case CompleteLine():
                self._completed(line, answer or {}, accepted=accepted)
            case ParametersLine():
                self._written(line, before, accepted=accepted)
            case EventLine():
                if not accepted:
                    self.doubled.add(f"{_at(line)}: {line.kind} {line.loop}:{line.frame}, {_word(answer)}")
            case CommitLoopLine():
                self._delivered += len((answer or {}).get("events", ()))
            case GraphCandidateLine():
                if not accepted:
                    self.graphs.add(f"{_at(line)}: {line.name}, {_word(answer)}")
            case _:
                pass

    def _count(self, line: Played, answer: Body | None) -> None:
        count = self.gates[gate_of(line)]
        if answer is None:
            count.unanswerable += 1
            return
        count.asked += 1
        if "problem" in answer:
            _add(count.problems, str(answer["problem"].get("type", "unknown")).rpartition("/")[2])
        else:
            _add(count.accepted if answer["accepted"] else count.refused, answer["outcome"])

    def _completed(self, line: CompleteLine, answer: Body, *, accepted: bool) -> None:
        place = (line.character, line.layer)
        if accepted:
            self._committed[place] = answer["current"]
        else:
            self.writes.add(f"{_at(line)}: {line.target} ({line.handle}), {_word(answer)}")
            if "layer" in answer:
                self._committed[place] = answer["layer"]["current"]
        committed = self._committed.get(place)
        if committed is not None and committed != line.target:
            self.shown.add(f"{_at(line)}: {line.target}, committed {committed}")

    def _written(self, line: ParametersLine, before: Mapping[str, Any], *, accepted: bool) -> None:
        if accepted:
            return
        names = [name for name, value in line.values if is_non_finite(value)]
        self.batches.add(f"{_at(line)}: {', '.join(f'{name}={value}' for name, value in line.values)}")
        for name in names:
            self.non_finite.add(f"{_at(line)}: {name} was {before.get(name, 'unset')}")

    def close(self, finals: Mapping[str, Body]) -> list[Disagreement]:
        """Hold the naive client against the characters as the gate shows them, and give every disagreement."""
        return [
            self.writes,
            self.shown,
            self.believed,
            self._final_states(finals),
            self.batches,
            self.non_finite,
            self._final_parameters(finals),
            self.doubled,
            self._waiting(finals),
            self.graphs,
            self._final_graphs(finals),
        ]

    def events(self, finals: Mapping[str, Body]) -> EventFlow:
        """Give where the events went, waiting ones as the gate shows them."""
        return EventFlow(
            fired=self.naive.fired,
            accepted=self.gates["events"].accepted.get("accepted", 0),
            delivered=self._delivered,
            waiting=sum(instance["pending"] for final in finals.values() for instance in final["clip_instances"]),
        )

    def _final_states(self, finals: Mapping[str, Body]) -> Disagreement:
        found = Disagreement("transitions", "final_state_differs", "layers ending in another state", out_of=0)
        for (character, layer), shown in self.naive.states.items():
            committed = finals[character]["layers"][layer]["current"]
            found.out_of = (found.out_of or 0) + 1
            if committed != shown:
                found.add(f"{character}/{layer}: shown {shown}, committed {committed}")
        return found

    def _final_parameters(self, finals: Mapping[str, Body]) -> Disagreement:
        found = Disagreement("parameters", "final_value_differs", "parameters ending otherwise", out_of=0)
        for character, written in self.naive.parameters.items():
            values = finals[character]["parameters"]["values"]
            for name, value in written.items():
                found.out_of = (found.out_of or 0) + 1
                if name not in values or not is_same(values[name], value):
                    found.add(f"{character}: {name} shown {value}, committed {values.get(name, 'unset')}")
        return found

    def _waiting(self, finals: Mapping[str, Body]) -> Disagreement:
        """Count effects that fired though their loop was never committed."""
        found = Disagreement("events", "fired_but_waiting", "effects fired, loop never committed")
        for character in finals:
            for instance in finals[character]["clip_instances"]:
                if instance["pending"]:
                    found.count += instance["pending"] - 1
                    found.add(f"{character}: {instance['pending']} of instance {instance['clip_instance']}")
        return found

    def _final_graphs(self, finals: Mapping[str, Body]) -> Disagreement:
        found = Disagreement("graphs", "final_graph_differs", "characters ending on another graph")
        found.out_of = len(self.naive.graphs)
        for character, shown in self.naive.graphs.items():
            active = finals[character]["graphs"]["main"]["active"]
            committed = None if active is None else active["name"]
            if committed != shown:
                found.add(f"{character}: shown {shown}, committed {committed}")
        return found


def _at(line: Played) -> str:
    return f"{line.character}/{line.layer} {line.t:.2f} s"


def _word(answer: Body | None) -> str:
    """Give the outcome in a word."""
    if not answer:
        return "unanswerable"
    return "problem" if "problem" in answer else str(answer["outcome"])


def _add(counts: dict[str, int], word: str) -> None:
    counts[word] = counts.get(word, 0) + 1
