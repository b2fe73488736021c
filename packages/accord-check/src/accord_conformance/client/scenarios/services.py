"""Scenarios for what a client does for an agent: permissions, files, commands, forms, MCP."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.client.context import (
    OPTIONS,
    ClientContext,
    ClientGone,
    Json,
)
from accord_conformance.client.fixtures import WebServer
from accord_conformance.harness import NoResponse, NotExercised, scenario
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Request, format_value

# Permission requests: unusual, malformed, and cancelled ones.

_ASK = "session/request_permission"
_ALL_OPTIONS = (
    *OPTIONS,
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
)


@scenario("permissions/malformed", "R-GEN-11", "R-ERR-05")
async def _wrong(context: ClientContext) -> None:
    """Sends requests with missing or malformed params, which the client must refuse."""
    whole: Json = {"title": "Wrong", "options": list(OPTIONS)}
    if context.version == 1:
        whole["toolCall"] = {"toolCallId": "wrong", "title": "Wrong"}
    bad: list[tuple[Any, str]] = [
        (context.session_params(**{**whole, "options": "none"}), "options that are not a list"),
        (dict(whole), "no session"),
        (
            context.session_params(**{**whole, "options": [{"optionId": 1}]}),
            "an option that is not an object",
        ),
    ]
    for params, why in bad:
        call = context.connection.send_request(_ASK, params)
        frame = context.agent.last_frame
        try:
            await context.expect_error("R-GEN-11", call, -32602, why, authority="derived")
        except ClientGone as gone:
            expected = "-32602, and a connection that still works"
            context.judge("R-ERR-05", False, frame, expected=expected, got=str(gone))
            raise
    frame = context.update("tool_call_update", title="without an id")
    why = "an update without a required field"
    await context.expect_alive("R-GEN-11", why, frame, authority="derived")
    context.judge("R-ERR-05", True)


@scenario("permissions/tolerated", "R-GEN-11", "R-GEN-08")
async def _forgiven(context: ClientContext) -> None:
    """Sends requests with malformed values that the schema tolerates, and with unknown keys."""
    context.say("Please answer the next requests as you like.")
    details = {"kind": 1, "locations": "here", "content": [{"type": "content"}], "rawInput": None}
    call = context.request_permission("Forgiving", options=list(_ALL_OPTIONS), details=details)
    await context.expect_success("R-GEN-11", call, "malformed values that the schema tolerates")
    unknown = {"accordUnheardOf": {"any": [1]}, "_meta": {"accord": 1}}
    call = context.request_permission("Unknown keys", **unknown)
    await context.expect_success("R-GEN-08", call, "a permission request with unknown keys")


@scenario("permissions/subjects", "R-PERM-09", "R-PERM-13", "R-PERM-15", "R-EXT-12", versions=(2,))
async def _subjects(context: ClientContext) -> None:
    """Sends requests without a subject, with an unknown one, with an unknown kind of option."""
    for subject in ({}, {"subject": None}):
        call = context.request_permission("About nothing", **subject)
        await context.expect_success("R-PERM-09", call, "a permission request without a subject")
    call = context.request_permission(
        "About the unknown", subject={"type": "accord_later", "any": 1}
    )
    await context.expect_success("R-PERM-13", call, "a subject of an unknown type")
    odd = [*OPTIONS, {"optionId": "odd", "name": "Perhaps", "kind": "_accord_perhaps"}]
    call = context.request_permission("An unknown option", options=odd)
    await context.expect_success("R-PERM-15", call, "an option of an unknown kind")
    call = context.request_permission(
        "Malformed", subject={"type": "tool_call", "toolCall": "none"}
    )
    why = "a malformed subject of a known type"
    await context.expect_error("R-EXT-12", call, -32602, why, code_authority="derived")


@scenario("permissions/command", "R-PERM-12", versions=(2,))
async def _command(context: ClientContext) -> None:
    """Asks for permission to run a command, which the client must not run."""
    made = await context.make_folder() / "made.txt"
    words = [sys.executable, "-c", f"open({str(made)!r}, 'w').close()"]
    context.say("Please allow the command. It must not run.")
    subject = {"type": "command", "command": shlex.join(words), "cwd": context.session.cwd}
    call = context.request_permission("Run a command", subject=subject)
    await context.wait_for_person(call)
    context.require(_chosen(call) == "yes", "the command was not allowed")
    await context.agent.is_alive()
    context.judge(
        "R-PERM-12",
        not made.exists(),
        call,
        expected="a client that does not run the command",
        got="the client ran the command",
    )


@scenario("permissions/withdrawn", "R-REQCAN-13")
async def _withdrawn(context: ClientContext) -> None:
    """Sends a request and cancels it at once."""
    call = context.request_permission("Never mind")
    context.cancel_request(call)
    try:
        await context.connection.wait_for_response(call)
    except NoResponse:
        context.require(not context.connection.is_closed, "the client disconnected")
        context.require(False, "the client ignores `$/cancel_request`, which is allowed")
    if context.version == 1 and not call.ok:  # in version 2 it has an outcome, which is observed
        passed = call.code == -32800
        expected = "-32800 or an outcome for a request that was cancelled"
        context.judge("R-REQCAN-13", passed, call, expected=expected, got=call.outcome)


def _chosen(call: Request) -> Any:
    outcome = call.result.get("outcome") if is_object(call.result) else None
    return outcome.get("optionId") if is_object(outcome) else None


PERMISSIONS = (_wrong, _forgiven, _subjects, _command, _withdrawn)


# Files that the client reads and writes for the agent (version 1).

_READ, _WRITE = "fs/read_text_file", "fs/write_text_file"
_TEXT = "one\ntwo\nthree\n"
_SECRET = "do not read this\n"


@scenario("files/read", "R-GEN-08", "R-FS-03", "R-FS-06", "R-FS-09", versions=(1,))
async def _reading(context: ClientContext) -> None:
    """Reads a file whole and in part, with unknown keys and invalid numbers, and a missing file."""
    note = await _note(context)
    extras: list[Json] = [{"accordUnheardOf": [1, {}]}, {"_meta": {"accord": {"any": True}}}]
    for extra in extras:
        call = await context.call(_READ, context.session_params(path=note, **extra))
        expected = "the text of the file, because unknown keys are ignored"
        context.judge("R-GEN-08", _text(call) == _TEXT, call, expected=expected, got=call.outcome)
    call = await context.call(_READ, context.session_params(path=note, line=None, limit=None))
    expected = "the whole file, because null means no limit"
    context.judge("R-FS-09", _text(call) == _TEXT, call, expected=expected, got=_got(call))
    call = await context.call(_READ, context.session_params(path=note, line=2, limit=1))
    passed = call.ok and str(_text(call)).splitlines() == ["two"]
    expected = "only the second line: lines are counted from 1"
    context.judge("R-FS-03", passed, call, expected=expected, got=f"{_text(call)!r:.80}")
    for wrong in ({"line": "2"}, {"line": -1}, {"limit": 1.5}, {"limit": "all"}):
        call = context.connection.send_request(_READ, context.session_params(path=note, **wrong))
        await context.expect_error("R-FS-09", call, -32602, f"{wrong}, which is not a uint32")
    missing = str(Path(note).with_name("missing.txt"))
    call = context.connection.send_request(_READ, context.session_params(path=missing))
    await context.expect_error("R-FS-06", call, -32002, "a missing file")


@scenario("files/write", "R-FS-04", versions=(1,))
async def _writing(context: ClientContext) -> None:
    """Creates a file, and reads it."""
    context.require(
        context.supports("fs", "writeTextFile"), "the client does not support writing files"
    )
    folder = await context.make_folder()
    path = str(folder / "written.txt")
    call = await context.call(_WRITE, context.session_params(path=path, content=_TEXT))
    expected = "the file is created"
    context.judge("R-FS-04", call.ok, call, expected=expected, got=call.outcome)
    if call.ok and context.supports("fs", "readTextFile"):
        again = await context.call(_READ, context.session_params(path=path))
        passed = _text(again) == _TEXT
        context.judge("R-FS-04", passed, call, again, expected=expected, got=_got(again))


@scenario("files/roots", "R-DIR-12", "R-DIR-10", "R-FS-07", versions=(1,))
async def _roots(context: ClientContext) -> None:
    """Reads and writes outside the session's directories, also through links."""
    note = Path(await _note(context))
    folder = await context.make_outside_folder()
    secret = folder / "secret.txt"
    secret.write_text(_SECRET)
    up = os.path.relpath(secret, note.parent)  # noqa: ASYNC240  # does no I/O
    await _hidden(context, "R-DIR-12", str(secret), "a path outside")
    await _hidden(
        context, "R-DIR-12", f"{note.parent}{os.sep}{up}", "a path with `..` to a file outside"
    )
    link, links = note.with_name("link.txt"), note.with_name("links")
    try:
        link.symlink_to(secret)
        links.symlink_to(folder, target_is_directory=True)
    except (OSError, NotImplementedError):
        link = None
    if link is not None:
        await _hidden(context, "R-DIR-10", str(link), "a link to a file outside")
        await _hidden(context, "R-DIR-10", str(links / "secret.txt"), "a link to a folder outside")
    if context.supports("fs", "writeTextFile"):
        await _untouched(context, "R-DIR-12", folder / "a.txt", str(folder / "a.txt"))
        if link is not None:
            await _untouched(context, "R-DIR-10", folder / "b.txt", str(links / "b.txt"))
    call = await context.call(_READ, {"sessionId": "accord-unknown-session", "path": str(note)})
    expected = "an error for an unknown session"
    context.judge("R-FS-07", not call.ok, call, expected=expected, got=call.outcome)


async def _note(context: ClientContext) -> str:
    """Create a file that the client can read."""
    context.require(
        context.supports("fs", "readTextFile"), "the client does not support reading files"
    )
    path = await context.make_folder() / "note.txt"
    path.write_text(_TEXT, newline="\n")
    call = await context.call(_READ, context.session_params(path=str(path)))
    context.require(
        _text(call) == _TEXT, "the client does not see the files that this program creates"
    )
    return str(path)


async def _hidden(context: ClientContext, rule: str, path: str, what: str) -> None:
    call = await context.call(_READ, context.session_params(path=path))
    expected = f"an error for {what} of the session's directories"
    context.judge(rule, not call.ok, call, expected=expected, got=call.outcome)


async def _untouched(context: ClientContext, rule: str, target: Path, path: str) -> None:
    call = await context.call(_WRITE, context.session_params(path=path, content="written"))
    expected = "an error, and no new file, for a path outside of the session's directories"
    made = target.name in os.listdir(target.parent)  # noqa: PTH208  # no coroutine does it
    got = "the file was created" if made else call.outcome
    context.judge(rule, not call.ok and not made, call, expected=expected, got=got)


def _text(call: Request) -> Any:
    return call.result.get("content") if is_object(call.result) else None


def _got(call: Request) -> str:
    return "another text" if call.ok else call.outcome


FILES = (_reading, _writing, _roots)


# Commands that the client runs for the agent (version 1).

_LONG = "import time; print('begun', flush=True); time.sleep(60)"
_WIDE = "import sys; sys.stdout.buffer.write('ä'.encode() * 100)"
_WHERE = "import os; print(os.environ.get('ACCORD_CHECK'), os.getcwd(), sep='|')"


@scenario("terminals/command", "R-TERM-03", "R-TERM-05", versions=(1,))
async def _terminals_command(context: ClientContext) -> None:
    """Runs a command with a folder and a variable, one that fails, one with long output."""
    folder = str(await context.make_folder())
    env = [{"name": "ACCORD_CHECK", "value": "set"}]
    ident, create = await _create(context, _WHERE, cwd=folder, env=env)
    output = await _ended(context, ident)
    name, _, where = output.strip().rpartition("\n")[2].partition("|")
    passed = name == "set" and os.path.realpath(where) == os.path.realpath(folder)  # noqa: ASYNC240
    context.judge(
        "R-TERM-03",
        passed,
        create,
        expected=f"a command that runs in {folder} with ACCORD_CHECK=set",
        got=f"ACCORD_CHECK={name} in {where}",
    )
    await _release(context, ident)

    ident, create = await _create(context, _WIDE, outputByteLimit=51)
    output = await _ended(context, ident)
    size = len(output.encode("utf-8", "surrogatepass"))
    passed = not output.strip("ä") and 0 < size <= 51
    expected = "at most 51 bytes of whole characters"
    got = f"{size} bytes, beginning with {output[:2]!a}"
    context.judge("R-TERM-05", passed, create, expected=expected, got=got)
    await _release(context, ident)

    ident, _ = await _create(context, "raise SystemExit(3)")
    await _ended(context, ident)
    await context.call("terminal/output", _at(context, ident))  # observed
    await _release(context, ident)


@scenario("terminals/kill", "R-REQCAN-13", versions=(1,))
async def _kill(context: ClientContext) -> None:
    """Waits for a command, cancels the wait, kills it, releases it and uses its id again."""
    ident, _ = await _create(context, _LONG)
    waiting = context.connection.send_request("terminal/wait_for_exit", _at(context, ident))
    context.cancel_request(waiting)
    await context.agent.is_alive()
    if waiting.response is not None and not waiting.ok:
        passed = waiting.code == -32800
        expected = "error -32800 for a cancelled request"
        context.judge("R-REQCAN-13", passed, waiting, expected=expected, got=waiting.outcome)
    await context.call("terminal/output", _at(context, ident))
    await context.call("terminal/kill", _at(context, ident))
    await _ended(context, ident)
    await context.call("terminal/output", _at(context, ident))
    await _release(context, ident)
    await context.call("terminal/output", _at(context, ident))  # observed: the id is gone
    many = [await _create(context, _LONG) for _ in range(5)]
    for ident, _ in many:
        await _release(context, ident)


@scenario("terminals/params", "R-TERM-14", versions=(1,))
async def _params(context: ClientContext) -> None:
    """Starts commands with null lists, and with malformed lists and numbers."""
    ident, _ = await _create(context, "pass")
    await _release(context, ident)
    null = context.session_params(command=sys.executable, args=None, env=None, outputByteLimit=None)
    # Without a script the interpreter reads its stdin; whether it exits is not judged.
    call = await context.call("terminal/create", null)
    expected = "a terminal, because null means an empty list"
    context.judge("R-TERM-14", call.ok, call, expected=expected, got=call.outcome)
    if call.ok and is_object(call.result):
        await _release(context, call.result.get("terminalId"))
    wrong: tuple[dict[str, Any], ...] = (
        {"args": [1]},
        {"args": "-c"},
        {"env": [{"name": "A"}]},
        {"cwd": 1},
        {"outputByteLimit": -1},
    )
    for bad in wrong:
        params = context.session_params(
            **{"command": sys.executable, "args": ["-c", "pass"], **bad}
        )
        call = context.connection.send_request("terminal/create", params)
        await context.expect_error("R-TERM-14", call, -32602, f"{bad}, which is malformed")
        if call.ok and is_object(call.result):
            await _release(context, call.result.get("terminalId"))


async def _create(context: ClientContext, code: str, **more: Any) -> tuple[str, Request]:
    """Start the interpreter that runs this program; return the id of the terminal."""
    context.require(context.supports("terminal"), "the client does not support terminals")
    params = context.session_params(command=sys.executable, args=["-c", code], **more)
    call = await context.call("terminal/create", params)
    found = call.result.get("terminalId") if is_object(call.result) else None
    if not isinstance(found, str):
        raise NotExercised(f"the client did not start {sys.executable}")
    return found, call


async def _ended(context: ClientContext, ident: str) -> str:
    """Wait for the end of a command; return its output."""
    await context.call("terminal/wait_for_exit", _at(context, ident))
    call = await context.call("terminal/output", _at(context, ident))
    output = call.result.get("output") if is_object(call.result) else None
    return output if isinstance(output, str) else ""


async def _release(context: ClientContext, ident: Any) -> None:
    try:
        await context.call("terminal/release", _at(context, ident))
    except NoResponse as silence:
        raise ClientGone(str(silence)) from None


def _at(context: ClientContext, ident: Any) -> dict[str, Any]:
    return context.session_params(terminalId=ident)


TERMINALS = (_terminals_command, _kill, _params)


# Forms with every kind of field, unknown and malformed ones, and a declined URL.

_ELICITATION_ASK = "elicitation/create"
_ALL_FIELDS: Json = {
    "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 40},
    "mail": {"type": "string", "format": "email", "default": "a@example.com"},
    "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
    "share": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
    "sure": {"type": "boolean", "default": True},
    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    "size": {
        "type": "string",
        "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
    },
    "days": {
        "type": "array",
        "items": {"type": "string", "enum": ["mon", "tue"]},
        "minItems": 1,
        "maxItems": 2,
    },
}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


@scenario("elicitation/fields", "R-ELIC-17", "R-ELIC-20", "R-ELIC-33")
async def _fields(context: ClientContext) -> None:
    """Requests a form with all kinds of fields, also with unknown ones."""
    _offered(context)
    context.say("Please fill in the forms as you like, or decline them.")
    call = _form(context, "All kinds of fields", _ALL_FIELDS, required=["name", "days"])
    await context.wait_for_person(call)
    given = _given(call)
    if given is not None:
        wrong = _misfit(_ALL_FIELDS, ("name", "days"), given)
        expected = "valid values"
        context.judge("R-ELIC-17", not wrong, call, expected=expected, got=wrong)
    await _unknown(context)


async def _unknown(context: ClientContext) -> None:
    if context.version == 2:  # the schema of version 1 has a closed list of formats
        odd = {"name": {"type": "string", "format": "accord-later", "default": "some"}}
        call = _form(context, "An unknown format", odd)
        await context.expect_success("R-ELIC-20", call, "a text of an unknown format")
    odd = {"name": {"type": "string"}, "dial": {"type": "_accord_dial", "default": "5"}}
    call = _form(context, "An unknown field", odd)
    await context.wait_for_person(call)
    given = _given(call)
    if given is not None:
        context.judge(
            "R-ELIC-33",
            "dial" not in given,
            call,
            expected="no value for a field of an unknown type",
            got=f"the value {given.get('dial')!r}",
        )


@scenario("elicitation/minimal-schema", "R-ELIC-08")
async def _wrong_form(context: ClientContext) -> None:
    """Requests a form with a minimal schema, and an elicitation in an unknown mode."""
    _offered(context)
    params = context.session_params(
        mode="form", message="A form without a type", requestedSchema={}
    )
    if context.version == 1:
        call = context.connection.send_request(_ELICITATION_ASK, params)
        await context.expect_success("R-ELIC-08", call, "a form without `type` and `properties`")
    else:
        call = context.connection.send_request(_ELICITATION_ASK, params)
        why = "a form without `type` and `properties`"
        await context.expect_error("R-ELIC-08", call, -32602, why, code_authority="derived")
    later = context.session_params(mode="_accord_later", message="In an unknown mode")
    call = context.connection.send_request(_ELICITATION_ASK, later)
    try:
        await context.connection.wait_for_response(call)  # observed
    except NoResponse:
        context.cancel_request(call)


@scenario("elicitation/pattern", "R-ELIC-19")
async def _pattern(context: ClientContext) -> None:
    """Requests a text with a pattern that takes some programs forever."""
    _offered(context)
    hard = {"type": "string", "pattern": "^(a+)+$", "default": "a" * 40 + "!"}
    context.say("Please send the next form as it is, or decline it.")
    call = _form(context, "A hard pattern", {"text": hard})
    alive = await context.agent.is_alive()
    if alive:
        try:
            await context.wait_for_person(call)
        except NotExercised:
            if await context.agent.is_alive():
                raise
        alive = await context.agent.is_alive()
    got = "it no longer responds"
    expected = "a client that still responds while it matches a hard pattern"
    context.judge("R-ELIC-19", alive, call, expected=expected, got=got)


@scenario("elicitation/url", "R-ELIC-13", "R-ELIC-30")
async def _page(context: ClientContext) -> None:
    """Requests to open a URL, which the user declines, and completes unknown elicitations."""
    sent = context.send_notification("elicitation/complete", {"elicitationId": "never asked"})
    await context.expect_alive("R-ELIC-30", "the completion of an unknown elicitation", sent)
    context.require(
        context.supports("elicitation", "url"), "the client does not support URL elicitation"
    )
    async with WebServer() as server:
        context.say("Please decline to open the next URL.")
        ident = f"{context.session.id}-page"
        params = context.session_params(mode="url", message="Decline this URL", elicitationId=ident)
        call = context.connection.send_request(
            _ELICITATION_ASK, {**params, "url": f"{server.address}/page"}
        )
        await context.wait_for_person(call)
        context.require(_action(call) in ("decline", "cancel"), "the URL was not declined")
        asked = await server.wait_for_visits(within_s=0.3)
        context.judge(
            "R-ELIC-13",
            not asked,
            call,
            expected="no request to a URL that the user declined",
            got=f"a request for {', '.join(asked)}",
        )
        sent = context.send_notification("elicitation/complete", {"elicitationId": ident})
        await context.expect_alive("R-ELIC-30", "the completion of a declined elicitation", sent)


def _offered(context: ClientContext) -> None:
    context.require(
        context.supports("elicitation", "form"), "the client does not support form elicitation"
    )


def _form(
    context: ClientContext, message: str, properties: Json, required: list[str] | None = None
) -> Request:
    schema: Json = {"type": "object", "properties": properties}
    if required is not None:
        schema["required"] = required
    return context.connection.send_request(
        _ELICITATION_ASK,
        context.session_params(mode="form", message=message, requestedSchema=schema),
    )


def _action(call: Request) -> Any:
    return call.result.get("action") if is_object(call.result) else call.outcome


def _given(call: Request) -> Json | None:
    """Return the values of a form, None if it was not accepted."""
    if _action(call) != "accept":
        return None
    content = call.result.get("content")
    return content if is_object(content) else {}


def _misfit(properties: Json, required: tuple[str, ...], given: Json) -> str:
    """Return why the values do not fit, or an empty text."""
    for name in required:
        if name not in given:
            return f"{name} is missing"
    for name, value in given.items():
        schema = properties.get(name)
        if schema is None:
            return f"{name} is not in the form"
        if not _fits(schema, value):
            return f"{name} is {value!r}"
    return ""


def _fits(schema: Json, value: Any) -> bool:
    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    if is_array(value):
        allowed = schema["items"]["enum"]
        few, most = schema["minItems"], schema["maxItems"]
        return few <= len(value) <= most and all(one in allowed for one in value)
    if isinstance(value, str):
        one_of = [option["const"] for option in schema.get("oneOf", ())]
        if (allowed := schema.get("enum", one_of)) and value not in allowed:
            return False
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9)
    if isinstance(value, bool):
        return True
    return schema.get("minimum", value) <= value <= schema.get("maximum", value)


ELICITATION = (_fields, _wrong_form, _pattern, _page)


# MCP servers that the client provides over ACP: valid, malformed and cancelled requests.

_KEY = "io.modelcontextprotocol/"
_VERSION = "2026-07-28"
_META: Json = {f"{_KEY}protocolVersion": _VERSION, f"{_KEY}clientCapabilities": {}}


def _server(context: ClientContext) -> str:
    """Return the id of a declared server; raise `NotExercised` if there is none."""
    found = ""
    for call in context.connection.requests:
        if call.method not in SETUP_METHODS or not is_object(call.params):
            continue
        servers: Any = call.params.get("mcpServers")
        for one in servers if is_array(servers) else []:
            if is_object(one) and one.get("type") == "acp" and isinstance(one.get("serverId"), str):
                found = one["serverId"]
    context.require(bool(found), "the client declares no MCP servers over ACP")
    return found


class _Consumer:
    """Sends MCP requests to one server, each with an id of its own."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._server = _server(context)

    async def call(self, method: str, inner: Any) -> Request:
        """Send a request; return it with its response."""
        number = len(self._context.connection.observer.state.requests)
        return await self._context.call(
            "mcp/message",
            {
                "serverId": self._server,
                "requestId": f"accord-check-{number}",
                "method": method,
                "params": inner,
            },
        )


def _inner_code(call: Request) -> Any:
    """Return the code of the error of the MCP server, inside the result."""
    error = call.result.get("error") if is_object(call.result) else None
    return error.get("code") if is_object(error) else None


def _describe(call: Request) -> str:
    return f"the result {format_value(call.result)}" if call.ok else call.outcome


@scenario("mcp/context", "R-MOA-13")
async def _context(context: ClientContext) -> None:
    """Requests without the MCP version or the capabilities, and with another version."""
    consumer = _Consumer(context)
    wrong: list[tuple[str, Any, int]] = [
        ("a request without `_meta`", {}, -32602),
        ("a request without capabilities", {"_meta": {f"{_KEY}protocolVersion": _VERSION}}, -32602),
        ("another version", {"_meta": {**_META, f"{_KEY}protocolVersion": "1999-01-01"}}, -32022),
    ]
    for why, inner, code in wrong:
        call = await consumer.call("tools/list", inner)
        context.judge(
            "R-MOA-13",
            call.ok and _inner_code(call) == code,
            call,
            expected=f"the error {code} inside the result for {why}",
            got=_describe(call),
        )


@scenario("mcp/codes", "R-MOA-05", "R-MOA-12")
async def _codes(context: ClientContext) -> None:
    """Errors of the MCP server are inside the result, those of the connection outside."""
    consumer = _Consumer(context)
    call = await consumer.call("tools/list", {"_meta": _META})
    context.require(call.ok, "the server does not list its tools")
    call = await consumer.call("accord-check/unknown", {"_meta": _META})
    context.judge(
        "R-MOA-12",
        call.ok and _inner_code(call) == -32601,
        call,
        expected="the error -32601 of the MCP server inside the result",
        got=_describe(call),
    )
    call = await consumer.call("tools/list", [1])
    context.judge(
        "R-MOA-05",
        not call.ok or _inner_code(call) is not None,
        call,
        expected="an error for params that are an array",
        got=_describe(call),
    )


@scenario("mcp/cancel", "R-MOA-11")
async def _cancel(context: ClientContext) -> None:
    """A request is cancelled at once; a result may be faster."""
    server = _server(context)
    call = context.connection.send_request(
        "mcp/message",
        {
            "serverId": server,
            "requestId": "accord-check-cancelled",
            "method": "tools/list",
            "params": {"_meta": _META},
        },
    )
    context.cancel_request(call)
    await context.connection.wait_for_response(call)
    context.judge(
        "R-MOA-11",
        call.ok or call.code == -32800,
        call,
        expected="-32800, or a result that was faster",
        got=call.outcome,
    )


@scenario("mcp/old-dialect", "R-MOA-16")
async def _old_dialect(context: ClientContext) -> None:
    """Requests that older drafts had."""
    for method in ("mcp/connect", "_mcp/connect"):
        call = await context.call(method, {"acpId": "accord-check"})
        context.judge(
            "R-MOA-16",
            call.code == -32601,
            call,
            expected=f"-32601 for {method}",
            got=call.outcome,
        )


MCP_OVER_ACP = (_context, _codes, _cancel, _old_dialect)
