"""Fuzzing: starts a fuzzer for each target, from the kept corpus, and tells what it found.

python -m tests.fuzz --seconds 20                 every target, 20 seconds each
python -m tests.fuzz body --seconds 200 --keep    one target; the corpus takes over what is new
python -m tests.fuzz codec --input FILE           run one input, as a crash is reproduced
python -m tests.fuzz --seed                       the corpus takes over what the scenarios give
"""

import argparse
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz import corpus
from tests.fuzz.seeds import seeds, words
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
CRASHES = ROOT / "var" / "fuzz"
INPUT_S_MAX = 10
MEMORY_MB_MAX = 2048
TOLD_S = 20
EXECUTED = re.compile(r"number_of_executed_units: (\d+)")


def fuzzed(target: str, seconds: int, seed: int, *, keep: bool) -> bool:
    """Fuzz one target; say whether it kept every promise. An input that broke one is left in `var/fuzz`."""
    CRASHES.mkdir(parents=True, exist_ok=True)
    print(f"fuzzing {target} for {seconds} s, seed {seed}", flush=True)
    with TemporaryDirectory() as folder:
        inputs, dictionary, said = Path(folder, "inputs"), Path(folder, "words"), Path(folder, "said")
        inputs.mkdir()
        for number, each in enumerate(corpus.read(target)):
            (inputs / f"kept-{number}").write_bytes(each)
        dictionary.write_text("".join(f'"{word}"\n' for word in words()), encoding="ascii")
        options = [
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            f"-max_len={corpus.INPUT_BYTES_MAX}",
            f"-timeout={INPUT_S_MAX}",
            f"-rss_limit_mb={MEMORY_MB_MAX}",
            f"-artifact_prefix={CRASHES}/{target}-",
            f"-dict={dictionary}",
            "-verbosity=0",
            "-print_final_stats=1",
        ]
        code = _watched([sys.executable, "-m", "tests.fuzz.fuzzer", target, *options, str(inputs)], inputs, said)
        report = said.read_text(encoding="utf-8", errors="replace")
        found = [path.read_bytes() for path in inputs.iterdir()]
    if code:
        print("\n".join(line for line in report.splitlines() if not line.startswith("INFO: Instrumenting")))
        print(f"{target} broke a promise, or the fuzzer failed. An input that did it is in var/fuzz; run it again:")
        print(f"  python -m tests.fuzz {target} --input var/fuzz/{target}-crash-…")
        return False
    print(f"{target}: {''.join(EXECUTED.findall(report))} inputs tried, {len(found)} of them worth trying further")
    if keep:
        corpus.write(target, corpus.distilled(TARGETS[target], found))
        print(f"{target}: {len(corpus.read(target))} kept")
    return True


def _watched(command: list[str], inputs: Path, said: Path) -> int:
    """Run a fuzzer, telling now and then how far it is; give its exit code."""
    begun = time.monotonic()
    with said.open("wb") as output:
        child = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    return child.wait(TOLD_S)
                except subprocess.TimeoutExpired:
                    print(f"  {time.monotonic() - begun:.0f} s, {len([*inputs.iterdir()])} inputs", flush=True)
        finally:
            child.kill()


def main() -> None:
    """Do what the command line asks for; exit code 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz what takes bytes from outside.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all when none is named")
    parser.add_argument("--seconds", type=int, default=20, help="how long each target is fuzzed")
    parser.add_argument("--random", type=int, default=random.randrange(1, 2**31), help="seed of the fuzzers")
    parser.add_argument("--keep", action="store_true", help="take what was found into the corpus")
    parser.add_argument("--seed", action="store_true", help="take what the scenarios give into the corpus, do not fuzz")
    parser.add_argument("--input", type=Path, help="run this input only")
    asked = parser.parse_args()
    targets = asked.targets or list(TARGETS)
    if unknown := set(targets) - set(TARGETS):
        parser.error(f"there is no target {unknown.pop()}")
    if asked.input:
        print(TARGETS[targets[0]](asked.input.read_bytes()))
    elif asked.seed:
        for target, inputs in seeds().items():
            corpus.write(target, corpus.distilled(TARGETS[target], [*corpus.read(target), *inputs]))
            print(f"{target}: {len(corpus.read(target))} inputs kept of {len(inputs)} given")
    else:
        kept = [fuzzed(target, asked.seconds, asked.random, keep=asked.keep) for target in targets]
        sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
