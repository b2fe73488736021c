"""Stores: the contract, kept by ours; and that a killed process loses nothing that was sent."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from accord.agent.store.base import MemoryStore, SessionStore, Stored
from accord.agent.store.records import report_from, report_to
from accord.agent.store.replay import folded
from accord.agent.store.sqlite import SqliteStore
from accord.agent.updates import (
    Ended,
    Failure,
    OptionsReport,
    PlanReport,
    Report,
    Said,
    TerminalEnded,
    TerminalOutput,
    TerminalStarted,
    TitleReport,
    ToolPart,
    ToolReport,
    UsageReport,
)
from accord.testing import StoreContract
from accord.types.content import Audio, Image, Link, Other, Resource
from accord.types.session import Choice, Cost, PlanEntry, Select, Switch, Usage
from accord.types.tool_calls import Diff, Location, TerminalView
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


async def test_two_stores_may_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    first, second = SqliteStore(path), SqliteStore(path)
    try:
        await first.create(Stored(id="a", cwd="/"))
        await second.append("a", b"1")
        await first.append("a", b"2")
        assert await second.read("a") == [b"1", b"2"]
    finally:
        await first.aclose()
        await second.aclose()


async def test_file_of_a_newer_accord_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ValueError, match="newer"):
        await SqliteStore(path).get("a")


# Entries.

EVERYTHING: list[Report] = [
    Said("user", "m1", ("hi", Image(b"\x00\xff", "image/png", "file:///a"), Audio(b"1", "a/b"))),
    Said("user", "m2", (Link("file:///a", "a", size=3), Resource("file:///b", "text", "t/p"))),
    Said("agent", "m3", (Resource("file:///c", b"\x00"), Other({"type": "_smell", "n": [1]}))),
    ToolReport(
        id="t1",
        begins=True,
        title="Edit",
        name="edit",
        kind="_own",
        status="pending",
        content=("text", Diff("/a", None, "new"), Diff("/b", patch="p"), TerminalView("x")),
        locations=(Location("/a", 3), Location("/b")),
        raw_input={"a": [1, None]},
        raw_output=None,
    ),
    ToolReport(id="t1", status="completed"),
    ToolPart("t1", "more", goes_on=True),
    PlanReport("main", (PlanEntry("Find", "completed", "high"),)),
    OptionsReport(
        (
            Select(id="a", name="A", value="x", choices=(Choice("x", "X", group="g"),)),
            Switch(id="b", name="B", value=True),
        ),
        mode_changed=True,
    ),
    TitleReport("title"),
    TitleReport(None),
    UsageReport(Usage(1, 2, Cost(0.5, "EUR"))),
    TerminalStarted("x", "ls", "/"),
    TerminalOutput("x", b"\xff\x00"),
    TerminalEnded("x", None, "SIGKILL"),
    Ended("error", Failure(-32603, "Internal error", {"a": 1})),
    Ended("end_turn"),
    Said("agent", "m3", ("half a character: \ud83d",)),
    ToolReport(id="t2", title="\ud83d", content=(Image(b"png", "image/png"), "\udc00")),
]


@pytest.mark.parametrize("report", EVERYTHING, ids=lambda report: type(report).__name__)
def test_report_is_read_as_it_was_written(report: Report) -> None:
    entry = report_to(report)
    json.loads(entry)
    assert report_from(entry) == report


@pytest.mark.parametrize("entry", [b"{", b"[]", b'{"type":"later"}', b'{"type":"said","role":"x"}'])
def test_entry_that_nobody_here_knows_is_passed_over(entry: bytes) -> None:
    assert report_from(entry) is None


async def test_title_may_have_half_a_character(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    try:
        await store.create(Stored(id="s", cwd="/", title="\ud83d cut"))
        stored = await store.get("s")
    finally:
        await store.aclose()
    assert stored is not None
    assert stored.title == "? cut"


# What is shown again.


@requirement("R-SESS-14", "R-SESS-15", "R-DTERM-13")
def test_conversation_is_shown_with_each_thing_once() -> None:
    reports: list[Report] = [
        Said("user", "m1", ("a", "b")),
        Said("agent", "m2", ("Hel",)),
        Said("thought", "m2", ("hm",)),
        PlanReport("main", (PlanEntry("Find"),)),
        ToolReport(id="t", begins=True, title="Run", status="pending"),
        ToolPart("t", "one"),
        ToolPart("t", "two"),
        ToolPart("t", "three", goes_on=True),
        Said("agent", "m2", ("lo", Image(b"1", "image/png"), "!")),
        TerminalStarted("x", "ls", "/"),
        TerminalOutput("x", b"a"),
        ToolReport(id="t", status="completed", raw_output=1),
        TerminalOutput("x", b"b"),
        TerminalEnded("x", 0),
        PlanReport("main", (PlanEntry("Find", "completed"),)),
        Ended("end_turn"),
        OptionsReport(()),
    ]
    assert folded(reports) == [
        Said("user", "m1", ("a", "b")),
        Said("agent", "m2", ("Hello", Image(b"1", "image/png"), "!")),
        Said("thought", "m2", ("hm",)),
        PlanReport("main", (PlanEntry("Find", "completed"),)),
        ToolReport(
            id="t",
            begins=True,
            title="Run",
            status="completed",
            content=("one", "twothree"),
            raw_output=1,
        ),
        TerminalStarted("x", "ls", "/"),
        TerminalOutput("x", b"ab"),
        TerminalEnded("x", 0),
    ]


def test_what_had_not_ended_is_cancelled_unless_it_runs() -> None:
    reports: list[Report] = [
        ToolReport(id="t", begins=True, title="Run", status="in_progress"),
        TerminalStarted("x", "ls", "/"),
    ]
    tool, terminal, ended = folded(reports)
    assert isinstance(tool, ToolReport)
    assert tool.status == "cancelled"
    assert ended == TerminalEnded("x")
    running = folded(reports, running=True)
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
        agent.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]  # a pipe
        agent.stdin.flush()  # type: ignore[union-attr]  # a pipe

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

    async def read() -> list[Report]:
        store = SqliteStore(path)
        try:
            assert (await store.list()).sessions[0].id == session_id
            found = [report_from(entry) for entry in await store.read(session_id)]
            await store.append(session_id, report_to(Ended("cancelled")))
            return [report for report in found if report is not None]
        finally:
            await store.aclose()

    kept = asyncio.run(read())
    texts = [r.content[0] for r in kept if isinstance(r, Said) and r.role == "agent"]
    assert len(sent) > 900
    assert texts[: len(sent)] == sent
    assert sum(isinstance(r, ToolReport) and r.begins for r in kept) >= tools > 0
