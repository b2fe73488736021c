"""Real agents ask another agent through `accord gateway`, their MCP server.

The person at the first agent decides what the other one may do, where the first one supports
elicitation: claude-agent-acp does, Qwen Code does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

from accord.client.elicitation import ElicitationForm, FormValues
from accord.types.mcp import McpServerHttp, McpServerStdio
from accord_terminal.sessions.named import open_session
from accord_terminal.sessions.records import Store, has_owner
from interop.real.test_real_tools import CONNECT_S, started

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
AGENT = ROOT / "packages/accord-bridges/tests/bridges/gateway_agent.py"
GATEWAY = (sys.executable, "-m", "accord", "gateway")
START_S = 60.0
CALL = ("ask", json.dumps({"prompt": "edit\nsay DONE"}))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("state", "run", "worked"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.setenv("ACCORD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("CALLER_STORE", str(tmp_path / "caller.db"))
    return tmp_path


def words(state: Path, *options: str) -> tuple[str, ...]:
    cwd = str(state / "worked")
    return (*GATEWAY[1:], *options, "--cwd", cwd, "--", sys.executable, str(AGENT))


@asynccontextmanager
async def server(state: Path, transport: str) -> AsyncGenerator[McpServerHttp | McpServerStdio]:
    """Return a gateway that the agent can use."""
    try:
        if transport == "stdio":
            names = ("ACCORD_STATE", "XDG_RUNTIME_DIR", "CALLER_STORE", "PATH", "HOME")
            env = {name: os.environ[name] for name in names}
            yield McpServerStdio("agents", GATEWAY[0], words(state, "--stdio-mcp"), env)
            return
        options = ("--port", "0", "--only", "mcp", "--token-file", str(state / "token"))
        process = await asyncio.create_subprocess_exec(
            GATEWAY[0], *words(state, *options), stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(START_S):
                line = b""
                while b"MCP:" not in line:
                    line = await process.stderr.readline()
            url = line.split()[1].decode()
            token = (state / "token").read_text().strip()
            yield McpServerHttp("agents", url, {"Authorization": f"Bearer {token}"})
        finally:
            process.terminate()
            await process.communicate()
    finally:
        for record in Store():
            if has_owner(record.id):
                async with open_session(record.id, record.cwd, create=False) as shared:
                    await shared.agent.call_extension("_accord/session/stop")


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("name", ["claude", "qwen"])
async def test_agent_asks_another_agent(name: str, transport: str, state: Path) -> None:
    asked: list[ElicitationForm] = []

    async def person(form: ElicitationForm) -> FormValues:
        asked.append(form)
        return {"decision": "Allow"}

    async with (
        server(state, transport) as agents,
        started(name, state, *CALL, on_elicit_form=person) as agent,
    ):
        session = await agent.new_session(state / "work", mcp_servers=[agents])
        text = ""
        end = time.monotonic() + CONNECT_S
        while "DONE" not in text and time.monotonic() < end:
            async with session.prompt("Let the other agent edit the notes.") as turn:
                await turn.wait()
            text = turn.text
    if name == "claude":
        [form] = asked
        assert "asks for permission: Edit notes" in form.message
        assert "allowedDONE" in text
    else:
        assert asked == []
        assert "rejectedDONE" in text
        assert "Edit notes" in text
