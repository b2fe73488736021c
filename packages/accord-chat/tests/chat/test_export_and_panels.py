"""Exports, subagents and raw messages."""

from __future__ import annotations

import base64
import json
import re
import stat
from datetime import datetime
from pathlib import Path

import pytest

from accord.client.events import ContentChunk, Text, Thought, ToolCall, UserText
from accord.client.transcript import Transcript
from accord.script_agent.agent import ScriptAgent
from accord.types.content import ImageContent
from accord.types.tool_calls import Diff
from accord_chat.model.conversation import Export, Format, Timeline, exported, write_export
from chat.chats import LocalAgent, open_chat
from chat.images import picture

HOSTILE = (
    "<script>alert(1)</script> [x](javascript:alert(1)) ![p](https://evil.example/p.png)\u202e"
)


def conversation(answer: str = "**Bold** answer") -> Timeline:
    events = [
        UserText("Do it", "1"),
        Thought("hm"),
        ToolCall(
            id="t", title="Edit `f`", status="completed", content=(Diff("/w/f", "a\n", "b\n```\n"),)
        ),
        Text(answer),
    ]
    timeline = Timeline(Transcript.from_events(events))
    timeline.sync()
    timeline.remark("1 s", "quiet")
    return timeline


def text(kind: Format, timeline: Timeline) -> str:
    return exported(kind, "A title", "/w", timeline.entries, timeline.transcript).text


def test_markdown_has_the_conversation_with_its_diffs() -> None:
    assert text("md", conversation()) == (
        "# A title\n\n> **You:** Do it\n\n> *Thought:* hm\n\n**✓ Edit \\`f\\`**\n\n"
        "````diff\nf\n-a\n+b\n+```\n````\n\n**Bold** answer\n"
    )


def test_page_runs_and_loads_nothing_of_the_agent() -> None:
    page = text("html", conversation(HOSTILE))
    assert "<strong>" in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "<img" not in page
    assert 'href="javascript' not in page
    assert "\u202e" not in page


def test_json_has_the_events() -> None:
    document = json.loads(text("json", conversation()))
    assert [event["event"] for event in document["events"]] == [
        "user_text",
        "thought",
        "tool_call",
        "text",
    ]


def test_export_is_private_and_replaces_nothing(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5)
    path = write_export(tmp_path, "md", Export("text"), now)
    assert path.name == "chat-20260102-030405.md"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_export(tmp_path, "md", Export("other"), now)
    assert path.read_text() == "text"


def with_images() -> Timeline:
    """Return a conversation with an image, and with data that only says that it is one."""
    events = [
        UserText("Look\n"),
        ContentChunk(ImageContent(picture(), "image/png", "file:///a%22%5D%28x%29.png"), "user"),
        Text("Seen:"),
        ContentChunk(ImageContent(b"<script>", 'image/png" onload="alert(1)')),
        ContentChunk(ImageContent(picture(8, 8, "JPEG"), "text/html")),
    ]
    timeline = Timeline(Transcript.from_events(events))
    timeline.sync()
    return timeline


def test_images_are_in_the_page_with_the_type_of_their_content() -> None:
    page = text("html", with_images())
    assert re.findall(r'<img alt="([^"]*)" src="(data:[^,]*),', page) == [
        ("ax.png", "data:image/png;base64"),
        ("image", "data:image/jpeg;base64"),
    ]
    assert base64.b64encode(picture()).decode() in page
    assert "img-src data:" in page
    assert "<script" not in page
    assert 'onload="' not in page


def test_images_of_markdown_are_files_in_a_folder(tmp_path: Path) -> None:
    timeline = with_images()
    export = exported("md", "A title", "/w", timeline.entries, timeline.transcript)
    path = write_export(tmp_path, "md", export, datetime(2026, 1, 2, 3, 4, 5))
    written, folder = path.read_text(), tmp_path / "chat-20260102-030405.images"
    assert "> ![ax.png](chat-20260102-030405.images/1.png)" in written
    assert "\n\n![image](chat-20260102-030405.images/2.jpg)\n" in written
    assert "8 bytes, not kept here" in written
    assert (folder / "1.png").read_bytes() == picture()
    assert stat.S_IMODE((folder / "2.jpg").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_conversation_is_written_to_a_file(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        await user.send("echo for the record")
        await user.sees("  for the record")
        await user.press("alt+e")
        await user.sees("Write the conversation")
        await user.press("enter")
        await user.until(lambda: list(tmp_path.glob("chat-*.md")))
        (written,) = tmp_path.glob("chat-*.md")  # noqa: ASYNC240
        assert "> **You:** echo for the record\n\nfor the record\n" in written.read_text()
