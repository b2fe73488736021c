"""Unknown methods: with an underscore, without one, and with `$/`."""

from __future__ import annotations

from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenarios.cancellation import strays
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import scenario


@scenario("extensions/request", "R-EXT-05", "R-EXT-06")
async def _request(context: AgentContext) -> None:
    """The client sends an unknown custom request."""
    client = context.client
    call = client.connection.send_request("_accord/unknown", {"some": [1]}, ident="accord-custom")
    if await context.expect_response("R-EXT-05", client, call, "a response to a custom request"):
        context.judge("R-EXT-05", True)
        context.judge(
            "R-EXT-06",
            call.code == -32601,
            call,
            expected="-32601 for an unknown custom request",
            got=describe_outcome(call),
        )


@scenario("extensions/notification", "R-EXT-07", "R-REQCAN-10")
async def _notification(context: AgentContext) -> None:
    """The client sends unknown notifications."""
    client = context.client
    for rule, method in (
        ("R-EXT-07", "_accord/unknown"),
        ("R-EXT-07", "accord/unknown"),
        ("R-REQCAN-10", "$/accordUnknown"),
    ):
        began = len(client.connection.observer.state.frames)
        client.connection.send_notification(method, {"some": [1]})
        call = client.connection.send_request("_accord/after", {})
        sent = client.connection.observer.state.frames[began]
        try:
            await client.connection.wait_for_response(call)
        except NoResponse as silence:
            context.judge(
                rule, False, sent, call, expected="the notification ignored", got=str(silence)
            )
            raise
        answers = strays(client, began)
        context.judge(
            rule,
            not answers,
            sent,
            *answers,
            expected="the notification ignored",
            got="a response",
        )


SCENARIOS = (_request, _notification)
