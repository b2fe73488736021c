"""A recording in other formats: of Rust's trace viewer (R-TRACE-02), HAR, Markdown, and tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from accord.text import lenient_json
from accord.text.excerpt import one_line, visible
from accord.text.lenient_json import is_array, is_object
from accord.types.steering import STEERING, outcome_of
from accord.version import __version__
from accord_trace.reading import Trace
from accord_trace.records import Header, Pairing, Record
from accord_trace.stats import stats_of
from accord_trace.summary import summary, update_of

# Writes records in the format of Rust's trace viewer (R-TRACE-02).

_encode = msgspec.json.encode


def jsons_line(record: Record) -> bytes | None:
    """Return the line of a record; None for what the format cannot have."""
    ends = b'"from":%b,"to":%b' % (_encode(record.sender), _encode(record.receiver))
    number = b"" if record.id is UNSET else b',"id":%b' % record.id
    match record.type:
        case "request" | "notification":
            return b'{"type":"%b","ts":%b,"protocol":%b,%b%b,"method":%b,"params":%b}\n' % (
                record.type.encode(),
                _encode(record.ts),
                _encode(record.protocol),
                ends,
                number,
                _encode(record.method),
                b"null" if record.params is UNSET else record.params,
            )
        case "response":
            return b'{"type":"response","ts":%b,%b%b,"is_error":%b,"payload":%b}\n' % (
                _encode(record.ts),
                ends,
                number,
                b"true" if record.is_error else b"false",
                b"null" if record.payload is UNSET else record.payload,
            )
        case _:
            return None


def jsons_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield the lines of a recording, one for each message on each hop."""
    for record in records:
        line = jsons_line(record)
        if line is not None:
            yield line


# A recording in the HAR format of browsers' developer tools.

_NO_SIZES: dict[str, Any] = {"headersSize": -1, "headers": [], "cookies": []}


class _Recording(Protocol):
    header: Header

    def __iter__(self) -> Iterator[Record]: ...


def http_archive(trace: _Recording) -> Iterator[bytes]:
    """Yield the parts of the file: an entry for each request and each notification.

    The method is `POST`, the URL `acp://agent/session/prompt`; an error has the status 500, a
    request without a response and a notification 0.
    """
    creator = {"name": "accord", "version": __version__}
    head = lenient_json.dumps({"version": "1.2", "creator": creator})
    yield b'{"log":' + head[:-1] + b',"entries":['
    separator = b"\n"
    for entry in _entries(trace):
        yield separator + lenient_json.dumps(entry)
        separator = b",\n"
    yield b"\n]}}\n"


def _entries(trace: _Recording) -> Iterator[dict[str, Any]]:
    pairing = Pairing()
    for record in trace:
        answered = pairing.add(record)
        if answered is not None:
            yield _entry(trace, answered.request, record)
        elif record.type == "notification":
            yield _entry(trace, record, None)
    yield from (_entry(trace, request, None) for request in pairing.unanswered)


def _entry(trace: _Recording, request: Record, response: Record | None) -> dict[str, Any]:
    took_ms = 0.0 if response is None else 1000 * (response.ts - request.ts)
    side = (request.receiver or "agent").lower()
    method = "" if request.method is UNSET else request.method
    status = 0 if response is None else 500 if response.is_error else 200
    return {
        "startedDateTime": _time(trace.header.t, request.ts),
        "time": took_ms,
        "request": {
            "method": "POST",
            "url": f"acp://{side}/{method}",
            "httpVersion": "JSON-RPC 2.0",
            **_NO_SIZES,
            "queryString": [],
            "bodySize": request.bytes,
            "postData": {"mimeType": "application/json", "text": _text([request])},
        },
        "response": {
            "status": status,
            "statusText": "",
            "httpVersion": "JSON-RPC 2.0",
            **_NO_SIZES,
            "redirectURL": "",
            "bodySize": 0 if response is None else response.bytes,
            "content": {
                "size": 0 if response is None else response.bytes,
                "mimeType": "application/json",
                "text": _text([] if response is None else [response]),
            },
        },
        "cache": {},
        "timings": {"send": 0, "wait": took_ms, "receive": 0},
        "connection": request.conn,
    }


def _text(records: Iterable[Record]) -> str:
    return "".join(record.frame.decode("utf-8", "replace") for record in records)


def _time(start: str, seconds: float) -> str:
    try:
        began = datetime.fromisoformat(start)
    except ValueError:
        began = datetime.fromtimestamp(0, UTC)
    return (began + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


# A recording as a transcript in Markdown.

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
            elif answered.method == STEERING:
                yield from self._line(record, f"**Steer:** {summary(record)}")
            return
        if not is_object(value):
            return
        if record.method in ("session/prompt", STEERING):
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


_HEAD = '''\
"""The turns of the recording {name}, with the recorded agent and with the agent itself."""

import asyncio
import shutil

import pytest

import accord
from accord.client.permissions import allow

RECORDING = {recording!r}  # relative to this file
AGENT = {argv!r}


@pytest.fixture(params=["recording", "agent"])
def agent(request, replayed_agent):
    """The recorded agent, and the command of the agent itself."""
    if request.param == "recording":
        return replayed_agent(RECORDING)
    if shutil.which(AGENT[0]) is None:
        pytest.skip(f"{{AGENT[0]}} is not installed")
    return AGENT


async def stop_reasons(agent, cwd, sessions):
    """Run the turns of each session, one after the other; return their stop reasons."""
    found = []
    async with accord.connect(agent, permissions=allow("*")) as connected:
        for turns in sessions:
            session = await connected.new_session(cwd=cwd)
            for prompt, expected, *said in turns:
                async with session.prompt(prompt) as turn:
                    for message in said:  # while the turn runs
                        await turn.steer(message)
                    if expected == "cancelled":
                        await turn.cancel()
                    try:
                        found.append(await turn.wait())
                    except accord.RequestError:
                        found.append("error")
    return found
'''
_TEST = """

def test_recorded_turns(agent, tmp_path):
    sessions = [
{sessions}    ]
    expected = [reason for turns in sessions for _, reason, *_ in turns]
    assert asyncio.run(stop_reasons(agent, str(tmp_path), sessions)) == expected
"""


def pytest_module(trace: Trace, recording: str) -> Iterator[str]:
    """Yield the parts of a module for pytest; `recording` is its path from the module's folder.

    Its test opens the recorded sessions, sends the text of the recorded prompts, and compares the
    stop reasons: with the fixture `replayed_agent`, and with the recorded command of the agent.
    """
    sessions = _sessions(trace)
    name = ascii(trace.name)[1:-1].replace('"""', "'''")
    argv = list(trace.header.argv) or ["my-agent"]
    yield _HEAD.format(name=name, recording=_Ascii(recording), argv=_Ascii(argv))
    shown = [
        "".join(("        [\n", *(f"            {turn!a},\n" for turn in turns), "        ],\n"))
        for turns in sessions.values()
        if turns
    ]
    if shown:
        yield _TEST.format(sessions="".join(shown))


class _Ascii:
    """A value as Python source in ASCII: text of a recording cannot leave its string."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return ascii(self._value)


def _sessions(trace: Trace) -> dict[str, list[tuple[str, ...]]]:
    """Return the prompts and stop reasons of the ended turns of each new session.

    What was said while the turn ran, and what the agent took, follows.
    """
    pairing = Pairing()
    prompts: dict[str, list[list[str]]] = {}
    for record in trace:
        answered = pairing.add(record)
        value = record.value()
        if not is_object(value):
            continue
        if record.method == "session/prompt" and record.type == "request":
            if record.session in prompts:
                prompts[record.session].append([_prompt_text(value.get("prompt"))])
        elif answered is not None and answered.method == STEERING:
            said = answered.request.value()
            turns = prompts.get(answered.request.session or "")
            if turns and is_object(said) and outcome_of(value) == "injected":
                turns[-1].append(_prompt_text(said.get("prompt")))
        elif answered is not None and answered.method == "session/new" and not record.is_error:
            prompts.setdefault(str(value.get("sessionId")), [])
    found: dict[str, list[tuple[str, ...]]] = {session: [] for session in prompts}
    sent = {session: iter(texts) for session, texts in prompts.items()}
    for turn in stats_of(trace).turns:
        texts = next(sent[turn.session], None) if turn.session in sent else None
        if texts is not None and turn.stop_reason is not None:  # it has ended
            found[str(turn.session)].append((texts[0], turn.stop_reason, *texts[1:]))
    return found


def _prompt_text(blocks: Any) -> str:
    if not is_array(blocks):
        return ""
    texts = [block.get("text") for block in blocks if is_object(block)]
    return "\n".join(text for text in texts if isinstance(text, str))
