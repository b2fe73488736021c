"""A recording as a transcript in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from accord.text.excerpt import one_line, visible
from accord.text.lenient_json import is_array, is_object
from accord_trace.pairing import Pairing
from accord_trace.records import Record
from accord_trace.summary import update_of

_CHUNKS = {"agent_message_chunk": "Agent", "agent_thought_chunk": "Thought"}
_MESSAGES = {"agent_message": "Agent", "agent_thought": "Thought"}


def transcript(records: Iterable[Record], title: str) -> Iterator[str]:
    """Yield the parts of the page: prompts, messages, tool calls, permission requests, errors.

    Sessions are separated by headings where they change. Control characters of texts are escaped;
    Markdown of the agent stays as it is.
    """
    return _Transcript(title).parts(records)


class _Transcript:
    def __init__(self, title: str) -> None:
        self._title = title
        self._pairing = Pairing()
        self._session: str | None = None
        self._speaker = ""  # of the chunks that are being joined
        self._only_client: bool | None = None
        self._titles: dict[str, str] = {}  # of tool calls

    def parts(self, records: Iterable[Record]) -> Iterator[str]:
        yield f"# {one_line(self._title)}\n"
        for record in records:
            is_clients = "Client" in (record.sender, record.receiver)
            if self._only_client is None:
                self._only_client = is_clients
            if is_clients or not self._only_client:
                yield from self._record(record)
        yield "\n"

    def _record(self, record: Record) -> Iterator[str]:
        answered = self._pairing.add(record)
        value = record.value()
        if answered is not None:
            if record.is_error and is_object(value):
                text = f"{answered.method}: {value.get('code')} {value.get('message')}"
                yield from self._line(record, f"**Error:** {one_line(text)}")
            elif answered.method == "session/request_permission":
                yield from self._line(record, f"**Permission:** {_outcome(value)}")
            return
        if not is_object(value):
            return
        if record.method == "session/prompt":
            quoted = "\n> ".join(visible(_text_of(value.get("prompt"))).split("\n"))
            yield from self._line(record, f"> {quoted}")
        elif record.method == "session/update":
            update = update_of(record)
            if update is not None:
                yield from self._update(record, update)

    def _update(self, record: Record, update: dict[str, Any]) -> Iterator[str]:
        kind = str(update.get("sessionUpdate"))
        if kind in _CHUNKS:
            text = visible(_text_of([update.get("content")]))
            if self._speaker == kind and record.session == self._session:
                yield text
            else:
                yield from self._line(record, f"**{_CHUNKS[kind]}:** {text}")
                self._speaker = kind
        elif kind in _MESSAGES:
            text = visible(_text_of(update.get("content")))
            yield from self._line(record, f"**{_MESSAGES[kind]}:** {text}")
        elif kind in ("tool_call", "tool_call_update"):
            name = str(update.get("toolCallId"))
            title = update.get("title")
            if isinstance(title, str):
                self._titles[name] = title
            status = update.get("status")
            if kind == "tool_call" or status in ("completed", "failed", "cancelled"):
                shown = one_line(self._titles.get(name, name))
                yield from self._line(record, f"**Tool:** {shown} ({one_line(str(status), 20)})")

    def _line(self, record: Record, text: str) -> Iterator[str]:
        self._speaker = ""
        if record.session is not None and record.session != self._session:
            self._session = record.session
            yield f"\n\n## Session {one_line(record.session)}"
        yield f"\n\n{text}"


def _outcome(value: Any) -> str:
    outcome = value.get("outcome") if is_object(value) else None
    if not is_object(outcome):
        return "?"
    return one_line(str(outcome.get("optionId", outcome.get("outcome"))))


def _text_of(blocks: Any) -> str:
    if not is_array(blocks):
        return ""
    texts: list[str] = []
    for block in blocks:
        if not is_object(block):
            continue
        text = block.get("text")
        texts.append(text if isinstance(text, str) else f"[{block.get('type')}]")
    return "\n".join(texts)
