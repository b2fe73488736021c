"""Messages to clients that support nothing unstable: stable, except for listed decisions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import Agent
from accord.schema import json_schema
from accord.script_agent.agent import ScriptAgent
from accord.script_agent.registry import COMMANDS
from accord.transports.memory import pair
from raw_peer import QUICK
from versions import only

# As the last table of docs/how-to/send-notices-and-plans.md: advertised capabilities, which every
# client receives; the token usage of a turn; and in version 2, where a client cannot advertise
# anything, updates of kinds that other clients ignore.
DECIDED = {
    1: {
        "AgentAuthCapabilities.status",
        "AgentCapabilities.providers",
        "PromptResponse.usage",
        "SessionCapabilities.archive",
        "SessionCapabilities.fork",
        "SessionCapabilities.status",
        "SessionCapabilities.systemPrompt",
        "SessionCapabilities.title",
        "SessionInfo.archived",
    },
    2: {
        "AgentAuthCapabilities.status",
        "AgentCapabilities.providers",
        "IdleStateUpdate.usage",
        "PlanUpdateContent:file",
        "PlanUpdateContent:markdown",
        "SessionCapabilities.archive",
        "SessionCapabilities.fork",
        "SessionCapabilities.status",
        "SessionCapabilities.systemPrompt",
        "SessionCapabilities.title",
        "SessionInfo.archived",
        "SessionUpdate:plan_removed",
        "SessionUpdate:session_message",
        "SessionUpdate:subagent_update",
    },
}
# The coder uses the MCP servers of its client over ACP.
ONLY_OF_CODER = {"McpCapabilities.acp"}
_NOT_PLAYED = {"exit", "crash", "logout"}


class _Stable:
    """Finds values that the stable schema of a version does not define."""

    def __init__(self, version: int) -> None:
        self._defs: dict[str, Any] = json_schema(f"v{version}")["$defs"]
        self.found: set[str] = set()

    def look(self, name: str, value: Any) -> None:
        self._look({"$ref": f"#/$defs/{name}"}, value, name)

    def _resolve(self, node: Any, name: str) -> tuple[Any, str]:
        while "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            node = self._defs[name]
        return node, name

    def _look(self, node: Any, value: Any, name: str) -> None:
        node, name = self._resolve(node, name)
        options = node.get("anyOf") or node.get("oneOf")
        if options is not None:
            self._look_at_union(options, value, name)
        elif isinstance(value, dict) and "properties" in node:
            for key, item in value.items():
                if key in node["properties"]:
                    self._look(node["properties"][key], item, f"{name}.{key}")
                elif not node.get("additionalProperties"):
                    self.found.add(f"{name}.{key}")
        elif isinstance(value, list) and "items" in node:
            for item in value:
                self._look(node["items"], item, name)

    def _look_at_union(self, options: list[Any], value: Any, name: str) -> None:
        fits: list[set[str]] = []  # the keys that each alternative does not define
        tags: set[str] = set()
        before = self.found
        for option in options:
            node, inner = self._resolve(option, name)
            kinds = {"object": dict, "array": list}
            if not isinstance(value, kinds.get(node.get("type"), str | int | float | None)):
                continue
            properties = node.get("properties", {})
            consts = {k: p["enum"][0] for k, p in properties.items() if len(p.get("enum", ())) == 1}
            tags |= consts.keys()
            if isinstance(value, dict) and not (
                (consts or inner != name)
                and set(node.get("required", ())) <= value.keys()
                and all(value.get(key) == const for key, const in consts.items())
            ):
                continue
            self.found = set()
            self._look(node, value, inner)
            fits.append(self.found)
        self.found = before
        if fits:
            self.found |= min(fits, key=len)
        elif isinstance(value, dict):
            self.found |= {f"{name}:{value[t]}" for t in tags if isinstance(value.get(t), str)}


async def _heard(agent: Agent, version: Any, cwd: Path, prompts: list[str]) -> list[Any]:
    """Return the messages that the agent sends to a client without capabilities."""
    heard: list[Any] = []

    def observe(direction: str, frame: Any) -> None:
        if direction == "received":
            heard.append(json.loads(bytes(frame)))

    here, there = pair()
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        group.create_task(accord.serve(agent, here, limits=QUICK))
        async with accord.connect(
            there, limits=QUICK, versions=only(version), observers=[observe]
        ) as client:
            session = await client.new_session(cwd)
            for prompt in prompts:
                async with session.prompt(prompt) as turn:
                    if prompt.endswith("forever"):
                        await turn.cancel()
                    if prompt == "listen":
                        await turn.steer("stop")
                    with contextlib.suppress(accord.RequestError):
                        await turn.wait()
            assert [listed.id async for listed in client.list_sessions()] == [session.id]
            for method in client.auth_methods[:1]:
                await client.authenticate(method.id)
    return heard


def _prompts() -> list[str]:
    rest = {"title": " A title", "mode": " auto", "option": " brief on", "stop": " refusal"}
    rest |= {"wait": " 0", "alone": " 0", "background": " 0"}
    return [
        command.name + rest.get(command.name, "")
        for command in COMMANDS
        if command.name not in _NOT_PLAYED
    ]


def _names(version: int, message: Any) -> str | None:
    """Return the kind of a message, as in the schema."""
    if message.get("method") == "session/update":
        return "SessionNotification" if version == 1 else "UpdateSessionNotification"
    result = message.get("result")
    if result is None:
        return None
    for key, name in (
        ("protocolVersion", "InitializeResponse"),
        ("stopReason", "PromptResponse"),
        ("messageId", "PromptResponse"),
        ("sessions", "ListSessionsResponse"),
        ("sessionId", "NewSessionResponse"),
    ):
        if key in result:
            return name
    return None


@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
@pytest.mark.parametrize("program", ["script", "coder"])
async def test_client_without_unstable_capabilities_receives_only_the_listed_exceptions(
    version: int, program: str, tmp_path: Path
) -> None:
    if program == "script":
        agent: Agent = ScriptAgent()
        prompts = _prompts()
    else:
        coder = pytest.importorskip("accord_coder.agent", reason="needs accord_coder")
        settings = pytest.importorskip("accord_coder.settings").Settings(data=tmp_path / "data")
        agent = coder.Coder(settings)
        prompts = ["hello", "/help"]
    stable = _Stable(version)
    methods: set[str] = set()
    for message in await _heard(agent, version, tmp_path, prompts):
        if "method" in message:
            methods.add(message["method"])
        if (name := _names(version, message)) is not None:
            stable.look(name, message.get("params") or message["result"])
    await agent.aclose()
    assert stable.found <= DECIDED[version] | ONLY_OF_CODER
    assert "auth/status_update" not in methods
    if program == "script":
        assert stable.found == DECIDED[version]
