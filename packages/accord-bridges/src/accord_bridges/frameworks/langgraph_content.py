"""What graphs say and get, in the terms of the protocol: content of messages, and of tools."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from accord import AudioContent, EmbeddedResource, ImageContent
from accord.types.content import text_of
from accord_bridges.run import Run

_TEXT = ("text", "output_text", "input_text")


def block_of_mcp(part: dict[str, Any]) -> dict[str, Any]:
    """Return content of MCP in the form of LangChain."""
    match part:
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image" | "audio" as kind, "data": data, "mimeType": mime}:
            return {"type": kind, "base64": data, "mime_type": mime}
        case {"type": "resource", "resource": {"text": text}}:
            return {"type": "text", "text": text}
        case _:
            return {"type": "text", "text": json.dumps(part)}


def prompt_of(run: Run) -> Any:
    """Return the prompt: text, or blocks of LangChain if it has media."""
    parts: list[dict[str, Any]] = []
    for part in run.content:
        match part:
            case ImageContent() | AudioContent():
                kind = "image" if isinstance(part, ImageContent) else "audio"
                parts.append(_media(kind, part.data, part.mime_type))
            case EmbeddedResource(content=bytes() as data, mime_type=mime_type):
                parts.append({"type": "text", "text": text_of((part,))})
                parts.append(_media("file", data, mime_type or "application/octet-stream"))
            case _:
                parts.append({"type": "text", "text": text_of((part,))})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _media(kind: str, data: bytes, mime_type: str) -> dict[str, Any]:
    return {"type": kind, "base64": base64.b64encode(data).decode(), "mime_type": mime_type}


def input_without_messages(graph: Any, run: Run) -> Any:
    """Return the prompt for a graph whose state has no messages: its only input."""
    names = graph.input_channels
    if isinstance(names, str) and names != "__start__":
        return {names: run.text}
    builder = getattr(graph, "builder", None)
    if builder is None:
        return run.text
    fields = list(getattr(builder.input_schema, "model_fields", None)
                  or getattr(builder.input_schema, "__annotations__", ()))  # fmt: skip
    if len(fields) == 1:
        return {fields[0]: run.text}
    raise TypeError(
        f"The state of the graph has no `messages`; its input is {', '.join(fields) or 'empty'}."
        " Pass settings={'input': FUNCTION}, which makes the input from the run"
    )


def thoughts_of(message: Any) -> Iterator[str]:
    """Yield the reasoning in a message, which providers put in several places."""
    more = message.additional_kwargs.get("reasoning_content")
    if isinstance(more, str) and more:
        yield more
    if not isinstance(message.content, list):
        return
    for block in message.content:
        if not isinstance(block, Mapping):
            continue
        match block:
            case {"type": "reasoning", "reasoning": str() as text} if text:
                yield text
            case {"type": "reasoning", "summary": [*parts]}:
                yield from (part["text"] for part in parts if part.get("text"))
            case {"type": "thinking", "thinking": str() as text} if text:
                yield text
            case _:
                pass


def parts_of(content: Any) -> Iterator[Any]:
    """Yield the text and the media in a message's content."""
    if isinstance(content, str):
        if content:
            yield content
        return
    for block in content:
        if isinstance(block, str):
            if block:
                yield block
        elif block.get("type") in _TEXT:
            if block.get("text"):
                yield block["text"]
        elif block.get("type") in ("image", "audio", "image_url"):
            yield _shown(block)


def _shown(block: Mapping[str, Any]) -> Any:
    """Return a block of LangChain in a form that `Run.show` knows."""
    data = block.get("base64") or block.get("data")
    if isinstance(data, str):
        mime_type = block.get("mime_type") or f"{block.get('type')}/png"
        return {"type": block["type"], "data": data, "mimeType": mime_type}
    if isinstance(block.get("url"), str):
        return f"![{block.get('type')}]({block['url']})"
    return dict(block)


def output_of(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = list(parts_of(content))
    return "\n".join(parts) if all(isinstance(each, str) for each in parts) else parts
