"""Short texts for people: times, sizes, and one line about the content of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accord.text import lenient_json
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord.types import steering
from accord_trace.records import Record


def duration(seconds: float) -> str:
    """Return a time with three significant digits, such as `1.42 ms`."""
    if seconds >= 100:
        return f"{seconds:.0f} s"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 0.001:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds * 1e6:.0f} µs"


def size(count: int) -> str:
    """Return a number of bytes, such as `1.2 kB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def counted(count: int, what: str) -> str:
    """Return a count and its noun, such as `1 turn` and `1,200 turns`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


# How a connection says it, in plain words.
_REASONS = {"The peer stopped reading": "the other side closed its input"}


def summary(record: Record, max_length: int = 100) -> str:
    """Return what a message says, as one line without control characters (R-SEC-12)."""
    if record.type == "invalid":
        text = record.frame[: 4 * max_length].decode("utf-8", "replace")
        text = f"{record.reason}: {text}" if record.reason else text
    elif record.type == "end":
        text = _REASONS.get(record.reason, record.reason)
    else:
        text = " ".join(_parts(record, record.value()))
    return one_line(text, max_length)


def update_of(record: Record) -> dict[str, Any] | None:
    """Return the update of a `session/update`."""
    if record.method != "session/update":
        return None
    params = record.value()
    update = params.get("update") if is_object(params) else None
    return update if is_object(update) else None


def _parts(record: Record, value: Any) -> Iterator[str]:
    if not is_object(value):
        if value is not None:
            yield _json(value)
        return
    if record.type == "response":
        yield from _result(record, value)
        return
    match record.method:
        case "session/update":
            update = value.get("update")
            yield from _update(update if is_object(update) else {})
        case "session/prompt":
            yield _texts(value.get("prompt"))
        case steering.STEERING:
            yield f"steer {_texts(value.get('prompt'))}"
        case "session/request_permission":
            yield _question(value)
        case _:
            rest = {key: item for key, item in value.items() if key != "sessionId"}
            if rest:
                yield _json(rest)


def _question(params: dict[str, Any]) -> str:
    """Return what a permission request asks for, and the number of its options."""
    subject = params.get("subject")
    about = subject if is_object(subject) else params
    call = about.get("toolCall")
    call = call if is_object(call) else {}
    names = (
        params.get("title"),
        call.get("title"),
        about.get("command"),
        call.get("toolCallId"),
        about.get("toolCallId"),
    )
    title = next((name for name in names if isinstance(name, str) and name), "")
    options = params.get("options")
    count = len(options) if is_array(options) else 0
    return f"{title} · {count} option{'' if count == 1 else 's'}".removeprefix(" · ")


def _result(record: Record, value: dict[str, Any]) -> Iterator[str]:
    if record.is_error:
        yield f"{value.get('code')} {value.get('message')}"
        if value.get("data") is not None:
            yield _json(value["data"])
    elif isinstance(value.get("stopReason"), str):
        yield value["stopReason"]
    elif (outcome := steering.outcome_of(value)) is not None:
        reason = value.get("reason")
        yield f"{outcome} · {reason}" if isinstance(reason, str) else outcome
    elif value:
        yield _json(value)


def _update(update: dict[str, Any]) -> Iterator[str]:
    yield str(update.get("sessionUpdate", "?"))
    content = update.get("content")
    if is_object(content):
        yield _texts([content])
        return
    found = [update[key] for key in ("title", "status", "kind", "state") if key in update]
    shown = [item for item in found if isinstance(item, str)]
    if shown:
        yield " · ".join(shown)
    else:
        rest = {key: item for key, item in update.items() if key != "sessionUpdate"}
        yield _json(rest) if rest else ""


def _texts(blocks: Any) -> str:
    if not is_array(blocks):
        return _json(blocks)
    texts: list[str] = []
    for block in blocks:
        inner = block.get("content") if is_object(block) else None
        if is_object(inner):  # of a tool call
            block = inner
        if is_object(block) and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif is_object(block):
            texts.append(f"[{block.get('type')}]")
    return _json(" ".join(texts))


def _json(value: Any) -> str:
    return lenient_json.dumps(value).decode("utf-8", "replace")
