"""`accord inspect`: what can be inspected, what is an error at once, and how it ends."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from accord_inspector.command import command, listening_socket
from inspector.inspector_process import SCRIPT_AGENT, Inspector, inspecting
from sample_recordings import one_turn

HERE = Path(__file__).parent


def test_what_cannot_work_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one_turn().save(tmp_path / "r.acp.jsonl")
    (tmp_path / "notes.txt").write_text("not a recording\n")
    (tmp_path / "empty").mkdir()
    for words, status, expected in (
        ((), 2, "Expected a recording, a folder, the URL of an agent, or -- and a command"),
        (("r.acp.jsonl", "--", "agent"), 2, "Expected a recording"),
        (("missing.acp.jsonl",), 1, "missing.acp.jsonl does not exist: expected a recording"),
        (("notes.txt",), 1, "Expected a recording in notes.txt"),
        (("empty",), 1, "in empty or in its folders, found none"),
        (("--", "no-such-agent"), 1, "Cannot start no-such-agent: not found in PATH"),
        (("--", "./notes.txt"), 1, "notes.txt is not executable"),
        (("r.acp.jsonl", "--tap"), 2, "--tap and -o are for agents"),
        (("r.acp.jsonl", "-o", "x"), 2, "--tap and -o are for agents"),
        (("--tap", "ws://127.0.0.1:1/acp"), 1, "--tap is for commands"),
        (("gopher://x",), 1, "Unknown URL scheme 'gopher'"),
        (("-o", "no/such/folder/r.acp.jsonl", "--", sys.executable), 1, "Cannot write"),
    ):
        done = CliRunner().invoke(command, ["--no-open", *words])
        assert (done.exit_code, done.stdout) == (status, ""), words
        assert expected in done.stderr, words
        assert isinstance(done.exception, SystemExit), words


def test_port_that_is_in_use_is_an_error(tmp_path: Path) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = CliRunner().invoke(command, ["--no-open", "--port", str(port), str(path)])
    assert done.exit_code == 1
    assert f"Cannot listen on 127.0.0.1:{port}: " in done.stderr


def test_address_of_another_machine_is_an_error_without_a_second_port() -> None:
    done = CliRunner().invoke(command, ["--no-open", "--host", "192.0.2.1", "--", sys.executable])
    assert done.stderr == "Error: Cannot listen on 192.0.2.1: Cannot assign requested address\n"


def test_free_port_is_used_if_the_default_one_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr("accord_inspector.command.PORT", other.getsockname()[1])
        with listening_socket("127.0.0.1", None) as opened:
            assert opened.getsockname()[1] != other.getsockname()[1]


async def get(inspector: Inspector, path: str, **params: Any) -> Any:
    """Return what the API answers to a page."""
    async with httpx2.AsyncClient(base_url=inspector.origin) as client:
        await client.get(inspector.address)
        response = await client.get(path, params=params)
        assert response.status_code == 200, response.text
        return response.json()


async def running(inspector: Inspector) -> dict[str, Any]:
    """Wait until the agent has answered `initialize`; return the description."""
    async with asyncio.timeout(20):
        while (await get(inspector, "/api/messages"))["total"] < 2:
            await asyncio.sleep(0.05)
    return await get(inspector, "/api/inspection")


def children_of(pid: int) -> list[int]:
    """Return file descriptors for the children of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [os.pidfd_open(int(child)) for child in text.split()]


def wait_until_gone(pidfds: list[int]) -> None:
    """Wait for processes to end, but not for long."""
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 10)[0], "a process is left"
        os.close(pidfd)


def modes_in(folder: Path) -> set[int]:
    """Return the modes of everything in a folder."""
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*")}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_ctrl_c_leaves_no_process_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with inspecting("--", *SCRIPT_AGENT) as inspector:
        await running(inspector)
        children = children_of(inspector.process.pid)
        assert children
        assert modes_in(tmp_path) == {0o700, 0o600}
        assert await inspector.interrupt() == 0
    wait_until_gone(children)
    assert modes_in(tmp_path) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
async def test_second_ctrl_c_ends_a_program_that_waits_for_its_agent() -> None:
    stubborn = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"
    async with inspecting("--", sys.executable, "-c", stubborn) as inspector:
        inspector.process.send_signal(signal.SIGINT)
        inspector.process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(inspector.process.wait(), 20) in (0, 1)


async def test_recording_of_an_agent_is_kept_which_is_a_class_of_a_module(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.acp.jsonl"
    (tmp_path / "greeter.py").write_text(
        "from accord import Agent, Turn\n"
        "class Greeter(Agent):\n"
        "    async def prompt(self, turn: Turn) -> None:\n"
        "        await turn.say('Hello')\n"
    )
    async with inspecting("-o", str(path), "greeter:Greeter", cwd=tmp_path) as inspector:
        found = await running(inspector)
        assert (found["title"], found["file"]) == ("greeter:Greeter", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().count("\n") >= 3


async def test_named_agent_and_remote_agent(tmp_path: Path) -> None:
    async with inspecting("script") as inspector:
        assert "script" in (await running(inspector))["title"]
    token = tmp_path / "token"
    serve = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", "serve", "--port", "0", "--token-file", str(token)),
        *("--", *SCRIPT_AGENT),
        stderr=subprocess.PIPE,
    )
    try:
        assert serve.stderr is not None
        line = (await asyncio.wait_for(serve.stderr.readline(), 20)).decode()
        address = line.split()[2]
        assert address.startswith("ws://")
        async with inspecting(address, "--token-file", str(token)) as inspector:
            assert (await running(inspector))["title"] == address
    finally:
        serve.send_signal(signal.SIGINT)
        await serve.communicate()
