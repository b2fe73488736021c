"""Where the user's data and configuration are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accord.coder.places import config_dir, data_dir, private_dir

linux = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="of Linux")


def test_environment_says_it_first(tmp_path: Path) -> None:
    assert data_dir({"ACCORD_DATA": str(tmp_path)}) == tmp_path
    assert config_dir({"ACCORD_CONFIG": str(tmp_path)}) == tmp_path
    assert data_dir({"ACCORD_DATA": "~/x"}) == Path.home() / "x"


@linux
def test_xdg_says_it_then() -> None:
    assert data_dir({"XDG_DATA_HOME": "/data"}) == Path("/data/accord")
    assert config_dir({"XDG_CONFIG_HOME": "/conf"}) == Path("/conf/accord")


@linux
def test_else_it_is_below_home() -> None:
    assert data_dir({"XDG_DATA_HOME": "relative"}) == Path.home() / ".local/share/accord"
    assert config_dir({}) == Path.home() / ".config/accord"


@pytest.mark.parametrize(
    ("platform", "environ", "below"),
    [
        ("darwin", {}, ("Library", "Application Support", "Accord")),
        ("win32", {}, ("AppData", "Accord")),
    ],
)
def test_other_systems_have_places_of_their_own(
    platform: str, environ: dict[str, str], below: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert data_dir(environ) == Path.home().joinpath(*below)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_nobody_else_can_look_into_it(tmp_path: Path) -> None:
    made = private_dir(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o755)
    assert private_dir(made).stat().st_mode & 0o777 == 0o700
