"""`accord check` finds nothing wrong with Accord's own server and client on the network."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

import accord
from accord.client.permissions import allow
from conformance.agent.filtered_agent import EXAMPLES

pytestmark = pytest.mark.slow

TOKEN = "a token for the checks of the kit"
ACCORD = (sys.executable, "-m", "accord")
ENVIRONMENT = {**os.environ, "ACCORD_TOKEN": TOKEN}
# They wait for half a minute, and are tested with their doubles.
LONG = "[skip]\n" + "".join(
    f'"{name}" = "takes long"\n'
    for name in ("websocket/ping", "websocket/silence", "http/keepalive")
)
# Neither of them depends on the version.
TRANSPORTS = pytest.mark.parametrize(("version", "scheme"), [(1, "ws"), (2, "http")])


@asynccontextmanager
async def started(
    *arguments: str, mark: str
) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str]]:
    """Start a program; give it, and the address in the line that begins with `mark`."""
    process = await asyncio.create_subprocess_exec(
        *ACCORD, *arguments, stderr=asyncio.subprocess.PIPE, env=ENVIRONMENT
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(30):
            while not (line := (await process.stderr.readline()).decode()).startswith(mark):
                assert line, "it has ended"
        yield process, line.split()[-1].partition("://")[2]
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(30):
            await process.communicate()


@TRANSPORTS
async def test_check_agent_passes_accord_serve(
    version: Literal[1, 2], scheme: str, tmp_path: Path
) -> None:
    settings = tmp_path / "check.toml"
    settings.write_text((EXAMPLES / "script.toml").read_text("utf-8") + LONG, "utf-8")
    report = tmp_path / "report.json"
    # An agent of the server's process: none is started for each of the many connections.
    agent = "accord.script_agent.agent:ScriptAgent"
    served = started("serve", "--port", "0", agent, mark="Serving on")
    async with served as (_, address):
        checking = await asyncio.create_subprocess_exec(
            *ACCORD,
            *("check", "agent", f"{scheme}://{address}", "--config", str(settings)),
            *("--only", "websocket" if scheme == "ws" else "http", "--only", "prompts/text"),
            *("--version", str(version), "--json", str(report)),
            env=ENVIRONMENT,
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(50):
            shown, _ = await checking.communicate()
    assert checking.returncode == 0, shown.decode()
    area = "WS" if scheme == "ws" else "HTTP"
    (found,) = json.loads(report.read_text("utf-8"))["reports"]
    bad = {rule["id"] for rule in found["rules"] if rule["broken"]}
    assert bad == set()
    passed = [rule for rule in found["rules"] if rule["outcome"] == "passed"]
    assert sum(rule["id"].startswith(f"R-{area}-") for rule in passed) >= 7


@TRANSPORTS
async def test_check_client_passes_accords_client(
    version: Literal[1, 2], scheme: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    kit = started(
        *("check", "client", "--serve", "--report", str(report), "--patience", "1"),
        mark="Waiting for a client on",
    )
    async with kit as (process, address):
        url = f"{scheme}://{address}"
        async with accord.connect(
            url, token=TOKEN, versions=(version,), permissions=allow("*"), files="rw"
        ) as agent:
            session = await agent.new_session(tmp_path)
            network = "reopened-stream" if scheme == "http" else "malformed-messages"
            for text in ("check: malformed", f"check: network/{network}"):
                async with session.prompt(text) as turn:
                    await turn.wait()
        async with asyncio.timeout(30):
            await process.wait()
    for found in json.loads(report.read_text("utf-8"))["reports"]:
        broken = [(rule["id"], rule["findings"]) for rule in found["rules"] if rule["broken"]]
        assert broken == []
    assert process.returncode == 0
