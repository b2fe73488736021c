"""Methods that nobody knows: with an underscore, without one, and of the protocol's own kind."""

from __future__ import annotations

from accord_conformance.agent.context import Stage, outcome_of
from accord_conformance.agent.scenarios.cancellation import strays
from accord_conformance.harness.raw_connection import Silence
from accord_conformance.harness.scenario import scenario

__all__ = ("SCENARIOS",)


@scenario("extensions/request", "R-EXT-05", "R-EXT-06")
async def _request(stage: Stage) -> None:
    """A custom request comes that the agent does not know."""
    editor = stage.editor
    call = editor.line.ask("_accord/unknown", {"some": [1]}, ident="accord-custom")
    if await stage.answered("R-EXT-05", editor, call, "an answer to a custom request"):
        stage.judge("R-EXT-05", True)
        stage.judge(
            "R-EXT-06",
            call.code == -32601,
            call,
            expected="-32601 for an unknown custom request",
            got=outcome_of(call),
        )


@scenario("extensions/notification", "R-EXT-07", "R-REQCAN-10")
async def _notification(stage: Stage) -> None:
    """Notifications come that the agent does not know."""
    editor = stage.editor
    for rule, method in (
        ("R-EXT-07", "_accord/unknown"),
        ("R-EXT-07", "accord/unknown"),
        ("R-REQCAN-10", "$/accordUnknown"),
    ):
        began = len(editor.line.observer.talk.frames)
        editor.line.note(method, {"some": [1]})
        call = editor.line.ask("_accord/after", {})
        sent = editor.line.observer.talk.frames[began]
        try:
            await editor.line.reply(call)
        except Silence as silence:
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
