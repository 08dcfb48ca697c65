"""A model of one scene, too simple to be wrong: plain dictionaries and lists, written from the contract's tables.

It answers each command with the outcome word and the few details that matter, and moves on when it accepts.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

Answer = tuple[str, dict[str, Any]]
Spec = dict[str, Any]

ACTOR: Spec = {
    "layers": {"base": ("Idle", ("Idle", "Run", "Hit")), "face": ("Idle", None)},
    "mode": "sparse",
    "declared": {
        "Speed": ("float", 0, 20, 0, False),
        "Ammo": ("int", None, 30, 5, False),
        "Armed": ("bool", None, None, False, False),
        "Fire": ("trigger", None, None, 0, False),
    },
    "kinds": {"step": "presentation", "spark": "immediate"},
    "loop_window": 2,
    "events_per_instance": 3,
    "events_bytes": 12,
    "instances_open": 2,
    "deliveries_kept": 2,
    "graphs": {"main": (("A", "B"), ("base",), "tpose"), "mask": (("A",), ("face",), None)},
}
FULL: Spec = ACTOR | {
    "layers": {"base": ("Idle", None)},
    "mode": "full",
    "declared": {"Speed": ("float", None, None, 1, True), "Fire": ("trigger", None, None, 0, False)},
    "graphs": {"mask": (("A",), ("base",), None)},
}
BARE: Spec = ACTOR | {"layers": {}, "declared": None, "kinds": None, "graphs": {}, "events_per_instance": 1024}
SPECS = {"actor": ACTOR, "full": FULL, "bare": BARE}

FRESH: dict[str, Any] = {
    "life": 0,
    "revision": 0,
    "epoch": 0,
    "version": -1,
    "request": 0,
    "instance": 0,
    "spent": -1,
    "delivery": 0,
    "acknowledged": 0,
}


def same_json(one: Any, other: Any) -> bool:
    """Compare as JSON values: 4.0 is 4, true is not 1, members have no order."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None or one is UNSET:
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[name], other[name]) for name in one)
    return bool(one == other)


def size(payload: Any) -> int:
    """Measure a payload as compact JSON."""
    return 0 if payload is UNSET else len(msgspec.json.encode(payload))


class PlainScene:
    """What the contract says of one scene."""

    def __init__(self) -> None:
        self.exists = False
        self.sequence = 0
        self.rigs: dict[str, str] = {}
        self.alive: dict[str, dict[str, Any]] = {}
        self.numbers: dict[str, dict[str, Any]] = {}
        self.floor = dict(FRESH)
        self.triggers: dict[str, dict[str, int]] = {}
        self.kept: dict[str, list[Any]] = {}
        self.issued: dict[Any, int] = {}
        self.clock = 0

    def ask(self, who: str | None, command: Any, spec: str = "") -> Answer:
        """Answer a command; every decision takes a sequence, a problem takes none."""
        answer = self._answer(who, command, spec)
        if "-" not in answer[0]:
            self.sequence += 1
        return answer

    def _answer(self, who: str | None, command: Any, spec: str) -> Answer:
        name = type(command).__name__
        if who is None:
            return self._close() if name == "CloseScene" else self._declare(command.name, spec)
        if name == "Spawn":
            return self._spawn(who, command, spec)
        if not self.exists:
            return "unknown-scene", {}
        if who not in self.alive:
            return "unknown-character", {}
        held = self.alive[who]
        if command.life is not UNSET and command.life != held["life"]:
            return "stale_life", {}
        if name == "Despawn":
            return self._despawn(who)
        before = held["revision"]
        word, details = DECIDE[name](self, who, held, command)
        if details.pop("moved", False):
            held["revision"] = self.numbers[who]["revision"] = before + 1
        return word, details

    # Lives

    def _declare(self, name: str, spec: str) -> Answer:
        users = [held for held in self.alive.values() if held["way"] == ("named", name)]
        if name in self.rigs and self.rigs[name] != spec and users:
            return "conflicting-rig", {}
        created = self.rigs.get(name) != spec
        self.rigs[name], self.exists = spec, True
        return "declared", {"created": created}

    def _spawn(self, who: str, command: Any, spec: str) -> Answer:
        held, numbers = self.alive.get(who), self.numbers.get(who, self.floor)
        present = numbers["life"] + 1 if held is None else held["life"]
        if command.life is not UNSET and command.life != present:
            return ("stale_life" if self.exists else "unknown-scene"), {}
        if command.rig is not None and command.rig not in self.rigs:
            return "unknown-rig", {}
        way = ("named", command.rig) if command.rig is not None else ("inline", spec)
        if held is not None:
            if held["way"] != way:
                return "conflicting-spawn", {}
            return "spawned", {"life": held["life"], "created": False}
        self.exists = True
        self.alive[who] = self._born(who, SPECS[self.rigs[command.rig] if command.rig is not None else spec], way)
        return "spawned", {"life": present, "created": True}

    def _born(self, who: str, spec: Spec, way: tuple[str, str]) -> dict[str, Any]:
        numbers = self.numbers.setdefault(who, dict(self.floor))
        numbers["life"] += 1
        numbers["revision"] += 1
        numbers["version"] += 1
        if spec["layers"]:
            numbers["epoch"] += 1
        fired = self.triggers.setdefault(who, {})
        values = {name: fired.get(name, 0) if rule[0] == "trigger" else rule[3] for name, rule in rules_of(spec)}
        return {
            "life": numbers["life"],
            "revision": numbers["revision"],
            "way": way,
            "spec": spec,
            "layers": {
                name: {"current": initial, "data": None, "epoch": numbers["epoch"], "generation": 0, "pending": None}
                | {"endings": {}}
                for name, (initial, _) in spec["layers"].items()
            },
            "values": values,
            "version": numbers["version"],
            "instances": {},
            "retired": set(),
            "graphs": {
                name: {"active": None, "epoch": 1, "latest": numbers["request"], "open": False, "end": "stale_request"}
                for name in spec["graphs"]
            },
        }

    def _despawn(self, who: str) -> Answer:
        held, numbers = self.alive.pop(who), self.numbers[who]
        numbers["revision"] += 1
        if numbers["instance"] or 0 in held["instances"] or 0 in held["retired"]:
            numbers["spent"] = numbers["instance"]
        return "despawned", {"life": held["life"]}

    def _close(self) -> Answer:
        if not self.exists:
            return "unknown-scene", {}
        for who in list(self.alive):
            self._despawn(who)
        for numbers in self.numbers.values():
            self.floor = {name: max(value, numbers[name]) for name, value in self.floor.items()}
        self.floor["acknowledged"] = self.floor["delivery"]
        self.numbers, self.triggers, self.kept, self.rigs, self.exists = {}, {}, {}, {}, False
        return "closed", {}

    # Transitions

    def _begin(self, who: str, held: dict[str, Any], command: Any) -> Answer:
        layer = held["layers"].get(command.layer)
        if layer is None:
            return "unknown_layer", {}
        states = held["spec"]["layers"][command.layer][1]
        if states is not None and command.target not in states:
            return "unknown_state", {}
        if command.if_generation is not UNSET and command.if_generation != layer["generation"]:
            return "generation_conflict", {}
        pending = layer["pending"]
        if command.if_same == "keep":
            if pending is not None and pending["to"] == command.target:
                return "kept", {"generation": pending["generation"]}
            if pending is None and layer["current"] == command.target:
                return "kept", {"generation": None}
        if pending is not None:
            layer["endings"][pending["generation"]] = "stale_generation"
        layer["generation"] += 1
        data = None if command.data is UNSET else command.data
        layer["pending"] = {
            "generation": layer["generation"],
            "from": layer["current"],
            "to": command.target,
            "data": data,
        }
        superseded = None if pending is None else pending["generation"]
        return "granted", {"generation": layer["generation"], "superseded": superseded, "moved": True}

    def granted(self, who: str, token: Any) -> None:
        """Note a token that the scene gave out, and the life it gave it in."""
        self.issued[msgspec.structs.astuple(token)] = self.alive[who]["life"]

    def _end(self, who: str, held: dict[str, Any], command: Any) -> Answer:
        token = command.token
        life = self.issued.get(msgspec.structs.astuple(token))
        if token.character != who or life is None:
            return "unknown_token", {}
        layer = held["layers"].get(token.layer)
        if life < held["life"] or layer is None or token.epoch < layer["epoch"]:
            return "stale_epoch", {}
        pending = layer["pending"]
        if pending is None or pending["generation"] != token.generation:
            return layer["endings"][token.generation], {}
        layer["pending"] = None
        name = type(command).__name__
        word, ending = {
            "Complete": ("committed", "already_completed"),
            "Cancel": ("cancelled", "already_cancelled"),
            "Fail": ("failed", "already_failed"),
        }[name]
        layer["endings"][token.generation] = ending
        if name == "Complete":
            layer["current"], layer["data"] = pending["to"], pending["data"]
        return word, {"current": layer["current"], "moved": True}

    # Parameters

    def _commit_parameters(self, who: str, held: dict[str, Any], command: Any) -> Answer:
        spec, version = held["spec"], held["version"]
        items = [(item.name, item.value) for item in command.values]
        refused = self._refused_batch(spec, items)
        if refused is None and command.base_version is not UNSET and command.base_version != version:
            refused = "stale_version"
        if refused is not None:
            return refused, {}
        if not items:
            return "committed", {"version": version}
        if spec["mode"] == "full":
            held["values"].update({name: rule[3] for name, rule in rules_of(spec) if rule[0] != "trigger"})
        for name, value in items:
            held["values"][name] = value
            if spec["declared"] is not None and spec["declared"][name][0] == "trigger":
                fired = self.triggers[who]
                held["values"][name] = fired[name] = fired.get(name, 0) + 1
        held["version"] = self.numbers[who]["version"] = version + 1
        return "committed", {"version": version + 1, "moved": True}

    def _refused_batch(self, spec: Spec, items: list[tuple[str, Any]]) -> str | None:
        rules, names = spec["declared"], [name for name, _ in items]
        missing = [name for name, rule in rules_of(spec) if rule[4] and name not in names]
        checks = {
            "duplicate_parameter": lambda: len(set(names)) < len(names),
            "non_finite_value": lambda: any(value is None or value in ("NaN", 1e39) for _, value in items),
            "unknown_parameter": lambda: rules is not None and any(name not in rules for name in names),
            "type_mismatch": lambda: not all(has_type(value, rules and rules[name][0]) for name, value in items),
            "out_of_range": lambda: rules and not all(in_range(value, rules[name]) for name, value in items),
            "missing_parameter": lambda: spec["mode"] == "full" and missing,
        }
        return next((word for word, applies in checks.items() if applies()), None)

    # Graphs

    def _request_graph(self, who: str, held: dict[str, Any], command: Any) -> Answer:
        slot = held["graphs"].get(command.graph)
        if slot is None:
            return "unknown_graph", {}
        superseded = slot["latest"] if slot["open"] else None
        slot["latest"], slot["open"] = slot["latest"] + 1, True
        self.numbers[who]["request"] = max(self.numbers[who]["request"], slot["latest"])
        return "requested", {"request": slot["latest"], "superseded": superseded, "moved": True}

    def _not_open(self, held: dict[str, Any], command: Any) -> str | None:
        slot = held["graphs"].get(command.graph)
        if slot is None:
            return "unknown_graph"
        if command.request == 0 or command.request > slot["latest"]:
            return "unknown_request"
        if command.request < slot["latest"]:
            return "stale_request"
        return None if slot["open"] else str(slot["end"])

    def _submit_candidate(self, who: str, held: dict[str, Any], command: Any) -> Answer:
        refused = self._not_open(held, command)
        if refused is not None:
            return refused, {}
        slot, (outputs, layers, bind_pose) = held["graphs"][command.graph], held["spec"]["graphs"][command.graph]
        if not set(outputs) <= set(command.outputs):
            return "missing_output", {}
        if not command.evaluation.succeeded or (bind_pose is not None and command.evaluation.pose == bind_pose):
            return "evaluation_failed", {}
        driven = {name: held["layers"][name] for name in layers}
        if command.if_idle and any(layer["pending"] for layer in driven.values()):
            return "layer_busy", {}
        ended = [layer["pending"]["generation"] for layer in driven.values() if layer["pending"]]
        for layer in driven.values():
            layer["epoch"], layer["pending"] = layer["epoch"] + 1, None
            self.numbers[who]["epoch"] = max(self.numbers[who]["epoch"], layer["epoch"])
        retire = slot["active"]
        slot.update(active=command.name, epoch=slot["epoch"] + 1, open=False, end="already_committed")
        epochs = {name: layer["epoch"] for name, layer in driven.items()}
        return "committed", {"retire": retire, "epochs": epochs, "ended": ended, "moved": True}

    def _withdraw_graph(self, who: str, held: dict[str, Any], command: Any) -> Answer:
        refused = self._not_open(held, command)
        if refused is not None:
            return refused, {}
        held["graphs"][command.graph].update(open=False, end="stale_request")
        return "withdrawn", {"moved": True}


def rules_of(spec: Spec) -> list[Any]:
    """Give the name and rule of what a spec declares; nothing where it takes any parameter."""
    return list((spec["declared"] or {}).items())


def has_type(value: Any, kind: str | None) -> bool:
    """Say whether a finite value is of a declared type, or of any that may be undeclared."""
    if kind == "trigger":
        return value is True
    if kind == "bool":
        return isinstance(value, bool)
    if kind is None:
        return isinstance(value, bool | int | float)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (kind == "float" or value == int(value))


def in_range(value: Any, rule: tuple[Any, ...]) -> bool:
    """Say whether a value is within its inclusive bounds."""
    _, low, high, _, _ = rule
    return isinstance(value, bool) or ((low is None or value >= low) and (high is None or value <= high))


DECIDE: dict[str, Callable[[Any, str, dict[str, Any], Any], Answer]] = {
    "Begin": PlainScene._begin,
    "Complete": PlainScene._end,
    "Cancel": PlainScene._end,
    "Fail": PlainScene._end,
    "CommitParameters": PlainScene._commit_parameters,
    "RequestGraph": PlainScene._request_graph,
    "SubmitCandidate": PlainScene._submit_candidate,
    "WithdrawGraph": PlainScene._withdraw_graph,
}
