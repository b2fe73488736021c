"""A prompt as one text: links and resources stand in it as one letter each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from accord_coder.models.embedded.place import Place
from accord_coder.models.embedded.words import ATTACHED

if TYPE_CHECKING:
    from accord import ContentBlock

__all__ = ("Attachment", "PromptText", "prompt_text")

_LONGEST = 200_000  # characters
_SUMMARY = "Summary of the conversation so far:"  # what a compaction puts before a prompt
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffd]")
_LINES = re.compile(r"L?(\d{1,9})(?:[-:,]L?(\d{1,9}))?$")


class Attachment(Struct, frozen=True):
    """A link or a resource; `text` is its content where it can be had in no other way."""

    place: Place
    text: str | None = None


class PromptText(Struct, frozen=True):
    """The text, what is attached in the order of its letters, and why it cannot be understood."""

    source: str
    attachments: tuple[Attachment, ...] = ()
    problem: str = ""


def prompt_text(content: Sequence[ContentBlock]) -> PromptText:
    """Return a prompt as text."""
    from accord import AudioContent, EmbeddedResource, ImageContent, ResourceLink

    source = ""
    attachments: list[Attachment] = []
    unseen = 0
    for part in content:
        match part:
            case str():
                if not (part.startswith(_SUMMARY) and len(content) > 1):
                    gap = "\n" if source and source[-1] != ATTACHED else " " if source else ""
                    source += gap + part.replace(ATTACHED, " ").replace("\r\n", "\n")
            case ResourceLink(uri=uri):
                attachments.append(Attachment(_place(uri)))
                source += " " + ATTACHED
            case EmbeddedResource(uri=uri, content=text):
                inside = None if uri.startswith("file:") or isinstance(text, bytes) else text
                attachments.append(Attachment(_place(uri), inside))
                source += " " + ATTACHED
            case ImageContent() | AudioContent():
                unseen += 1
            case _:
                pass
    return PromptText(source.strip(), tuple(attachments), _problem(source, unseen))


def _problem(source: str, unseen: int) -> str:
    if len(source) > _LONGEST:
        return f"That prompt has {len(source):,} characters; I take {_LONGEST:,} at most."
    if len(_CONTROL.findall(source)) > max(3, len(source) // 100):
        return "That looks like the content of a binary file, not like a request."
    if unseen and not source.strip():
        return "I can neither see images nor hear sounds: only a language model can."
    return ""


def _place(uri: str) -> Place:
    """Return the path of a link, with the lines that it points at."""
    from urllib.parse import unquote, urlsplit

    if not uri.startswith("file:"):
        return Place(uri, sure=True)
    try:
        parts = urlsplit(uri)
    except ValueError:
        return Place(uri, sure=True)
    path = unquote(parts.path)
    if re.match(r"/[A-Za-z]:", path):
        path = path[1:]
    lines = _LINES.match(parts.fragment)
    if lines is None:
        return Place(path, sure=True)
    first, last = int(lines[1]), int(lines[2] or lines[1])
    return Place(path, sure=True, first=max(1, first), last=max(1, first, last))
