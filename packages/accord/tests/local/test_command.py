"""Commands: output, exit, and no processes left."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from accord.errors import StartError
from accord.local.command import LocalCommand, Output
from requirement import requirement

HERE = "/" if os.name != "nt" else "C:\\"


def python(code: str, **options: object) -> LocalCommand:
    return LocalCommand([sys.executable, "-c", code], cwd=HERE, **options)  # type: ignore[arg-type]  # as named


class Heard:
    """Records the output of a command, and signals the first complete line."""

    def __init__(self) -> None:
        self.text = b""
        self.line = asyncio.Event()

    def __call__(self, data: bytes) -> None:
        self.text += data
        if b"\n" in self.text:
            self.line.set()

    async def first_line(self) -> str:
        async with asyncio.timeout(20):
            await self.line.wait()
        return self.text.decode()


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


async def test_output_and_exit_code_are_returned() -> None:
    heard: list[bytes] = []
    command = python(
        "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)",
        on_output=heard.append,
    )
    try:
        assert await command.wait() == (3, None)
        assert command.output.text().split() == ["out", "err"]
        assert b"".join(heard).split() == [b"out", b"err"]
    finally:
        await command.aclose()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals")
async def test_killed_command_names_the_signal_and_keeps_its_output() -> None:
    heard = Heard()
    command = python("import time; print('begun', flush=True); time.sleep(60)", on_output=heard)
    try:
        await heard.first_line()
        assert command.running
        await command.kill()
        assert await command.wait() == (None, "SIGTERM")
        assert command.output.text() == "begun\n"
    finally:
        await command.aclose()
    assert not command.running


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals")
async def test_close_ends_the_children_of_the_command() -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    heard = Heard()
    command = python(code, on_output=heard)
    try:
        child = int(await heard.first_line())
    finally:
        await command.aclose()
    assert not alive(child)


async def test_exit_does_not_wait_for_a_child_that_holds_the_output() -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    )
    command = python(code)
    try:
        async with asyncio.timeout(20):
            assert await command.wait() == (0, None)
    finally:
        await command.aclose()


async def test_environment_is_inherited_with_changes() -> None:
    command = python("import os; print(os.environ['A'], 'PATH' in os.environ)", env={"A": "b"})
    try:
        await command.wait()
        assert command.output.text().split() == ["b", "True"]
    finally:
        await command.aclose()


async def test_missing_command_is_an_error() -> None:
    with pytest.raises(StartError):
        LocalCommand(["no-such-command"], cwd=HERE)


@requirement("R-TERM-04", "R-TERM-05")
@pytest.mark.parametrize(
    ("limit", "kept", "truncated"),
    [(None, "äöü€", False), (9, "äöü€", False), (8, "öü€", True), (5, "ü€", True), (2, "", True)],
)
def test_output_is_truncated_at_its_beginning_between_characters(
    limit: int | None, kept: str, truncated: bool
) -> None:
    output = Output(limit)
    for byte in "äöü€".encode():
        output.add(bytes([byte]))
    assert output.text() == kept
    assert output.truncated is truncated


def test_memory_for_long_output_is_limited() -> None:
    output = Output(10)
    for _ in range(100):
        output.add(b"x" * 1000)
    assert output.text() == "x" * 10
