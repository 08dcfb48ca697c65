"""What the tests of the command line share: a call as a shell makes it."""

import pytest

from app.cli import main, serving
from app.settings import Settings


@pytest.fixture
def call(monkeypatch, capsys):
    """Call the command line as a shell does: gives the exit code, standard output and standard error."""

    def called(*arguments):
        monkeypatch.setattr("sys.argv", ["posegate", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    return called


@pytest.fixture
def served(monkeypatch):
    """The settings that `serve` would serve with; nothing is served."""
    taken: list[Settings] = []
    monkeypatch.setattr(serving, "serve_until_told", taken.append)
    return taken
