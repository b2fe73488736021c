"""Mistakes of authors raise errors that name the correct code."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import AsyncMock, create_autospec

import pytest

import accord
from accord import (
    Agent,
    ClientSession,
    ClientTurn,
    ConnectedAgent,
    PermissionOption,
    PlanEntry,
    Session,
    Turn,
)
from accord.agent import AuthenticationMixin, PlanHandle, ToolCallHandle
from accord.client.permissions import allow, policies_of
from accord.transports.memory import pair
from agent.harness import BOTH, V1, connect_client
from event_loop import drain_event_loop
from raw_peer import QUICK
from versions import only

# Before Python 3.12, that of inspect cannot be told.
iscoroutinefunction = (
    inspect.iscoroutinefunction if sys.version_info >= (3, 12) else asyncio.iscoroutinefunction
)


def _agent(work: Callable[[Turn], Awaitable[Any]]) -> Agent:
    class Works(Agent):
        async def prompt(self, turn: Turn) -> str | None:
            return await work(turn)

    return Works()


async def _failure(agent: Agent, version: int, caplog: pytest.LogCaptureFixture) -> str:
    """Return the log of a turn that failed."""
    async with connect_client(agent, version) as client:
        if version == V1:
            with pytest.raises(accord.InternalError):
                await client.prompt("go")
        else:
            assert await client.prompt("go") == "error"
    return caplog.text


# Mistakes in a class.


def _defined(body: Callable[[], dict[str, Any]], *bases: type) -> type:
    return type("Mine", bases or (Agent,), body())


def _sync_prompt() -> dict[str, Any]:
    def prompt(self: Any, turn: Turn) -> None: ...

    return {"prompt": prompt}


def _generator_prompt() -> dict[str, Any]:
    async def prompt(self: Any, turn: Turn) -> Any:
        yield "Hello"

    return {"prompt": prompt}


def _async_authorize() -> dict[str, Any]:
    async def authorize(self: Any) -> None: ...

    return {"check_auth": authorize}


def _async_logged_in() -> dict[str, Any]:
    async def logged_in(self: Any) -> bool:
        return True

    return {"is_logged_in": logged_in}


def _sync(name: str) -> Callable[[], dict[str, Any]]:
    def method(self: Any, *args: Any) -> None: ...

    return lambda: {name: method}


def _async(name: str) -> Callable[[], dict[str, Any]]:
    async def method(self: Any, *args: Any) -> None: ...

    return lambda: {name: method}


@pytest.mark.parametrize(
    ("body", "bases", "message"),
    [
        (_sync_prompt, (Agent,), "Mine.prompt has to be a coroutine function: write `async def p"),
        (_sync("open_session"), (Agent,), "write `async def open_session(…)`"),
        (_sync("decide_permission"), (Agent,), "write `async def decide_permission(…)`"),
        (_sync("login"), (AuthenticationMixin, Agent), "write `async def login(…)`"),
        (_generator_prompt, (Agent,), "Mine.prompt must not yield: write `await turn.say(…)`"),
        (_async_authorize, (Agent,), "Mine.check_auth is not awaited: write `def check_auth(…)`"),
        (_async_logged_in, (AuthenticationMixin, Agent), "write `def is_logged_in(…)`, without"),
        (_async("promt"), (Agent,), "Mine.promt is never called: an agent has `async def prompt("),
        (_async("propmt"), (Agent,), "Mine.propmt is never called"),
        (_async("prompts"), (Agent,), "Mine.prompts is never called"),
        (_async("Prompt"), (Agent,), "Mine.Prompt is never called"),
    ],
)
def test_agent_class_that_cannot_work_is_rejected(
    body: Callable[[], dict[str, Any]], bases: tuple[type, ...], message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        _defined(body, *bases)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("opensession", "open_session"),
        ("close_sesion", "close_session"),
        ("check_aut", "check_auth"),
        ("set_options", "set_option"),
        ("extension_reqest", "extension_request"),
    ],
)
def test_misspelled_method_name_is_a_warning(name: str, meant: str) -> None:
    with pytest.warns(UserWarning, match=f"Mine.{name} is never called: did you mean `{meant}`"):
        _defined(_async(name))


def test_valid_classes_raise_nothing() -> None:
    def wrapped(function: Any) -> Any:
        def call(*args: Any) -> Any:
            return function(*args)

        call.__wrapped__ = function  # type: ignore[attr-defined]
        return call

    class Fine(Agent):
        """Has helper methods of its own, and returns awaitables."""

        prompts = 0

        def prompt(self, turn: Turn) -> Awaitable[None]:  # type: ignore[override]
            return turn.say("Hello")

        @wrapped
        async def open_session(self, session: Any) -> None: ...

        async def close(self) -> None: ...

        async def _promt(self) -> None: ...

    class Both(Fine):
        async def promt(self) -> None: ...

    assert Both.prompt is Fine.prompt


# Results of handlers.


@BOTH
@pytest.mark.parametrize("returned", ["Hello! How are you?", "Hello", 42, {"stop": 1}])
async def test_invalid_result_of_prompt_is_an_error(
    version: int, returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(_: Turn) -> Any:
        return returned

    said = await _failure(_agent(work), version, caplog)
    assert f"Works.prompt returned {returned!r}, which is not a stop reason" in said
    assert "`await turn.say(…)`" in said


@BOTH
async def test_prompt_that_returns_a_non_awaitable_is_an_error(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Mine(Agent):
        def prompt(self, turn: Turn) -> Awaitable[None]:  # type: ignore[override]
            return None  # type: ignore[return-value]

    said = await _failure(Mine(), version, caplog)
    assert "Mine.prompt returned no coroutine: write `async def prompt`" in said


# Names that the protocol does not define.


async def _kind(turn: Turn) -> None:
    turn.tool("Run", kind="exec")


async def _kind_later(turn: Turn) -> None:
    async with turn.tool("Run") as call:
        await call.update(kind="exec")


async def _severity(turn: Turn) -> None:
    await turn.show_notice("Look", severity="fatal")


async def _status(turn: Turn) -> None:
    await turn.plan([PlanEntry("Look", "done")])


async def _priority(turn: Turn) -> None:
    plan = await turn.plan(["Look"])
    await plan.update(0, priority="urgent")


async def _option_kind(turn: Turn) -> None:
    async with turn.tool("Run") as call:
        await call.request_choice([PermissionOption("a", "Allow", "allow")])


@BOTH
@pytest.mark.parametrize(
    ("work", "message"),
    [
        (_kind, "tool(kind=…): expected read, edit, delete, move, search, execute, think,"),
        (_kind_later, "update(kind=…): expected read, "),
        (_severity, "show_notice(severity=…): expected info, warning, error or an extension name"),
        (_status, "PlanEntry(status=…): expected pending, in_progress, completed, cancelled or"),
        (_priority, "PlanEntry(priority=…): expected high, medium, low or"),
        (_option_kind, "PermissionOption('a', kind=…): expected allow_once, allow_always,"),
    ],
)
async def test_unknown_name_is_rejected(
    version: int,
    work: Callable[[Turn], Awaitable[Any]],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert message in await _failure(_agent(work), version, caplog)


# Calls that are not awaited.


def _verbs() -> dict[str, Callable[[Turn], Any]]:
    return {
        "turn.say": lambda turn: turn.say("Hello"),
        "turn.think": lambda turn: turn.think("Hm"),
        "turn.set_title": lambda turn: turn.set_title("Title"),
        "turn.plan": lambda turn: turn.plan(["Look"]),
        "turn.set_context_usage": lambda turn: turn.set_context_usage(1, 2),
    }


@BOTH
@pytest.mark.parametrize("verb", _verbs())
async def test_call_that_is_not_awaited_fails_the_turn(
    version: int, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(turn: Turn) -> None:
        _verbs()[verb](turn)
        gc.collect(0)  # of all objects takes long in a process that has run many tests

    said = await _failure(_agent(work), version, caplog)
    assert f"! {verb}(…) was not awaited: write `await {verb}(…)`" in said
    assert "never awaited" not in said


# What is wrapped is still what it was: a test double or a framework asks.
@pytest.mark.parametrize(
    "cls", [ConnectedAgent, ClientSession, ClientTurn, Session, Turn, ToolCallHandle, PlanHandle]
)
def test_methods_that_must_be_awaited_are_coroutine_functions(cls: type) -> None:
    methods = {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}
    awaited = {
        name: method
        for name, method in methods.items()
        if inspect.iscoroutinefunction(inspect.unwrap(method)) or name in ("say", "think")
    }
    assert awaited
    double = create_autospec(cls)
    for name, method in awaited.items():
        assert iscoroutinefunction(method), name
        assert isinstance(getattr(double, name), AsyncMock), name
    others = methods.keys() - awaited.keys()
    assert not [name for name in others if iscoroutinefunction(methods[name])]


@BOTH
async def test_permission_that_is_not_awaited_has_no_truth_value(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    async def work(turn: Turn) -> None:
        async with turn.tool("Delete it") as call:
            if call.permission():
                done.append("deleted")

    said = await _failure(_agent(work), version, caplog)
    assert "call.permission(…) has to be awaited: write `await call.permission(…)`" in said
    assert done == []


@BOTH
async def test_call_can_be_awaited_in_another_task(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(turn: Turn) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(turn.say("a"))
        await asyncio.gather(turn.say("b"), asyncio.wait_for(turn.say("c"), 10))
        dropped = asyncio.ensure_future(turn.say("never"))
        dropped.cancel()
        await drain_event_loop()

    async with connect_client(_agent(work), version) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.said() == "abc"
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


# Mistakes of client authors.


class _Asks(Agent):
    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Run", kind="execute") as call:
            await turn.say("yes" if await call.permission() else "no")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("allow", "permissions=lambda request: 'allow'"),
        ("edit", "permissions=allow('edit')"),
        (["allow"], "permissions=lambda request: 'allow'"),
        (True, 'permissions=allow("*")'),
        ([None], 'permissions=allow("*")'),
    ],
)
async def test_permissions_that_are_not_policies_are_rejected(given: Any, hint: str) -> None:
    here, _ = pair()
    with pytest.raises(TypeError, match="expected a function or a sequence of functions") as caught:
        async with accord.connect(here, permissions=given):
            pass
    assert hint in str(caught.value)


def test_permissions_can_be_one_policy_or_several() -> None:
    policy = allow("read")
    assert policies_of(None) == ()
    assert policies_of(policy) == (policy,)
    assert policies_of([policy, policy]) == (policy, policy)


@BOTH
@pytest.mark.parametrize(
    ("returned", "hint"),
    [
        (True, 'write return "allow"'),
        (False, 'write return "reject"'),
        ("yes", "expected 'allow', 'allow_always', 'reject', 'reject_always', 'cancel'"),
        (["allow"], "expected 'allow'"),
    ],
)
async def test_policy_that_returns_no_decision_is_named_and_allows_nothing(
    version: int, returned: Any, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    def mine(_: Any) -> Any:
        return returned

    assert await _asked(version, mine) == "no"
    assert f"The policy mine returned {returned!r}; expected 'allow'" in caplog.text
    assert hint in caplog.text


async def _asked(version: Any, policy: Any) -> str:
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(accord.serve(_Asks(), there, limits=QUICK))
        async with accord.connect(
            here, permissions=policy, limits=QUICK, versions=only(version)
        ) as agent:
            session = await agent.new_session("/")
            async with session.prompt("go") as turn:
                await turn.wait()
            return turn.text


async def test_connect_and_prompt_say_that_they_are_context_managers() -> None:
    here, there = pair()
    connecting: Any = accord.connect(here)
    with pytest.raises(TypeError, match=r"write `async with accord.connect\(…\) as agent:`"):
        await connecting
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(accord.serve(_Asks(), there, limits=QUICK))
        async with accord.connect(here, limits=QUICK) as agent:
            session = await agent.new_session("/")
            prompt: Any = session.prompt("go")
            with pytest.raises(TypeError, match=r"write `async with session.prompt\(…\) as turn"):
                await prompt
