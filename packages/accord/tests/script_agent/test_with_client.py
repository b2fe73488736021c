"""The script agent with client capabilities: files, terminals, elicitation, stored sessions."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import AuthRequired, TerminalOutputChunk, ToolCall
from accord.client.permissions import allow
from accord.types.tool_calls import TerminalView
from script_agent.conversation import BOTH, connected, conversation, run_prompt

PRINT = f"terminal {shlex.quote(sys.executable)} -c 'print(6 * 7)'"


@BOTH
async def test_form_is_filled_in(version: int, tmp_path: Path) -> None:
    forms: list[Any] = []

    async def fill_in(form: Any) -> Any:
        forms.append(form)
        return {"name": "Ada", "count": 5, "parts": ["docs", "tests"]} if len(forms) < 2 else None

    async with conversation(version, tmp_path, on_elicit_form=fill_in) as session:
        done = await run_prompt(session, "elicit form")
        assert done.text == (
            'The form contains: `{"name":"Ada","count":5,"ratio":0.5,"sure":false,'
            '"colour":"green","parts":["docs","tests"],"note":null}`'
        )
        assert (await run_prompt(session, "elicit")).text == "The form was not filled in."
    fields = {field.name: field.kind for field in forms[0].fields}
    assert fields == {
        "name": "text",
        "count": "integer",
        "ratio": "number",
        "sure": "boolean",
        "colour": "choice",
        "parts": "choices",
        "note": "text",
    }
    assert [field.name for field in forms[0].fields if field.required] == ["name"]


@BOTH
async def test_url_is_opened(version: int, tmp_path: Path) -> None:
    pages: list[Any] = []

    async def open_page(page: Any) -> bool:
        pages.append(page)
        return len(pages) < 2

    async with conversation(version, tmp_path, on_elicit_url=open_page) as session:
        assert (await run_prompt(session, "elicit url")).text == "The page was opened."
        assert (await run_prompt(session, "elicit url")).text == "The page was not opened."
        assert pages[0].done.is_set()
    assert pages[0].url == "https://example.com/sign-in"


@BOTH
async def test_files_and_terminals_of_the_client_are_used(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path, files="rw", terminals=True) as session:
        assert (await run_prompt(session, "fs write a.txt hello")).text == "a.txt is written."
        assert (tmp_path / "a.txt").read_text() == "hello\n"
        done = await run_prompt(session, "fs read a.txt")
        assert done.text == "a.txt has 6 characters in 1 lines."
        done = await run_prompt(session, PRINT)
        assert done.text.endswith("ended with status 0 and 3 characters of output.")
        assert isinstance(done.of(ToolCall)[-1].content[0], TerminalView)


async def test_command_shows_a_terminal_in_version_2(tmp_path: Path) -> None:
    async with conversation(2, tmp_path) as session:
        done = await run_prompt(session, PRINT)
    assert b"".join(event.data for event in done.of(TerminalOutputChunk)) == b"42\n"


@BOTH
async def test_full_turn_works_through_the_client(version: int, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n")
    options: dict[str, Any] = {"files": "rw", "terminals": True, "permissions": allow("*")}
    async with conversation(version, tmp_path, **options) as session:
        done = await run_prompt(session, "full")
    calls = {call.id: call for call in done.of(ToolCall)}.values()
    assert [call.kind for call in calls] == ["read", "edit", "execute", "delete"]
    assert {call.status for call in calls} == {"completed"}
    assert not (tmp_path / "accord-demo.md").exists()


@BOTH
async def test_session_can_be_reopened(version: int, tmp_path: Path) -> None:
    async with connected(version) as agent:
        session = await agent.new_session(tmp_path)
        await run_prompt(session, "title Kept")
        await run_prompt(session, "echo remember this")
        await session.close()
        listed = [listing async for listing in agent.list_sessions(tmp_path)]
        assert [(listing.id, listing.title) for listing in listed] == [(session.id, "Kept")]
        again = await agent.load_session(session.id, tmp_path)
        said = [message.text for message in again.transcript.messages if message.role == "agent"]
        assert said[-1] == "remember this"
        assert (await run_prompt(again, "echo on")).text == "on"


@BOTH
async def test_user_logs_in_again_after_a_logout(version: int, tmp_path: Path) -> None:
    async with connected(version) as agent:
        session = await agent.new_session(tmp_path)
        await run_prompt(session, "logout")
        with pytest.raises(AuthRequired):
            await run_prompt(session, "echo in")
        with pytest.raises(AuthRequired):
            await agent.new_session(tmp_path)
        with pytest.raises(AuthRequired, match="always fails"):
            await agent.authenticate("refused")
        assert [method.id for method in agent.auth_methods] == ["script", "refused"]
        await agent.authenticate("script")
        assert (await run_prompt(session, "echo in")).text == "in"


@BOTH
async def test_agent_reports_its_name_and_capabilities(version: int) -> None:
    async with connected(version) as agent:
        assert (agent.info.name, agent.info.version) == ("accord-script", accord.__version__)
        assert all(agent.supports_content(kind) for kind in ("image", "audio", "resource"))
