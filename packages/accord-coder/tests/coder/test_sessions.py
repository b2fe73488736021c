"""Sessions of the coder: stored, listed, reopened, and complete after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import (
    ClientSession,
    ConnectionLost,
    ImageContent,
    InvalidParams,
    SqliteStore,
    ToolCall,
    connect,
)
from accord.transports.stdio import PipeTransport
from accord_coder.agent import UserStore
from accord_coder.models.base import Answer, Message, Prompt, Results
from accord_coder.settings import Settings
from coder.harness import BOTH, CoderHarness, scripted
from coder.scripted_model import ScriptedModel, tool_prompt
from raw_peer import QUICK
from versions import only

PIXEL = ImageContent(b"\x89PNG\r\n", "image/png")


def last_messages_to_model(harness: CoderHarness) -> list[Message]:
    """Return the last messages that the model received."""
    assert isinstance(harness.model, ScriptedModel)
    return list(harness.model.requests[-1].messages)


def shown(message: Message) -> Any:
    """Return the parts of a message that a provider receives, without ids."""
    match message:
        case Prompt(content):
            return "prompt", content
        case Answer(text=text, uses=uses):
            return "answer", text, [(use.name, use.arguments) for use in uses]
        case Results(results):
            return "results", [(r.name, r.content, r.failed) for r in results]


async def test_new_session_requires_a_directory(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    async with scripted(tmp_path) as harness:
        for cwd, why in (
            (tmp_path / "none", "does not exist"),
            (tmp_path / "notes.txt", "is not a directory"),
        ):
            with pytest.raises(InvalidParams, match=f"{cwd.name} {why}"):
                await harness.agent.new_session(cwd)
        assert list(harness.coder.sessions) == [harness.session.id]


async def test_session_with_a_missing_directory_can_be_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    settings = Settings(data=tmp_path / "data")
    async with scripted(project, settings=settings) as harness:
        await harness.prompt("Hello")
        session_id = harness.session.id
    project.rmdir()
    again = scripted(project, settings=settings, load=session_id)
    async with again as harness:
        assert harness.session.transcript.messages


@BOTH
async def test_loaded_session_is_replayed_and_known_to_the_model(
    version: int, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("eins\nzwei\n")
    settings = Settings(data=tmp_path / "data")
    async with scripted(tmp_path, version, settings=settings) as harness:
        await harness.use("read", path="notes.txt")
        await harness.use("read", path="missing.txt")
        await harness.use("write", path="new.txt", text="x\n")
        await harness.prompt("look", PIXEL)
        before = [shown(message) for message in last_messages_to_model(harness)]
        calls = [(call.id, call.title, call.status) for call in harness.calls]
        session_id = harness.session.id
    async with scripted(tmp_path, version, settings=settings, load=session_id) as harness:
        assert [(call.id, call.title, call.status) for call in harness.calls] == calls
        await harness.prompt("go on")
        after = [shown(message) for message in last_messages_to_model(harness)]
    assert after[: len(before)] == before
    assert after[-1] == ("prompt", ("go on",))


async def test_image_is_known_to_the_model_after_a_load(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(16))
    settings = Settings(data=tmp_path / "data")
    async with scripted(tmp_path, settings=settings) as harness:
        first = await harness.use("read", path="a.png")
        session_id = harness.session.id
    async with scripted(tmp_path, settings=settings, load=session_id) as harness:
        await harness.prompt("go on")
        results = [
            message for message in last_messages_to_model(harness) if isinstance(message, Results)
        ]
        assert results[0].results[0].content == first.content


async def test_slash_commands_are_not_sent_to_the_model(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    async with scripted(tmp_path, settings=settings) as harness:
        await harness.prompt("/help")
        await harness.prompt("hello")
        await harness.prompt("/mode acceptEdits")
        session_id = harness.session.id
    async with scripted(tmp_path, settings=settings, load=session_id) as harness:
        await harness.prompt("go on")
        said = [m.content for m in last_messages_to_model(harness) if isinstance(m, Prompt)]
        assert said == [("hello",), ("go on",)]
        assert harness.state.mode == "acceptEdits"


async def test_unavailable_mode_is_not_restored(tmp_path: Path) -> None:
    data = tmp_path / "data"
    bold = Settings(data=data, bypass=True)
    async with scripted(tmp_path, settings=bold) as harness:
        await harness.session.set_option("mode", "bypassPermissions")
        await harness.prompt("hello")
        session_id = harness.session.id
    async with scripted(tmp_path, settings=Settings(data=data), load=session_id) as harness:
        assert harness.state.mode == "default"


async def test_title_is_the_first_prompt(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    async with scripted(tmp_path, settings=settings) as harness:
        await harness.prompt("/help")
        await harness.prompt(f"  Mend   the build {'very ' * 20}soon\nplease")
        await harness.prompt("And more")
        (listed,) = [listing async for listing in harness.agent.list_sessions(tmp_path)]
        assert listed.title is not None
        assert listed.title.startswith("Mend the build very")
        assert listed.title.endswith("very…")
        assert len(listed.title) <= 61


@BOTH
async def test_sessions_are_listed_forked_archived_renamed_and_deleted(
    version: int, tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path / "data")
    async with scripted(tmp_path, version, settings=settings) as harness:
        agent, first = harness.agent, harness.session.id
        await harness.prompt("hello")
        fork = await agent.fork_session(first, tmp_path)
        async with fork.prompt("and here") as turn:
            await turn.wait()
        said = [m.content for m in last_messages_to_model(harness) if isinstance(m, Prompt)]
        assert said == [("hello",), ("and here",)]
        assert await agent.set_session_title(fork.id, "Mine") == "Mine"

        async def titles(**more: Any) -> dict[str, str | None]:
            return {s.id: s.title async for s in agent.list_sessions(tmp_path, **more)}

        assert await titles() == {first: "hello", fork.id: "Mine"}
        await agent.archive_session(fork.id)
        assert await titles() == {first: "hello"}
        assert await titles(archived="only") == {fork.id: "Mine"}
        await agent.unarchive_session(fork.id)
        await agent.delete_session(fork.id)
        await agent.close_session(first)
        assert await titles() == {first: "hello"}
        elsewhere = [s async for s in agent.list_sessions(tmp_path / "data")]
        assert elsewhere == []


async def test_long_list_is_paged(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    async with scripted(tmp_path, settings=settings) as harness:
        ids = {harness.session.id}
        for _ in range(60):
            ids.add((await harness.agent.new_session(tmp_path)).id)
        assert {s.id async for s in harness.agent.list_sessions(tmp_path)} == ids


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@BOTH
async def test_session_killed_during_a_turn_loads_all_sent_updates(
    version: int, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("eins\n")
    os.mkfifo(tmp_path / "gate")
    await _killed_in_a_turn(version, tmp_path)

    settings = Settings(data=tmp_path / "data")
    store = SqliteStore(tmp_path / "data" / "sessions.sqlite")
    (stored,) = (await store.list()).sessions
    await store.aclose()
    async with scripted(tmp_path, version, settings=settings, load=stored.id) as harness:
        status = "failed" if version == 1 else "cancelled"
        assert [(call.title, call.status) for call in harness.calls] == [
            ("Read notes.txt", "completed"),
            ("cat gate", status),
        ]
        await harness.prompt("go on")
        prompt, *between, last = last_messages_to_model(harness)
        assert isinstance(prompt, Prompt)
        assert isinstance(last, Prompt)
        results = [m.results[0] for m in between if isinstance(m, Results)]
        assert [result.failed for result in results] == [False, True]
        assert results[0].text == "eins\n"
        uses = [use.id for m in between if isinstance(m, Answer) for use in m.uses]
        assert uses == [result.use_id for result in results]


async def _killed_in_a_turn(version: int, cwd: Path) -> None:
    """Prompt an agent process, and kill it while a command runs."""
    process = subprocess.Popen(  # noqa: ASYNC220  # its pipes go to a transport
        [sys.executable, "-W", "error", "-m", "coder.program", str(cwd / "data")],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        connected = connect(
            PipeTransport(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())),
            limits=QUICK,
            versions=only(version),
            permissions=lambda _request: "allow",
        )
        try:
            async with asyncio.timeout(30), connected as agent:
                session = await agent.new_session(cwd)
                with pytest.raises(ConnectionLost):
                    await _prompt_and_kill(session, process, cwd / "gate")
        finally:
            process.kill()


async def _prompt_and_kill(
    session: ClientSession, process: subprocess.Popen[bytes], gate: Path
) -> None:
    uses = [("read", {"path": "notes.txt"}), ("execute", {"command": "cat gate"})]
    async with session.prompt(tool_prompt(uses)) as turn:
        async for event in turn:
            match event:
                case ToolCall(kind="execute", status="in_progress") if process.poll() is None:
                    held = await asyncio.to_thread(os.open, gate, os.O_WRONLY)  # `cat` has started
                    process.send_signal(signal.SIGKILL)
                    await asyncio.to_thread(process.wait)
                    os.close(held)  # `cat` has ended
                case _:
                    pass


async def test_unwritable_data_directory_does_not_stop_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings(data=tmp_path / "file")
    async with scripted(tmp_path, settings=settings) as harness:
        assert await harness.prompt("hello") == "nothing to do"
    assert "sessions are not stored" in caplog.text


async def test_database_is_opened_on_first_use(tmp_path: Path) -> None:
    store = UserStore(tmp_path / "data")
    await store.aclose()
    assert not (tmp_path / "data").exists()
    assert (await store.list()).sessions == ()
    assert (tmp_path / "data" / "sessions.sqlite").exists()
    await store.aclose()
