"""Login and logout: with an unknown method, and with that of the settings."""

from __future__ import annotations

from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.harness.scenario import NotExercised, scenario

_NEEDED = -32000


@scenario("login/unknown")
async def _unknown(context: AgentContext) -> None:
    """The client uses an auth method that was not advertised."""
    client = context.client
    if not client.result.get("authMethods"):
        raise NotExercised("the agent has no auth methods")
    method = "authenticate" if context.version == 1 else "auth/login"
    await client.connection.call(method, {"methodId": "accord-unknown"})


@scenario("login/status")
async def _status(context: AgentContext) -> None:
    """The client requests the auth status."""
    context.client.require("login status")
    await context.client.connection.call("auth/status")


@scenario("login/logout", "R-AUTH-11", isolated=True)
async def _out(context: AgentContext) -> None:
    """A user logs out, and in again."""
    if not context.settings.login:
        raise NotExercised("the settings have no login that works without a user")
    client = await context.connect_initialized()
    client.require("logout")
    session = await client.new_session()
    method = "logout" if context.version == 1 else "auth/logout"
    call = await client.connection.call(method)
    if not call.ok:
        raise NotExercised(f"the agent did not log out: {describe_outcome(call)}")
    made = await client.open_session("session/new", client.setup_params())
    asked = client.prompt_for(session, "text")
    await client.wait_for_optional(
        lambda: asked.request.response is not None, "response to the prompt"
    )
    for refused in (made, asked.request):
        if refused.response is not None and not refused.ok:
            context.judge(
                "R-AUTH-11",
                refused.code == _NEEDED,
                call,
                refused,
                expected="-32000 until the user logs in",
                got=describe_outcome(refused),
            )
    await client.log_in()
    await client.open_session("session/new", client.setup_params())
    await client.connection.call(method)
    await client.open_session("session/new", client.setup_params())
    await client.log_in()


SCENARIOS = (_unknown, _status, _out)
