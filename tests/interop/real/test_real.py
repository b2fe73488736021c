"""Real agents that start without an account and without a model, with Accord's clients.

They are installed by `tests/interop/install.sh real`.
"""

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import accord
from accord import v1, v2
from accord.roles import connect
from accord.transports.process import process
from interop.turns import HERE, python
from requirement import requirement

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

# fast-agent repeats the prompt; minion has a canned turn with a key and without a model.
COMMANDS = {
    "fast-agent": ("fast-agent-acp", "--model", "passthrough"),
    "minion": ("mcode", "acp"),
}


class Screen(v1.ClientRole):
    """Records what the agent shows."""

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


class Unused(v2.ClientRole):
    """Supports v2, which none of these agents does, whatever they claim."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a new repository with an empty home directory."""
    (tmp_path / "home").mkdir()
    (tmp_path / "repository").mkdir()
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "repository")], check=True)
    return tmp_path


def command(name: str) -> list[str]:
    """Return the command of an agent; skip or fail if it is not installed."""
    program, *options = COMMANDS[name]
    path = python(name).with_name(program)
    if path.exists():
        return [str(path), *options]
    left_out = HERE / ".venvs" / f"{name}.left-out"
    if left_out.exists():
        pytest.skip(left_out.read_text(encoding="utf-8").strip())
    why = f"{path} is missing: run tests/interop/install.sh real"
    if os.environ.get("ACCORD_REQUIRE_INTEROP") == "1":
        pytest.fail(why)
    pytest.skip(why)


def environment(place: Path) -> dict[str, str | None]:
    """Return environment variables that hide the user's data on this machine."""
    keys = ("PATH", "LANG", "PYTHONPYCACHEPREFIX")
    kept = {key: os.environ[key] for key in keys if key in os.environ}
    env: dict[str, str | None] = dict.fromkeys(os.environ)
    return env | kept | {"HOME": str(place / "home"), "OPENAI_API_KEY": "none"}


async def one_prompt(
    name: str, place: Path, *clients: v1.ClientRole | v2.ClientRole
) -> v1.RemoteAgent:
    repository = place / "repository"
    start = process(*command(name), cwd=repository, env=environment(place))
    async with connect(start, *clients) as agent:
        assert isinstance(agent, v1.RemoteAgent)
        session = await agent.new_session(v1.NewSessionRequest(cwd=str(repository), mcp_servers=[]))
        assert session.modes
        answer = await agent.prompt(
            v1.PromptRequest(
                session_id=session.session_id, prompt=[v1.TextContent(text="Hello there")]
            )
        )
        assert answer.stop_reason == "end_turn"
        return agent


async def test_fast_agent_claims_v2_and_repeats_the_prompt_in_v1(place: Path):
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


@asynccontextmanager
async def session_with(
    name: str, place: Path
) -> AsyncGenerator[tuple[accord.ConnectedAgent, accord.ClientSession], None]:
    """Open a session with `accord.connect`."""
    repository = place / "repository"
    async with accord.connect(
        command(name),
        permissions=lambda request: "allow",
        files="rw",
        terminals=True,
        cwd=repository,
        env=environment(place),
    ) as agent:
        assert agent.version == 1
        yield agent, await agent.new_session(repository)


@requirement("R-INIT-14")
async def test_connect_runs_two_turns_with_fast_agent(place: Path):
    async with session_with("fast-agent", place) as (agent, session):
        assert agent.info.name
        assert session.transcript.mode_option
        for words in ("Hello there", "And again"):
            async with session.prompt(words) as turn:
                texts = [event.text async for event in turn if isinstance(event, accord.Text)]
            assert turn.stop_reason == "end_turn"
            assert turn.text == "".join(texts) == words
    assert [m.text for m in session.transcript.messages if m.role == "user"] == [
        "Hello there",
        "And again",
    ]


@requirement("R-INIT-14")
async def test_connect_runs_a_turn_with_minion(place: Path):
    async with session_with("minion", place) as (_, session):
        async with session.prompt("Hello there") as turn:
            events = [event async for event in turn]
        assert turn.stop_reason == "end_turn"
        assert turn.text
        [call] = session.transcript.tool_calls
        assert (call.kind, call.status) == ("execute", "completed")
        assert any(isinstance(event, accord.Thought) for event in events)


def test_ask_works_with_a_real_agent(place: Path):
    answer = accord.ask(
        command("fast-agent"),
        "Hello there",
        cwd=place / "repository",
        env=environment(place),
        timeout_s=100,
    )
    assert (answer.text, answer.stop_reason) == ("Hello there", "end_turn")
