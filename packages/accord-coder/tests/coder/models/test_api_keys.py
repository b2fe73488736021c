"""API keys: where they are found and saved, and that they are not disclosed."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from accord_coder.models.keys import ApiKeys
from accord_coder.models.providers import KEY_VARIABLES, PROVIDERS
from project import PYTHONPATH

OPENAI = next(source for source in PROVIDERS if source.id == "openai")
MISTRAL = next(source for source in PROVIDERS if source.id == "mistral")
SECRET = "sk-do-not-tell-anybody"


@pytest.fixture
def no_keyring() -> Iterator[None]:
    """Simulate a system without a keyring."""
    keyring = pytest.importorskip("keyring", reason="the extra `coder` is not installed")
    from keyring.backends.fail import Keyring

    before = keyring.get_keyring()
    keyring.set_keyring(Keyring())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def keyring_of_test() -> Iterator[dict[tuple[str, str], str]]:
    """Simulate a system whose keyring is this dictionary."""
    keyring = pytest.importorskip("keyring", reason="the extra `coder` is not installed")
    from keyring.backend import KeyringBackend
    from keyring.errors import PasswordDeleteError

    passwords: dict[tuple[str, str], str] = {}

    class InMemory(KeyringBackend):
        priority = 1  # type: ignore[assignment]

        def get_password(self, service: str, username: str) -> str | None:
            return passwords.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            passwords[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            if passwords.pop((service, username), None) is None:
                raise PasswordDeleteError

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())
    yield passwords
    keyring.set_keyring(before)


def test_environment_takes_precedence(tmp_path: Path, no_keyring: None) -> None:
    ApiKeys(tmp_path, {}).save(OPENAI, "kept")
    keys = ApiKeys(tmp_path, {"OPENAI_API_KEY": "set"})
    assert keys.find(OPENAI) == "set"
    assert keys.in_environment(OPENAI)
    assert not keys.in_environment(MISTRAL)


def test_key_is_saved_in_the_keyring(
    tmp_path: Path, keyring_of_test: dict[tuple[str, str], str]
) -> None:
    assert ApiKeys(tmp_path, {}).save(OPENAI, SECRET) == "keyring"
    assert keyring_of_test == {("accord", "openai"): SECRET}
    assert SECRET not in (tmp_path / "keys.json").read_text()
    keys = ApiKeys(tmp_path, {})
    assert keys.has_key(OPENAI)
    assert not keys.has_key(MISTRAL)
    assert keys.find(OPENAI) == SECRET


def test_keyring_is_not_read_for_keys_that_were_not_saved(
    tmp_path: Path, keyring_of_test: dict[tuple[str, str], str]
) -> None:
    keyring_of_test["accord", "openai"] = SECRET
    assert ApiKeys(tmp_path, {}).find(OPENAI) is None


@pytest.mark.skipif(sys.platform == "win32", reason="no such modes")
def test_key_is_saved_in_a_private_file(tmp_path: Path, no_keyring: None) -> None:
    folder = tmp_path / "config"
    assert ApiKeys(folder, {}).save(OPENAI, SECRET) == "file"
    assert stat.S_IMODE((folder / "keys.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    ApiKeys(folder, {}).save(MISTRAL, "other")
    assert ApiKeys(folder, {}).find(OPENAI) == SECRET
    assert ApiKeys(folder, {}).find(MISTRAL) == "other"
    assert [path.name for path in folder.iterdir()] == ["keys.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="no such modes")
def test_file_that_other_users_can_read_is_not_read(
    tmp_path: Path, no_keyring: None, caplog: pytest.LogCaptureFixture
) -> None:
    ApiKeys(tmp_path, {}).save(OPENAI, SECRET)
    (tmp_path / "keys.json").chmod(0o640)
    with caplog.at_level(logging.WARNING):
        assert ApiKeys(tmp_path, {}).find(OPENAI) is None
    assert "other users can read it" in caplog.text
    assert SECRET not in caplog.text


def test_broken_file_has_no_key_and_is_not_quoted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(f'{{"openai": "{SECRET}"')
    path.chmod(0o600)
    assert ApiKeys(tmp_path, {}).find(OPENAI) is None
    assert "cannot be read" in caplog.text
    assert SECRET not in caplog.text


def test_delete_removes_the_saved_key(
    tmp_path: Path, keyring_of_test: dict[tuple[str, str], str]
) -> None:
    keys = ApiKeys(tmp_path, {})
    keys.save(OPENAI, SECRET)
    keys.delete_all()
    assert not keyring_of_test
    assert not list(tmp_path.iterdir())
    assert not keys.has_key(OPENAI)
    keys.delete_all()  # deleting again is not an error


def test_key_saved_later_is_found_after_a_refresh(tmp_path: Path, no_keyring: None) -> None:
    keys = ApiKeys(tmp_path, {})
    assert not keys.has_key(OPENAI)
    ApiKeys(tmp_path, {}).save(OPENAI, SECRET)
    keys.reload()
    assert keys.find(OPENAI) == SECRET


def test_repr_shows_no_key(tmp_path: Path, no_keyring: None) -> None:
    keys = ApiKeys(tmp_path, {})
    keys.save(OPENAI, SECRET)
    assert SECRET not in repr(vars(keys))


def test_without_a_folder_only_the_environment_is_used(no_keyring: None) -> None:
    keys = ApiKeys(None, {})
    assert keys.find(OPENAI) is None
    with pytest.raises(OSError, match="no directory"):
        keys.save(OPENAI, SECRET)


def test_key_variables_are_recognised() -> None:
    assert {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"} <= KEY_VARIABLES
    assert msgspec.json.encode(sorted(KEY_VARIABLES))


def run(program: Path, code: str, **env: str) -> list[str]:
    """Run a program; return what it prints. `can_be_read()` says whether others see its memory."""
    program.write_text(
        "import ctypes\ndef can_be_read(): return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)\n"
        + textwrap.dedent(code)
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    )
    return done.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_keys_in_memory_cannot_be_read_by_other_processes(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    ApiKeys(tmp_path / "some", {}).save(PROVIDERS[0], "secret")
    code = f"""
        from pathlib import Path
        from accord_coder.models.keys import ApiKeys

        def shown(folder, environ):
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
            ApiKeys(Path({str(tmp_path)!r}, folder), environ).conceal()
            print(can_be_read())

        shown("none", {{}})
        shown("some", {{}})
        shown("none", {{{PROVIDERS[0].variables[0]!r}: "secret"}})
    """
    assert run(tmp_path / "keys.py", code) == ["1", "0", "0"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_coder_protects_its_memory_before_it_runs_commands(tmp_path: Path) -> None:
    code = f"""
        import asyncio, sys
        from pathlib import Path
        sys.path[:0] = {PYTHONPATH.split(os.pathsep)!r}
        from coder.harness import scripted

        async def main():
            print(can_be_read())
            async with scripted(Path({str(tmp_path)!r})):
                print(can_be_read())
        asyncio.run(main())
    """
    assert run(tmp_path / "coder_program.py", code, OPENAI_API_KEY="secret") == ["1", "0"]
