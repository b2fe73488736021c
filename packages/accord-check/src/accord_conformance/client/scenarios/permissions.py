"""Permission requests: unusual, malformed, and cancelled ones."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.client.context import (
    OPTIONS,
    ClientContext,
    ClientGone,
    Json,
    describe_outcome,
)
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.message import Request

_ASK = "session/request_permission"
_ALL = (
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
    call = context.request_permission("Forgiving", options=list(_ALL), details=details)
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
        context.judge("R-REQCAN-13", passed, call, expected=expected, got=describe_outcome(call))


def _chosen(call: Request) -> Any:
    outcome = call.result.get("outcome") if is_object(call.result) else None
    return outcome.get("optionId") if is_object(outcome) else None


SCENARIOS = (_wrong, _forgiven, _subjects, _command, _withdrawn)
