"""The AG-UI gateway over HTTP: its events, threads, front-end tools, interrupts and faults.

Each event is read by the models of `ag-ui-protocol`, and runs as the verifier of `@ag-ui/client`
accepts them: what is opened is closed. `../ag_ui` has the client itself, which node runs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from msgspec.structs import replace

from accord.remote.access import Access, Principal
from accord.remote.server import Stop
from accord_bridges.gateways import gateway
from accord_bridges.gateways.turns import AgentSessions, GatewaySettings
from accord_terminal.sessions.named import open_session
from accord_terminal.sessions.records import Approvals, Store
from bridges.gateway_harness import AGENT, listening, named

pytest.importorskip("mcp", reason="the library `mcp` is not installed")
core: Any = pytest.importorskip("ag_ui.core", reason="`ag-ui-protocol` is not installed")
pydantic: Any = pytest.importorskip("pydantic", reason="`pydantic` is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

TOKENS = {"the token of anna": "anna", "the token of boris": "boris"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()
LOOKUP = {
    "name": "lookup",
    "description": "Look a term up.",
    "parameters": {"type": "object", "properties": {"term": {"type": "string"}}},
}
_event: Any = pydantic.TypeAdapter(core.Event)
_numbers = count()


class Run:
    """The events of a run, checked."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events = events
        self.kinds = [event["type"] for event in events]
        opened: set[tuple[str, str]] = set()
        for event in events:
            _event.validate_python(event)
            kind = event["type"]
            for name in ("TEXT_MESSAGE", "REASONING", "REASONING_MESSAGE", "TOOL_CALL"):
                key = (name, event.get("toolCallId") or event.get("messageId", ""))
                if kind == f"{name}_START":
                    assert key not in opened
                    opened.add(key)
                elif kind in (f"{name}_CONTENT", f"{name}_ARGS"):
                    assert key in opened
                elif kind == f"{name}_END":
                    opened.remove(key)
        assert self.kinds[0] == "RUN_STARTED"
        assert self.kinds[-1] in ("RUN_FINISHED", "RUN_ERROR")
        assert not opened or self.kinds[-1] == "RUN_ERROR"

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def text(self) -> str:
        return "".join(event["delta"] for event in self.all("TEXT_MESSAGE_CONTENT"))

    @property
    def outcome(self) -> dict[str, Any]:
        assert self.last["type"] == "RUN_FINISHED", self.last
        return self.last["outcome"]

    @property
    def interrupts(self) -> list[dict[str, Any]]:
        return self.outcome["interrupts"]

    @property
    def error(self) -> str:
        assert self.last["type"] == "RUN_ERROR", self.last
        return self.last["code"]

    @property
    def state(self) -> dict[str, Any]:
        """The state after the run."""
        [snapshot] = self.all("STATE_SNAPSHOT")
        state = json.loads(json.dumps(snapshot["snapshot"]))
        for event in self.all("STATE_DELTA"):
            for change in event["delta"]:
                _, first, name = change["path"].split("/")
                assert first == "acp"
                if change["op"] == "add":
                    state["acp"][name] = change["value"]
                else:
                    del state["acp"][name]
        return state


def user(text: Any, message: str = "") -> dict[str, Any]:
    return {"id": message or f"u{next(_numbers)}", "role": "user", "content": text}


class Gateway:
    """A gateway that listens, and a client of it."""

    def __init__(
        self, url: str, sessions: AgentSessions, stop: Stop, http: httpx2.AsyncClient
    ) -> None:
        self.url = url
        self.sessions = sessions
        self.stop = stop
        self.http = http

    def body(self, *said: Any, thread: str = "t", **fields: Any) -> dict[str, Any]:
        messages = [user(one) if isinstance(one, str) else one for one in said]
        return {
            "threadId": thread,
            "runId": f"r{next(_numbers)}",
            "protocolVersion": "1.0",
            "messages": messages,
            "tools": [],
            "context": [],
            "state": {},
            "forwardedProps": {},
            **fields,
        }

    def headers(self, name: str = "anna") -> dict[str, str]:
        [token] = [token for token, one in TOKENS.items() if one == name]
        return {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}

    @asynccontextmanager
    async def events(
        self, *said: Any, agent: str = "caller", name: str = "anna", **fields: Any
    ) -> AsyncGenerator[AsyncIterator[dict[str, Any]], None]:
        """Begin a run; leaving the block early disconnects."""
        async with self.http.stream(
            "POST", f"/ag-ui/{agent}", json=self.body(*said, **fields), headers=self.headers(name)
        ) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"].startswith("text/event-stream")

            async def each() -> AsyncIterator[dict[str, Any]]:
                async for line in response.aiter_lines():
                    if line:
                        yield json.loads(line.removeprefix("data: "))

            yield each()

    async def run(self, *said: Any, **fields: Any) -> Run:
        async with self.events(*said, **fields) as events:
            return Run([event async for event in events])

    async def text(self, *said: Any, **fields: Any) -> str:
        return (await self.run(*said, **fields)).text

    async def refused(self, body: Any, agent: str = "caller", **headers: str) -> tuple[int, Any]:
        """Send a request that is refused; return its status, and its error, which is an event."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await self.http.post(
            f"/ag-ui/{agent}", content=content, headers=self.headers() | headers
        )
        event = response.json()
        _event.validate_python(event)
        assert event["type"] == "RUN_ERROR"
        return response.status_code, event


@asynccontextmanager
async def serving(
    state: Path, program: Path = AGENT, **settings: Any
) -> AsyncGenerator[Gateway, None]:
    decided = replace(GatewaySettings(cwd=state / "work", idle_s=30), **settings)

    async def authenticate(request: Any) -> Principal | None:
        [given] = request.headers.get("authorization", [""])
        name = TOKENS.get(given.removeprefix("Bearer "))
        return None if name is None else Principal(name)

    app = gateway(
        {"caller": named("caller", program)},
        Access(authenticate=authenticate),
        decided,
        only=["ag-ui"],
    )
    async with (
        listening(app) as (url, stop),
        httpx2.AsyncClient(base_url=url, timeout=30) as http,
    ):
        yield Gateway(url, app.sessions, stop, http)


# Runs.


async def test_run_has_text_reasoning_tool_calls_state_and_usage(state: Path) -> None:
    async with serving(state) as gate:
        run = await gate.run(
            "think hm\nsay one\nsay two\nls x\nsay three\nplan step\nimage", state={"cart": [1]}
        )
    assert run.text == "onetwothree"
    texts = run.all("TEXT_MESSAGE_START")
    assert len(texts) == 2
    assert [event["delta"] for event in run.all("REASONING_MESSAGE_CONTENT")] == ["hm"]
    [call] = run.all("TOOL_CALL_START")
    assert call["toolCallName"] == "search"
    assert call["parentMessageId"] == texts[0]["messageId"]
    assert call["metadata"]["acp"] == {"title": "List", "kind": "search"}
    [arguments] = run.all("TOOL_CALL_ARGS")
    assert json.loads(arguments["delta"]) == {"path": "."}
    [result] = run.all("TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["content"]) == (call["toolCallId"], "found x")
    assert result["metadata"]["acp"]["status"] == "completed"
    [picture] = run.all("ACTIVITY_SNAPSHOT")
    assert picture["content"]["source"]["mimeType"] == "image/png"
    assert run.state["cart"] == [1]
    acp = run.state["acp"]
    assert acp["agent"] == "caller"
    assert acp["plan"] == [{"content": "step", "status": "in_progress", "priority": "medium"}]
    assert run.outcome == {"type": "success"}
    assert run.last["result"] == {"stopReason": "end_turn", "rejected": []}
    assert run.last["usage"] == [{"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}]
    assert Store().read(acp["sessionId"]).agent == "caller"


async def test_thread_is_a_session_and_gets_only_what_is_new(state: Path) -> None:
    async with serving(state) as gate:
        first = user("pid")
        run = await gate.run(first)
        pid, session = run.text, run.state["acp"]["sessionId"]
        said = {"id": "a1", "role": "assistant", "content": pid}
        second = user("prompt")
        again = await gate.run(first, said, second)
        assert (again.text, again.state["acp"]["sessionId"]) == ("'prompt'", session)
        # Only what is new, or all of it again after an answer that did not come: both are prompts.
        assert await gate.text("pid") == pid
        assert await gate.text(first, said, second) == "'prompt'"
        # Instructions in the middle.
        rule = {"id": "s1", "role": "system", "content": "Be brief"}
        text = await gate.text(first, said, second, rule, user("prompt"))
        assert text.startswith("'Instructions of the caller:\\n\\nBe brief")
    async with serving(state) as gate:  # another process
        run = await gate.run(first, said, user("prompt"))
        assert (run.text, run.state["acp"]["sessionId"]) == ("'prompt'", session)
        assert (await gate.run(first, thread="other")).state["acp"]["sessionId"] != session


async def test_new_thread_with_a_history_is_told_of_it_once(state: Path) -> None:
    async with serving(state) as gate:
        history = [
            {"id": "d", "role": "developer", "content": "Be kind"},
            user("hello"),
            {"id": "r", "role": "reasoning", "content": "hm"},
            {"id": "a", "role": "assistant", "content": "hi"},
            {"id": "x", "role": "activity", "activityType": "a", "content": {"b": 1}},
        ]
        text = await gate.text(*history, user("prompt"))
        assert "Be kind" in text
        assert "User: hello\\n\\nYou: hi" in text
        assert text.endswith("---\\n\\n\\nprompt'")
        assert await gate.text(*history, user("prompt")) == "'prompt'"


async def test_context_and_state_are_told_when_they_change(state: Path) -> None:
    async with serving(state) as gate:
        context = [{"description": "The page", "value": "/cart"}]
        acp = {"acp": {"sessionId": "s"}}
        for number, fields in enumerate(
            (
                {"context": context, "state": {"n": 1, **acp}},
                {"context": context, "state": {"n": 1}},
            )
        ):
            text = await gate.text("prompt", **fields)
            assert ("The page: /cart" in text) == (number == 0)
            assert ('Its state: {"n": 1}' in text) == (number == 0)
        assert 'Its state: {"n": 2}' in await gate.text("prompt", state={"n": 2})
        assert "Its state" not in await gate.text("prompt", state=acp)


async def test_images_and_files_reach_the_agent_and_wrong_ones_are_refused(state: Path) -> None:
    async with serving(state) as gate:

        def part(kind: str, value: str, source: str = "data", mime: str = "image/png") -> Any:
            given = {"type": source, "value": value, "mimeType": mime}
            return {"type": kind, "source": given}

        text = {"type": "text", "text": "prompt"}
        note = base64.b64encode(b"a note").decode()
        content = [part("image", PNG), part("document", note, mime="text/plain"), text]
        said = await gate.text(user(content))
        assert said.startswith("1 image(s). ")
        assert "a note" in said
        assert "pic.png" in await gate.text(user([text, part("image", "https://a/pic.png", "url")]))
        for wrong, words in (
            (part("image", note), "expected a PNG, JPEG, GIF or WebP image"),
            (part("image", "%"), "expected base64"),
            (part("image", "file-1", "file"), "expected data or url, got 'file'"),
            (part("video", PNG), "expected a part of type"),
            ({"type": "image"}, "with a source"),
            ({"text": "x"}, "missing required field `type`"),
        ):
            status, error = await gate.refused(gate.body(user([text, wrong])))
            assert status == 400
            assert "messages[0].content" in error["message"]
            assert words in error["message"]


async def test_page_that_is_loaded_again_gets_its_thread(state: Path) -> None:
    async with serving(state) as gate:
        context = [{"description": "The page", "value": "/"}]
        await gate.run("think hm\nsay one\nls x", context=context)
        asked = await gate.run("edit", context=context)
        run = await gate.run()
        [snapshot] = run.all("MESSAGES_SNAPSHOT")
        messages = snapshot["messages"]
        roles = ["user", "reasoning", "assistant", "assistant", "tool", "user", "assistant", "tool"]
        assert [one["role"] for one in messages] == roles
        assert messages[0]["content"] == "think hm\nsay one\nls x"
        assert messages[4]["content"] == "found x"
        assert (await gate.run(thread="new")).all("MESSAGES_SNAPSHOT")[0]["messages"] == []
        # It may answer what is still asked, and go on with the messages that it got.
        assert run.interrupts[0]["id"] == asked.interrupts[0]["id"]
        assert await gate.text(resume=[resolved(run, True)]) == "allowed"
        run = await gate.run()
        status, error = await gate.refused(gate.body(messages[2]))
        assert (status, error["message"].partition(":")[0]) == (400, "messages")
        [snapshot] = run.all("MESSAGES_SNAPSHOT")
        assert run.outcome == {"type": "success"}
        assert await gate.text(*snapshot["messages"], user("prompt")) == "'prompt'"


async def test_thread_of_a_closed_session_begins_again(state: Path) -> None:
    async with serving(state) as gate:
        first = user("say one")
        session = (await gate.run(first)).state["acp"]["sessionId"]
        async with open_session(session, create=False) as shared:
            await shared.close()
        said = {"id": "a", "role": "assistant", "content": "one"}
        run = await gate.run(first, said, user("prompt"))
        assert run.state["acp"]["sessionId"] != session
        assert "User: say one\\n\\nYou: one" in run.text


# Front-end tools.


def result(call: str, text: str, **fields: Any) -> dict[str, Any]:
    message = {"id": f"m{next(_numbers)}", "role": "tool", "toolCallId": call, "content": text}
    return message | fields


async def test_front_end_tools_continue_the_same_turn(state: Path) -> None:
    async with serving(state) as gate:
        question = user('say ask\ncall lookup {"term": "a"} & lookup {"term": "b"}')
        run = await gate.run(question, tools=[LOOKUP])
        calls = list(run.all("TOOL_CALL_START"))
        assert [call["toolCallName"] for call in calls] == ["lookup", "lookup"]
        ids = [call["toolCallId"] for call in calls]
        assert run.outcome == {"type": "success", "pendingToolCallIds": ids}
        [message] = run.all("TEXT_MESSAGE_START")
        assert {call["parentMessageId"] for call in calls} == {message["messageId"]}
        terms = [json.loads(event["delta"])["term"] for event in run.all("TOOL_CALL_ARGS")]
        results = [result(call, f"<{term}>") for call, term in zip(ids, terms, strict=True)]
        # One of two results does not do, and nothing is lost by it.
        partial = await gate.run(question, results[0], tools=[LOOKUP])
        assert partial.error == "tool_result_missing"
        assert ids[1] in partial.last["message"]
        assert ids[0] not in partial.last["message"]
        # Results, and another message of the user, for which there is a turn of its own.
        more = await gate.run(question, *results, user("tools"), tools=[LOOKUP])
        assert more.text == "<a> | <b>lookup"
        # Now they are not open.
        late = await gate.run(question, *results, tools=[LOOKUP])
        assert late.error == "tool_call_not_open"
        # An error of a tool.
        failing = await gate.run("call lookup {}", tools=[LOOKUP])
        [call] = failing.outcome["pendingToolCallIds"]
        assert "Error: no" in await gate.text(result(call, "", error="no"), tools=[LOOKUP])


async def test_user_who_goes_on_leaves_the_calls_of_the_front_end(state: Path) -> None:
    async with serving(state) as gate:
        run = await gate.run("call lookup {}", tools=[LOOKUP])
        assert len(run.outcome["pendingToolCallIds"]) == 1
        assert await gate.text("say on") == "on"


async def test_turn_of_a_front_end_that_does_not_return_is_cancelled(state: Path) -> None:
    async with serving(state, answer_s=0.2) as gate:
        run = await gate.run("edit")
        async with asyncio.timeout(10):
            while gate.sessions.running_turns:
                await asyncio.sleep(0)
        nothing = await gate.run(resume=[cancelled(run)])
        assert (nothing.outcome, nothing.text) == ({"type": "success"}, "")
        assert await gate.text("say on", resume=[cancelled(run)]) == "on"
        late = await gate.run(resume=[resolved(run, {"approved": True})])
        assert late.error == "interrupt_not_open"


# Interrupts.


def resolved(run: Run, payload: Any) -> dict[str, Any]:
    [interrupt] = run.interrupts
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def cancelled(run: Run) -> dict[str, Any]:
    [interrupt] = run.interrupts
    return {"interruptId": interrupt["id"], "status": "cancelled"}


async def test_permissions_are_interrupts(state: Path) -> None:
    async with serving(state) as gate:
        for payload, text in (
            ({"approved": True}, "allowed"),
            ({"approved": False}, "rejected"),
            (True, "allowed"),
            ("allow_once", "allowed"),
            ({"option": "reject_once"}, "rejected"),
            (None, "rejected"),
        ):
            question = user("edit")
            run = await gate.run(question)
            [interrupt] = run.interrupts
            assert interrupt["reason"] == "tool_call"
            assert interrupt["message"] == "Edit notes"
            assert "expiresAt" in interrupt
            assert "+b" in interrupt["metadata"]["acp"]["diffs"][0]["patch"]
            [call] = run.all("TOOL_CALL_START")
            assert call["toolCallId"] == interrupt["toolCallId"]
            assert not run.all("TOOL_CALL_RESULT")
            answer = cancelled(run) if payload is None else resolved(run, payload)
            again = await gate.run(question, resume=[answer])
            assert again.text == text
            assert not again.all("TOOL_CALL_START")
            [done] = again.all("TOOL_CALL_RESULT")
            assert done["toolCallId"] == call["toolCallId"]


async def test_interrupts_have_to_be_answered_with_what_fits(state: Path) -> None:
    async with serving(state) as gate:
        run = await gate.run("edit")
        broken = {"type": "image", "source": {"type": "data", "value": "", "mimeType": "a/b"}}
        assert (await gate.refused(gate.body(user([broken]))))[0] == 400
        assert (await gate.run("say on")).error == "interrupt_open"
        assert (await gate.run(resume=[])).error == "interrupt_open"
        edited = {"approved": True, "editedArgs": {"a": 1}}
        for payload in (None, 3, "yes", {"option": "maybe"}, edited):
            wrong = await gate.run(resume=[resolved(run, payload)])
            assert wrong.error == "invalid_payload"
            assert "resume[0].payload: " in wrong.last["message"]
        unknown = {"interruptId": "call_0", "status": "resolved", "payload": True}
        assert (await gate.run(resume=[unknown])).error == "interrupt_not_open"
        answer = resolved(run, {"approved": True})
        # With an answer, the user may say something that is for the next turn.
        assert await gate.text("say on", resume=[answer]) == "allowedon"
        assert (await gate.run(resume=[answer])).error == "interrupt_not_open"


async def test_all_open_interrupts_are_answered_at_once(state: Path) -> None:
    async with serving(state) as gate:
        run = await gate.run("edits 2")
        ids = [one["id"] for one in run.interrupts]
        assert len(ids) == 2
        answers = [{"interruptId": one, "status": "resolved", "payload": True} for one in ids]
        partial = await gate.run(resume=answers[:1])
        assert partial.error == "interrupt_open"
        assert ids[1] in partial.last["message"]
        assert await gate.text(resume=answers) == "2 allowed"


async def test_forms_are_interrupts(state: Path) -> None:
    async with serving(state) as gate:
        run = await gate.run("form Where to?")
        [interrupt] = run.interrupts
        assert (interrupt["reason"], interrupt["message"]) == ("input_required", "Where to?")
        assert interrupt["responseSchema"]["required"] == ["city"]
        wrong = await gate.run(resume=[resolved(run, {"days": 3})])
        assert wrong.error == "invalid_payload"
        assert "city is missing" in wrong.last["message"]
        assert await gate.text(resume=[resolved(run, {"city": "Rome"})]) == "to Rome"
        again = await gate.run("form Where to?")
        assert await gate.text(resume=[cancelled(again)]) == "declined"


async def test_front_end_without_interrupts_gets_rejections(state: Path) -> None:
    async with serving(state) as gate:
        run = await gate.run("edit", protocolVersion=None)
        assert run.text == "rejected"
        assert run.last["result"]["rejected"] == ["Edit notes"]
        props = {"acp": {"ask": False}}
        assert await gate.text("edit", forwardedProps=props) == "rejected"
    async with serving(state, approvals=Approvals(allow=("edit",))) as gate:
        for version in (None, "1.0"):
            text = await gate.text("edit", thread="allowed", protocolVersion=version)
            assert text == "allowed"


async def test_agent_that_ends_its_turn_after_a_rejection(state: Path) -> None:
    async with serving(state) as gate:
        prompt = "edit\nstop cancelled"
        run = await gate.run(prompt, protocolVersion=None)
        assert run.outcome["type"] == "cancelled"
        assert run.last["result"] == {"stopReason": "cancelled", "rejected": ["Edit notes"]}
        # What the user says with the rejection is for the next turn.
        asked = await gate.run(prompt)
        again = await gate.run("say on", resume=[resolved(asked, {"approved": False})])
        assert again.text == "rejectedon"


async def test_permission_that_a_person_answers_elsewhere_continues(state: Path) -> None:
    async with serving(state) as gate:
        asked = asyncio.Event()

        async def allow(_request: Any) -> Literal["allow"]:
            await asked.wait()
            return "allow"

        session = (await gate.run("say hi")).state["acp"]["sessionId"]
        async with open_session(session, create=False, permissions=allow):
            run = await gate.run("edit")
            asked.set()
            again = await gate.run(resume=[resolved(run, {"approved": False})])
            assert again.text in ("allowed", "rejected")  # who was first
            assert again.outcome == {"type": "success"}


async def test_form_that_the_caller_cannot_show_is_for_a_person(state: Path) -> None:
    async with serving(state) as gate:
        conversation = await gate.sessions.new("caller", Principal("anna"))

        async def fill(_form: Any) -> dict[str, str]:
            return {"city": "Rome"}

        async with open_session(conversation.id, create=False, on_elicit_form=fill):
            exchange = conversation.start(["form Where to?"], asks=True)
            events = [event async for found in exchange.happenings() for event in found]
    assert "to Rome" in [getattr(event, "text", None) for event in events]


async def test_turn_that_goes_on_without_a_reader_ends(state: Path) -> None:
    async with serving(state, answer_s=0.5) as gate:

        async def allow(_request: Any) -> Literal["allow"]:
            return "allow"

        session = (await gate.run("say hi")).state["acp"]["sessionId"]
        run = await gate.run("edit\nmany 3000")
        async with open_session(session, create=False, permissions=allow):
            async with asyncio.timeout(20):
                while gate.sessions.running_turns:
                    await asyncio.sleep(0)
        assert len(run.interrupts) == 1
        assert await gate.text("say on", resume=[cancelled(run)]) == "on"


# Faults.


async def test_front_end_that_leaves_cancels_its_turn(state: Path) -> None:
    async with serving(state) as gate:
        for stop in ("RUN_STARTED", "STATE_SNAPSHOT", "TEXT_MESSAGE_CONTENT"):
            async with gate.events("wait") as events:
                async for event in events:
                    if event["type"] == stop:
                        break
            # The next run begins when the cancelled turn has ended.
            assert await gate.text("say next") == "next"


async def test_front_end_that_leaves_begins_no_other_turn(state: Path) -> None:
    async with serving(state) as gate:
        run = await gate.run("call lookup {}\nwait", tools=[LOOKUP])
        [call] = run.outcome["pendingToolCallIds"]
        async with gate.events(result(call, "a"), user("say other"), tools=[LOOKUP]) as events:
            async for event in events:
                if event.get("delta") == "waiting":
                    break
        assert await gate.text("say on") == "on"
        [snapshot] = (await gate.run()).all("MESSAGES_SNAPSHOT")
        assert "other" not in [message.get("content") for message in snapshot["messages"]]


async def test_agent_that_dies_fails_its_run_alone(state: Path) -> None:
    async with serving(state) as gate, gate.events("wait", thread="other") as events:
        async for event in events:
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                break
        question = user("die")
        assert (await gate.run(question)).error == "agent_failed"
        # What kills an agent is not sent again, unless the user wants it so.
        assert await gate.text(question, user("say on")) == "on"
        assert (await gate.run(question)).error == "agent_failed"


async def test_message_for_an_agent_that_does_not_start_is_sent_again(state: Path) -> None:
    program = state / "agent.py"
    async with serving(state, program=program) as gate:
        first = user("say one")
        failed = await gate.run(first)
        assert failed.error == "agent_failed"
        program.write_text(AGENT.read_text())
        assert await gate.text(first, user("say two")) == "onetwo"


async def test_two_runs_of_a_thread_are_one_after_the_other(state: Path) -> None:
    async with serving(state) as gate:
        first, second = user("say one"), user("say two")
        runs = await asyncio.gather(gate.run(first), gate.run(first, second))
        assert sorted(run.text for run in runs) == ["one", "two"]
        assert len({run.state["acp"]["sessionId"] for run in runs}) == 1
    async with serving(state, waiting=0) as gate, gate.events("wait", thread="busy") as events:
        await anext(aiter(events))
        status, error = await gate.refused(gate.body("say x", thread="busy"))
        assert (status, error["code"]) == (429, "session_busy")


async def test_thread_of_another_principal_is_another_thread(state: Path) -> None:
    async with serving(state) as gate:
        run = await gate.run("pid")
        other = await gate.run("pid", name="boris")
        assert other.text != run.text
        assert other.state["acp"]["sessionId"] != run.state["acp"]["sessionId"]
        waiting = await gate.run("edit")
        answer = resolved(waiting, {"approved": True})
        assert (await gate.run(resume=[answer], name="boris")).error == "interrupt_not_open"
        props = {"acp": {"session_id": run.state["acp"]["sessionId"]}}
        assert (await gate.run("pid", name="boris", forwardedProps=props)).text == other.text
        assert await gate.text(resume=[answer]) == "allowed"


async def test_bad_requests_say_what_was_expected(state: Path) -> None:
    async with serving(state) as gate:
        for body, status, words in (
            (b"{", 400, "JSON"),
            (b"\xff", 400, "JSON"),
            ({"threadId": "t", "runId": "r"}, 400, "messages"),
            (gate.body({"role": "user", "content": "x"}), 400, "messages[0]: "),
            (gate.body("x", tools=[{}]), 400, "tools[0]: "),
            (gate.body("x", thread=""), 400, "threadId: "),
            (gate.body("x", thread="x" * 501), 400, "threadId: "),
            (gate.body("x", user("y", "i" * 501)), 400, "messages[1].id: expected at most 500"),
            (gate.body({"id": "a", "role": "assistant", "content": "x"}), 400, "of the user"),
            (gate.body("x", forwardedProps={"acp": {"cwd": "/"}}), 403, "below"),
            (b" " * (16 * 1024 * 1024 + 1), 413, ""),
        ):
            found, error = await gate.refused(body)
            assert found == status, error
            assert words in error["message"]
        status, error = await gate.refused(gate.body("x"), "nemo")
        assert (status, error["code"]) == (404, "unknown_agent")
        assert "expected one of caller" in error["message"]
        status, error = await gate.refused(gate.body("x"), Authorization="Bearer no")
        assert (status, error["code"]) == (401, "invalid_token")
        got = await gate.http.put("/ag-ui/caller", headers=gate.headers())
        assert got.status_code == 405


async def test_agents_and_their_capabilities_are_listed(state: Path) -> None:
    async with serving(state) as gate:
        listed = (await gate.http.get("/ag-ui", headers=gate.headers())).json()
        [agent] = listed["agents"]
        assert (agent["name"], agent["path"]) == ("caller", "/ag-ui/caller")
        found = (await gate.http.get("/ag-ui/caller", headers=gate.headers())).json()
        assert found == agent["capabilities"]
        capabilities = core.AgentCapabilities.model_validate(found)
        assert not capabilities.model_extra
        assert capabilities.human_in_the_loop.interrupts


# The client of the protocol.

CLIENT = Path(__file__).parents[1] / "ag_ui"


@pytest.mark.programs
@pytest.mark.timeout(400)
async def test_front_end_of_the_protocol_uses_an_agent(state: Path) -> None:
    node = shutil.which("node")
    if node is None or not (CLIENT / "node_modules" / ".installed").exists():
        message = f"the client is not installed: sh {CLIENT}/install.sh (needs node and npm)"
        if os.environ.get("ACCORD_REQUIRE_INTEROP"):
            pytest.fail(message)
        pytest.skip(message)
    async with serving(state) as gate:
        client = await asyncio.create_subprocess_exec(
            node,
            str(CLIENT / "client.mjs"),
            f"{gate.url}/ag-ui/caller",
            next(iter(TOKENS)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await client.communicate()
    assert client.returncode == 0, errors.decode()[-3000:]
    # The client warns of nothing: it names each event and field that is not of the protocol.
    warned, _, _ = errors.decode().partition("errors\n")
    assert warned == "conversation\ntools\ninterrupts\nabort\n"
    found: dict[str, Any] = json.loads(output)
    conversation = found["conversation"]
    assert conversation["roles"] == ["reasoning", "assistant", "tool", "assistant"]
    assert conversation["tool"] == "found x"
    assert conversation["calls"] == [{"name": "search", "arguments": '{"path": "."}'}]
    assert conversation["same"]
    assert conversation["plan"] == "step"
    assert conversation["outcome"] == "success"
    assert conversation["result"] == {"stopReason": "end_turn", "rejected": []}
    assert found["tools"] == {"pending": 2, "text": "<a> | <b>", "more": "lookup"}
    assert found["interrupts"] == {
        "outcomes": ["interrupt", "success", "interrupt", "success"],
        "reasons": ["tool_call", "input_required"],
        "blocked": True,
        "open": 0,
        "texts": ["allowed", "to Rome"],
        "result": True,
    }
    assert found["abort"] == {"text": "next"}
    assert found["errors"] == {"codes": ["agent_failed"], "text": "on", "status": 404}
