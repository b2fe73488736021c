"""Logging in and out: with a name that nobody has, and, if the settings allow it, really."""

from __future__ import annotations

from accord_conformance.agent.context import Stage, outcome_of
from accord_conformance.harness.scenario import NotExercised, scenario

__all__ = ("SCENARIOS",)

_NEEDED = -32000


@scenario("login/unknown")
async def _unknown(stage: Stage) -> None:
    """A login that was not offered is tried."""
    editor = stage.editor
    if not editor.result.get("authMethods"):
        raise NotExercised("the agent offers no logins")
    method = "authenticate" if stage.version == 1 else "auth/login"
    await editor.line.call(method, {"methodId": "accord-unknown"})


@scenario("login/status")
async def _status(stage: Stage) -> None:
    """The agent is asked who is logged in."""
    stage.editor.needs("login status")
    await stage.editor.line.call("auth/status")


@scenario("login/out", "R-AUTH-11", own=True)
async def _out(stage: Stage) -> None:
    """A user logs out, and in again."""
    if not stage.settings.login:
        raise NotExercised("the settings name no login that works without a user")
    editor = await stage.initialized()
    editor.needs("logout")
    session = await editor.new_session()
    method = "logout" if stage.version == 1 else "auth/logout"
    call = await editor.line.call(method)
    if not call.ok:
        raise NotExercised(f"the agent did not log out: {outcome_of(call)}")
    made = await editor.open("session/new", editor.setup())
    asked = editor.ask_for(session, "text")
    await editor.comes(lambda: asked.call.reply is not None, "answer to the prompt")
    for refused in (made, asked.call):
        if refused.reply is not None and not refused.ok:
            stage.judge(
                "R-AUTH-11",
                refused.code == _NEEDED,
                call,
                refused,
                expected="-32000 as long as nobody is logged in",
                got=outcome_of(refused),
            )
    await editor.log_in()
    await editor.open("session/new", editor.setup())
    await editor.line.call(method)
    await editor.open("session/new", editor.setup())
    await editor.log_in()


SCENARIOS = (_unknown, _status, _out)
