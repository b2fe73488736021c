"""Methods that nobody knows: with an underscore, without one, and of the protocol's own kind."""

from __future__ import annotations

from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenarios.cancellation import strays
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import scenario

__all__ = ("SCENARIOS",)


@scenario("extensions/request", "R-EXT-05", "R-EXT-06")
async def _request(stage: AgentContext) -> None:
    """A custom request comes that the agent does not know."""
    editor = stage.client
    call = editor.connection.send_request("_accord/unknown", {"some": [1]}, ident="accord-custom")
    if await stage.expect_response("R-EXT-05", editor, call, "an answer to a custom request"):
        stage.judge("R-EXT-05", True)
        stage.judge(
            "R-EXT-06",
            call.code == -32601,
            call,
            expected="-32601 for an unknown custom request",
            got=describe_outcome(call),
        )


@scenario("extensions/notification", "R-EXT-07", "R-REQCAN-10")
async def _notification(stage: AgentContext) -> None:
    """Notifications come that the agent does not know."""
    editor = stage.client
    for rule, method in (
        ("R-EXT-07", "_accord/unknown"),
        ("R-EXT-07", "accord/unknown"),
        ("R-REQCAN-10", "$/accordUnknown"),
    ):
        began = len(editor.connection.observer.state.frames)
        editor.connection.send_notification(method, {"some": [1]})
        call = editor.connection.send_request("_accord/after", {})
        sent = editor.connection.observer.state.frames[began]
        try:
            await editor.connection.wait_for_response(call)
        except NoResponse as silence:
            stage.judge(
                rule, False, sent, call, expected="the notification ignored", got=str(silence)
            )
            raise
        answers = strays(editor, began)
        stage.judge(
            rule,
            not answers,
            sent,
            *answers,
            expected="the notification ignored",
            got="an answer",
        )


SCENARIOS = (_request, _notification)
