"""The memory of an owner does not grow with its session: the journal has the conversation."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

import accord
from accord.agent.updates import Update
from accord.client.transcript import Message
from accord_terminal.sessions.journal import Journal, Queued
from accord_terminal.sessions.owner.translate import Translator
from sessions_named.machine import Machine

_WORD = "x" * 1999
_UPDATES = 3000  # of a turn: 6 MB of text


def resident_bytes(pid: int) -> int:
    (line,) = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    ]
    return int(line.split()[1]) * 1024


@pytest.mark.slow
def test_memory_of_an_owner_stays_flat_over_many_updates(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    owner = machine.owner()
    machine.ok("session", "prompt", "-s", "fix", "--quiet", f"stream 2000 {_WORD}")
    before = resident_bytes(owner)
    for _ in range(3):  # 18 MB of text, and their entries need more
        machine.ok("session", "prompt", "-s", "fix", "--quiet", f"stream {_UPDATES} {_WORD}")
    grown = resident_bytes(owner) - before
    assert machine.owners() == [owner]
    assert grown < 12_000_000, grown


def test_owner_reads_old_entries_from_the_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    try:
        for number in range(40):  # of which a few fit into what is kept in memory
            content = Raw(b'"' + b"x" * 1_000_000 + b'"')
            journal.append(Queued(prompt=f"p-{number}", content=content, text="", by="test"))
        read: list[str | None] = []
        while entries := journal.after(len(read), 64):
            assert len(entries) <= 5
            read += [entry.prompt for entry in entries]
    finally:
        journal.close()
    assert read == [f"p-{number}" for number in range(40)]


def _chunk(message_id: str, text: str) -> Raw:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "messageId": message_id, "content": content}
    return Raw(json.dumps(update).encode())


def _tool(status: str) -> Raw:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t-1", "status": status}
    return Raw(json.dumps(update | {"title": "Run the tests"}).encode())


def _updates(translator: Translator, update: Raw) -> list[Update]:
    return [found for event in translator.events(update) for found in translator.neutral(event)]


def test_translation_keeps_the_end_of_the_conversation_and_open_tool_calls() -> None:
    translator = Translator(2)
    _updates(translator, _tool("in_progress"))
    for number in range(5000):
        _updates(translator, _chunk(f"m-{number}", "word"))
    transcript = translator.transcript
    assert len(transcript.items) < 400
    last = transcript.items[-1]
    assert isinstance(last, Message)
    assert (last.id, last.text) == ("m-4999", "word")
    [changed] = _updates(translator, _tool("completed"))
    assert getattr(changed, "is_new", None) is False
    assert getattr(changed, "status", None) == "completed"


def test_translation_of_one_endless_message_is_bounded() -> None:
    translator = Translator(2)
    text = "x" * 100_000
    for _ in range(400):  # 40 MB
        [update] = _updates(translator, _chunk("m-1", text))
        assert getattr(update, "content", None) == (text,)
    assert sum(len(message.text) for message in translator.transcript.messages) < 30_000_000


@pytest.mark.slow
async def test_late_client_gets_what_the_owner_has_forgotten(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", "2")
    for prompt in ("stream 3000 first", "tools", "stream 3000 second"):
        machine.ok("session", "prompt", "-s", "fix", "--quiet", prompt)
    command = [sys.executable, "-m", "accord", "session", "attach", "fix"]
    versions: tuple[Any, ...] = (1, 2)
    for version in versions:
        async with accord.connect(command, versions=(version,)) as agent, asyncio.timeout(60):
            session = await agent.new_session(machine.work)
            while not session.transcript.text.endswith("second " * 3000):
                await asyncio.sleep(0.01)
            assert session.transcript.text.startswith("first " * 3000)
            assert len(session.transcript.tool_calls) > 15
