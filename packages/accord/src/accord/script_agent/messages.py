"""Commands that send messages, in every kind of content."""

from __future__ import annotations

from accord import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    Turn,
)
from accord.script_agent.command import ScriptCommand, UsageError, parse_number

# A blue square of 8 by 8 pixels.
IMAGE = ImageContent(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000008000000080802000000"
        "4b6d29dc000000114944415478da63304e3b8315310c2d0900b9865941"
        "6e2684fc0000000049454e44ae426082"
    ),
    "image/png",
)
# A millisecond of silence.
AUDIO = AudioContent(
    b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\x08\0\0\0"
    + b"\x80" * 8,
    "audio/wav",
)


async def _echo(turn: Turn, text: str) -> None:
    first = next((index for index, part in enumerate(turn.content) if isinstance(part, str)), None)
    if text:
        prompt = "" if first is None else turn.content[first]
        if isinstance(prompt, TextContent):
            await turn.say(TextContent(text, annotations=prompt.annotations, meta=prompt.meta))
        else:
            await turn.say(text)
    others = [part for index, part in enumerate(turn.content) if index != first]
    for part in others:
        await turn.say(part)
    if not text and not others:
        raise UsageError("Expected TEXT.")


async def _stream(turn: Turn, rest: str) -> None:
    count, _, text = rest.partition(" ")
    for index in range(parse_number(count, default=10, maximum=1_000_000)):
        await turn.say(f"{text} " if text else f"{index + 1} ")


async def _think(turn: Turn, text: str) -> None:
    await turn.think(text or "I think.")
    await turn.say("I have thought.")


async def _content(turn: Turn, _: str) -> None:
    contents: list[ContentBlock] = [
        "Text with **Markdown**.",
        ResourceLink(
            "https://example.com/a.txt", "a.txt", title="A link", mime_type="text/plain", size=6
        ),
        EmbeddedResource("script:///text", "The text of a resource.\n", "text/plain"),
        EmbeddedResource("script:///bytes", b"\0\1\2\3", "application/octet-stream"),
        IMAGE,
        AUDIO,
    ]
    for content in contents:
        await turn.say(content)


MESSAGES = (
    ScriptCommand(
        "echo",
        "TEXT",
        "Say TEXT, then the other content of the prompt",
        _echo,
        "TEXT, then all other content of the prompt, unchanged: images, audio, resources, links.",
    ),
    ScriptCommand(
        "stream",
        "[N] [TEXT]",
        "Say TEXT, or numbers, in N chunks (10)",
        _stream,
        "N chunks (10) of one message: TEXT and a space, or the numbers `1 `, `2 `, …",
    ),
    ScriptCommand(
        "think",
        "[TEXT]",
        "Think TEXT",
        _think,
        "TEXT as a thought; `I have thought.`",
    ),
    ScriptCommand(
        "content",
        "",
        "Say something in each kind of content",
        _content,
        "One message with a text, a link, a text resource, a binary resource, an image (PNG, "
        "8 by 8) and audio (WAV).",
    ),
)
