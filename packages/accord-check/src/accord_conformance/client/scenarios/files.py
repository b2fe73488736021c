"""Files that the client reads and writes for the agent (version 1)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.client.context import ClientContext, Json, describe_outcome
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.message import Request

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
        context.judge(
            "R-GEN-08", _text(call) == _TEXT, call, expected=expected, got=describe_outcome(call)
        )
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
    context.judge("R-FS-04", call.ok, call, expected=expected, got=describe_outcome(call))
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
    context.judge("R-FS-07", not call.ok, call, expected=expected, got=describe_outcome(call))


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
    context.judge(rule, not call.ok, call, expected=expected, got=describe_outcome(call))


async def _untouched(context: ClientContext, rule: str, target: Path, path: str) -> None:
    call = await context.call(_WRITE, context.session_params(path=path, content="written"))
    expected = "an error, and no new file, for a path outside of the session's directories"
    made = target.name in os.listdir(target.parent)  # noqa: PTH208  # no coroutine does it
    got = "the file was created" if made else describe_outcome(call)
    context.judge(rule, not call.ok and not made, call, expected=expected, got=got)


def _text(call: Request) -> Any:
    return call.result.get("content") if is_object(call.result) else None


def _got(call: Request) -> str:
    return "another text" if call.ok else describe_outcome(call)


SCENARIOS = (_reading, _writing, _roots)
