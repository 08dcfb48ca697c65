"""The event part of the plain model: lists of instances, waiting events and keys. Contract, sections 6 and 10."""

from typing import Any

from msgspec import UNSET

from tests.model.plain import DECIDE, Answer, PlainScene, same_json, size

LEAD = 2**20


def epoch_of(held: dict[str, Any], layer: str | None) -> int:
    """Give the epoch an instance of this layer, or of none, belongs to."""
    if layer is not None:
        return int(held["layers"][layer]["epoch"])
    main = held["graphs"].get("main")
    return 0 if main is None else int(main["epoch"])


def opening(scene: PlainScene, who: str, held: dict[str, Any], number: int) -> tuple[str | None, list[int]]:
    """Say why a number cannot be opened, or who must make room for it."""
    numbers = scene.numbers[who]
    if number in held["retired"] or number <= numbers["spent"]:
        return "retired_instance", []
    if number > numbers["instance"] + LEAD:
        return "instance_out_of_range", []
    if len(held["instances"]) < held["spec"]["instances_open"]:
        return None, []
    free = [(one["touched"], other) for other, one in held["instances"].items() if not one["waiting"]]
    return (None, [min(free)[1]]) if free else ("instances_full", [])


def opened(scene: PlainScene, who: str, held: dict[str, Any], number: int, made_room: list[int], **parts: Any) -> Any:
    """Open an instance, after whoever makes room for it is retired."""
    for other in made_room:
        del held["instances"][other]
        held["retired"].add(other)
    numbers = scene.numbers[who]
    numbers["instance"] = max(numbers["instance"], number)
    instance: dict[str, Any] = {
        "clip": None,
        "layer": None,
        "committed": None,
        "first": None,
        "waiting": [],
        "keys": {},
        "accepted": 0,
    }
    instance |= parts
    instance["epoch"] = epoch_of(held, instance["layer"])
    held["instances"][number] = instance
    return instance


def touch(scene: PlainScene, instance: dict[str, Any]) -> None:
    """Make an instance the one that was touched last."""
    scene.clock += 1
    instance["touched"] = scene.clock


def play(scene: PlainScene, who: str, held: dict[str, Any], command: Any) -> Answer:
    """Open the next number, or the host's own."""
    layer = None if command.layer is UNSET else command.layer
    if layer is not None and layer not in held["layers"]:
        return "unknown_layer", {}
    number = scene.numbers[who]["instance"] + 1 if command.clip_instance is UNSET else command.clip_instance
    refused: str | None = "instance_open"
    made_room: list[int] = []
    if number not in held["instances"]:
        refused, made_room = opening(scene, who, held, number)
    if refused is not None:
        return refused, {}
    touch(scene, opened(scene, who, held, number, made_room, clip=command.clip, layer=layer))
    return "opened", {"clip_instance": number, "retired": made_room, "moved": True}


def loop_refusal(held: dict[str, Any], instance: dict[str, Any], command: Any) -> Answer | None:
    """Say why an open instance does not take an event, apart from bounds."""
    window, loop = held["spec"]["loop_window"], command.loop
    if instance["epoch"] < epoch_of(held, instance["layer"]):
        return "stale_epoch", {}
    if instance["committed"] is not None:
        lowest, highest = instance["committed"], instance["committed"] + window
    elif instance["first"] is not None:
        lowest, highest = instance["first"] - window, instance["first"] + window
    else:
        lowest, highest = loop, loop
    if loop < lowest:
        return "late_loop", {}
    if loop > highest:
        return "beyond_window", {}
    key = (loop, command.frame, command.kind)
    if key in instance["keys"]:
        return "duplicate", {"differs": not same_json(instance["keys"][key], command.payload)}
    return None


def enqueue(scene: PlainScene, who: str, held: dict[str, Any], command: Any) -> Answer:
    """Accept an event into its loop's bucket."""
    spec, number = held["spec"], command.clip_instance
    if spec["kinds"] is not None and command.kind not in spec["kinds"]:
        return "unknown_kind", {}
    is_immediate = spec["kinds"] is not None and spec["kinds"][command.kind] == "immediate"
    instance, made_room = held["instances"].get(number), list[int]()
    if instance is not None:
        refused = loop_refusal(held, instance, command)
        if refused is not None:
            return refused
        if len(instance["keys"]) >= spec["events_per_instance"]:
            return "queue_full", {}
    else:
        word, made_room = opening(scene, who, held, number)
        if word is not None:
            return word, {}
    weight = sum(size(event[3]) for one in held["instances"].values() for event in one["waiting"])
    if not is_immediate and command.payload is not UNSET and weight + size(command.payload) > spec["events_bytes"]:
        return "queue_full", {}
    if instance is None:
        instance = opened(scene, who, held, number, made_room)
    if instance["first"] is None:
        instance["first"] = command.loop
    instance["keys"][command.loop, command.frame, command.kind] = command.payload
    instance["accepted"] += 1
    if not is_immediate:
        instance["waiting"].append((command.loop, command.frame, command.kind, command.payload))
    touch(scene, instance)
    return "accepted", {"retired": made_room, "moved": True}


def in_order(events: list[Any]) -> list[Any]:
    """Order events by loop, frame and arrival."""
    return sorted(events, key=lambda event: (event[0], event[1]))


def commit_loop(scene: PlainScene, who: str, held: dict[str, Any], command: Any) -> Answer:
    """Deliver what waits up to a loop, and forget the keys below it."""
    number, loop = command.clip_instance, command.loop
    instance, made_room = held["instances"].get(number), list[int]()
    if instance is None:
        refused, made_room = opening(scene, who, held, number)
        if refused is not None:
            return refused, {}
        instance = opened(scene, who, held, number, made_room)
    elif instance["committed"] is not None and loop < instance["committed"]:
        return "loop_rollback", {}
    events = in_order([event for event in instance["waiting"] if event[0] <= loop])
    instance["waiting"] = [event for event in instance["waiting"] if event[0] > loop]
    instance["keys"] = {key: payload for key, payload in instance["keys"].items() if key[0] >= loop}
    instance["committed"] = loop
    touch(scene, instance)
    delivery = None
    if events:
        delivery = scene.numbers[who]["delivery"] = scene.numbers[who]["delivery"] + 1
        kept = [*scene.kept.get(who, []), (delivery, [(number, *event) for event in events])]
        scene.kept[who] = kept[-held["spec"]["deliveries_kept"] :]
    return "delivered", {
        "events": [(number, *event) for event in events],
        "delivery": delivery,
        "pending": len(instance["waiting"]),
        "retired": made_room,
        "moved": True,
    }


def retire(scene: PlainScene, who: str, held: dict[str, Any], command: Any) -> Answer:
    """Close an instance for good."""
    number = command.clip_instance
    instance = held["instances"].pop(number, None)
    if instance is None:
        was = number in held["retired"] or number <= scene.numbers[who]["spent"]
        return ("retired_instance" if was else "unknown_instance"), {}
    held["retired"].add(number)
    return "retired", {"undelivered": [(number, *event) for event in in_order(instance["waiting"])], "moved": True}


def acknowledge(scene: PlainScene, who: str, held: dict[str, Any], command: Any) -> Answer:
    """Let go of kept deliveries."""
    numbers = scene.numbers[who]
    if command.through > numbers["delivery"]:
        return "unknown_delivery", {}
    numbers["acknowledged"] = max(numbers["acknowledged"], command.through)
    scene.kept[who] = [kept for kept in scene.kept.get(who, []) if kept[0] > command.through]
    return "acknowledged", {}


DECIDE.update(Play=play, Enqueue=enqueue, CommitLoop=commit_loop, Retire=retire, Acknowledge=acknowledge)
