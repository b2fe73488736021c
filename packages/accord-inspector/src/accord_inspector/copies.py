"""Writes a message as JSON, as a Python program and as a shell command that repeats it.

What other programs sent is only ever data in them: every text is quoted, and characters that a
terminal would obey or that reorder text are written as escapes.
"""

from __future__ import annotations

import json
import pprint
import re
import shlex
import unicodedata
from ast import literal_eval
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from accord import v1, v2
from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.text.redact import MASK
from accord.transports.registry import is_url
from accord.wire.protocol import Method
from accord_trace.records import Record

_WIDTH = 96
_ARGUMENT_BYTES = 100_000  # Linux takes 131,072 in one argument
_WAIT_S = 5  # until the agent's stdin is closed
_NAME = re.compile(r"[\w$/.*-]{1,80}", re.ASCII)
# Their session is the one that they name; other requests need one that is open.
_OPENING = frozenset(("load_session", "resume_session", "fork_session", "delete_session"))


class Origin(Struct, frozen=True):
    """Where a message comes from.

    `command` starts the agent, or is its URL; `initialize` is the frame that opened its connection.
    """

    number: int  # from 1
    command: Sequence[str] = ()
    version: int | None = None
    initialize: bytes = b""


class Copies(Struct, frozen=True):
    """The message in three languages; empty if it cannot be written in one."""

    json: str
    python: str
    shell: str


def copies(record: Record, origin: Origin) -> Copies:
    """Return a message for the clipboard.

    A request or a notification for the agent is repeated; of any other message, Python gets the
    value, and the shell prints the frame.
    """
    frame = record.frame
    try:
        value: Any = lenient_json.loads(frame)
    except lenient_json.NotJson:
        data = frame.decode("utf-8", "replace")
        return Copies("", f"FRAME = {frame!r}\n", _printf_bytes(frame) if data else "")
    text = _json(value)
    is_repeatable = record.dir == "to_agent" and record.type in ("request", "notification")
    if not is_repeatable or not is_object(value) or not origin.command:
        return Copies(text, f"MESSAGE = {_literal(value)}\n", _printf(value))
    return Copies(text, _python(value, origin), _shell(value, origin))


# JSON


def _json(value: Any, indent: int | None = 2) -> str:
    """Return JSON text; characters that are not printable are escaped, letters are not."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(c if c == "\n" or _is_shown(c) else _json_escape(c) for c in text)


def _is_shown(character: str) -> bool:
    return character.isprintable() and unicodedata.category(character) not in ("Cf", "Cs", "Co")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


# Python


def _literal(value: Any) -> str:
    """Return a Python expression for a JSON value."""
    try:
        text = pprint.pformat(value, width=_WIDTH, sort_dicts=False)
        if literal_eval(text) == value:
            return text
    except (ValueError, RecursionError, MemoryError):
        pass  # such as 1e999, or very deep
    return f"json.loads({lenient_json.dumps(value).decode('ascii', 'backslashreplace')!r})"


def _python(message: dict[str, Any], origin: Origin) -> str:
    name = message.get("method")
    params: Any = message.get("params") or {}
    text = _prompt_text(message)
    agent = origin.command[0] if is_url(origin.command[0]) else list(origin.command)
    head = f"AGENT = {_literal(agent)}\n"
    if text is not None:
        return (
            f"{_docstring(message, origin)}\nimport accord\n\n{head}PROMPT = {_literal(text)}\n\n"
            f"print(accord.ask(AGENT, PROMPT))\n"
        )
    method = _method(name, origin.version)
    if method is None and not (isinstance(name, str) and name.startswith("_")):
        return f"MESSAGE = {_literal(message)}\n"  # the protocol does not define it
    if method is not None and method.call == "initialize":
        calls = ["print(agent.remote.initialized)"]
        return _program(message, origin, head, calls)
    body = f"{head}PARAMS = {_literal(params)}\n"
    if method is None:
        verb = "call" if "id" in message else "notify"
        calls = [f"print(await agent.{verb}_extension({name!r}, PARAMS))"]
        return _program(message, origin, body, calls)
    calls: list[str] = []
    if is_object(params) and "sessionId" in params and method.call not in _OPENING:
        calls += ["session = await agent.new_session()", 'PARAMS["sessionId"] = session.id']
    if method.call == "set_session_config_option":  # its params have no class of their own
        calls[1:] = ['await session.set_option(PARAMS["configId"], PARAMS["value"])']
        return _program(message, origin, body, [*calls, "print(session.transcript.options)"])
    kind = f"v{origin.version}.{method.params.__name__}"
    calls.append(f"params = msgspec.convert(PARAMS, {kind})")
    calls.append(f"print(await agent.remote.{method.call}(params))")
    return _program(message, origin, body, calls, f"v{origin.version}")


def _program(
    message: dict[str, Any], origin: Origin, body: str, calls: Sequence[str], types: str = ""
) -> str:
    imports = ["import asyncio", "import json"] if "json.loads(" in body else ["import asyncio"]
    imports += ["", "import accord"]
    if types:
        imports += [f"from accord import {types}", "import msgspec"]
    versions = f", versions=[{origin.version}]" if origin.version else ""
    lines = "".join(f"        {call}\n" for call in calls)
    return (
        f"{_docstring(message, origin)}\n" + "\n".join(imports) + f"\n\n{body}\n\n"
        f"async def main() -> None:\n    async with accord.connect(AGENT{versions}) as agent:\n"
        f"{lines}\n\nasyncio.run(main())\n"
    )


def _docstring(message: dict[str, Any], origin: Origin) -> str:
    return f'"""Repeats message {origin.number}{_named(message)}.{_redacted(message)}"""\n'


def _named(message: dict[str, Any]) -> str:
    name = message.get("method")
    return f": {name}" if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _redacted(message: dict[str, Any]) -> str:
    return f" Replace {MASK}: the recording has no secrets." if _has_mask(message) else ""


def _has_mask(value: Any) -> bool:
    return MASK.encode() in lenient_json.dumps(value)


def _method(name: Any, version: int | None) -> Method | None:
    table = {1: v1.METHODS, 2: v2.METHODS}.get(version or 0, ())
    return next((one for one in table if one.name == name and one.to == "agent"), None)


def _prompt_text(message: dict[str, Any]) -> str | None:
    """Return the text of a prompt that is only text; None for another message."""
    params = message.get("params")
    if message.get("method") != "session/prompt" or not is_object(params):
        return None
    blocks = params.get("prompt")
    if not is_array(blocks) or not blocks:
        return None
    texts = [block.get("text") for block in blocks if is_object(block)]
    if len(texts) != len(blocks) or not all(isinstance(text, str) for text in texts):
        return None
    text = "\n".join(map(str, texts))
    return text if text.strip() and "\0" not in text else None


# Shell


def _shell(message: dict[str, Any], origin: Origin) -> str:
    text = _prompt_text(message)
    protocol = f" --protocol {origin.version}" if origin.version else ""
    command = origin.command[0] if is_url(origin.command[0]) else shlex.join(origin.command)
    note = f"# Replace {MASK}: the recording has no secrets.\n" if _has_mask(message) else ""
    if text is not None:
        ask = f"accord ask{protocol} --agent {_quoted(command)}"
        if text == "-" or len(text.encode("utf-8", "replace")) > _ARGUMENT_BYTES:
            return f"{note}printf '%s' {_quoted(text)} | {ask} -\n"
        return f"{note}{ask} -- {_quoted(text)}\n"
    words = " ".join(map(_quoted, origin.command))
    if is_url(origin.command[0]):
        words = f"accord bridge {_quoted(origin.command[0])}"
    frames = [message]
    if origin.initialize and message.get("method") != "initialize":
        frames.insert(0, lenient_json.loads(origin.initialize))
    params = message.get("params")
    if is_object(params) and "sessionId" in params:
        note += (
            "# The session of the recording has to exist: replace its id by that of another one.\n"
        )
    quoted = " \\\n  ".join(_quoted(_json(frame, None)) for frame in frames)
    return f"{note}{{ printf '%s\\n' {quoted}; sleep {_WAIT_S}; }} | {words}\n"


def _printf(value: Any) -> str:
    return f"printf '%s\\n' {_quoted(_json(value, None))}\n"


def _printf_bytes(frame: bytes) -> str:
    """Return a command that prints bytes that are not a message."""
    text = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"\\'%" else f"\\{byte:03o}" for byte in frame
    ).replace("\\045", "%%")
    return f"printf '{text}\\n'\n"


def _quoted(text: str) -> str:
    """Return one word of a shell; with characters that are not printable, one of bash or zsh."""
    if all(c == "\n" or _is_shown(c) for c in text):
        return shlex.quote(text)
    return "$'" + "".join(map(_dollar, text)) + "'"


def _dollar(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character == "\n":
        return "\\n"
    if _is_shown(character):
        return character
    data = character.encode("utf-8", "replace")
    return "".join(f"\\{byte:03o}" for byte in data)
