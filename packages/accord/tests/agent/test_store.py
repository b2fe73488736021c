"""Stores: the contract, the stored form, and that a killed process loses no sent update."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from accord.agent.store import MemoryStore, SessionStore, StoredSession
from accord.agent.store.sqlite import SqliteStore
from accord.agent.store.stored_sessions import collapse, decode_update, encode_update
from accord.agent.updates import (
    ContextUsageUpdate,
    MessageUpdate,
    OptionsUpdate,
    PlanUpdate,
    TerminalExited,
    TerminalOutputUpdate,
    TerminalStarted,
    TitleUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    TurnEnded,
    TurnError,
    Update,
)
from accord.testing import StoreContract
from accord.types.content import AudioContent, EmbeddedResource, ImageContent, Other, ResourceLink
from accord.types.session import (
    BooleanOption,
    ContextUsage,
    Cost,
    OptionChoice,
    PlanEntry,
    SelectOption,
)
from accord.types.tool_calls import Diff, TerminalView, ToolCallLocation
from requirement import requirement


class TestMemoryStore(StoreContract):
    async def store(self) -> SessionStore:
        return MemoryStore()


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "deep" / "sessions.db"

    async def store(self) -> SessionStore:
        return SqliteStore(self.path)

    async def reopened(self, store: SessionStore) -> SessionStore:
        return SqliteStore(self.path)


async def test_two_stores_can_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    first, second = SqliteStore(path), SqliteStore(path)
    try:
        await first.create(StoredSession(id="a", cwd="/"))
        await second.append("a", b"1")
        await first.append("a", b"2")
        assert await second.read("a") == [b"1", b"2"]
    finally:
        await first.aclose()
        await second.aclose()


async def test_file_of_a_newer_version_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ValueError, match="newer"):
        await SqliteStore(path).get("a")


# Entries.

EVERYTHING: list[Update] = [
    MessageUpdate(
        "user",
        "m1",
        ("hi", ImageContent(b"\x00\xff", "image/png", "file:///a"), AudioContent(b"1", "a/b")),
    ),
    MessageUpdate(
        "user",
        "m2",
        (ResourceLink("file:///a", "a", size=3), EmbeddedResource("file:///b", "text", "t/p")),
    ),
    MessageUpdate(
        "agent", "m3", (EmbeddedResource("file:///c", b"\x00"), Other({"type": "_smell", "n": [1]}))
    ),
    ToolCallUpdate(
        id="t1",
        is_new=True,
        title="Edit",
        name="edit",
        kind="_own",
        status="pending",
        content=("text", Diff("/a", None, "new"), Diff("/b", patch="p"), TerminalView("x")),
        locations=(ToolCallLocation("/a", 3), ToolCallLocation("/b")),
        raw_input={"a": [1, None]},
        raw_output=None,
    ),
    ToolCallUpdate(id="t1", status="completed"),
    ToolContentUpdate("t1", "more", continues=True),
    PlanUpdate("main", (PlanEntry("Find", "completed", "high"),)),
    OptionsUpdate(
        (
            SelectOption(id="a", name="A", value="x", choices=(OptionChoice("x", "X", group="g"),)),
            BooleanOption(id="b", name="B", value=True),
        ),
        mode_changed=True,
    ),
    TitleUpdate("title"),
    TitleUpdate(None),
    ContextUsageUpdate(ContextUsage(1, 2, Cost(0.5, "EUR"))),
    TerminalStarted("x", "ls", "/"),
    TerminalOutputUpdate("x", b"\xff\x00"),
    TerminalExited("x", None, "SIGKILL"),
    TurnEnded("error", TurnError(-32603, "Internal error", {"a": 1})),
    TurnEnded("end_turn"),
    MessageUpdate("agent", "m3", ("half a character: \ud83d",)),
    ToolCallUpdate(id="t2", title="\ud83d", content=(ImageContent(b"png", "image/png"), "\udc00")),
]


@pytest.mark.parametrize("report", EVERYTHING, ids=lambda report: type(report).__name__)
def test_update_is_decoded_as_it_was_encoded(report: Update) -> None:
    entry = encode_update(report)
    json.loads(entry)
    assert decode_update(entry) == report


@pytest.mark.parametrize("entry", [b"{", b"[]", b'{"type":"later"}', b'{"type":"said","role":"x"}'])
def test_unknown_entry_is_skipped(entry: bytes) -> None:
    assert decode_update(entry) is None


async def test_title_can_have_a_lone_surrogate(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    try:
        await store.create(StoredSession(id="s", cwd="/", title="\ud83d cut"))
        stored = await store.get("s")
    finally:
        await store.aclose()
    assert stored is not None
    assert stored.title == "? cut"


# Replays.


@requirement("R-SESS-14", "R-SESS-15", "R-DTERM-13")
def test_replay_shows_each_item_once() -> None:
    reports: list[Update] = [
        MessageUpdate("user", "m1", ("a", "b")),
        MessageUpdate("agent", "m2", ("Hel",)),
        MessageUpdate("thought", "m2", ("hm",)),
        PlanUpdate("main", (PlanEntry("Find"),)),
        ToolCallUpdate(id="t", is_new=True, title="Run", status="pending"),
        ToolContentUpdate("t", "one"),
        ToolContentUpdate("t", "two"),
        ToolContentUpdate("t", "three", continues=True),
        MessageUpdate("agent", "m2", ("lo", ImageContent(b"1", "image/png"), "!")),
        TerminalStarted("x", "ls", "/"),
        TerminalOutputUpdate("x", b"a"),
        ToolCallUpdate(id="t", status="completed", raw_output=1),
        TerminalOutputUpdate("x", b"b"),
        TerminalExited("x", 0),
        PlanUpdate("main", (PlanEntry("Find", "completed"),)),
        TurnEnded("end_turn"),
        OptionsUpdate(()),
    ]
    assert collapse(reports) == [
        MessageUpdate("user", "m1", ("a", "b")),
        MessageUpdate("agent", "m2", ("Hello", ImageContent(b"1", "image/png"), "!")),
        MessageUpdate("thought", "m2", ("hm",)),
        PlanUpdate("main", (PlanEntry("Find", "completed"),)),
        ToolCallUpdate(
            id="t",
            is_new=True,
            title="Run",
            status="completed",
            content=("one", "twothree"),
            raw_output=1,
        ),
        TerminalStarted("x", "ls", "/"),
        TerminalOutputUpdate("x", b"ab"),
        TerminalExited("x", 0),
    ]


def test_open_tool_calls_are_replayed_as_cancelled_unless_they_run() -> None:
    reports: list[Update] = [
        ToolCallUpdate(id="t", is_new=True, title="Run", status="in_progress"),
        TerminalStarted("x", "ls", "/"),
    ]
    tool, terminal, ended = collapse(reports)
    assert isinstance(tool, ToolCallUpdate)
    assert tool.status == "cancelled"
    assert ended == TerminalExited("x")
    running = collapse(reports, running=True)
    assert running == [reports[0], terminal]


# A process that is killed.

AGENT = """
import sys
from accord import Agent, Turn
from accord.agent.store.sqlite import SqliteStore

class Talks(Agent):
    store = SqliteStore(sys.argv[1])

    async def prompt(self, turn: Turn) -> None:
        number = 0
        while True:
            await turn.say(f"{number} ")
            number += 1
            if number % 100 == 0:
                async with turn.tool(f"tool {number}"):
                    pass

Talks().run()
"""


def test_killed_process_loses_no_update_that_was_sent(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    (tmp_path / "agent.py").write_text(AGENT)
    agent = subprocess.Popen(
        [sys.executable, tmp_path / "agent.py", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert agent.stdin is not None
    assert agent.stdout is not None

    def ask(number: int, method: str, params: object) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        agent.stdin.write(json.dumps(message).encode() + b"\n")
        agent.stdin.flush()

    with agent:
        try:
            ask(0, "initialize", {"protocolVersion": 1})
            agent.stdout.readline()
            ask(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
            session_id = json.loads(agent.stdout.readline())["result"]["sessionId"]
            prompt = [{"type": "text", "text": "go"}]
            ask(2, "session/prompt", {"sessionId": session_id, "prompt": prompt})
            lines = [agent.stdout.readline() for _ in range(1000)]
        finally:
            agent.kill()
        lines += agent.stdout.readlines()
    if not lines[-1].endswith(b"\n"):
        lines.pop()
    sent: list[str] = []
    tools = 0
    for line in lines:
        update = json.loads(line)["params"]["update"]
        if update["sessionUpdate"] == "agent_message_chunk":
            sent.append(update["content"]["text"])
        tools += update["sessionUpdate"] == "tool_call"

    async def read() -> list[Update]:
        store = SqliteStore(path)
        try:
            assert (await store.list()).sessions[0].id == session_id
            found = [decode_update(entry) for entry in await store.read(session_id)]
            await store.append(session_id, encode_update(TurnEnded("cancelled")))
            return [report for report in found if report is not None]
        finally:
            await store.aclose()

    kept = asyncio.run(read())
    said = [r.content[0] for r in kept if isinstance(r, MessageUpdate) and r.role == "agent"]
    texts = [text for text in said if isinstance(text, str)]
    assert len(sent) > 900
    assert "".join(texts).startswith("".join(sent))  # chunks of one time are stored as one
    assert sum(isinstance(r, ToolCallUpdate) and r.is_new for r in kept) >= tools > 0
