"""Commands that the client runs for the agent (version 1)."""

from __future__ import annotations

import os
import sys
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.client.context import ClientContext, ClientGone, describe_outcome
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

_LONG = "import time; print('begun', flush=True); time.sleep(60)"
_WIDE = "import sys; sys.stdout.buffer.write('ä'.encode() * 100)"
_WHERE = "import os; print(os.environ.get('ACCORD_CHECK'), os.getcwd(), sep='|')"


@scenario("terminals/command", "R-TERM-03", "R-TERM-05", versions=(1,))
async def _command(context: ClientContext) -> None:
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
        context.judge(
            "R-REQCAN-13", passed, waiting, expected=expected, got=describe_outcome(waiting)
        )
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
    context.judge("R-TERM-14", call.ok, call, expected=expected, got=describe_outcome(call))
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


SCENARIOS = (_command, _kill, _params)
