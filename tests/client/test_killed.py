"""A service that is killed in the midst of calls and comes back: what was asked is decided once, by either client."""

import itertools
import threading

from posegate_client import Limits, commands
from tests.client.relay import relayed
from tests.support.process import process

PATIENT = Limits(deadline_s=60, attempts_max=100, pause_s_max=0.2)
ASKED = 150
KILLED_AT = (20, 60, 100)
"""So many answers came before each kill."""


def test_commands_and_batches_are_decided_once_over_kills(connect, tmp_path):
    """Every second call is a batch. Each kill falls wherever the caller happens to be, in the midst of its calls."""
    journal = f"sqlite:{tmp_path}/posegate.db"
    answers = []

    def asking(scene):
        numbers = itertools.count()
        scene.ask(commands.spawn("hero"))
        for _ in range(ASKED // 3):
            answers.append(scene.character("hero").begin("base", f"S{next(numbers)}"))
            answers.extend(scene.batch([commands.begin("hero", "base", f"S{next(numbers)}") for _ in range(2)]))

    with relayed() as relay:
        scene = connect(relay.url, limits=PATIENT).scene("match-7")
        caller = threading.Thread(target=asking, args=(scene,))
        caller.start()
        for count in KILLED_AT:
            with process(journal) as serving:
                relay.target = serving.port
                while len(answers) < count and caller.is_alive():
                    caller.join(0.001)
                assert caller.is_alive()
                serving.kill()
        with process(journal) as serving:
            relay.target = serving.port
            caller.join(60)
            history = list(connect(relay.url).scene("match-7").history())

    assert [answer.token.to for answer in answers] == [f"S{number}" for number in range(ASKED)]
    assert [answer.token.generation for answer in answers] == list(range(1, ASKED + 1))
    assert [each.sequence for each in history] == list(range(1, ASKED + 2))
