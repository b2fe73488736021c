"""Attacks on the programs: secrets that others see, and servers that attack the client's user."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from remote.commands import run
from remote.test_commands import ACCORD, ask, serving
from remote.test_operation_unix import serving as passing
from requirement import requirement

pytestmark = pytest.mark.slow

TOKEN = "a-secret-token-of-this-test"
EVIL = "\x1b[2J\x1b]0;evil\x07\x9b31m\u202egnp\u2028end\r\n! forged line"

AGENT = """
import os
from accord import Agent, Turn

class Showing(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(" ".join(f"{name}={value}" for name, value in os.environ.items()))

if __name__ == "__main__":
    Showing().run()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@requirement("R-SEC-06", "R-SEC-10")
@pytest.mark.parametrize("way", ["file", "made"])
def test_token_is_in_no_command_line_log_recording_or_environment_of_agents(
    tmp_path: Path, way: str
) -> None:
    """T21: `ps`, the log, recordings, and what an agent and its commands can read."""
    (tmp_path / "showing.py").write_text(AGENT)
    (tmp_path / "token").write_text(TOKEN)
    options = ("--token-file", "token") if way == "file" else ()
    given = "" if way == "made" else TOKEN
    agent = ("--", sys.executable, "showing.py")
    recording = tmp_path / "bridge.acp.jsonl"
    with serving(tmp_path, *options, agent=agent, token=given) as (url, token, process):
        session = subprocess.Popen(
            [*ACCORD, "trace", "record", "-o", str(recording), "--", *ACCORD, "bridge", url],
            env={**os.environ, "ACCORD_TOKEN": token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert session.stdin is not None
        assert session.stdout is not None
        with session:
            first = {"protocolVersion": 1, "clientCapabilities": {}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": first}
            session.stdin.write(json.dumps(message) + "\n")
            session.stdin.flush()
            session.stdout.readline()  # the agent is running
            for pid in (file.name for file in Path("/proc").iterdir() if file.name.isdecimal()):
                assert token not in command_line(pid)
            asked = ask(url, token, "--quiet")
            session.stdin.close()
        assert "initialize" in recording.read_text()
        assert token not in recording.read_text()
        assert asked.returncode == 0, asked.stderr
        assert "PATH=" in asked.stdout
        assert token not in asked.stdout
        process.terminate()
        assert process.stderr is not None
        assert token not in process.stderr.read()


def command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""  # it has ended


def test_token_is_not_accepted_on_the_command_line() -> None:
    for option in ("--token", "--bearer"):
        for command in (
            ["ask", "hello", "--agent", "ws://localhost:1"],
            ["bridge", "ws://localhost:1"],
        ):
            refused = run([*command, option, TOKEN])
            assert refused.returncode == 2, option
            assert "No such option" in refused.stderr, option


# Servers that attack.


@contextmanager
def closing_server() -> Generator[str]:
    """Close each WebSocket connection with a reason that controls terminals."""

    def close(connection: ServerConnection) -> None:
        connection.recv()
        connection.close(1011, EVIL[:40])

    with serve(close, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering_server(answer: Callable[[], bytes]) -> Generator[str]:
    """Send the same bytes to each request."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(0.1)
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(5)
                connection.recv(65536)
                connection.sendall(answer())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        stopped.set()
        thread.join()
        listening.close()


def response(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def is_harmless(text: str) -> None:
    """Assert that a terminal shows the text as it is."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", text), text
    assert not re.search(r"^! forged line", text, re.MULTILINE), text


ERROR = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": EVIL}})
RESPONSES = {
    "text": response("500 Broken", EVIL.encode(), "Content-Type: text/plain"),
    "error": response("403 No", ERROR.encode(), "Content-Type: application/json"),
    "answer": response(
        "200 OK",
        ERROR.replace("null", "1", 1).encode(),
        "Content-Type: application/json",
        "Acp-Connection-Id: x",
    ),
    "reason": response("418 \x9b31mEvil\x85! forged line", b""),
    "redirect": response("302 Found", b"", "Location: https://evil.example/\x9b31m?token=x"),
}


@requirement("R-SEC-12")
@pytest.mark.parametrize(
    ("kind", "scheme"),
    [("text", "http"), ("error", "http"), ("answer", "http"), ("reason", "ws"), ("redirect", "ws")],
)
def test_response_of_a_server_does_not_control_the_terminal(kind: str, scheme: str) -> None:
    """T26, T18: texts of the server are shown by `accord ask` and `accord bridge`."""
    with answering_server(lambda: RESPONSES[kind]) as address:
        asked = ask(f"{scheme}://{address}", TOKEN, "--quiet")
        assert asked.returncode == 1
        is_harmless(asked.stderr + asked.stdout)
        assert TOKEN not in asked.stderr
        if kind == "redirect":
            assert "redirects to" in asked.stderr


@requirement("R-SEC-12")
@pytest.mark.parametrize("command", ["ask", "bridge"])
def test_close_reason_does_not_control_the_terminal(command: str) -> None:
    with closing_server() as url:
        if command == "ask":
            asked = ask(url, TOKEN, "--quiet")
            code, shown = asked.returncode, asked.stderr
        else:
            environment = {**os.environ, "ACCORD_TOKEN": TOKEN}
            with subprocess.Popen(
                [*ACCORD, "bridge", url],
                env=environment,
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as bridge:
                assert bridge.stdin is not None
                assert bridge.stderr is not None
                bridge.stdin.write("{}\n")
                bridge.stdin.flush()
                code, shown = bridge.wait(60), bridge.stderr.read()
    assert code == 1
    assert "code 1011" in shown
    assert "evil" in shown
    is_harmless(shown)


@requirement("R-SEC-07")
def test_token_is_not_sent_in_plain_text() -> None:
    """T27."""
    for url in ("http://build-7.example/acp", "ws://build-8.example/acp"):
        for command in (["ask", "hello", "--agent", url], ["bridge", url]):
            refused = run(command, env={"ACCORD_TOKEN": TOKEN})
            assert refused.returncode == 2, url
            assert "would be sent unencrypted" in refused.stderr, url
            assert TOKEN not in refused.stderr, url


@requirement("R-SEC-07")
def test_proxy_of_the_environment_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T19."""
    (tmp_path / "showing.py").write_text(AGENT)
    with (
        socket.create_server(("127.0.0.1", 0)) as proxy,
        serving(tmp_path, agent=("showing:Showing",)) as (url, token, _process),
    ):
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "ws_proxy"):
            monkeypatch.setenv(name, address)
        for scheme in ("ws:", "http:"):
            asked = ask(url.replace("ws:", scheme), token, "--quiet")
            assert asked.returncode == 0, asked.stderr
        proxy.settimeout(0)
        with pytest.raises(BlockingIOError):
            proxy.accept()


@requirement("R-SEC-01")
def test_other_addresses_need_a_login(tmp_path: Path) -> None:
    """T3: nobody listens on all interfaces by accident, and everybody needs the token there."""
    (tmp_path / "showing.py").write_text(AGENT)
    with serving(tmp_path, agent=("showing:Showing",)) as (url, _, process):
        assert url.startswith("ws://127.0.0.1:")
        assert ask(url, None).returncode == 1
        process.terminate()
    options = ("--host", "0.0.0.0")
    with serving(tmp_path, *options, agent=("showing:Showing",), token=TOKEN) as found:
        url, _, process = found
        port = url.rpartition(":")[2]
        assert ask(f"ws://127.0.0.1:{port}", None).returncode == 1
        assert ask(f"ws://127.0.0.1:{port}", TOKEN, "--quiet").returncode == 0
        process.terminate()
        assert process.stderr is not None
        assert "not encrypted" in process.stderr.read()


PLAIN_AGENT = """
from accord import Agent, Turn

class Gardener(Agent):
    mcp_transports = frozenset({"stdio"})

    async def prompt(self, turn: Turn) -> None:
        await turn.say("hello")
"""


@pytest.mark.skipif(os.name == "nt", reason="passes file descriptors")
@requirement("R-SEC-09")
@pytest.mark.parametrize(("bind", "code"), [("0.0.0.0", -32602), ("127.0.0.1", None)])
def test_address_of_a_passed_socket_decides_about_mcp_servers(
    tmp_path: Path, bind: str, code: int | None
) -> None:
    (tmp_path / "gardener.py").write_text(PLAIN_AGENT)
    with socket.create_server((bind, 0)) as tcp, passing(tmp_path, fds=(tcp.fileno(),)) as found:
        process = found[1]
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("Token"):
            pass
        login = {"Authorization": f"Bearer {line.rpartition(' ')[2].strip()}"}
        url = f"ws://127.0.0.1:{tcp.getsockname()[1]}/acp"
        server = {"name": "shell", "command": "/bin/sh", "args": [], "env": []}
        with connect(url, additional_headers=login) as client:
            for number, (method, params) in enumerate(
                (
                    ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
                    ("session/new", {"cwd": "/", "mcpServers": [server]}),
                )
            ):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                client.send(json.dumps(message))
                answer = json.loads(client.recv(20))
        assert answer.get("error", {}).get("code") == code
