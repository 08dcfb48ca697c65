"""A process of a cluster: started, held still, told to stop, killed."""

import os
import signal
import sys
from pathlib import Path

import pytest

from cluster.children import Child, ClusterError

OBEDIENT = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"


class Program(Child):
    """A few words of Python."""

    def __init__(self, directory: Path, words: str) -> None:
        super().__init__("program", directory / "program.log")
        self._words = words
        self._starts = 0

    def start(self) -> None:
        self.spawn([sys.executable, "-c", self._words], os.environ, Path.cwd())
        self._starts += 1

    def ready(self) -> None:
        self.until(lambda: self.log.read_bytes() == b"up\n" * self._starts, "said that it is up", 10)


class Impatient(Program):
    """The same, with little time to stop."""

    stop_s_max = 0.2


def test_it_runs_until_it_is_told_to_stop(tmp_path: Path):
    program = Program(tmp_path, OBEDIENT)
    was_running = program.is_running

    program.start()
    program.ready()
    was = program.pid
    with pytest.raises(ClusterError, match="runs already"):
        program.start()
    program.restart()
    then = program.pid
    program.stop()

    assert (was_running, program.is_running, program.exit_code) == (False, False, 0)
    assert len({was, then, None}) == 3


def test_one_that_ignores_it_goes_on_and_can_be_killed(tmp_path: Path):
    program = Impatient(tmp_path, STUBBORN)
    program.start()
    program.ready()

    with pytest.raises(ClusterError, match="still runs"):
        program.stop()
    was_running = program.is_running
    program.kill()

    assert (was_running, program.exit_code) == (True, -signal.SIGKILL)


def test_one_that_is_held_still_runs_and_is_killed_all_the_same(tmp_path: Path):
    program = Program(tmp_path, OBEDIENT)
    program.start()
    program.ready()

    program.pause()
    stat = Path(f"/proc/{program.pid}/stat")
    program.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "stopped", 10)
    was_running = program.is_running
    program.resume()
    program.until(lambda: stat.read_text().rpartition(")")[2].split()[0] != "T", "gone on", 10)
    program.pause()
    program.kill()

    assert (was_running, program.is_running) == (True, False)


def test_one_that_ends_before_it_is_ready_is_told_with_its_last_words(tmp_path: Path):
    program = Program(tmp_path, "raise SystemExit('no port left')")
    program.start()

    with pytest.raises(ClusterError, match=r"ended with code 1(?s:.*)no port left"):
        program.ready()


def test_it_can_be_started_through_another_program_which_becomes_it(tmp_path: Path):
    program = Program(tmp_path, f"import os; assert os.environ['PLACE'] == 'apart'; {OBEDIENT}")
    program.prefix = ["env", "PLACE=apart"]

    program.start()
    program.ready()
    program.stop()

    assert program.exit_code == 0


def test_a_program_that_is_not_there_is_told(tmp_path: Path):
    program = Program(tmp_path, OBEDIENT)
    program.prefix = ["no-such-program-anywhere"]

    with pytest.raises(ClusterError, match="cannot be started"):
        program.start()


def test_what_has_ended_takes_no_harm_from_being_stopped_again(tmp_path: Path):
    program = Program(tmp_path, OBEDIENT)
    program.kill()
    program.stop()
    program.start()
    program.kill()
    program.kill()
    program.stop()

    assert program.exit_code == -signal.SIGKILL
