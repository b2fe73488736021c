"""A complete v1 turn over WebSocket between Accord and the official SDKs, in both roles."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interop.turns import HERE, LIMIT_S, PEERS, Peer, after_v1, python, require
from requirement import requirement

pytestmark = pytest.mark.slow

TOKEN = "the-token-of-the-interop-tests"
ENVIRONMENT = {**os.environ, "ACCORD_TOKEN": TOKEN, "PYTHONPATH": str(HERE / "peers")}
ACCORD = [sys.executable, "-W", "error", "-m", "accord"]
SERVERS = {
    "typescript": [shutil.which("node") or "node", str(HERE / "peers/ts_websocket.mjs")],
    "python-1.0": [str(python("python-1.0")), str(HERE / "peers/py_websocket_server.py")],
}
WS_PACKAGES = (HERE / "node_modules/ws/package.json",)


@contextmanager
def listening(
    command: Sequence[str], *, on_stderr: bool = False, cwd: Path | None = None
) -> Generator[str]:
    """Run a server that prints its URL in its first line; give the one for WebSocket."""
    stdout, stderr = (None, subprocess.PIPE) if on_stderr else (subprocess.PIPE, None)
    with subprocess.Popen(
        command, env=ENVIRONMENT, text=True, stdout=stdout, stderr=stderr, cwd=cwd
    ) as process:
        try:
            stream = process.stderr if on_stderr else process.stdout
            assert stream is not None
            line = stream.readline()
            url = next((word for word in line.split() if word.startswith("ws://")), "")
            assert url, line
            yield url
        finally:
            process.kill()


def turn(command: Sequence[str], cwd: Path) -> dict[str, Any]:
    """Run a client; return its report."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"not done after {LIMIT_S} s\n{late.stderr}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def official(name: str) -> Peer:
    peer = PEERS[1][name]
    require(peer)
    for path in WS_PACKAGES if name == "typescript" else ():
        if not path.exists():
            pytest.skip(f"{path} is missing: run tests/interop/install.sh")
    return peer


@requirement("R-WS-01", "R-WS-02", "R-WS-03")
@pytest.mark.parametrize("client", ["typescript", "python-1.0", "accord"])
def test_served_agent_completes_a_turn_with_every_client(client: str, tmp_path: Path) -> None:
    peer = official(client)
    served = [*ACCORD, "serve", "--port", "0", "--", *PEERS[1]["accord"].start_agent()]
    with listening(served, on_stderr=True) as url:
        target = [*ACCORD, "bridge", url] if client == "accord" else [url]
        assert turn([*peer.start_client(), *target], tmp_path) == after_v1(PEERS[1]["accord"])


@requirement("R-WS-10", "R-WS-12")
@pytest.mark.parametrize("server", SERVERS)
def test_bridge_completes_a_turn_with_every_server(server: str, tmp_path: Path) -> None:
    peer = official(server)
    with listening(SERVERS[server]) as url:
        command = [*PEERS[1]["accord"].start_client(), *ACCORD, "bridge", url]
        assert turn(command, tmp_path) == after_v1(peer)


def test_typescript_client_reaches_a_server_through_a_bridge(tmp_path: Path) -> None:
    official("typescript")
    served = [*ACCORD, "serve", "--port", "0", "--", *PEERS[1]["accord"].start_agent()]
    with listening(served, on_stderr=True) as url:
        command = [*PEERS[1]["typescript"].start_client(), *ACCORD, "bridge", url]
        assert turn(command, tmp_path) == after_v1(PEERS[1]["accord"])
