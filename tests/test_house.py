"""The house rules of CONTRIBUTING.md, kept by counting: each test names every place that breaks its rule."""

import ast
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import ModuleType

import app.gates
from app.gates.decision import Fact

ROOT = Path(__file__).parents[1]
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50

CODE = ("app", "clients", "cluster")
WRITTEN = (".ci", "app", "bench", "clients", "cluster", "docker", "docs", "openapi", "tests")
STARTS_TASKS = "app/sequencing/registry.py"
CATCHES_ALL = "app/main.py"
SAYS_NOTHING = {"utils", "helpers", "common", "manager", "base"}

MIRRORED_ELSEWHERE: dict[str, tuple[str, str]] = {
    "app/cli/__main__.py": ("tests/test_main.py", "it runs the command line, which every process of a test is"),
}
"""Modules without a test file of their own name: where they are tested instead, and why."""

PRIVATE_PATH = re.compile(r"(^|[^A-Za-z0-9_.-])/(work|farm|root)/")
INDEX_HOST = re.compile(r"\b(files\.pythonhosted|pypi|registry\.npmjs|deb\.debian)\.org\b")


def sources(*places: str) -> list[Path]:
    """Give every Python file below the named folders of the tree."""
    return sorted(path for place in places for path in (ROOT / place).rglob("*.py"))


def named(path: Path) -> str:
    """Give a path as it is written in a report: from the root of the tree."""
    return path.relative_to(ROOT).as_posix()


def nodes(path: Path) -> Iterator[ast.AST]:
    """Give every node of a file's syntax tree."""
    return ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=named(path)))


def gates() -> list[ModuleType]:
    """Import every module of the gates."""
    names = (found.name for found in pkgutil.walk_packages(app.gates.__path__, "app.gates."))
    return [importlib.import_module(name) for name in names]


UNSEEN = {"closed"}
"""Facts that no caller reads: the end of a scene is answered 204, and its history ends with it."""


def outcomes() -> set[str]:
    """Collect every outcome a gate can answer: the values of its refusals, the tags of its facts."""
    found: set[str] = set()
    for module in gates():
        for value in vars(module).values():
            if not isinstance(value, type):
                continue
            if issubclass(value, StrEnum) and value.__name__.endswith("Refusal"):
                found.update(member.value for member in value)
            elif issubclass(value, Fact) and value is not Fact:
                found.add(str(value.__struct_config__.tag))
    return found - UNSEEN


def is_answered_in(text: str, outcome: str) -> bool:
    """Say whether a scenario expects the outcome: as an answer of its own, or inside one (a batch, the history)."""
    return re.search(rf'^ +[+-] {outcome}$|^ +[+-] {outcome} |"outcome": "{outcome}"', text, re.MULTILINE) is not None


def listed(broken: list[str]) -> str:
    """Give one line for each place that breaks a rule; pytest alone would cut a long list short."""
    return "\n".join(["", *broken])


def test_a_module_has_at_most_400_lines():
    counted = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources(*CODE)}
    long = [f"{name}: {lines} lines" for name, lines in counted.items() if lines > MODULE_LINES_MAX]

    assert not long, listed(long)


def test_a_function_has_at_most_50_lines():
    counted = {
        f"{named(path)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in sources(*CODE)
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    long = [f"{name}: {lines} lines" for name, lines in counted.items() if lines > FUNCTION_LINES_MAX]

    assert not long, listed(long)


def test_a_module_opens_with_a_sentence_that_says_what_it_owns():
    silent = [
        named(path) for path in sources("app") if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert not silent, listed(silent)


def test_a_module_is_named_for_what_it_owns():
    vague = [named(path) for path in sources(*CODE) if {path.stem, path.parent.name} & SAYS_NOTHING]

    assert not vague, listed(vague)


def test_only_the_registry_starts_tasks():
    """A task that nobody holds is collected while it runs, and is not awaited at shutdown."""
    started = [
        f"{named(path)}:{node.lineno}"
        for path in sources(*CODE)
        if named(path) != STARTS_TASKS
        for node in nodes(path)
        if (isinstance(node, ast.Attribute) and node.attr in {"create_task", "ensure_future"})
        or (isinstance(node, ast.Name) and node.id in {"create_task", "ensure_future"})
    ]

    assert not started, listed(started)


def test_every_task_has_a_name():
    nameless = [
        f"{STARTS_TASKS}:{node.lineno}"
        for node in nodes(ROOT / STARTS_TASKS)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"create_task", "ensure_future"}
        and "name" not in {keyword.arg for keyword in node.keywords}
    ]

    assert not nameless, listed(nameless)


def test_only_main_catches_whatever_comes():
    caught = [
        f"{named(path)}:{node.lineno}"
        for path in sources(*CODE)
        if named(path) != CATCHES_ALL
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and catches_all(node)
    ]

    assert not caught, listed(caught)


def catches_all(handler: ast.ExceptHandler) -> bool:
    """Say whether a handler takes every exception there is."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id.endswith("Exception")) for kind in kinds)


def test_gates_import_the_standard_library_and_msgspec_only():
    """What gates may not take from the standard library (clock, chance, waiting) is an import contract."""
    known = sys.stdlib_module_names | {"msgspec"}
    foreign = [
        f"{named(path)}:{node.lineno} {name}"
        for path in sources("app/gates")
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imported(node)
        if name.partition(".")[0] not in known and not f"{name}.".startswith("app.gates.")
    ]

    assert not foreign, listed(foreign)


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Give the modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""]


def test_every_module_has_its_test_file():
    missing = []
    for path in sources("app"):
        if path.name == "__init__.py" or named(path) in MIRRORED_ELSEWHERE:
            continue
        mirror = ROOT / "tests" / path.relative_to(ROOT / "app").with_name(f"test_{path.name}")
        if not mirror.is_file():
            missing.append(f"{named(path)}: {named(mirror)}")

    assert not missing, listed(missing)


def test_every_exception_to_the_mirror_still_holds():
    untrue = [
        module
        for module, (instead, why) in MIRRORED_ELSEWHERE.items()
        if not (ROOT / module).is_file() or not (ROOT / instead).is_file() or not why
    ]

    assert not untrue, listed(untrue)


def test_the_gates_were_found():
    """An empty collection would let the two tests below pass without asking anything."""
    assert {"granted", "committed", "stale_generation", "stale_life", "spawned"} <= outcomes()


def test_every_outcome_is_explained():
    text = (ROOT / "docs/outcomes.md").read_text(encoding="utf-8")
    unexplained = sorted(outcomes() - set(re.findall(r"^### `([^`]+)`", text, re.MULTILINE)))

    assert not unexplained, listed(unexplained)


def test_every_outcome_is_answered_in_a_scenario():
    told = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests/scenarios").glob("*.txt")))
    untold = sorted(outcome for outcome in outcomes() if not is_answered_in(told, outcome))

    assert not untold, listed(untold)


def test_no_written_file_names_a_machine_of_ours():
    """A path or an index of the machine that wrote a file helps nobody who reads it elsewhere."""
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    below = [path for place in WRITTEN for path in (ROOT / place).rglob("*") if path.is_file()]
    told = [
        f"{named(path)}:{number}"
        for path in sorted(top + below)
        if "__pycache__" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if PRIVATE_PATH.search(line) or INDEX_HOST.search(line)
    ]

    assert not told, listed(told)


def test_a_lock_holds_pinned_versions_and_hashes_only():
    locks = sorted(ROOT.glob("requirements*.lock"))
    pinned = re.compile(r"[a-z0-9-]+==[^ @]+( ; [^@\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    loose = [
        f"{lock.name}:{number}"
        for lock in locks
        for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), 1)
        if not pinned.fullmatch(line)
    ]

    kinds = [lock.name.removeprefix("requirements").removesuffix(".lock") for lock in locks]
    assert kinds == ["-bench", "-build", "-fuzz", "-test", ""]
    assert not loose, listed(loose)
