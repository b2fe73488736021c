"""Annotations and `_meta` of content, prompts, turns and events arrive unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import (
    Agent,
    Annotations,
    AudioContent,
    ContentBlock,
    ContentChunk,
    EmbeddedResource,
    ImageContent,
    MemoryStore,
    ResourceLink,
    Text,
    TextContent,
    Turn,
    v1,
    v2,
)
from accord.agent.store.stored_sessions import decode_update, encode_update
from accord.agent.updates import MessageUpdate
from accord.script_agent.agent import ScriptAgent
from accord.transports.memory import pair
from accord.types import convert_v1, convert_v2
from accord.wire.codec import to_builtins
from agent.harness import BOTH, V1, connect_client
from raw_peer import QUICK
from versions import only

NOTES: dict[str, Any] = {
    "annotations": Annotations(("user",), 0.5, "2026-01-01T00:00:00Z", {"a": 1}),
    "meta": {"example.com/key": [1, None]},
}
CONTENTS: list[Any] = [
    TextContent("some text", **NOTES),
    TextContent("some text", meta={}),
    ImageContent(b"\1\2", "image/png", "file:///a.png", **NOTES),
    AudioContent(b"\1\2", "audio/wav", **NOTES),
    ResourceLink("file:///a", "a", "A", "What it is", "text/plain", 3, **NOTES),
    EmbeddedResource("file:///a", "text", "text/plain", content_meta={"b": 2}, **NOTES),
    EmbeddedResource("file:///a", b"\1\2", "text/plain", content_meta={"b": 2}, **NOTES),
]


def _same(one: Any, other: Any) -> bool:
    """Return whether content is equal, with the annotations of text, which compares as text."""
    return one == other and repr(one) == repr(other)


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
@pytest.mark.parametrize("wire", [convert_v1, convert_v2], ids=["v1", "v2"])
def test_content_is_read_as_it_was_written(content: ContentBlock, wire: Any) -> None:
    block = wire.content_to_wire(content)
    assert _same(wire.content_from_wire(block), content)
    if content.meta:  # type: ignore[union-attr]
        assert to_builtins(block)["_meta"] == NOTES["meta"]
        assert to_builtins(block)["annotations"]["audience"] == ["user"]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
def test_content_is_stored_with_its_metadata(content: ContentBlock) -> None:
    stored = decode_update(encode_update(MessageUpdate("agent", "m", (content,))))
    assert isinstance(stored, MessageUpdate)
    assert _same(stored.content[0], content)


def test_v2_icons_are_kept() -> None:
    icon = v2.Icon(src="https://example.com/a.png", sizes=["48x48"])
    block = v2.ResourceLink(name="a", uri="file:///a", icons=[icon])
    link = convert_v2.content_from_wire(block)
    assert isinstance(link, ResourceLink)
    assert convert_v2.content_to_wire(link) == block
    assert convert_v1.content_to_wire(link) == v1.ResourceLink(name="a", uri="file:///a")


def test_annotated_text_is_text() -> None:
    text = TextContent("Hello", meta={"a": 1})
    assert text == "Hello"
    assert f"{text}!" == "Hello!"
    assert repr(text) == "TextContent('Hello', annotations=None, meta={'a': 1})"
    with pytest.raises(TypeError, match="TextContent\\(meta=…\\): expected dict or None"):
        TextContent("Hello", meta="a")  # type: ignore[arg-type]


@asynccontextmanager
async def _session(
    agent: Agent, version: Any, cwd: Path
) -> AsyncGenerator[accord.ClientSession, None]:
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(accord.serve(agent, there, limits=QUICK))
        async with accord.connect(here, limits=QUICK, versions=only(version)) as client:
            yield await client.new_session(cwd)


def _content_of(event: Any) -> ContentBlock | None:
    match event:
        case Text():
            notes = event.annotations or event.content_meta is not None
            made = TextContent(event.text, annotations=event.annotations, meta=event.content_meta)
            return made if notes else event.text
        case ContentChunk():
            return event.content
        case _:
            return None


@BOTH
async def test_script_agent_echoes_content_unchanged(version: int, tmp_path: Path) -> None:
    reported = TextContent("echo some text", **NOTES)
    async with (
        _session(ScriptAgent(), version, tmp_path) as session,
        session.prompt(reported, *CONTENTS) as turn,
    ):
        events = [event async for event in turn]
    heard = [content for event in events if (content := _content_of(event)) is not None]
    heard = [content for content in heard if "echo" not in str(content)]
    assert list(map(repr, heard[-8:])) == list(map(repr, [CONTENTS[0], *CONTENTS]))


class _Metadata(Agent):
    """Records the metadata of the prompt, and sends the same with all its messages."""

    prompt_capabilities = frozenset({"image"})

    def __init__(self, *, kept: bool) -> None:
        self.store = MemoryStore() if kept else None

    async def prompt(self, turn: Turn) -> None:
        meta = turn.meta
        await turn.think("thought", meta=meta)
        await turn.say("text", meta=meta)
        await turn.say(ImageContent(b"\1", "image/png"), meta=meta)
        await turn.say("plain")
        turn.end_meta = meta


@BOTH
@pytest.mark.parametrize("kept", [False, True], ids=["no store", "store"])
async def test_meta_arrives_with_the_prompt_the_messages_and_the_end(
    version: int, kept: bool, tmp_path: Path
) -> None:
    meta = {"example.com/trace": "abc"}
    async with _session(_Metadata(kept=kept), version, tmp_path) as session:
        async with session.prompt("go", meta=meta) as turn:
            events = [event async for event in turn]
        said = [
            event for event in events if isinstance(event, accord.Thought | Text | ContentChunk)
        ]
        said = [event for event in said if getattr(event, "role", "agent") == "agent"]
        assert [event.meta for event in said] == [meta, meta, meta, None]
        assert turn.meta == meta
        async with session.prompt("again") as turn:
            await turn.wait()
        assert turn.meta is None
        assert turn.text.startswith("text")


@BOTH
async def test_meta_of_other_updates_is_in_their_events(version: int) -> None:
    """The `_meta` of each update from a wire-level agent is in its event."""
    from accord.client.transcript import Transcript
    from accord.client.v1 import events_from_update as read_v1
    from accord.client.v2 import events_from_update as read_v2

    types: Any = v1 if version == V1 else v2
    read: Any = read_v1 if version == V1 else read_v2
    meta = {"a": 1}
    updates = [
        types.ToolCallUpdate(tool_call_id="t", title="T", meta=meta),
        types.SessionInfoUpdate(title="T", updated_at="2026-01-01T00:00:00Z", meta=meta),
        types.UsageUpdate(used=1, size=2, meta=meta),
        types.AvailableCommandsUpdate(available_commands=[], meta=meta),
        types.AgentMessageChunk(content=types.TextContent(text="x"), message_id="m", meta=meta),
    ]
    for update in updates:
        events = read(update, Transcript())
        for event in events if isinstance(events, tuple) else (events,):
            assert event.meta == meta, event
    again = read(types.ToolCallUpdate(tool_call_id="t", meta={"b": 2}), Transcript())
    assert again.changed == ("meta",)


@BOTH
async def test_annotated_text_is_a_block_of_its_own_in_a_tool_call(version: int) -> None:
    class Shows(Agent):
        async def prompt(self, turn: Turn) -> None:
            async with turn.tool("Look") as call:
                await call.add_content(CONTENTS[0])
                await call.append_text("a")
                await call.append_text("b")

    async with connect_client(Shows(), version) as client:
        await client.prompt("go")
        content = client.tool()["content"]
        assert content[0].content.annotations.priority == 0.5
        assert "".join(item.content.text for item in content) == "some textab"
