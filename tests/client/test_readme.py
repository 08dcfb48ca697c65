"""Every block of the client's README is run, and prints what stands behind it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "clients" / "python" / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
TEXT = README.read_text(encoding="utf-8")
BLOCKS = BLOCK.findall(TEXT)


def test_every_block_says_what_it_prints():
    assert len(BLOCKS) == TEXT.count("```python") >= 6


@pytest.mark.parametrize(("code", "printed"), BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_prints_what_stands_behind_it(url, code: str, printed: str):
    code = code.replace("http://127.0.0.1:8080", url)

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.stdout, done.stderr) == (printed, "")
