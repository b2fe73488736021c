"""Logging in and out: with a name that nobody has, and, if the settings allow it, really."""

from __future__ import annotations

from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.harness.scenario import NotExercised, scenario

__all__ = ("SCENARIOS",)

_NEEDED = -32000


@scenario("login/unknown")
async def _unknown(stage: AgentContext) -> None:
    """A login that was not offered is tried."""
    editor = stage.client
    if not editor.result.get("authMethods"):
        raise NotExercised("the agent offers no logins")
    method = "authenticate" if stage.version == 1 else "auth/login"
    await editor.connection.call(method, {"methodId": "accord-unknown"})


@scenario("login/status")
async def _status(stage: AgentContext) -> None:
    """The agent is asked who is logged in."""
    stage.client.require("login status")
    await stage.client.connection.call("auth/status")


@scenario("login/out", "R-AUTH-11", isolated=True)
async def _out(stage: AgentContext) -> None:
    """A user logs out, and in again."""
    if not stage.settings.login:
        raise NotExercised("the settings name no login that works without a user")
    editor = await stage.connect_initialized()
    editor.require("logout")
    session = await editor.new_session()
    method = "logout" if stage.version == 1 else "auth/logout"
    call = await editor.connection.call(method)
    if not call.ok:
        raise NotExercised(f"the agent did not log out: {describe_outcome(call)}")
    made = await editor.open_session("session/new", editor.setup_params())
    asked = editor.prompt_for(session, "text")
    await editor.wait_for_optional(
        lambda: asked.request.response is not None, "answer to the prompt"
    )
    for refused in (made, asked.request):
        if refused.response is not None and not refused.ok:
            stage.judge(
                "R-AUTH-11",
                refused.code == _NEEDED,
                call,
                refused,
                expected="-32000 as long as nobody is logged in",
                got=describe_outcome(refused),
            )
    await editor.log_in()
    await editor.open_session("session/new", editor.setup_params())
    await editor.connection.call(method)
    await editor.open_session("session/new", editor.setup_params())
    await editor.log_in()


SCENARIOS = (_unknown, _status, _out)
