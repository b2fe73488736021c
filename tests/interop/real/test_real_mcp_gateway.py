"""Real agents ask another agent through `accord gateway`, their MCP server; real clients do, too.

The person at the first agent decides what the other one may do, where the first one supports
elicitation: claude-agent-acp does, Qwen Code does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
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
from interop.real.test_real_tools import CONNECT_S, MODULES, started
from interop.turns import python

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
        text = ""
        end = time.monotonic() + 2 * CONNECT_S
        while "DONE" not in text and time.monotonic() < end:
            # An agent that was too busy to connect to the server in time does not try again.
            session = await agent.new_session(state / "work", mcp_servers=[agents])
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


def needed(program: str, path: Path | None) -> str:
    """Return the path of a program; without it the test is skipped, or fails if it must run."""
    if path is not None and path.exists():
        return str(path)
    why = f"{program} is missing: run tests/interop/install.sh real"
    if os.environ.get("ACCORD_REQUIRE_INTEROP") == "1":
        pytest.fail(why)
    pytest.skip(why)


def newest_node() -> Path | None:
    """Return that of the package `node`, which may be newer than this machine's."""
    own, found = MODULES / ".bin/node", shutil.which("node")
    return own if own.exists() else None if found is None else Path(found)


async def output(*command: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(2 * START_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, out.decode(), err.decode()


async def test_inspector_calls_the_tools(state: Path) -> None:
    launcher = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    script = needed("MCP Inspector", MODULES / launcher)
    node = needed("node", newest_node())
    version = (await output(node, "--version"))[1].strip()
    if tuple(map(int, version.strip("v").split("."))) < (22, 19):
        pytest.skip(f"MCP Inspector needs Node 22.19, and this is {version}")
    async with server(state, "http") as agents:
        assert isinstance(agents, McpServerHttp)
        login = ("--header", f"Authorization: {agents.headers['Authorization']}")

        async def call(*options: str) -> str:
            words = (node, script, "--cli", agents.url, "--transport", "http", *login, *options)
            code, out, err = await output(*words)
            assert code == 0, (out, err)
            return out

        tools = await call("--method", "tools/list", "--strict")  # the schemas fit many models
        for name in ("ask", "wait", "answer", "cancel", "sessions"):
            assert f'"{name}"' in tools
        asking = ("--method", "tools/call", "--tool-name", "ask", "--tool-arg")
        assert '"rejected"' in (answer := await call(*asking, "prompt=edit"))
        assert "Edit notes" in answer
        listed = await call("--method", "resources/list")
        assert "accord://sessions/s-" in listed


async def test_client_of_fastmcp(state: Path) -> None:
    interpreter = needed("FastMCP", python("fastmcp"))
    async with server(state, "http") as agents:
        assert isinstance(agents, McpServerHttp)
        token = agents.headers["Authorization"].removeprefix("Bearer ")
        script = str(ROOT / "tests/interop/peers/fastmcp_client.py")
        code, out, err = await output(interpreter, script, agents.url, token)
    assert code == 0, err
    seen = json.loads(out)
    assert seen["tools"] == ["ask", "wait", "answer", "cancel", "sessions"]
    assert (seen["text"], seen["state"]) == ("allowed", "completed")
    assert seen["asked"] == ["The agent python asks for permission: Edit notes"]
    assert "Edit notes: completed" in seen["lines"]
    assert seen["wrong"].startswith("Unknown session")
    assert seen["transcript"]
