"""Real agents that start without an account and without a model, driven by our client.

Installed by `tests/interop/install.sh real`; skipped without it.
"""

import os
import subprocess
from pathlib import Path

import pytest

from accord import v1, v2
from accord.router import connect
from accord.transports.process import process
from interop.turns import python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

# fast-agent only repeats what it is told; minion has a canned turn when a key is set but no model.
COMMANDS = {
    "fast-agent": ("fast-agent-acp", "--model", "passthrough"),
    "minion": ("mcode", "acp"),
}


class Screen(v1.Client):
    """Keeps what the agent shows."""

    def __init__(self) -> None:
        self.updates: list[v1.SessionUpdate] = []

    def session_update(self, params: v1.SessionNotification, context: v1.ClientContext) -> None:
        self.updates.append(params.update)

    def request_permission(
        self, params: v1.RequestPermissionRequest, context: v1.ClientContext
    ) -> v1.RequestPermissionResponse:
        allow = next(option for option in params.options if option.kind == "allow_once")
        outcome = v1.SelectedPermissionOutcome(option_id=allow.option_id)
        return v1.RequestPermissionResponse(outcome=outcome)

    @property
    def text(self) -> str:
        chunks = (item for item in self.updates if isinstance(item, v1.AgentMessageChunk))
        return "".join(
            chunk.content.text for chunk in chunks if isinstance(chunk.content, v1.TextContent)
        )


class Unused(v2.Client):
    """Offers v2, which none of these agents speaks, whatever it says."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A fresh repository, and a home that nothing is known of."""
    (tmp_path / "home").mkdir()
    (tmp_path / "repository").mkdir()
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "repository")], check=True)
    return tmp_path


async def one_prompt(name: str, place: Path, *clients: v1.Client | v2.Client) -> v1.RemoteAgent:
    program, *options = COMMANDS[name]
    path = python(name).with_name(program)
    if not path.exists():
        pytest.skip(f"{path} is missing: run tests/interop/install.sh real")
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    env: dict[str, str | None] = dict.fromkeys(os.environ)
    env |= kept | {"HOME": str(place / "home"), "OPENAI_API_KEY": "none"}
    repository = place / "repository"
    start = process(str(path), *options, cwd=repository, env=env)
    async with connect(start, *clients) as agent:
        session = await agent.new_session(v1.NewSessionRequest(cwd=str(repository), mcp_servers=[]))
        assert session.modes
        answer = await agent.prompt(
            v1.PromptRequest(
                session_id=session.session_id, prompt=[v1.TextContent(text="Hello there")]
            )
        )
        assert answer.stop_reason == "end_turn"
        return agent


async def test_fast_agent_repeats_the_prompt(place: Path):
    screen = Screen()
    await one_prompt("fast-agent", place, screen)
    assert screen.text == "Hello there"


async def test_fast_agent_says_v2_and_is_spoken_to_in_v1(place: Path):
    screen = Screen()
    agent = await one_prompt("fast-agent", place, screen, Unused())
    assert isinstance(agent, v1.RemoteAgent)
    assert agent.initialized.agent_capabilities.load_session
    assert screen.text == "Hello there"


async def test_minion_runs_its_canned_turn(place: Path):
    screen = Screen()
    await one_prompt("minion", place, screen, Unused())
    match screen.updates:
        case [
            v1.AgentThoughtChunk(),
            v1.ToolCall(tool_call_id=announced, kind="execute"),
            v1.ToolCallUpdate(tool_call_id=updated, status="completed"),
            v1.AgentMessageChunk(),
        ]:
            assert announced == updated
        case other:
            pytest.fail(f"other updates: {other}")
