"""Roles of version 1: every method in both directions, and unsupported methods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import v1
from accord.errors import (
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    NotOffered,
    RequestError,
    ResourceNotFound,
)
from accord.v1.methods import SPEC
from accord.wire.codec import to_builtins
from event_loop import drain_event_loop
from every_method import everything, joined, served_by
from least import least
from requirement import requirement

LOGIN = v1.AuthMethodAgent(id="text", name="Log in")
BOTH = [("agent", m) for m in served_by(SPEC, "agent")] + [
    ("client", m) for m in served_by(SPEC, "client")
]
PROMPT = v1.PromptRequest(session_id="s", prompt=[])
SESSION = "agent.session_capabilities"


def chunk(text: str = "x") -> Any:
    update = v1.AgentMessageChunk(content=v1.TextContent(text=text))
    return v1.SessionNotification(session_id="s", update=update)


def agent_with(**handlers: Any) -> Any:
    return type("Some", (v1.AgentRole,), handlers)()


def client_with(**handlers: Any) -> Any:
    return type("Some", (v1.ClientRole,), handlers)()


async def forever(self: Any, params: Any, context: Any) -> None:
    await asyncio.Event().wait()


def params_of(method: Any) -> Any:
    if method.call == "set_session_config_option":
        return least(v1.SetSessionConfigOptionId)  # accepted from any client
    return chunk() if method.call == "session_update" else least(method.params)


@pytest.mark.parametrize("delayed", [False, True])
async def test_every_method_is_served_and_called(delayed: bool) -> None:
    for side, method in BOTH:
        seen: list[Any] = []
        agent = everything(v1.AgentRole, seen, delayed=delayed)
        agent.auth_methods = [LOGIN]
        client = everything(v1.ClientRole, seen, delayed=delayed)
        async with joined(agent, client) as sides:
            params = params_of(method)
            result = await getattr(getattr(sides, side), method.call)(params)
            await drain_event_loop()
            assert seen == [(method.call, params)]
            if method.result is not None:
                assert result == least(method.result)


@requirement(
    "R-INIT-29",
    "R-INIT-16",
    "R-AUTH-25",
    "R-SESS-20",
    "R-SESS-11",
    "R-LIST-12",
    "R-ARCH-01",
    "R-STATUS-01",
    "R-TITLE-01",
    "R-ASTAT-01",
)
async def test_method_without_its_capability_is_never_sent() -> None:
    for side, method in BOTH:
        async with joined(v1.AgentRole(), v1.ClientRole()) as sides:
            remote = getattr(sides, side)
            if method.gate is not None:
                with pytest.raises(NotOffered) as caught:
                    await getattr(remote, method.call)(params_of(method))
                assert caught.value.gate.startswith(("agent.", "client."))
                await drain_event_loop()
                assert sides.frames == []


@pytest.mark.parametrize(
    ("call", "gate"),
    [
        pytest.param("logout", "agent.auth.logout", marks=requirement("R-AUTH-25")),
        pytest.param("resume_session", f"{SESSION}.resume", marks=requirement("R-SESS-11")),
        pytest.param("close_session", f"{SESSION}.close", marks=requirement("R-SESS-20")),
        pytest.param("delete_session", f"{SESSION}.delete", marks=requirement("R-LIST-12")),
    ],
)
async def test_method_needs_this_capability(call: str, gate: str) -> None:
    method = next(method for method in served_by(SPEC, "agent") if method.call == call)
    async with joined(v1.AgentRole(), v1.ClientRole()) as sides:
        with pytest.raises(NotOffered) as caught:
            await getattr(sides.agent, call)(params_of(method))
        assert caught.value.gate == gate
        await drain_event_loop()
        assert sides.frames == []


@requirement("R-INIT-29")
async def test_unsupported_method_is_not_found() -> None:
    for side, method in BOTH:
        async with joined(v1.AgentRole(), v1.ClientRole()) as sides:
            caller = sides.agent if side == "agent" else sides.client
            params = to_builtins(params_of(method))
            if not method.is_request:
                await caller.connection.notify(method.name, params)
                await drain_event_loop()
                assert len(sides.frames) == 1
            else:
                with pytest.raises(MethodNotFound):
                    await caller.connection.call(method.name, params, bytes)


# Capabilities.


@requirement("R-INIT-04", "R-INIT-19", "R-INIT-40")
@pytest.mark.parametrize(
    ("calls", "offered"),
    [
        ((), {}),
        (("new_session", "prompt", "cancel"), {}),
        (("load_session",), {"loadSession": True}),
        (("logout",), {"auth": {"logout": {}}}),
        (
            ("list_sessions", "close_session"),
            {"sessionCapabilities": {"list": {}, "close": {}}},
        ),
        (("archive_session", "unarchive_session"), {"sessionCapabilities": {"archive": {}}}),
    ],
)
def test_agent_advertises_what_it_overrides(calls: Any, offered: Any) -> None:
    assert to_builtins(agent_with(**dict.fromkeys(calls, forever)).capabilities()) == offered


@requirement("R-INIT-03")
@pytest.mark.parametrize(
    ("calls", "offered"),
    [
        (("session_update", "request_permission"), {}),
        (("read_text_file",), {"fs": {"readTextFile": True}}),
        (("create_elicitation",), {"elicitation": {"form": {}}}),
        (
            ("create_elicitation", "complete_elicitation"),
            {"elicitation": {"form": {}, "url": {}}},
        ),
    ],
)
def test_client_advertises_what_it_overrides(calls: Any, offered: Any) -> None:
    assert to_builtins(client_with(**dict.fromkeys(calls, forever)).capabilities()) == offered


@pytest.mark.parametrize(
    ("role", "calls", "missing"),
    [
        (agent_with, ["archive_session"], "unarchive_session"),
        (agent_with, ["set_provider"], "list_providers"),
        (client_with, ["create_terminal", "terminal_output"], "kill_terminal"),
        (client_with, ["complete_elicitation"], "create_elicitation"),
    ],
)
def test_incomplete_capability_is_an_error_that_names_the_missing_methods(
    role: Any, calls: list[str], missing: str
) -> None:
    with pytest.raises(LocalProtocolError, match=missing):
        role(**dict.fromkeys(calls, forever)).capabilities()


# Variants.


@requirement("R-INIT-29", "R-NOTICE-01", "R-COMP-01", "R-SUBAG-01", "R-PLAN-08")
@pytest.mark.parametrize(
    ("update", "gate"),
    [
        (least(cls), gate)
        for cls, gate in SPEC.variant_gates.items()
        if "Elicitation" not in cls.__name__
    ],
    ids=lambda value: type(value).__name__,
)
async def test_update_that_the_client_does_not_support_is_never_sent(
    update: Any, gate: str
) -> None:
    async with joined(v1.AgentRole(), v1.ClientRole()) as sides:
        with pytest.raises(NotOffered) as caught:
            await sides.client.session_update(v1.SessionNotification(session_id="s", update=update))
        assert caught.value.gate == gate
        await drain_event_loop()
        assert sides.frames == []


@requirement("R-PLAN-08")
@pytest.mark.parametrize("kind", [v1.PlanUpdate, v1.PlanRemoved])
async def test_plans_by_id_are_sent_only_to_clients_that_support_them(kind: Any) -> None:
    notification = v1.SessionNotification(session_id="s", update=least(kind))
    async with joined(v1.AgentRole(), v1.ClientRole()) as sides:
        with pytest.raises(NotOffered) as caught:
            await sides.client.session_update(notification)
        assert caught.value.gate == "client.plan"
        assert sides.frames == []


@requirement("R-INIT-29")
async def test_elicitation_mode_that_the_client_does_not_support_is_never_sent() -> None:
    client = client_with(create_elicitation=lambda s, p, c: v1.ElicitationCancelAction())
    async with joined(v1.AgentRole(), client) as sides:
        await sides.client.create_elicitation(least(v1.ElicitationFormMode))
        sides.frames.clear()
        with pytest.raises(NotOffered, match="url"):
            await sides.client.create_elicitation(least(v1.ElicitationUrlMode))
        await drain_event_loop()
        assert sides.frames == []


# Extensions.


@requirement("R-EXT-04", "R-EXT-05", "R-EXT-06", "R-EXT-07")
@pytest.mark.parametrize("side", ["agent", "client"])
async def test_extensions_work_in_both_directions(side: str) -> None:
    reported: list[Any] = []

    def ask(self: Any, method: str, params: Any, context: Any) -> Any:
        if method != "_acme/ask":
            above: Any = super(type(self), self)
            return above.extension_request(method, params, context)
        return [method, params]

    def tell(self: Any, method: str, params: Any, context: Any) -> None:
        reported.append((method, params))

    handlers = {"extension_request": ask, "extension_notification": tell}
    async with joined(agent_with(**handlers), client_with(**handlers)) as sides:
        remote = getattr(sides, side)
        assert await remote.call_extension("_acme/ask", {"a": 1}) == ["_acme/ask", {"a": 1}]
        with pytest.raises(MethodNotFound):
            await remote.call_extension("_acme/other")
        await remote.notify_extension("_acme/tell", [1])
        await drain_event_loop()
        assert reported == [("_acme/tell", [1])]


async def test_extension_without_an_underscore_is_never_sent() -> None:
    async with joined(v1.AgentRole(), v1.ClientRole()) as sides:
        with pytest.raises(LocalProtocolError):
            await sides.agent.call_extension("acme/ask")
        with pytest.raises(LocalProtocolError):
            await sides.agent.notify_extension("$/acme")
        await drain_event_loop()
        assert sides.frames == []


# Early spellings.


@pytest.mark.parametrize(
    ("side", "early", "params", "call"),
    [
        ("client", "fs/readTextFile", {"sessionId": "s", "path": "/a"}, "read_text_file"),
        (
            "client",
            "terminal/waitForExit",
            {"sessionId": "s", "terminalId": "t"},
            "wait_for_terminal_exit",
        ),
        (
            "agent",
            "unstable_resumeSession",
            {"sessionId": "s", "cwd": "/", "mcpServers": []},
            "resume_session",
        ),
        (
            "agent",
            "session/set_model",
            {"sessionId": "s", "modelId": "m"},
            "set_session_config_option",
        ),
        ("agent", "session/set_mode", {"sessionId": "s", "mode": "m"}, "set_session_mode"),
    ],
)
async def test_early_spellings_are_served(side: str, early: str, params: Any, call: str) -> None:
    seen: list[Any] = []
    async with joined(everything(v1.AgentRole, seen), everything(v1.ClientRole, seen)) as sides:
        await getattr(sides, side).connection.call(early, params, bytes)
        assert [name for name, _ in seen] == [call]


async def test_early_spellings_of_unsupported_methods_are_not_found() -> None:
    async with joined(v1.AgentRole(), v1.ClientRole()) as sides:
        with pytest.raises(MethodNotFound):
            await sides.client.connection.call("fs/readTextFile", {}, bytes)


# Login.


@requirement("R-AUTH-07", "R-AUTH-08")
@pytest.mark.parametrize("method_id", ["terminal", "unknown"])
async def test_only_auth_methods_of_type_agent_are_called(method_id: str) -> None:
    agent = everything(v1.AgentRole, [])
    agent.auth_methods = [LOGIN, v1.AuthMethodTerminal(id="terminal", name="T")]
    async with joined(agent, v1.ClientRole()) as sides:
        with pytest.raises(LocalProtocolError):
            await sides.agent.authenticate(v1.AuthenticateRequest(method_id=method_id))
        await drain_event_loop()
        assert sides.frames == []
        await sides.agent.authenticate(v1.AuthenticateRequest(method_id="text"))


# Sessions.


@requirement("R-SESS-31")
@pytest.mark.parametrize("call", ["close_session", "delete_session"])
async def test_closing_and_deleting_an_unknown_session_succeeds(call: str) -> None:
    def unknown(self: Any, params: Any, context: Any) -> Any:
        raise ResourceNotFound(data={"sessionId": "s"})

    async with joined(agent_with(**{call: unknown}), v1.ClientRole()) as sides:
        method = next(m for m in SPEC.methods if m.call == call)
        assert await getattr(sides.agent, call)(least(method.params)) == method.result()


# Cancelling.


@requirement("R-CANCEL-01", "R-CANCEL-05", "R-CANCEL-06")
async def test_cancelled_turn_ends_with_cancelled() -> None:
    async def prompt(self: Any, params: Any, context: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            await context.client.session_update(chunk("late"))

    shown: list[Any] = []
    client = client_with(session_update=lambda s, p, c: shown.append(p))
    async with joined(agent_with(prompt=prompt), client) as sides:
        turn = asyncio.create_task(sides.agent.prompt(PROMPT))
        await drain_event_loop()
        await sides.agent.cancel(v1.CancelNotification(session_id="s"))
        assert (await turn).stop_reason == "cancelled"
        assert shown == [chunk("late")]


@requirement("R-CANCEL-12")
async def test_cancel_of_another_session_cancels_nothing() -> None:
    async with joined(agent_with(prompt=forever), v1.ClientRole()) as sides:
        turn = asyncio.create_task(sides.agent.prompt(PROMPT))
        await sides.agent.cancel(v1.CancelNotification(session_id="other"))
        await drain_event_loop()
        assert not turn.done()
        await sides.agent.cancel(v1.CancelNotification(session_id="s"))
        await turn


@requirement("R-CANCEL-03")
@pytest.mark.parametrize("busy", [False, True])
async def test_cancel_answers_the_permission_requests_of_the_session(busy: bool) -> None:
    answers: list[Any] = []
    gate = asyncio.Event()

    async def prompt(self: Any, params: Any, context: Any) -> Any:
        if busy:
            await context.client.session_update(chunk())
        request = v1.RequestPermissionRequest(
            session_id="s", tool_call=v1.ToolCallDetails(tool_call_id="t"), options=[]
        )
        answers.append(await asyncio.shield(context.client.request_permission(request)))
        return v1.PromptResponse(stop_reason="end_turn")

    def ignore(self: Any, params: Any, context: Any) -> None: ...

    async def slow_update(self: Any, params: Any, context: Any) -> None:
        await gate.wait()

    client = client_with(request_permission=forever, session_update=slow_update)
    async with joined(agent_with(prompt=prompt, cancel=ignore), client) as sides:
        turn = asyncio.create_task(sides.agent.prompt(PROMPT))
        await drain_event_loop()
        await sides.agent.cancel(v1.CancelNotification(session_id="s"))
        await drain_event_loop()
        gate.set()
        assert (await turn).stop_reason == "end_turn"
        assert answers[0].outcome == v1.CancelledPermissionOutcome()


@requirement("R-REQCAN-05")
async def test_abandoned_prompt_is_cancelled_at_the_agent() -> None:
    ended: list[str] = []

    async def prompt(self: Any, params: Any, context: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async with joined(agent_with(prompt=prompt), v1.ClientRole()) as sides:
        turn = asyncio.create_task(sides.agent.prompt(PROMPT))
        await drain_event_loop()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        await drain_event_loop()
        assert ended == ["cancelled"]
        assert b'"stopReason":"cancelled"' in sides.frames[-1]


@requirement("R-PROMPT-01", "R-PROV-02")
async def test_calls_before_the_end_of_initialize_are_rejected_locally() -> None:
    errors: list[Any] = []

    class Early(v1.AgentRole):
        async def initialize(self, params: Any, context: Any) -> Any:
            try:
                await context.client.session_update(chunk())
            except LocalProtocolError as exc:
                errors.append(exc)
            return v1.InitializeResponse(protocol_version=1)

    async with joined(Early(), v1.ClientRole()):
        assert len(errors) == 1


async def test_error_of_the_agent_is_raised_unchanged_in_the_client() -> None:
    def prompt(self: Any, params: Any, context: Any) -> Any:
        raise InvalidParams("Bad", data={"x": 1})

    async with joined(agent_with(prompt=prompt), v1.ClientRole()) as sides:
        with pytest.raises(RequestError) as caught:
            await sides.agent.prompt(PROMPT)
        assert (type(caught.value), caught.value.data) == (InvalidParams, {"x": 1})
