"""What the gates must answer to a recording, worked out from its raw lines and nothing of the service.

It knows a recording's ways and no more: every handle is known, clip numbers are played once and first, no layer starts
anywhere but where its first begin believed, and no graph commit touches a layer that also plays clips.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

LOOP_WINDOW = 8
REQUIRED = {"Animator", "GameplayEvents"}


def expected(path: Path) -> dict[str, Any]:
    """Work out the counts of a recording by gate and outcome, and what it ends with."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    return {
        "transitions": _transitions(lines),
        "parameters": _parameters(lines),
        "events": _events(lines),
        "graphs": _graphs(lines),
    }


def _transitions(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A completion commits if its handle is the newest of its layer and was not completed before."""
    newest: dict[Any, str] = {}
    committed: dict[Any, str] = {}
    naive: dict[Any, str] = {}
    over: set[str] = set()
    outcomes: Counter[str] = Counter()
    believed_otherwise = shown_otherwise = 0
    for line in lines:
        place = (line["character"], line["layer"])
        if line["op"] == "begin":
            newest[place] = line["handle"]
            naive.setdefault(place, line["from"])
            believed_otherwise += committed.setdefault(place, line["from"]) != line["from"]
            outcomes["granted"] += 1
        elif line["op"] == "complete":
            if newest[place] != line["handle"]:
                outcomes["stale_generation"] += 1
            elif line["handle"] in over:
                outcomes["already_completed"] += 1
            else:
                outcomes["committed"] += 1
                over.add(line["handle"])
                committed[place] = line["target"]
            naive[place] = line["target"]
            shown_otherwise += committed[place] != line["target"]
    return {
        "outcomes": dict(outcomes),
        "from_differs": believed_otherwise,
        "wrong_state_shown": shown_otherwise,
        "final_state_differs": sum(committed[place] != state for place, state in naive.items()),
    }


def _parameters(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A batch is one snapshot or none: no batch with a text in it, since that is how NaN was recorded, counts."""
    outcomes: Counter[str] = Counter()
    committed: dict[Any, Any] = {}
    naive: dict[Any, Any] = {}
    for line in lines:
        if line["op"] != "commit_parameters":
            continue
        values = {(line["character"], name): value for name, value in line["values"]}
        assert len(values) == len(line["values"]), "no recording writes a name twice in a batch"
        broken = any(isinstance(value, str) for value in values.values())
        outcomes["non_finite_value" if broken else "committed"] += 1
        naive |= values
        committed |= {} if broken else values
    differing = sum(committed.get(place, "unset") != value for place, value in naive.items())
    return {"outcomes": dict(outcomes), "final_value_differs": differing}


def _events(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Within a clip instance an event counts once, and not below the committed loop nor beyond the window."""
    outcomes: Counter[str] = Counter()
    keys: dict[Any, set[Any]] = {}
    waiting: dict[Any, set[Any]] = {}
    watermark: dict[Any, int] = {}
    first: dict[Any, int] = {}
    delivered = 0
    for line in lines:
        if line["op"] not in ("play", "event", "commit_loop"):
            continue
        clip = (line["character"], line["clip_instance"])
        if line["op"] == "play":
            assert clip not in keys, "no recording uses a clip number twice"
            keys[clip], waiting[clip] = set(), set()
            outcomes["opened"] += 1
        elif line["op"] == "event":
            key = (line["loop"], line["frame"], line["kind"])
            mark = watermark.get(clip)
            least = first.get(clip, line["loop"]) - LOOP_WINDOW if mark is None else mark
            most = (first.get(clip, line["loop"]) if mark is None else mark) + LOOP_WINDOW
            if line["loop"] < least:
                outcomes["late_loop"] += 1
            elif line["loop"] > most:
                outcomes["beyond_window"] += 1
            elif key in keys[clip]:
                outcomes["duplicate"] += 1
            else:
                outcomes["accepted"] += 1
                first.setdefault(clip, line["loop"])
                keys[clip].add(key)
                waiting[clip].add(key)
        elif line["loop"] < watermark.get(clip, 0):
            outcomes["loop_rollback"] += 1
        else:
            outcomes["delivered"] += 1
            watermark[clip] = line["loop"]
            out = {key for key in waiting[clip] if key[0] <= line["loop"]}
            delivered += len(out)
            waiting[clip] -= out
    return {"outcomes": dict(outcomes), "delivered": delivered, "waiting": sum(map(len, waiting.values()))}


def _graphs(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Only the newest request can win, once, with all outputs and an evaluated frame."""
    outcomes: Counter[str] = Counter()
    newest: dict[str, int] = {}
    spent: set[Any] = set()
    active: dict[str, str] = {}
    naive: dict[str, str] = {}
    for line in lines:
        if line["op"] == "graph_request":
            newest[line["character"]] = line["request"]
            outcomes["requested"] += 1
        elif line["op"] == "graph_candidate":
            place = (line["character"], line["request"])
            naive[line["character"]] = line["name"]
            if newest[line["character"]] != line["request"]:
                outcomes["stale_request"] += 1
            elif place in spent:
                outcomes["already_committed"] += 1
            elif set(line["outputs"]) < REQUIRED:
                outcomes["missing_output"] += 1
            elif not line["evaluated"]:
                outcomes["evaluation_failed"] += 1
            else:
                outcomes["committed"] += 1
                spent.add(place)
                active[line["character"]] = line["name"]
    differing = sum(active.get(character) != name for character, name in naive.items())
    return {"outcomes": dict(outcomes), "final_graph_differs": differing, "active": active}
