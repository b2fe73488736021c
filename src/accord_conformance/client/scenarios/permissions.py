"""Questions to the user: odd ones, wrong ones, and ones that are withdrawn."""

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

__all__ = ("SCENES",)

_ASK = "session/request_permission"
_ALL = (
    *OPTIONS,
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
)


@scenario("permissions/wrong", "R-GEN-11", "R-ERR-05")
async def _wrong(scene: ClientContext) -> None:
    """Asks with params that are missing or malformed: each is refused, and all goes on."""
    whole: Json = {"title": "Wrong", "options": list(OPTIONS)}
    if scene.version == 1:
        whole["toolCall"] = {"toolCallId": "wrong", "title": "Wrong"}
    bad: list[tuple[Any, str]] = [
        (scene.session_params(**{**whole, "options": "none"}), "options that are no list"),
        (dict(whole), "no session"),
        (scene.session_params(**{**whole, "options": [{"optionId": 1}]}), "an option that is none"),
    ]
    for params, why in bad:
        call = scene.connection.send_request(_ASK, params)
        frame = scene.agent.last_frame
        try:
            await scene.expect_error("R-GEN-11", call, -32602, why)
        except ClientGone as gone:
            expected = "-32602, and a connection that goes on"
            scene.judge("R-ERR-05", False, frame, expected=expected, got=str(gone))
            raise
    frame = scene.update("tool_call_update", title="without an id")
    await scene.expect_alive("R-GEN-11", "an update that lacks what it needs", frame)
    scene.judge("R-ERR-05", True)


@scenario("permissions/forgiven", "R-GEN-11", "R-GEN-08")
async def _forgiven(scene: ClientContext) -> None:
    """Asks with malformed values where the schema forgives them, and with unknown keys."""
    scene.say("The next questions may be answered as you like.")
    details = {"kind": 1, "locations": "here", "content": [{"type": "content"}], "rawInput": None}
    call = scene.request_permission("Forgiving", options=list(_ALL), details=details)
    await scene.expect_success("R-GEN-11", call, "malformed values that the schema forgives")
    unknown = {"accordUnheardOf": {"any": [1]}, "_meta": {"accord": 1}}
    call = scene.request_permission("Unknown keys", **unknown)
    await scene.expect_success("R-GEN-08", call, "a question with unknown keys")


@scenario("permissions/subjects", "R-PERM-09", "R-PERM-13", "R-PERM-15", "R-EXT-12", versions=(2,))
async def _subjects(scene: ClientContext) -> None:
    """Asks about nothing, about something unknown, with an option of an unknown kind."""
    for subject in ({}, {"subject": None}):
        call = scene.request_permission("About nothing", **subject)
        await scene.expect_success("R-PERM-09", call, "a question without a subject")
    call = scene.request_permission("About the unknown", subject={"type": "accord_later", "any": 1})
    await scene.expect_success("R-PERM-13", call, "a subject of an unknown type")
    odd = [*OPTIONS, {"optionId": "odd", "name": "Perhaps", "kind": "_accord_perhaps"}]
    call = scene.request_permission("An unknown option", options=odd)
    await scene.expect_success("R-PERM-15", call, "an option of an unknown kind")
    call = scene.request_permission("Malformed", subject={"type": "tool_call", "toolCall": "none"})
    await scene.expect_error("R-EXT-12", call, -32602, "a malformed subject of a known type")


@scenario("permissions/command", "R-PERM-12", versions=(2,))
async def _command(scene: ClientContext) -> None:
    """Asks whether a command may be run, which the client does not run itself."""
    made = await scene.make_folder() / "made.txt"
    words = [sys.executable, "-c", f"open({str(made)!r}, 'w').close()"]
    scene.say("Please allow the command. It is not run.")
    subject = {"type": "command", "command": shlex.join(words), "cwd": scene.session.cwd}
    call = scene.request_permission("Run a command", subject=subject)
    await scene.wait_for_person(call)
    scene.require(_chosen(call) == "yes", "the command was not allowed")
    await scene.agent.is_alive()
    scene.judge(
        "R-PERM-12",
        not made.exists(),
        call,
        expected="a client that runs nothing",
        got="the command was run",
    )


@scenario("permissions/withdrawn", "R-REQCAN-13")
async def _withdrawn(scene: ClientContext) -> None:
    """Asks, and withdraws the question at once."""
    call = scene.request_permission("Never mind")
    scene.cancel_request(call)
    try:
        await scene.connection.wait_for_response(call)
    except NoResponse:
        scene.require(not scene.connection.is_closed, "the client hung up")
        scene.require(False, "the client does not take questions back, which it need not")
    if scene.version == 1 and not call.ok:  # in version 2 it has an outcome, which is observed
        kept = call.code == -32800
        expected = "-32800 or an outcome for a request that was cancelled"
        scene.judge("R-REQCAN-13", kept, call, expected=expected, got=describe_outcome(call))


def _chosen(call: Request) -> Any:
    outcome = call.result.get("outcome") if is_object(call.result) else None
    return outcome.get("optionId") if is_object(outcome) else None


SCENES = (_wrong, _forgiven, _subjects, _command, _withdrawn)
