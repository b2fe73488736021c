"""The directories of the user's data and configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs
import pytest

from accord_coder.models.keys import ApiKeys
from accord_coder.models.providers import PROVIDERS
from accord_coder.settings import Settings, config_dir, data_dir, private_dir
from coder.harness import coder_session
from coder.scripted_model import ScriptedModel

linux = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="of Linux")


def test_environment_variables_take_precedence(tmp_path: Path) -> None:
    assert data_dir({"ACCORD_DATA": str(tmp_path)}) == tmp_path
    assert config_dir({"ACCORD_CONFIG": str(tmp_path)}) == tmp_path
    assert data_dir({"ACCORD_DATA": "~/x"}) == Path.home() / "x"


@linux
def test_xdg_variables_come_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/conf")
    assert data_dir({}) == Path("/data/accord")
    assert config_dir({}) == Path("/conf/accord")


@linux
def test_default_is_below_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert data_dir({}) == Path.home() / ".local/share/accord"
    assert config_dir({}) == Path.home() / ".config/accord"


def test_directories_follow_the_platform() -> None:
    assert data_dir({}) == platformdirs.user_data_path("accord", appauthor=False)
    expected = platformdirs.user_config_path("accord", appauthor=False, roaming=True)
    assert config_dir({}) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_created_directory_is_private(tmp_path: Path) -> None:
    made = private_dir(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700
    assert made.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
async def test_shared_directory_keeps_its_mode_and_its_new_files_are_private(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    project = tmp_path / "project"
    project.mkdir()
    settings = Settings(data=shared, config=shared)
    old = os.umask(0)
    try:
        async with coder_session(
            1, cwd=project, settings=settings, model=ScriptedModel()
        ) as harness:
            await harness.prompt("hello")
            await harness.prompt("/permissions allow edit a.txt")
        ApiKeys(shared, {}).save(PROVIDERS[0], "secret")
    finally:
        os.umask(old)
    assert shared.stat().st_mode & 0o777 == 0o777
    files = [path for path in shared.rglob("*") if path.is_file()]
    assert {"sessions.sqlite", "keys.json"} <= {path.name for path in files}
    assert len(files) > 2
    for path in files:
        assert path.stat().st_mode & 0o777 == 0o600, path
