"""Whether a command costs the same among 100,000 characters as among 1,000, and in 10,000 scenes as in one."""

from bench.cost import Places, Side, compared, lines_of
from bench.mix import RIG, batch_of, sent, spawned
from bench.rounds import Findings, Plan, say
from bench.servers import posegate

FEW, MANY, SCENES = 1_000, 100_000, 10_000
COMMANDS = 500
A_SCENE, A_SCENES_COMMANDS = 10, 100
"""Characters of each of the many scenes, and the commands that one of them is sent together."""

FEW_CHARACTERS, MANY_CHARACTERS = f"{FEW:,} characters", f"{MANY:,} characters"
ONE_SCENE, MANY_SCENES = "1 scene", f"{SCENES:,} scenes"


def among(scene: str) -> Places:
    """Give places in one scene."""
    return lambda number: (scene, f"c{number}")


def over_scenes(number: int) -> tuple[str, str]:
    """Give a place in another scene each ten numbers."""
    return f"s{number // A_SCENE}", f"c{number % A_SCENE}"


async def measured(plan: Plan) -> Findings:
    """Measure the cost among few and many."""
    figures = await _characters(plan) | await _scenes(plan)
    lines = [
        *lines_of("flat-characters", figures, FEW_CHARACTERS, MANY_CHARACTERS),
        *lines_of("flat-scenes", figures, ONE_SCENE, MANY_SCENES),
    ]
    return Findings(lines, figures)


async def _characters(plan: Plan) -> dict[str, float]:
    """Measure the cost in a scene of few and in one of many, which are visited in turn: nearly all are asleep."""
    with posegate(f"sqlite:{plan.directory}/flat.db") as address:
        await spawned(address, "few", range(FEW), RIG)
        say(f"spawning {MANY_CHARACTERS} of 3 layers and 30 parameters")
        await spawned(address, "many", range(MANY), RIG, connections=2)
        sides = {
            FEW_CHARACTERS: Side(address, among("few"), FEW, COMMANDS, COMMANDS),
            MANY_CHARACTERS: Side(address, among("many"), MANY, COMMANDS, COMMANDS),
        }
        return await compared(plan, "cost", sides)


async def _scenes(plan: Plan) -> dict[str, float]:
    """Measure the same over one scene and over many, all held in memory."""
    journal = f"sqlite:{plan.directory}/scenes.db"
    with posegate(journal, scenes_open_max=2 * SCENES, scene_idle_ms=3_600_000) as address:
        say(f"spawning {A_SCENE} characters in each of {SCENES:,} scenes")
        spawns = [{"command": "spawn", "character": f"c{index}"} for index in range(A_SCENE)]
        await sent(address, (batch_of(spawns, f"s{number}") for number in range(SCENES)), connections=16)
        sides = {
            ONE_SCENE: Side(address, over_scenes, A_SCENE, A_SCENE, A_SCENES_COMMANDS),
            MANY_SCENES: Side(address, over_scenes, SCENES * A_SCENE, A_SCENE, A_SCENES_COMMANDS),
        }
        return await compared(plan, "cost", sides)
