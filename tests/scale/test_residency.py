import subprocess
import sys

MEASURED = """
import asyncio, os, sys
from app.api.bodies import RigBody
from app.gates.lives import DeclareRig, Spawn
from app.journal import open_journal
from app.sequencing.mailbox import Addressed
from app.sequencing.registry import Registry
from app.settings import Settings

MANY = 100_000
LAYERS = {name: {"initial": "Idle"} for name in ("base", "upper", "face")}
PARAMETERS = {f"Parameter{number:02}": {"type": "float", "default": number / 7} for number in range(30)}

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def main(path):
    registry = Registry(open_journal(f"sqlite:{path}"), Settings())
    rig = RigBody.model_validate({"layers": LAYERS, "parameters": {"declared": PARAMETERS}}).to_rig()
    await registry.submit("crowd", [Addressed(None, DeclareRig(name="humanoid", rig=rig))])
    spawn = Spawn(rig="humanoid")
    before = resident()
    for start in range(0, MANY, 1000):
        await registry.submit("crowd", [Addressed(f"walker-{number}", spawn) for number in range(start, start + 1000)])
    opened = await registry.opened("crowd")
    assert len(opened.scene.roster) == MANY
    print((resident() - before) / MANY)
    await registry.close()

asyncio.run(main(sys.argv[1]))
"""


def test_a_hundred_thousand_characters_weigh_less_than_a_kilobyte_and_a_half_each(tmp_path):
    """3 layers and 30 parameters each; a process of its own, so that nothing else is in the figure."""
    measured = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path / "crowd.db")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert measured.returncode == 0, measured.stderr
    assert 0 < float(measured.stdout) < 1536
