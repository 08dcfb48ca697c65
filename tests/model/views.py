"""The same view of a character, from the scene and from the model, so that they can be held equal."""

from typing import Any

import msgspec
from msgspec import UNSET

from app.gates.character import Character
from app.gates.transition import TransitionGranted
from tests.model.plain import PlainScene
from tests.model.plain_events import in_order


def listed(events: list[Any]) -> list[Any]:
    """Give events as the model lists them."""
    return [(event.clip_instance, event.loop, event.frame, event.kind, event.payload) for event in events]


def shown(answer: Any, name: str) -> Any:
    """Give an answer's detail as the model names it."""
    match name:
        case "generation":
            return None if answer.token is None else answer.token.generation
        case "superseded" if isinstance(answer, TransitionGranted):
            return None if answer.superseded is None else answer.superseded.generation
        case "events" | "undelivered":
            return listed(getattr(answer, name))
        case "retired":
            return [] if answer.retired is UNSET else answer.retired
        case "differs":
            return answer.payload_differs is True
        case "retire":
            return None if answer.retire is None else answer.retire.name
        case "ended":
            return [token.generation for token in answer.ended]
        case _:
            return getattr(answer, name)


def view(character: Character) -> dict[str, Any]:
    """Give what is compared of a character."""
    gate = character.events
    return {
        "life": (character.life, character.revision),
        "layers": {
            name: (
                (arbiter.current, arbiter.data, arbiter.epoch, arbiter.generation),
                None if (held := arbiter.pending) is None else (held.generation, held.from_, held.to, held.data),
            )
            for name, arbiter in character.layers.items()
        },
        "parameters": (character.parameters.version, character.parameters.values),
        "instances": {
            number: (
                (one.clip, one.layer, one.epoch, one.committed_loop, one.first_loop, one.remembered, one.accepted),
                listed(one.events(number)),
            )
            for number, one in gate.instances.items()
        },
        "waiting": (gate.waiting_bytes, gate.highest),
        "deliveries": (
            [(kept.delivery, listed(kept.events)) for kept in gate.deliveries],
            gate.last_delivery,
            gate.acknowledged,
        ),
        "graphs": {
            name: (
                None if slot.active is None else slot.active.name,
                (slot.epoch, slot.latest_request, slot.state == "open"),
            )
            for name, slot in character.graphs.items()
        },
    }


def plain_view(plain: PlainScene, who: str) -> dict[str, Any]:
    """Give the same of the model's character."""
    held, numbers = plain.alive[who], plain.numbers[who]
    return {
        "life": (held["life"], held["revision"]),
        "layers": {
            name: (
                tuple(layer[field] for field in ("current", "data", "epoch", "generation")),
                None if layer["pending"] is None else tuple(layer["pending"].values()),
            )
            for name, layer in held["layers"].items()
        },
        "parameters": (held["version"], held["values"]),
        "instances": {
            number: (
                (
                    *(one[field] for field in ("clip", "layer", "epoch", "committed", "first")),
                    len(one["keys"]),
                    one["accepted"],
                ),
                [(number, *event) for event in in_order(one["waiting"])],
            )
            for number, one in held["instances"].items()
        },
        "waiting": (
            sum(len(msgspec.json.encode(event[3])) for event in waiting(held) if event[3] is not UNSET),
            numbers["instance"],
        ),
        "deliveries": (plain.kept.get(who, []), numbers["delivery"], numbers["acknowledged"]),
        "graphs": {
            name: (slot["active"], (slot["epoch"], slot["latest"], slot["open"]))
            for name, slot in held["graphs"].items()
        },
    }


def waiting(held: dict[str, Any]) -> list[Any]:
    """Give all waiting events of a character."""
    return [event for one in held["instances"].values() for event in one["waiting"]]
