"""Sessions as they are made."""

from __future__ import annotations

from accord.conformance.play.scenario import scenario
from accord.conformance.play.stage import Stage

__all__ = ("SCENARIOS",)


@scenario("sessions/new", "R-GEN-08")
async def new(stage: Stage) -> None:
    """A session is made, with a key that nobody knows."""
    editor = stage.editor
    await editor.new_session()
    call = await editor.open("session/new", editor.setup(accordUnknown={"a": [1]}))
    stage.judge(
        "R-GEN-08",
        call.ok,
        call,
        expected="a result, whatever `accordUnknown` is",
        got=f"error {call.code}",
    )


@scenario("sessions/prompt")
async def prompt(stage: Stage) -> None:
    """A turn in words."""
    editor = stage.editor
    await editor.turn(await editor.new_session(), "text")


SCENARIOS = (new, prompt)
