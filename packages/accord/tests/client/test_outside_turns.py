"""Outside turns: stored sessions, login, model providers, extension methods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import (
    AuthAccount,
    AuthStatus,
    InternalError,
    LocalProtocolError,
    MethodNotFound,
    NotOffered,
    ProviderInfo,
    SessionStatus,
    StateChanged,
    SystemPrompt,
    TitleChanged,
    connect,
)
from client.wire_agents import BOTH, agent_by_hand, opened
from raw_peer import RawPeer
from requirement import requirement

V1_OFFERS: dict[str, Any] = {
    "sessionCapabilities": {
        "list": {},
        "resume": {},
        "archive": {},
        "title": {},
        "status": {},
        "systemPrompt": {"mode": {"override": {}}},
    },
    "auth": {"status": {}},
    "providers": {},
}
V2_OFFERS: dict[str, Any] = {
    "session": {
        "archive": {},
        "title": {},
        "status": {},
        "systemPrompt": {"mode": {"override": {}}},
    },
    "auth": {"status": {}},
    "providers": {},
}


def by_hand(version: int, **options: Any) -> Any:
    if version == 1:
        return agent_by_hand(1, initialize={"agentCapabilities": V1_OFFERS}, **options)
    return agent_by_hand(2, initialize={"capabilities": V2_OFFERS}, **options)


async def answering(raw: RawPeer, call: Any, result: Any) -> tuple[Any, Any]:
    """Make a call and send its response; return the request and the result."""
    running = asyncio.ensure_future(call)
    request = await raw.get()
    raw.answer(request["id"], result)
    return (request["method"], request["params"]), await running


@requirement("R-TITLE-04")
@BOTH
async def test_session_has_its_stored_title(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            sent, stored = await answering(raw, session.set_title(" Mine "), {"title": "Mine"})
            assert await anext(aiter(updates)) == TitleChanged("Mine")
        assert sent == ("session/set_title", {"sessionId": "s1", "title": " Mine "})
        assert (stored, session.transcript.title) == ("Mine", "Mine")
        sent, stored = await answering(raw, agent.set_session_title("s2", "x"), {"title": "X"})
        assert (sent[1]["sessionId"], stored) == ("s2", "X")


@requirement("R-STATUS-05", "R-STATUS-07")
@pytest.mark.parametrize(
    ("version", "answer", "status"),
    [
        (1, {"status": "open"}, SessionStatus(is_open=True)),
        (1, {"status": "_frozen"}, SessionStatus(is_open=False)),
        (2, {"status": "saved", "state": None}, SessionStatus(is_open=False)),
        (
            2,
            {"status": "open", "state": {"state": "idle", "stopReason": "refusal"}},
            SessionStatus(is_open=True, state=StateChanged(state="idle", stop_reason="refusal")),
        ),
        (
            2,
            {"status": "open", "state": {"state": "_dreaming"}},
            SessionStatus(is_open=True, state=StateChanged(state="_dreaming")),
        ),
    ],
)
async def test_status_of_a_session_is_returned(
    version: int, answer: Any, status: SessionStatus
) -> None:
    async with by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        assert (await answering(raw, session.status(), answer))[1] == status
        assert (await answering(raw, agent.session_status("s2"), answer))[1] == status


@requirement("R-ARCH-01", "R-ARCH-10")
@BOTH
async def test_sessions_are_archived_listed_and_unarchived(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        sent, _ = await answering(raw, session.archive(), {})
        assert sent == ("session/archive", {"sessionId": "s1"})
        sent, _ = await answering(raw, agent.unarchive_session("s1"), {})
        assert sent == ("session/unarchive", {"sessionId": "s1"})
        await answering(raw, agent.archive_session("s2"), {})

        async def all_of_them() -> list[Any]:
            return [listing async for listing in agent.list_sessions(archived="only")]

        listing = asyncio.create_task(all_of_them())
        found = {"sessionId": "s1", "cwd": "/", "archived": True}
        for cursor in ("more", None):
            request = await raw.get()
            assert request["params"]["archived"] == "only"
            raw.answer(request["id"], {"sessions": [found], "nextCursor": cursor})
        assert [one.archived for one in await listing] == [True, True]


@requirement("R-SYSP-01", "R-STATUS-01", "R-TITLE-01", "R-ASTAT-01")
@BOTH
async def test_unsupported_method_is_not_called(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        for call in (
            session.set_title("x"),
            session.status(),
            session.archive(),
            agent.unarchive_session("s1"),
            agent.auth_status(),
            agent.providers(),
            agent.new_session("/", system_prompt="Be brief."),
            anext(agent.list_sessions(archived="include")),
        ):
            with pytest.raises(NotOffered):
                await call
        assert not agent.supports("set_session_title")
        assert not agent.supports("archive_session")
        assert not agent.supports("providers")


@requirement("R-SYSP-01")
@BOTH
async def test_system_prompt_is_sent_with_the_session(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        opening = agent.new_session("/", system_prompt="Be brief.")
        sent, _ = await answering(raw, opening, {"sessionId": "s1"})
        text = {"type": "text", "text": "Be brief."}
        assert sent[1]["systemPrompt"] == {"mode": "append", "content": [text]}
        opening = agent.new_session("/", system_prompt=SystemPrompt(("Be brief.",), "override"))
        sent, _ = await answering(raw, opening, {"sessionId": "s2"})
        assert sent[1]["systemPrompt"]["mode"] == "override"


@requirement("R-EXT-01")
@BOTH
async def test_meta_is_sent_with_each_request_that_opens_a_session(version: int) -> None:
    meta = {"example.org/role": "reviewer"}
    async with by_hand(version) as (agent, raw):
        new = agent.new_session("/", meta=meta)
        sent, _ = await answering(raw, new, {"sessionId": "s1"})
        assert (sent[0], sent[1]["_meta"]) == ("session/new", meta)
        again = agent.load_session("s2", "/", meta=meta, replay=False)
        sent, _ = await answering(raw, again, {})
        assert (sent[0], sent[1]["_meta"]) == ("session/resume", meta)
        sent, _ = await answering(raw, agent.new_session("/"), {"sessionId": "s3"})
        assert "_meta" not in sent[1]


@requirement("R-ASTAT-03", "R-ASTAT-06")
@BOTH
async def test_auth_status_is_requested_and_reported(version: int) -> None:
    reported: asyncio.Queue[AuthStatus] = asyncio.Queue()
    ada = {"label": "Ada", "email": "ada@example.com", "active": True}
    async with by_hand(version, on_auth_status=reported.put_nowait) as (agent, raw):
        answer = {"state": "authenticated", "accounts": [ada]}
        _, status = await answering(raw, agent.auth_status(), answer)
        assert status == AuthStatus(
            "authenticated", (AuthAccount("Ada", True, email="ada@example.com"),)
        )
        raw.tell("auth/status_update", {"state": "unauthenticated"})
        raw.tell("auth/status_update", {"state": "_confused"})
        assert await reported.get() == AuthStatus("unauthenticated")
        assert await reported.get() == AuthStatus("unknown")


@BOTH
async def test_model_providers_are_configured(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        current = {"apiType": "openai", "baseUrl": "https://example.com"}
        known = [
            {"providerId": "a", "supported": ["openai"], "required": True, "current": current},
            {"providerId": "b", "supported": [], "required": False, "current": None},
        ]
        _, providers = await answering(raw, agent.providers(), {"providers": known})
        assert providers == (
            ProviderInfo(
                id="a",
                supported=("openai",),
                required=True,
                api_type="openai",
                base_url="https://example.com",
            ),
            ProviderInfo(id="b", supported=()),
        )
        setting = agent.set_provider(
            "b", api_type="openai", base_url="https://b", headers={"X": "y"}
        )
        sent, _ = await answering(raw, setting, {})
        assert sent[0] == "providers/set"
        assert sent[1] == {
            "providerId": "b",
            "apiType": "openai",
            "baseUrl": "https://b",
            "headers": {"X": "y"},
        }
        sent, _ = await answering(raw, agent.disable_provider("b"), {})
        assert sent == ("providers/disable", {"providerId": "b"})


@requirement("R-EXT-04")
@BOTH
async def test_extension_methods_are_called_and_served(version: int) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def count(params: Any) -> Any:
        return {"words": len(params["text"].split())}

    def fail(params: Any) -> Any:
        raise InternalError("Out of luck")

    extensions = {
        "_example.com/count": count,
        "_example.com/fail": fail,
        "_example.com/hear": heard.put_nowait,
    }
    async with agent_by_hand(version, extensions=extensions) as (agent, raw):
        sent, answer = await answering(raw, agent.call_extension("_example.com/x", {"n": 1}), [2])
        assert (sent, answer) == (("_example.com/x", {"n": 1}), [2])
        await agent.notify_extension("_example.com/y", {"n": 3})
        assert (await raw.get())["params"] == {"n": 3}
        with pytest.raises(LocalProtocolError):
            await agent.call_extension("session/list")
        counted = await raw.result_of("q", "_example.com/count", {"text": "one two"})
        assert counted == {"words": 2}
        assert (await raw.error_of("f", "_example.com/fail", {}))["message"] == "Out of luck"
        unknown = await raw.error_of("u", "_example.com/other", {})
        assert unknown["code"] == MethodNotFound().code
        raw.tell("_example.com/nobody", {})
        raw.tell("_example.com/hear", {"n": 4})
        assert await heard.get() == {"n": 4}


async def test_name_of_an_extension_method_starts_with_an_underscore() -> None:
    with pytest.raises(ValueError, match="must begin with an underscore: 'session/list'"):
        async with connect("no-such-agent", extensions={"session/list": print}):
            pass
