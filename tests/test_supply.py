"""What is shipped: the wheel holds the service and nothing else, and the list of its parts is what is pinned."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from app import __version__

ROOT = Path(__file__).parents[1]
CLIENT = "posegate-client"
"""What the service needs besides what is pinned: it comes from the same tree."""

NOT_SHIPPED = shutil.ignore_patterns("__pycache__")


def ran(*command: str | Path, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment})


def checked(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command that must succeed; give what it printed."""
    done = ran(*command, cwd=cwd, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def made(tree: Path, target: str, *variables: str) -> "subprocess.CompletedProcess[str]":
    """Make a target with the interpreter of the tests and what is installed for it."""
    installed = Path(sys.prefix, ".stamp-tools")
    return ran("make", f"--old-file={installed}", target, f"VENV={sys.prefix}", *variables, cwd=tree)


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the Python client, as `make wheel` does of a commit."""
    folder = tmp_path_factory.mktemp("client-wheel") / "python"
    shutil.copytree(ROOT / "clients" / "python", folder, ignore=NOT_SHIPPED)
    checked(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", ".", cwd=folder)
    [built] = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this tree, as `make wheel` does of a commit."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "app", folder / "app", ignore=NOT_SHIPPED)
    shutil.copytree(ROOT / "tests" / "support", folder / "tests" / "support", ignore=NOT_SHIPPED)
    shutil.copy(ROOT / "pyproject.toml", folder)
    checked(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", ".", cwd=folder)
    [built] = (folder / "dist").iterdir()
    return built


def test_the_wheel_holds_the_service_and_nothing_else(wheel: Path):
    with ZipFile(wheel) as file:
        names = {name for name in file.namelist() if not name.startswith(f"posegate-{__version__}.dist-info/")}

    app = {path.relative_to(ROOT).as_posix() for path in (ROOT / "app").rglob("*") if path.is_file()}
    assert names == {name for name in app if "__pycache__" not in name}


def test_the_wheel_asks_for_what_is_declared(wheel: Path):
    with ZipFile(wheel) as file:
        metadata = file.read(f"posegate-{__version__}.dist-info/METADATA").decode()

    asked = {name.lower() for name in re.findall(r"^Requires-Dist: ([A-Za-z0-9-]+)", metadata, re.MULTILINE)}
    pinned = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert {"apsw", "fastapi", "msgspec"} <= asked - {CLIENT} <= pinned
    assert CLIENT in asked


def test_the_clients_wheel_holds_the_client_with_its_types_and_asks_for_what_is_pinned(client_wheel: Path):
    with ZipFile(client_wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
        [metadata] = [file.read(name).decode() for name in file.namelist() if name.endswith("/METADATA")]

    package = ROOT / "clients" / "python" / "posegate_client"
    found = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    assert names == {name for name in found if "__pycache__" not in name}
    assert "posegate_client/py.typed" in names
    asked = {name.lower() for name in re.findall(r"^Requires-Dist: ([A-Za-z0-9-]+)", metadata, re.MULTILINE)}
    pinned = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert {"httpx", "msgspec", "websockets"} == asked <= pinned


def test_a_fresh_environment_runs_the_service_from_the_wheels(wheel: Path, client_wheel: Path, tmp_path: Path):
    """The libraries are those installed here; the service comes from its wheels alone, whatever folder it is run in."""
    fresh = tmp_path / "fresh"
    venv.create(fresh, with_pip=False)
    python, posegate = fresh / "bin" / "python", fresh / "bin" / "posegate"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    checked(*pip, "install", "--no-deps", "--no-index", wheel, client_wheel, cwd=tmp_path)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(fresh), "platbase": str(fresh)}))
    (own / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")

    assert checked(posegate, "--version", cwd=tmp_path) == f"posegate {__version__}\n"
    assert Path(checked(python, "-c", "import app; print(app.__file__)", cwd=tmp_path).strip()).is_relative_to(fresh)
    document = json.loads(checked(posegate, "openapi", cwd=tmp_path))
    assert (document["info"]["version"], "/v1/scenes" in document["paths"]) == (__version__, True)


def test_the_list_of_parts_is_what_is_pinned_and_the_same_every_time(tmp_path: Path):
    texts = []
    for number in range(2):
        # `make sbom` holds the document against its schema too, which takes seconds and is the tool's own affair.
        done = made(ROOT, "sbom", f"DIST={tmp_path / str(number)}", "SBOM_FLAGS=--no-validate")
        assert done.returncode == 0, done.stdout + done.stderr
        texts.append((tmp_path / str(number) / "posegate.cdx.json").read_text())

    assert texts[0] == texts[1]
    parts = json.loads(texts[0])
    assert (parts["bomFormat"], parts["metadata"]["component"]["name"]) == ("CycloneDX", "posegate")
    listed = [f"{part['name']}=={part['version']}" for part in parts["components"]]
    pinned = re.findall(r"^(\S+==[^ \\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(pinned)
    assert all(part["externalReferences"][0]["hashes"] for part in parts["components"])


def test_the_image_builds_from_source_what_has_no_wheel_and_pins_what_that_needs():
    """Of a library with one file, that file is its source, or the wheel alone: look which, when this fails."""
    one_file = re.findall(
        r"^(\S+)==[^\n]*\n +--hash=\S+\n(?! )", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    built = re.findall(r"--no-binary (\S+)", (ROOT / "docker" / "Dockerfile").read_text())

    assert set(built) == set(one_file) - {"certifi"}
    assert re.search(r"^setuptools==", (ROOT / "requirements-build.lock").read_text(), re.MULTILINE)


def test_a_release_is_built_of_a_clean_tree_only(tmp_path: Path):
    """A file that nobody committed would be missing for whoever builds it again."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for command in (["init", "--quiet"], ["add", "Makefile"], ["commit", "--quiet", "--message", "Begin"]):
        checked("git", "-c", "user.name=test", "-c", "user.email=test@example.com", *command, cwd=tmp_path)

    clean = made(tmp_path, "committed")
    (tmp_path / "notes.txt").write_text("not committed")
    refused = [made(tmp_path, target) for target in ("committed", "wheel", "image")]

    assert clean.returncode == 0, clean.stderr
    for each in refused:
        assert each.returncode != 0
        assert "notes.txt" in each.stderr
    assert not (tmp_path / "dist").exists()


def test_every_library_of_the_service_and_its_tools_is_audited():
    locks = {path.name for path in ROOT.glob("requirements*.lock")}

    [audited] = re.findall(r"^LOCKS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert set(audited.split()) == locks
