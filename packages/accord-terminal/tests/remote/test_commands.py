"""`accord serve`, `accord bridge` and `accord ask --agent URL`, as programs."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import accord
from needs import needs
from remote.commands import run
from requirement import requirement
from versions import only

AGENT = """
from accord import Agent, Turn


class Gardener(Agent):
    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Dig a hole", kind="edit") as call:
            allowed = await call.permission()
        await turn.say(f"Planted: {turn.text} ({allowed}).")
"""
ACCORD = [sys.executable, "-m", "accord"]
# A clock that jumps by four days each time that it is read.
CLOCK = """
import datetime
import itertools
import time

now, now_ns = time.time, time.time_ns
DAYS = 2 * 86_400
jumps = itertools.cycle((DAYS, -DAYS))
time.time = lambda: now() + next(jumps)
time.time_ns = lambda: now_ns() + next(jumps) * 10**9


class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)


datetime.datetime = Jumping
"""
WITH_THE_CLOCK = [
    *(sys.executable, "-c"),
    "import clock, sys; from accord.program import main; sys.exit(main())",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gardener.py").write_text(AGENT)
    return tmp_path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, str]]:
    """Serve the agent; give the URL and the token."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "gardener.py").write_text(AGENT)
    with serving(folder) as (url, token, _process):
        yield url, token


@contextmanager
def serving(
    folder: Path,
    *options: str,
    agent: tuple[str, ...] = ("gardener:Gardener",),
    token: str = "",
    program: Sequence[str] = ACCORD,
) -> Generator[tuple[str, str, subprocess.Popen[str]]]:
    """Run `accord serve`; give the URL, the token and the process."""
    environment = {**os.environ, "ACCORD_TOKEN": token}
    command = [*program, "serve", "--port", "0", *options, *agent]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            url = re.fullmatch(r"Serving on (ws\S+) and http\S+\n", first)
            assert url is not None, first + process.stderr.read()
            if not token:
                told = process.stderr.readline()
                token = told.rpartition(" ")[2].strip()
                assert told.startswith("Token"), told
            yield url[1], token, process
        finally:
            process.kill()


def ask(url: str, token: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    return run(["ask", "a rose", "--agent", url, *options], env={"ACCORD_TOKEN": token or ""})


def check(url: str, token: str, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["check", "agent", url, "--only", "handshake", *options]
    return run(words, env={"ACCORD_TOKEN": token})


def test_served_agent_is_asked_from_the_command_line(served: tuple[str, str]) -> None:
    asked = ask(*served, "--quiet", "--allow", "edit")
    assert (asked.returncode, asked.stdout) == (0, "Planted: a rose (True).\n"), asked.stderr
    asked = ask(*served, "--quiet")
    assert "Planted: a rose (False)." in asked.stdout


def test_served_agent_is_reached_through_a_bridge(folder: Path) -> None:
    token = "the token of this test, in a variable".replace(" ", "-")
    with serving(folder, token=token) as (url, _token, _process):
        result = accord.ask(
            [*ACCORD, "bridge", url],
            "a tulip",
            env={"ACCORD_TOKEN": token},
            permissions=lambda _request: "allow",
        )
        assert result.text == "Planted: a tulip (True)."


def test_command_is_served(folder: Path) -> None:
    command = ("--", *ACCORD, "agent", "script")
    with serving(folder, agent=command) as (url, token, _process):
        asked = ask(url, token, "--quiet")
        assert asked.returncode == 0, asked.stderr


def test_chain_of_a_file_is_served_in_both_versions_and_over_both_transports(folder: Path) -> None:
    (folder / "passes.py").write_text("from accord import Proxy\n\nProxy().run()\n")
    (folder / "chain.toml").write_text(
        "[[component]]\ncommand = 'passes.py'\n\n"
        f"[[component]]\ncommand = '{shlex.join([*ACCORD, 'agent', 'script'])}'\n"
    )
    with serving(folder, "--chain", "chain.toml", agent=()) as (url, token, _process):
        for version, address in ((1, url), (2, url.replace("ws://", "http://"))):
            result = accord.ask(
                address,
                "permission",
                token=token,
                versions=only(version),
                permissions=lambda _request: "allow",
            )
            assert (result.stop_reason, result.text) == ("end_turn", "1 of 1 allowed.")
        # What is said while a turn runs passes all of them, and a bridge.
        bridge = [*ACCORD, "bridge", url.replace("ws://", "http://")]
        environment = {"ACCORD_TOKEN": token}
        for version, agent, options in (
            (1, url, {"token": token}),
            (2, bridge, {"env": environment}),
        ):
            text = asyncio.run(_steered(agent, versions=only(version), **options))
            assert text.endswith("I heard: a roseI have stopped."), text


async def _steered(agent: Any, **options: Any) -> str:
    """Say something to the script agent in a turn; return the text of the turn."""
    async with accord.connect(agent, **options) as connected:
        session = await connected.new_session(cwd="/")
        async with session.prompt("listen") as turn:
            for message in ("a rose", "stop"):
                assert await turn.steer(message) == accord.Steered("injected")
            await turn.wait()
    return turn.text.replace("\n", "")


def test_agent_is_served_at_another_path(folder: Path) -> None:
    with serving(folder, "--path", "/agents/rose") as (url, token, _process):
        assert url.endswith("/agents/rose")
        for address in (url, url.replace("ws://", "http://")):
            assert ask(address, token, "--quiet").stdout == "Planted: a rose (False).\n"
            other = ask(address.replace("/agents/rose", ""), token, "--quiet")
            assert other.returncode == 1
            assert "/acp" in other.stderr
            assert "status 404" in other.stderr


@requirement("R-SEC-06")
@needs("accord_conformance")
def test_token_is_read_from_a_file_and_never_printed(folder: Path) -> None:
    token = "a-token-from-a-file-of-this-test"
    (folder / "token").write_text(f"{token}\n")
    with serving(folder, "--token-file", "token", token=token) as (url, _token, process):
        file = ("--token-file", str(folder / "token"))
        asked = ask(url, None, "--quiet", "--allow", "edit", *file)
        assert asked.returncode == 0, asked.stderr
        assert check(url, "", *file).returncode == 0
        bridged = accord.ask([*ACCORD, "bridge", url, *file], "a rose", env={"ACCORD_TOKEN": None})
        assert bridged.text == "Planted: a rose (False)."
        process.terminate()
        assert process.stderr is not None
        assert token not in process.stderr.read()


@requirement("R-SEC-04")
def test_wrong_token_is_explained(served: tuple[str, str]) -> None:
    url, _token = served
    asked = ask(url, "another-token-of-this-test")
    assert asked.returncode == 1
    assert "status 401: the server needs a valid token" in asked.stderr
    assert "set ACCORD_TOKEN or give --token-file" in " ".join(asked.stderr.split())
    bridged = subprocess.run(
        [*ACCORD, "bridge", url], capture_output=True, text=True, timeout=60, check=False, input=""
    )
    assert bridged.returncode == 1
    assert bridged.stderr.startswith("accord bridge: ")
    assert "status 401" in bridged.stderr


def test_server_that_does_not_listen_is_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asked = ask(f"ws://127.0.0.1:{port}", None)
    assert asked.returncode == 1
    assert f"annot connect to ws://127.0.0.1:{port}/acp" in asked.stderr


@requirement("R-SEC-04")
@needs("accord_conformance")
def test_check_names_the_server_that_cannot_be_tested(served: tuple[str, str]) -> None:
    url, _token = served
    for address in (url, url.replace("ws://", "http://")):
        checked = check(address, "another-token-of-this-test")
        assert checked.returncode == 2
        assert f"{address} refused the connection with status 401" in checked.stderr
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for scheme in ("ws", "http"):
        address = f"{scheme}://127.0.0.1:{port}/acp"
        checked = check(address, "a-token-of-this-test-case")
        assert checked.returncode == 2
        assert f"Cannot connect to {address}" in checked.stderr


@requirement("R-SEC-07")
def test_token_is_not_sent_unencrypted_to_another_machine() -> None:
    asked = ask("ws://build-7.example/acp", "a-token-of-this-test-case")
    assert asked.returncode == 2
    assert "would be sent unencrypted" in asked.stderr


def test_port_in_use_is_explained(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        served = run(["serve", "--port", str(port), "gardener:Gardener"], folder=folder)
    assert served.returncode == 1
    assert f"Cannot serve on 127.0.0.1:{port}" in served.stderr


NOT_SERVED = [
    (["nowhere:Agent"], "no module nowhere"),
    (["gardener:AGENT"], "gardener has no 'AGENT'"),
    (["no-such-agent"], "Cannot start no-such-agent: not found in PATH"),
    (["wss://build-7.example"], "accord serve -- accord bridge wss://build-7.example"),
    (["--allow-host", "https://a.example", "gardener:Gardener"], "got 'https://a.example'"),
    (["--allow-origin", "a.example", "gardener:Gardener"], "such as https://a.example"),
    (["--allow-origin", "https://*", "gardener:Gardener"], "got 'https://*'"),
]


def test_what_cannot_be_served_is_explained(folder: Path) -> None:
    for words, why in NOT_SERVED:
        served = run(["serve", "--port", "0", *words], folder=folder)
        assert served.returncode == 2, (words, why)
        assert why in served.stderr, (words, why)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_server_with_status_0(folder: Path, number: signal.Signals) -> None:
    with serving(folder) as (url, token, process):
        assert ask(url, token, "--quiet", "--allow", "edit").returncode == 0
        process.send_signal(number)
        assert process.wait(30) == 0


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_clock_that_jumps_ends_no_connection(folder: Path) -> None:
    (folder / "clock.py").write_text(CLOCK)
    limits = ("--idle", "3600", "--drain", "3600", "--max-starts", "10")
    with serving(folder, *limits, program=WITH_THE_CLOCK) as (url, token, process):
        for address in (url, url.replace("ws://", "http://")):
            asked = subprocess.run(
                [*WITH_THE_CLOCK, "ask", "a rose", "--agent", address, "--quiet", "--yes"],
                cwd=folder,
                env={**os.environ, "ACCORD_TOKEN": token},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            assert (asked.returncode, asked.stderr) == (0, "")
            assert asked.stdout == "Planted: a rose (True).\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        logged = [line for line in process.stderr if " connection=" in line]
    today = datetime.now(UTC).date()
    days = [abs((date.fromisoformat(line[:10]) - today).days) for line in logged]
    assert min(days) > 0, "the clock has not jumped"
