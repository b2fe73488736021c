"""`accord ask --continue` with agents that load sessions but cannot list them."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import click
import pytest

from accord_terminal.toolkit.session_setup import open_session, remembered_session
from client.wire_agents import ByHand, agent_by_hand

LOADS = {"agentCapabilities": {"loadSession": True}}
RESUMES = {"agentCapabilities": {"sessionCapabilities": {"resume": {}}}}
LISTS = {"agentCapabilities": {"loadSession": True, "sessionCapabilities": {"list": {}}}}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "accord" / "sessions.json"


async def opening(agent: Any, raw: ByHand, cwd: str, answer: Any, **options: Any) -> Any:
    """Open a session; return the request and the session."""
    given: dict[str, Any] = {"session_id": None, "latest": False} | options
    work = asyncio.ensure_future(open_session(agent, Path(cwd), **given))
    request = await raw.get()
    raw.answer(request["id"], answer)
    return request, await work


@pytest.mark.parametrize(
    ("offers", "method"), [(LOADS, "session/load"), (RESUMES, "session/resume")]
)
async def test_latest_session_of_a_folder_is_continued(offers: Any, method: str) -> None:
    async with agent_by_hand(1, initialize=offers) as (agent, raw):
        for session_id, cwd in (("a", "/one"), ("b", "/two"), ("c", "/one")):
            await opening(agent, raw, cwd, {"sessionId": session_id})
    async with agent_by_hand(1, initialize=offers) as (agent, raw):
        request, session = await opening(agent, raw, "/one", {}, latest=True)
        assert (request["method"], request["params"]["sessionId"]) == (method, "c")
        assert session.id == "c"
        request, _ = await opening(agent, raw, "/two", {}, latest=True)
        assert request["params"]["sessionId"] == "b"


async def test_error_without_a_session_mentions_the_option() -> None:
    async with agent_by_hand(1, initialize=LOADS) as (agent, _raw):
        with pytest.raises(click.UsageError, match="--session ID"):
            await open_session(agent, Path("/one"), session_id=None, latest=True)
    async with agent_by_hand(1) as (agent, _raw):
        with pytest.raises(click.UsageError, match="does not support stored sessions"):
            await open_session(agent, Path("/one"), session_id=None, latest=True)


async def test_sessions_are_remembered_only_if_the_agent_cannot_list_them(state: Path) -> None:
    for offers in (LISTS, None):
        async with agent_by_hand(1, initialize=offers) as (agent, raw):
            await opening(agent, raw, "/one", {"sessionId": "a"})
            assert not state.exists()  # noqa: ASYNC240  # a test
    async with agent_by_hand(1, initialize=LOADS) as (agent, raw):
        await opening(agent, raw, "/one", {"sessionId": "a"})
        assert stat.S_IMODE(state.stat().st_mode) == 0o600  # noqa: ASYNC240  # a test


@pytest.mark.parametrize("text", ["", "{", "[1]", '[["a"]]', "\xff"])
async def test_damaged_file_is_replaced(state: Path, text: str) -> None:
    state.parent.mkdir(parents=True)
    state.write_text(text, "latin-1")  # noqa: ASYNC240  # a test
    async with agent_by_hand(1, initialize=LOADS) as (agent, raw):
        assert remembered_session(agent, Path("/one")) is None
        await opening(agent, raw, "/one", {"sessionId": "a"})
        assert remembered_session(agent, Path("/one")) == "a"


async def test_read_only_home_directory_is_tolerated(state: Path) -> None:
    state.parent.parent.mkdir(parents=True)
    state.parent.write_text("a file where the folder would be")
    async with agent_by_hand(1, initialize=LOADS) as (agent, raw):
        _, session = await opening(agent, raw, "/one", {"sessionId": "a"})
        assert session.id == "a"
