"""Roles of version 2: every method in both directions, and unsupported methods."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from accord import v2
from accord.errors import (
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    NotOffered,
    RequestCancelled,
    ResourceNotFound,
)
from accord.v2.methods import SPEC
from accord.wire.codec import to_builtins
from event_loop import drain_event_loop
from every_method import everything, joined, served_by
from least import least
from requirement import requirement

LOGIN = v2.AuthMethodAgent(method_id="text", name="Log in")
BOTH = [("agent", m) for m in served_by(SPEC, "agent")] + [
    ("client", m) for m in served_by(SPEC, "client")
]
BASELINE = ("new_session", "resume_session", "list_sessions", "close_session", "prompt")
PROMPT = least(v2.PromptRequest)


def agent_with(**handlers: Any) -> Any:
    return type("Some", (v2.AgentRole,), handlers)()


def client_with(**handlers: Any) -> Any:
    return type("Some", (v2.ClientRole,), handlers)()


def session_agent(**handlers: Any) -> Any:
    """Return an agent that serves sessions, with these handlers."""
    return agent_with(**{**dict.fromkeys(BASELINE, forever), **handlers})


async def forever(self: Any, params: Any, context: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("delayed", [False, True])
async def test_every_method_is_served_and_called(delayed: bool) -> None:
    for side, method in BOTH:
        seen: list[Any] = []
        agent = everything(v2.AgentRole, seen, delayed=delayed)
        agent.auth_methods = [LOGIN]
        async with joined(agent, everything(v2.ClientRole, seen, delayed=delayed)) as sides:
            params = least(method.params)
            result = await getattr(getattr(sides, side), method.call)(params)
            await drain_event_loop()
            assert seen == [(method.call, params)]
            if method.result is not None:
                assert result == least(method.result)


@requirement(
    "R-INIT-28",
    "R-INIT-29",
    "R-INIT-16",
    "R-LIST-12",
    "R-ARCH-01",
    "R-STATUS-01",
    "R-TITLE-01",
    "R-ASTAT-01",
)
async def test_method_without_its_capability_is_never_sent() -> None:
    for side, method in BOTH:
        async with joined(v2.AgentRole(), v2.ClientRole()) as sides:
            if method.gate is not None:
                with pytest.raises(NotOffered):
                    await getattr(getattr(sides, side), method.call)(least(method.params))
                await drain_event_loop()
                assert sides.frames == []


@requirement("R-INIT-28")
@pytest.mark.parametrize("call", BASELINE)
async def test_client_calls_no_session_method_of_an_agent_without_sessions(call: str) -> None:
    method = next(method for method in served_by(SPEC, "agent") if method.call == call)
    async with joined(v2.AgentRole(), v2.ClientRole()) as sides:
        with pytest.raises(NotOffered, match="session"):
            await getattr(sides.agent, call)(least(method.params))
        assert sides.frames == []


@requirement("R-LIST-12")
async def test_client_deletes_no_session_of_an_agent_without_the_capability() -> None:
    async with joined(session_agent(), v2.ClientRole()) as sides:
        with pytest.raises(NotOffered) as caught:
            await sides.agent.delete_session(least(v2.DeleteSessionRequest))
        assert caught.value.gate == "agent.session.delete"
        assert sides.frames == []


@requirement("R-INIT-29", "R-TCAN-05")
async def test_unsupported_method_is_rejected() -> None:
    for side, method in BOTH:
        async with joined(v2.AgentRole(), v2.ClientRole()) as sides:
            connection = getattr(sides, side).connection
            params = to_builtins(least(method.params))
            if not method.is_request:
                await connection.notify(method.name, params)
                await drain_event_loop()
                assert len(sides.frames) == 1
                continue
            one = method.call in ("cancel_tool_call", "cancel_terminal")
            with pytest.raises(InvalidParams if one else MethodNotFound):
                await connection.call(method.name, params, bytes)


@requirement("R-INIT-04", "R-INIT-21", "R-INIT-25", "R-INIT-27", "R-INIT-40")
@pytest.mark.parametrize(
    ("calls", "offered"),
    [
        ((), {}),
        (("cancel", "cancel_tool_call", "login", "logout"), {}),
        (BASELINE, {"session": {}}),
        ((*BASELINE, "set_session_config_option"), {"session": {}}),
        ((*BASELINE, "delete_session", "fork_session"), {"session": {"delete": {}, "fork": {}}}),
        (("auth_status",), {"auth": {"status": {}}}),
        ((*BASELINE, "notify_mcp"), {"session": {"mcp": {"acp": {}}}}),
    ],
)
def test_agent_advertises_what_it_overrides(calls: Any, offered: Any) -> None:
    assert to_builtins(agent_with(**dict.fromkeys(calls, forever)).capabilities()) == offered


@requirement("R-INIT-27")
@pytest.mark.parametrize("absent", BASELINE)
def test_sessions_are_served_completely_or_not_at_all(absent: str) -> None:
    calls = [call for call in BASELINE if call != absent]
    with pytest.raises(LocalProtocolError, match=absent):
        agent_with(**dict.fromkeys(calls, forever)).capabilities()


@requirement("R-INIT-27")
@pytest.mark.parametrize("call", ["delete_session", "fork_session", "notify_mcp"])
def test_incomplete_session_methods_are_an_error(call: str) -> None:
    with pytest.raises(LocalProtocolError, match="new_session"):
        agent_with(**{call: forever}).capabilities()


def test_incomplete_elicitation_is_an_error() -> None:
    with pytest.raises(LocalProtocolError, match="create_elicitation"):
        client_with(complete_elicitation=forever).capabilities()


@requirement("R-INIT-29")
async def test_elicitation_mode_that_the_client_does_not_support_is_never_sent() -> None:
    client = client_with(create_elicitation=lambda s, p, c: v2.ElicitationCancelAction())
    async with joined(v2.AgentRole(), client) as sides:
        await sides.client.create_elicitation(least(v2.ElicitationFormMode))
        sides.frames.clear()
        with pytest.raises(NotOffered, match="url"):
            await sides.client.create_elicitation(least(v2.ElicitationUrlMode))
        await drain_event_loop()
        assert sides.frames == []


@requirement("R-EXT-04", "R-EXT-05", "R-EXT-06")
@pytest.mark.parametrize("side", ["agent", "client"])
async def test_extensions_work_in_both_directions(side: str) -> None:
    reported: list[Any] = []

    async def ask(self: Any, method: str, params: Any, context: Any) -> Any:
        return [method, params]

    async def tell(self: Any, method: str, params: Any, context: Any) -> None:
        reported.append((method, params))

    handlers = {"extension_request": ask, "extension_notification": tell}
    async with joined(agent_with(**handlers), client_with(**handlers)) as sides:
        remote = getattr(sides, side)
        assert await remote.call_extension("_acme/ask", {"a": 1}) == ["_acme/ask", {"a": 1}]
        await remote.notify_extension("_acme/tell")
        await drain_event_loop()
        assert reported[0][0] == "_acme/tell"


async def test_early_spellings_of_v1_are_unknown_in_v2() -> None:
    async with joined(everything(v2.AgentRole, []), everything(v2.ClientRole, [])) as sides:
        with pytest.raises(MethodNotFound):
            await sides.agent.connection.call("unstable_resumeSession", {}, bytes)


@requirement("R-AUTH-08")
@pytest.mark.parametrize("method_id", ["terminal", "unknown"])
async def test_only_auth_methods_of_type_agent_are_called(method_id: str) -> None:
    agent = everything(v2.AgentRole, [])
    agent.auth_methods = [LOGIN, v2.AuthMethodTerminal(method_id="terminal", name="T")]
    async with joined(agent, v2.ClientRole()) as sides:
        with pytest.raises(LocalProtocolError):
            await sides.agent.login(v2.LoginAuthRequest(method_id=method_id))
        await drain_event_loop()
        assert sides.frames == []
        await sides.agent.login(v2.LoginAuthRequest(method_id="text"))


@requirement("R-AUTH-05", "R-AUTH-06")
async def test_login_and_logout_need_auth_methods() -> None:
    async with joined(everything(v2.AgentRole, []), v2.ClientRole()) as sides:
        with pytest.raises(LocalProtocolError):
            await sides.agent.login(v2.LoginAuthRequest(method_id="text"))
        with pytest.raises(NotOffered):
            await sides.agent.logout(v2.LogoutAuthRequest())
        await drain_event_loop()
        assert sides.frames == []


@requirement("R-SESS-31")
@pytest.mark.parametrize("call", ["close_session", "delete_session"])
async def test_closing_and_deleting_an_unknown_session_succeeds(call: str) -> None:
    def unknown(self: Any, params: Any, context: Any) -> Any:
        raise ResourceNotFound(data={"sessionId": "s"})

    async with joined(session_agent(**{call: unknown}), v2.ClientRole()) as sides:
        method = next(m for m in SPEC.methods if m.call == call)
        assert await getattr(sides.agent, call)(least(method.params)) == method.result()


@requirement("R-CANCEL-13", "R-REQCAN-05")
async def test_cancel_withdraws_queued_prompts() -> None:
    async with joined(session_agent(), v2.ClientRole()) as sides:
        prompt = asyncio.create_task(sides.agent.prompt(PROMPT))
        await drain_event_loop()
        await sides.agent.cancel(v2.CancelSessionNotification(session_id=PROMPT.session_id))
        with pytest.raises(RequestCancelled):
            await prompt


@requirement("R-CANCEL-15")
async def test_cancel_leaves_permission_requests_to_the_agent() -> None:
    async with joined(session_agent(), client_with(request_permission=forever)) as sides:
        asked = least(v2.RequestPermissionRequest)
        permission = asyncio.create_task(sides.client.request_permission(asked))
        await drain_event_loop()
        await sides.agent.cancel(v2.CancelSessionNotification(session_id=asked.session_id))
        await drain_event_loop()
        assert not permission.done()
        permission.cancel()
        await asyncio.gather(permission, return_exceptions=True)
        await drain_event_loop()
        assert b'"outcome":"cancelled"' in sides.frames[-1]


@requirement("R-AUTH-04")
def test_agent_with_auth_methods_must_serve_login() -> None:
    class Locked(v2.AgentRole):
        auth_methods = (v2.AuthMethodAgent(method_id="key", name="Key"),)

        def login(self, params: Any, context: Any) -> v2.LoginAuthResponse:
            return v2.LoginAuthResponse()

    with pytest.raises(LocalProtocolError, match="has to serve logout too"):
        Locked().initialize(v2.ClientRole().initialize_params(), cast("Any", None))


@requirement("R-MCP-15")
async def test_unsupported_transport_of_an_mcp_server_is_named() -> None:
    async with joined(session_agent(), v2.ClientRole()) as sides:
        server = {"type": "http", "name": "web", "url": "https://example.com/mcp"}
        params = {"cwd": "/project", "mcpServers": [server]}
        with pytest.raises(InvalidParams) as refused:
            await sides.agent.connection.call("session/new", params, bytes)
        assert refused.value.data["type"] == "http"
