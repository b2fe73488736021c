"""Installations that are interrupted, and what is shown meanwhile."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.program import main
from accord_terminal.agents import registry_commands
from accord_terminal.toolkit.agent_names import load_installed
from cli.screen import CTRL_C, at_a_terminal
from registry.server import Registry, binary, entry, tar, tiny
from registry.test_installation import state
from registry.test_packages import npm, npm_package
from requirement import requirement

pytestmark = [
    requirement("R-REG-13"),
    pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX"),
]
ACCORD = (sys.executable, "-m", "accord")
FILLING = random.Random(1).randbytes(400_000)  # so that the archive is large


def offer(registry: Registry, version: str, *names: str, slow: str = "") -> None:
    """Offer agents; the archive of one of them never ends."""
    rows: list[dict[str, Any]] = []
    for name in names:
        archive = tar({"bin/tiny": tiny(version), "filling": FILLING})
        address = registry.add(f"{name}-{version}.tgz", archive)
        rows.append(entry(name, version, binary=binary(address, archive)))
    registry.offer(*rows, etag=f'"{version}"')
    registry.slow = {f"/{slow}-{version}.tgz"} if slow else set()


def version_of(name: str) -> str:
    """Return the version of the program that is started, which must be the listed one."""
    agent = load_installed()[name]
    assert f"# version {agent.version}\n" in Path(agent.argv[0]).read_text()
    return agent.version


def test_ctrl_c_in_a_download_leaves_the_version_before(
    registry: Registry, data: Path, tmp_path: Path
) -> None:
    offer(registry, "1.0.0", "tiny")
    assert main(["agents", "install", "tiny"]) == 0
    before = state(data)
    offer(registry, "2.0.0", "tiny", slow="tiny")
    with at_a_terminal(*ACCORD, "agents", "update", cwd=tmp_path) as person:
        person.sees("downloading 0.2 of 0.4 MB (")
        person.types(CTRL_C)
        assert person.leaves() == 130
        assert "downloading" not in person.emulator.text, "the line of the progress is removed"
    assert state(data) == before
    assert version_of("tiny") == "1.0.0"
    registry.slow = set()
    assert main(["agents", "update"]) == 0
    assert version_of("tiny") == "2.0.0"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_killed_installation_leaves_the_version_before(
    registry: Registry, tmp_path: Path, number: int
) -> None:
    offer(registry, "1.0.0", "tiny")
    assert main(["agents", "install", "tiny"]) == 0
    offer(registry, "2.0.0", "tiny", slow="tiny")
    with at_a_terminal(*ACCORD, "agents", "install", "tiny", cwd=tmp_path) as person:
        person.sees("downloading")
        os.kill(person.program.pid, number)
        person.leaves()
    assert version_of("tiny") == "1.0.0"
    registry.slow = set()
    assert main(["agents", "install", "tiny"]) == 0
    assert version_of("tiny") == "2.0.0"


def test_ctrl_c_in_an_update_of_all_keeps_what_is_done(registry: Registry, tmp_path: Path) -> None:
    offer(registry, "1.0.0", "a", "b", "c")
    for name in ("a", "b", "c"):
        assert main(["agents", "install", name]) == 0
    offer(registry, "2.0.0", "a", "b", "c", slow="b")
    with at_a_terminal(*ACCORD, "agents", "update", cwd=tmp_path) as person:
        person.sees("Installing b 2.0.0")
        person.sees_next("b 1.0.0 → 2.0.0")
        person.sees_next("downloading")
        person.types(CTRL_C)
        assert person.leaves() == 130
        assert "Installed a 2.0.0" in person.emulator.text
    assert [version_of(name) for name in ("a", "b", "c")] == ["2.0.0", "1.0.0", "1.0.0"]


def test_update_of_all_continues_after_a_failure(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(registry, "1.0.0", "a", "b", "c")
    for name in ("a", "b", "c"):
        assert main(["agents", "install", name]) == 0
    offer(registry, "2.0.0", "a", "b", "c")
    registry.files["/b-2.0.0.tgz"] = b"something else"
    capsys.readouterr()
    assert main(["agents", "update"]) == 1
    shown = capsys.readouterr()
    assert "wrong checksum" in shown.err
    assert [version_of(name) for name in ("a", "b", "c")] == ["2.0.0", "1.0.0", "2.0.0"]


@npm
@pytest.mark.programs
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_ctrl_c_ends_npm(
    registry: Registry, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", registry.address)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
    monkeypatch.setenv("npm_config_update_notifier", "false")
    npm_package(registry, "waiting", "run.js")
    registry.slow = {"/waiting.tgz"}
    registry.offer(entry("waiting", npx={"package": "waiting@1.0.0"}))
    with at_a_terminal(*ACCORD, "agents", "install", "waiting", cwd=tmp_path) as person:
        person.sees("npm install waiting@1.0.0 (2 s)")
        assert processes_in(data)
        person.types(CTRL_C)
        assert person.leaves() == 130
    assert not processes_in(data)
    assert state(data) == {}


def processes_in(folder: Path) -> list[int]:
    """Return the processes that work below a folder."""
    found: list[int] = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_progress_is_shown_in_lines_without_a_terminal(
    registry: Registry, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(registry, "1.0.0", "tiny")
    monkeypatch.setattr(registry_commands, "_LINE_S", 0.0)
    assert main(["agents", "install", "tiny"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Installing tiny 1.0.0 (binary) …"
    assert lines[1].startswith("  downloading 0.")
    assert lines[-2:] == ["  downloading 0.4 of 0.4 MB (100 %)", "  extracting"]
