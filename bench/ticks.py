"""A scene at 60 ticks a second: what it costs the server's core, rollbacks included."""

import asyncio
import statistics
from typing import Any

import httpx
import msgspec

from bench.rounds import Findings, Plan, say
from bench.servers import Address, cpu_seconds, posegate

CHARACTERS, HZ, ROLLBACK_TICKS, LOOP_TICKS = 64, 60, 8, 30
SECONDS = 5
"""How often the plan's time a round takes: there is one rollback a second."""

KINDS = {"footstep": "presentation", "hit": "gameplay"}


def requests_of(tick: int) -> list[dict[str, Any]]:
    """Give the three requests of each character for one tick: a begin, parameters, and an event."""
    loop, frame = divmod(tick, LOOP_TICKS)
    requests: list[dict[str, Any]] = []
    for index in range(CHARACTERS):
        own = {"tick": tick, "source": f"c{index}", "character": f"c{index}"}
        kind = "hit" if frame == 12 else "footstep"
        target = ("Idle", "Run", "Hit")[tick // 10 % 3]
        values = [{"name": "Speed", "value": tick / 7}, {"name": "Turn", "value": -0.5}]
        event = {"command": "enqueue", "clip_instance": 1, "loop": loop, "frame": frame, "kind": kind}
        asked: list[dict[str, Any]] = [
            {"command": "begin", "layer": "base", "target": target, "if_same": "keep"},
            {"command": "commit-parameters", "values": values},
            event if frame else {"command": "commit-loop", "clip_instance": 1, "loop": max(loop - 1, 0)},
        ]
        requests += [{**own, "number": tick * 3 + number, **each} for number, each in enumerate(asked)]
    return requests


async def ticking(address: Address, scene: str, seconds: int) -> dict[str, float]:
    """Seal a tick 60 times a second for some seconds, and once a second roll 8 ticks back and play them again.

    Give the share of a core that the server used, and how many ticks came later than their time.
    """
    host, port, process = address
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}/v1/scenes/{scene}", timeout=10) as client:
        for index in range(CHARACTERS):
            spawn = {"rig": {"events": {"kinds": KINDS}}}
            (await client.put(f"/characters/c{index}", json=spawn)).raise_for_status()
        loop = asyncio.get_running_loop()
        late, started, used = 0, loop.time(), cpu_seconds(process)
        for tick in range(1, seconds * HZ + 1):
            body: dict[str, Any] = {"requests": requests_of(tick), "seal": tick}
            if tick % HZ == 0:
                back = tick - 1 - ROLLBACK_TICKS
                again = [each for other in range(back + 1, tick + 1) for each in requests_of(other)]
                body = {"rollback": back, "requests": again, "seal": tick, "confirm": back}
            content = msgspec.json.encode(body)
            wait = started + tick / HZ - loop.time()
            late += wait < 0
            await asyncio.sleep(max(wait, 0))
            answer = await client.post("/tick", content=content, headers={"Content-Type": "application/json"})
            decided = msgspec.json.decode(answer.content)
            assert decided["seal"]["accepted"], decided
            if tick % HZ == 0:
                assert decided["rollback"]["accepted"], decided["rollback"]
                acks = [
                    {"command": "ack", "character": each["character"], "through": each["delivery"]}
                    for each in decided["confirm"]["deliveries"]
                ]
                (await client.post("/batch", json={"commands": acks})).raise_for_status()
        elapsed = loop.time() - started
        return {"share_of_a_core": (cpu_seconds(process) - used) / elapsed, "late_ticks": late, "ticks": seconds * HZ}


async def measured(plan: Plan) -> Findings:
    """Measure what a scene at 60 ticks a second with rollbacks takes of the server's core; nothing is judged by it."""
    shares, seconds = list[float](), max(1, round(plan.seconds * SECONDS))
    for number in range(plan.rounds):
        with posegate(f"sqlite:{plan.directory}/ticks{number}.db") as address:
            found = await ticking(address, "ticks", seconds)
        shares.append(found["share_of_a_core"])
        late = f"{found['late_ticks']} of {found['ticks']} ticks late"
        say(f"ticks, round {number + 1} of {plan.rounds}: {shares[-1]:.2f} of a core, {late}")
    what = f"{CHARACTERS} characters, {HZ} ticks a second, 3 requests a character and tick, each second"
    return Findings([], {f"{what} a rollback of {ROLLBACK_TICKS}: share of a core": statistics.median(shares)})
