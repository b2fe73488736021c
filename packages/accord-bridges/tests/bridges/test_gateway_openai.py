"""The OpenAI gateway, used by the library `openai` over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from accord import Text
from accord.remote.access import Access, Principal, RemoteRequest
from accord.remote.server import Stop
from accord_bridges.gateways import gateway
from accord_bridges.gateways.caller_tools import CallerTool
from accord_bridges.gateways.openai_forms import answer_of
from accord_bridges.gateways.turns import (
    AgentSessions,
    Exchange,
    GatewayError,
    GatewaySettings,
)
from accord_terminal.sessions.named import open_session
from accord_terminal.sessions.records import Approvals, Store, has_owner
from bridges.gateway_harness import AGENT, listening, named

pytest.importorskip("mcp", reason="the library `mcp` is not installed")
openai: Any = pytest.importorskip("openai", reason="the library `openai` is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

TOKEN = "the token of the test"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()
LOOKUP = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a term up.",
        "parameters": {"type": "object", "properties": {"term": {"type": "string"}}},
    },
}
PERMISSION = {"type": "function", "function": {"name": "acp_permission"}}


class Gateway:
    """A gateway that listens, and a client of it."""

    def __init__(self, url: str, sessions: AgentSessions, stop: Stop) -> None:
        self.url = url
        self.sessions = sessions
        self.stop = stop
        self.client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)

    async def ask(self, *said: Any, **options: Any) -> Any:
        """Send messages: the texts of the user and the agent by turns, or whole messages."""
        messages = [
            {"role": "assistant" if number % 2 else "user", "content": one}
            if isinstance(one, str)
            else one
            for number, one in enumerate(said)
        ]
        options = {"model": "caller", **options}
        return await self.client.chat.completions.create(messages=messages, **options)

    async def text(self, *said: Any, **options: Any) -> str:
        return (await self.ask(*said, **options)).choices[0].message.content


@asynccontextmanager
async def serving(
    state: Path, port: int = 0, drain_s: float = 0, access: Access | None = None, **settings: Any
) -> AsyncGenerator[Gateway, None]:
    decided = replace(GatewaySettings(cwd=state / "work", idle_s=30), **settings)
    app = gateway({"caller": named("caller")}, access or Access(token=TOKEN), decided)
    async with listening(app, port=port, drain_s=drain_s) as (url, stop):
        gate = Gateway(url, app.sessions, stop)
        async with gate.client:
            yield gate


async def test_conversation_continues_by_its_transcript_header_and_id(state: Path) -> None:
    async with serving(state) as gate:
        assert [model.id async for model in gate.client.models.list()] == ["caller"]
        assert (await gate.client.models.retrieve("caller")).id == "caller"
        with pytest.raises(openai.NotFoundError, match="caller offers no model 'nope'"):
            await gate.client.get("/models/caller/nope", cast_to=object)
        first = await gate.ask("pid")
        pid, session = first.choices[0].message.content, first.acp["session_id"]
        assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (10, 2)
        assert first.choices[0].finish_reason == "stop"
        again = await gate.ask("pid", pid, "pid")
        assert (again.choices[0].message.content, again.acp["session_id"]) == (pid, session)
        # Who has moved on is not continued from an earlier place: the new session is told.
        other = await gate.ask("pid", pid, "prompt")
        assert other.acp["session_id"] != session
        assert "User: pid" in other.choices[0].message.content
        by_header = await gate.text("pid", extra_headers={"Acp-Session-Id": session})
        assert by_header == pid
        by_metadata = await gate.text("pid", metadata={"session_id": session})
        assert by_metadata == pid
        # A person can take over.
        async with open_session(session, create=False) as shared:
            async with shared.session.prompt("pid") as turn:
                await turn.wait()
            assert turn.text == pid


async def test_models_of_an_agent_are_listed_after_it_has_started(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLER_MODELS", "small org/large")
    async with serving(state) as gate:

        async def listed() -> list[str]:
            return [model.id async for model in gate.client.models.list()]

        assert await listed() == ["caller"]
        assert await gate.text("model") == "small"
        assert await listed() == ["caller", "caller/small", "caller/org/large"]
        for name in await listed():
            assert (await gate.client.models.retrieve(name)).id == name
        assert await gate.text("model", model="caller/org/large") == "org/large"
        with pytest.raises(openai.NotFoundError, match="its models are small, org/large"):
            await gate.client.models.retrieve("caller/medium")
    async with serving(state, warm=1) as gate:
        await listed()
        await asyncio.wait(gate.sessions._warming, timeout=30)
        assert await listed() == ["caller", "caller/small", "caller/org/large"]


async def test_what_was_said_does_not_stay_in_memory(state: Path) -> None:
    async with serving(state, warm=1) as gate:
        found = await gate.ask("many 2000")
        assert found.choices[0].message.content == "x " * 2000
        token = Principal("test", all_sessions=True)
        conversation = gate.sessions.find(found.acp["session_id"], token)
        # The journal has it, and the conversation goes on: only the last turn is kept.
        assert await gate.text("say on", metadata={"session_id": conversation.id}) == "on"
        shared = await conversation.connected()
        texts = [message.text for message in shared.session.transcript.messages]
        assert "on" in texts[-1]
        assert not any("x x" in text for text in texts)
        async with open_session(conversation.id, create=False) as seen:
            assert "x x x" in seen.session.transcript.messages[1].text


async def test_stream_has_text_thoughts_usage_and_session(state: Path) -> None:
    async with serving(state) as gate:
        stream = await gate.ask(
            "think hm\nsay one\nsay two", stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "onetwo"
    assert [getattr(delta, "reasoning_content", None) for delta in deltas].count("hm") == 1
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-2].acp["stop_reason"] == "end_turn"
    assert chunks[-1].usage.total_tokens == 12


async def test_tools_of_the_caller_continue_the_same_turn(state: Path) -> None:
    async with serving(state) as gate:
        question = {"role": "user", "content": 'call lookup {"term": "a"} & lookup {"term": "b"}'}
        for stream in (False, True):
            if stream:
                chunks = [
                    chunk async for chunk in await gate.ask(question, tools=[LOOKUP], stream=True)
                ]
                found = [c for k in chunks for c in k.choices[0].delta.tool_calls or ()]
                assert [call.index for call in found] == [0, 1]
                assert chunks[-1].choices[0].finish_reason == "tool_calls"
            else:
                asked = await gate.ask(question, tools=[LOOKUP])
                assert asked.choices[0].finish_reason == "tool_calls"
                found = asked.choices[0].message.tool_calls
            terms = [json.loads(call.function.arguments)["term"] for call in found]
            assert sorted(terms) == ["a", "b"]
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": "lookup", "arguments": call.function.arguments},
                }
                for call in found
            ]
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": f"<{term}>"}
                for call, term in zip(found, terms, strict=True)
            ]
            said = {"role": "assistant", "content": None, "tool_calls": calls}
            answer = await gate.ask(question, said, *results, tools=[LOOKUP])
            assert answer.choices[0].message.content == "<a> | <b>"
            with pytest.raises(openai.ConflictError, match="is not open"):
                await gate.ask(question, said, *results, tools=[LOOKUP])
            # The conversation continues where the tools were called.
            ended = {"role": "assistant", "content": "<a> | <b>"}
            user = {"role": "user", "content": "tools"}
            more = await gate.ask(question, said, *results, ended, user, tools=[LOOKUP])
            assert more.choices[0].message.content == "lookup"
            assert more.acp["session_id"] == answer.acp["session_id"]


async def test_conversation_without_tools_gets_some(state: Path) -> None:
    async with serving(state) as gate:
        first = await gate.ask("pid")
        pid = first.choices[0].message.content
        more = await gate.ask("pid", pid, "tools", tools=[LOOKUP])
        assert more.choices[0].message.content == "lookup"
        assert more.acp["session_id"] == first.acp["session_id"]


async def test_permissions_are_rejected_unless_a_rule_or_the_caller_allows(state: Path) -> None:
    async with serving(state) as gate:
        answer = await gate.ask("edit")
        assert answer.choices[0].message.content == "rejected"
        assert answer.acp["rejected"] == ["Edit notes"]
        for chosen, text in (("allow", "allowed"), ('{"option": "reject"}', "rejected")):
            question = {"role": "user", "content": "edit"}
            asked = await gate.ask(question, tools=[PERMISSION])
            [call] = asked.choices[0].message.tool_calls
            assert call.function.name == "acp_permission"
            about = json.loads(call.function.arguments)
            assert (about["title"], about["kind"]) == ("Edit notes", "edit")
            assert "+b" in about["diffs"][0]["patch"]
            by_kind = {option["kind"]: option["id"] for option in about["options"]}
            assert "allow_once" in by_kind
            given = chosen.replace("allow", by_kind["allow_once"]).replace(
                "reject", by_kind["reject_once"]
            )
            said = {"role": "assistant", "content": None, "tool_calls": [call.to_dict()]}
            result = {"role": "tool", "tool_call_id": call.id, "content": given}
            assert await gate.text(question, said, result, tools=[PERMISSION]) == text
    async with serving(state, approvals=Approvals(allow=("edit",))) as gate:
        assert await gate.text("edit") == "allowed"


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("", "reject"),
        ('{"option_id": ""}', "reject"),
        ("reject_once", "reject_once"),
        ("allow_once", "no"),  # an id, although it is the kind of another option
        ("allow_always", ""),
    ],
)
async def test_permission_is_not_decided_by_accident(given: str, chosen: str) -> None:
    options = [
        SimpleNamespace(id="", kind="allow_always"),
        SimpleNamespace(id="yes", kind="allow_once"),
        SimpleNamespace(id="allow_once", kind="reject_always"),
        SimpleNamespace(id="reject_once", kind="reject_once"),
    ]
    options[2].name = "no"
    exchange: Any = Exchange.__new__(Exchange)
    exchange._asks = True

    async def answer(*_: object) -> str:
        return answer_of(given)

    exchange._ask_caller = answer
    decided: Any = await exchange.decide(SimpleNamespace(options=options))
    assert getattr(decided, "name", getattr(decided, "id", decided)) == chosen


async def test_caller_that_leaves_cancels_its_turn(state: Path) -> None:
    async with serving(state) as gate:
        stream = await gate.ask("wait", stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content == "waiting":
                break
        session = stream.response.headers["acp-session-id"]
        await stream.close()
        # The next request of the session runs when the cancelled turn has ended.
        assert await gate.text("say next", extra_headers={"Acp-Session-Id": session}) == "next"


@pytest.mark.timeout(120)  # ten seconds of it are for the agent
async def test_agent_that_does_not_react_to_a_cancel_is_started_again(state: Path) -> None:
    async with serving(state) as gate:
        stream = await gate.ask("say on\nhang", stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content == "on":
                break
        session = stream.response.headers["acp-session-id"]
        await stream.close()
        assert await gate.text("say next", extra_headers={"Acp-Session-Id": session}) == "next"


async def test_caller_that_does_not_return_a_result_cancels_its_turn(state: Path) -> None:
    async with serving(state, answer_s=0.2) as gate:
        asked = await gate.ask("call lookup {}", tools=[LOOKUP])
        session = asked.acp["session_id"]
        assert await gate.text("say next", extra_headers={"Acp-Session-Id": session}) == "next"


async def test_agent_that_dies_fails_its_request_alone(state: Path) -> None:
    async with serving(state) as gate:
        other = asyncio.create_task(gate.text("wait"))
        first = await gate.ask("say one")
        session = first.acp["session_id"]
        with pytest.raises(openai.APIStatusError) as failed:
            await gate.ask("die", extra_headers={"Acp-Session-Id": session})
        assert failed.value.status_code == 502
        assert failed.value.code == "agent_failed"
        assert not other.done()
        assert await gate.text("say on", extra_headers={"Acp-Session-Id": session}) == "on"
        other.cancel()


async def test_json_output_is_checked_and_asked_for_again(state: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    async with serving(state) as gate:
        said = await gate.text('say ```json\nsay {"n": 1}', response_format={"type": "text"})
        assert said == '```json{"n": 1}'
        assert await gate.text('say {"n": 1}', response_format=form) == '{"n": 1}'
        with pytest.raises(openai.UnprocessableEntityError, match="It said: "):
            await gate.ask('say {"n": "x"}', response_format=form)


async def test_schemas_of_callers_open_nothing(
    state: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def urlopen(*_: object, **__: object) -> None:
        raise AssertionError("a reference was opened")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    secret = state / "secret.json"
    secret.write_text('{"type": "string"}')
    async with serving(state) as gate:
        inner = {"$defs": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n"}}}
        form = {"type": "json_schema", "json_schema": {"schema": inner}}
        assert await gate.text('say {"n": 4}', response_format=form) == '{"n": 4}'
        for schema in (
            {"$ref": secret.as_uri()},
            {"properties": {"n": {"$ref": "http://127.0.0.1:9/secret"}}},
            {"$dynamicRef": "http://127.0.0.1:9/secret"},
            {"$schema": "http://json-schema.org/draft-03/schema#", "extends": {"$ref": "a:b"}},
            {"$ref": "#/$defs/none"},
            {"$ref": "#"},
            {"$schema": 5},
        ):
            form = {"type": "json_schema", "json_schema": {"schema": schema}}
            with pytest.raises(openai.BadRequestError) as wrong:
                await gate.text('say {"n": 4}', response_format=form)
            assert wrong.value.param == "response_format", schema
            with pytest.raises(openai.BadRequestError, match=r"text\.format"):
                await gate.client.responses.create(
                    model="caller",
                    input='say {"n": 4}',
                    text={"format": {"type": "json_schema", "name": "n", "schema": schema}},
                )
    assert "Traceback" not in caplog.text
    assert "secret" not in caplog.text


async def test_schemas_of_callers_cannot_keep_the_gateway_busy(state: Path) -> None:
    slow = "^(a+)+$"
    text = json.dumps({"a" * 60 + "!": "a" * 60 + "!"})
    doubling: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)
    }
    async with serving(state) as gate:
        for schema in (
            {"additionalProperties": {"type": "string", "pattern": slow}},
            {"patternProperties": {slow: {"type": "integer"}}, "additionalProperties": False},
            {"patternProperties": {slow: {"type": "integer"}}, "unevaluatedProperties": False},
        ):
            form = {"type": "json_schema", "json_schema": {"schema": schema}}
            async with asyncio.timeout(10):
                assert await gate.text(f"say {text}", response_format=form) == text
        doubling["d40"] = {"type": "object"}
        form = {
            "type": "json_schema",
            "json_schema": {"schema": {"$defs": doubling, "$ref": "#/$defs/d0"}},
        }
        with pytest.raises(openai.BadRequestError, match="more than 10000 references"):
            await gate.text("say {}", response_format=form)


async def test_bad_requests_say_what_was_expected(state: Path) -> None:
    async with serving(state, roots=(state / "work",)) as gate:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
        text = {"type": "text", "text": "say ."}
        assert await gate.text({"role": "user", "content": [image, text]}) == "1 image(s). ."
        broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
        for options, error, words in (
            ({"model": "gpt-9"}, openai.NotFoundError, "of caller"),
            ({"n": 2}, openai.BadRequestError, "n: expected 1, got 2"),
            (
                {"extra_headers": {"Acp-Session-Id": "s-0123456789abcdef"}},
                openai.NotFoundError,
                "Unknown session",
            ),
            ({"extra_headers": {"Acp-Cwd": "/"}}, openai.PermissionDeniedError, "below"),
            ({"extra_headers": {"Acp-Cwd": "work"}}, openai.BadRequestError, "absolute"),
            (
                {"extra_body": {"metadata": {"session_id": 5}}},
                openai.BadRequestError,
                r"metadata\.session_id: expected a text, got int",
            ),
            (
                {"extra_body": {"metadata": {"session_id": {}}}},
                openai.BadRequestError,
                r"metadata\.session_id: expected a text, got dict",
            ),
            ({"extra_body": {"metadata": {"cwd": 5}}}, openai.BadRequestError, r"metadata\.cwd"),
            ({"metadata": {"cwd": "/a\0"}}, openai.BadRequestError, "with a NUL"),
            (
                {"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}},
                openai.BadRequestError,
                "expected a JSON schema",
            ),
        ):
            with pytest.raises(error, match=words):
                await gate.ask("say .", **options)
        with pytest.raises(openai.BadRequestError, match="PNG, JPEG, GIF or WebP"):
            await gate.ask({"role": "user", "content": [broken]})
        with pytest.raises(openai.BadRequestError, match="expected file_data as a text"):
            await gate.ask(
                {"role": "user", "content": [{"type": "file", "file": {"file_data": 5}}]}
            )
        with pytest.raises(openai.BadRequestError, match=r"messages\[0\]: "):
            await gate.ask({"content": "x"})
        wrong = openai.AsyncOpenAI(base_url=f"{gate.url}/v1", api_key="wrong", max_retries=0)
        async with wrong:
            with pytest.raises(openai.AuthenticationError):
                await wrong.models.list()


async def test_conversation_survives_the_gateway(state: Path) -> None:
    async with serving(state) as gate:
        port = int(gate.url.rpartition(":")[2])
        first = await gate.ask("say one", tools=[LOOKUP])
        session = first.acp["session_id"]
    async with serving(state, port) as gate:
        more = await gate.ask("say one", "one", "tools", tools=[LOOKUP])
        assert more.acp["session_id"] == session
        assert more.choices[0].message.content == "lookup"


# Responses.


async def test_responses_stream_and_are_stored(state: Path) -> None:
    async with serving(state) as gate:
        create = gate.client.responses.create
        async with gate.client.responses.stream(
            model="caller", input="think hm\nsay one\nsay two"
        ) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert final.output_text == "onetwo"
        assert [item.type for item in final.output] == ["reasoning", "message"]
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert kinds.count("response.output_text.delta") == 2
        assert final.usage.input_tokens == 10
        pid = await create(model="caller", input="pid", previous_response_id=final.id)
        again = await create(model="caller", input="pid", previous_response_id=pid.id)
        assert again.output_text == pid.output_text
        with pytest.raises(openai.ConflictError, match=again.id):
            await create(model="caller", input="pid", previous_response_id=final.id)
        stored = await gate.client.responses.retrieve(again.id)
        assert stored.output_text == pid.output_text
        await gate.client.responses.delete(again.id)
        with pytest.raises(openai.NotFoundError):
            await gate.client.responses.retrieve(again.id)
    async with serving(state) as gate:  # another process
        more = await gate.client.responses.create(
            model="caller", input="prompt", previous_response_id=pid.id
        )
        assert more.output_text == "'prompt'"
        assert more.acp["session_id"] == pid.acp["session_id"]


async def test_response_with_functions_continues_the_same_turn(state: Path) -> None:
    async with serving(state) as gate:
        tools: Any = [{"type": "function", **LOOKUP["function"]}]
        first = await gate.client.responses.create(
            model="caller", input='call lookup {"term": "a"}', tools=tools
        )
        [call] = first.output
        assert (call.type, json.loads(call.arguments)) == ("function_call", {"term": "a"})
        output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "<a>"}]
        async with gate.client.responses.stream(
            model="caller", input=output, tools=tools, previous_response_id=first.id
        ) as stream:
            final = await stream.get_final_response()
        assert final.output_text == "<a>"
        with pytest.raises(openai.ConflictError, match="is not open"):
            await gate.client.responses.create(model="caller", input=output, tools=tools)


async def test_background_response_is_polled_and_cancelled(state: Path) -> None:
    async with serving(state) as gate:
        begun = await gate.client.responses.create(model="caller", input="wait", background=True)
        assert begun.status == "in_progress"
        cancelled = await gate.client.responses.cancel(begun.id)
        assert (cancelled.status, cancelled.id) == ("cancelled", begun.id)
        failed = await gate.client.responses.create(model="caller", input="die", background=True)
        async with asyncio.timeout(10):
            while (await gate.client.responses.retrieve(failed.id)).status == "in_progress":
                await asyncio.sleep(0)
        found = await gate.client.responses.retrieve(failed.id)
        assert (found.status, found.error.code) == ("failed", "agent_failed")


async def test_response_in_a_json_form(state: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form: Any = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    async with serving(state) as gate:
        found = await gate.client.responses.create(model="caller", input='say {"n": 1}', text=form)
        assert found.output_text == '{"n": 1}'
        with pytest.raises(openai.UnprocessableEntityError, match="It said: "):
            await gate.client.responses.create(model="caller", input="say no", text=form)


async def test_streamed_response_in_a_wrong_form_is_stored_as_failed(state: Path) -> None:
    form: Any = {"format": {"type": "json_object"}}
    async with serving(state) as gate:
        stream = await gate.client.responses.create(
            model="caller", input="say no", text=form, stream=True
        )
        first = await anext(stream)
        with pytest.raises(openai.APIError, match="It said: "):
            async for _ in stream:
                pass
        found = await gate.client.responses.retrieve(first.response.id)
        assert (found.status, found.error.code) == ("failed", "invalid_output")


async def test_response_of_a_killed_gateway_has_failed(state: Path) -> None:
    (state / "token").write_text("a-token-of-the-test")
    (state / "token").chmod(0o600)
    command = [sys.executable, "-m", "accord", "gateway", "--only", "openai", "--port", "0"]
    command += ["--token-file", str(state / "token"), "--cwd", str(state / "work"), "--idle", "30"]
    command += ["--", sys.executable, str(AGENT)]
    started = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert started.stderr is not None
    try:
        url = None
        while url is None:
            line = (await started.stderr.readline()).decode()
            assert line, "it has ended"
            url = re.search(r"http://127.0.0.1:\d+/v1", line)
        async with openai.AsyncOpenAI(
            base_url=url[0], api_key="a-token-of-the-test", max_retries=0
        ) as client:
            model = (await client.models.list()).data[0].id
            begun = await client.responses.create(model=model, input="wait", background=True)
    finally:
        started.kill()
        await started.communicate()
    async with serving(state) as gate:
        found = await gate.client.responses.retrieve(begun.id)
        assert (found.status, found.error.code) == ("failed", "server_error")
        assert (await gate.client.responses.cancel(begun.id)).status == "failed"
        # Another gateway of this user does not end what runs in this one.
        running = await gate.client.responses.create(model="caller", input="wait", background=True)
        async with serving(state) as other:
            shown = await other.client.responses.retrieve(running.id)
            assert shown.status == "in_progress"
            await gate.client.responses.cancel(running.id)
    assert not [*gate.sessions.folder.glob("*.lock")]


# Faults.


async def test_malformed_and_oversized_requests_fail_alone_in_the_form_of_openai(
    state: Path,
) -> None:
    async with serving(state) as gate, httpx2.AsyncClient(base_url=gate.url) as http:
        login = {"Authorization": f"Bearer {TOKEN}"}

        async def failed(
            method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
        ) -> Any:
            given = login | (headers or {})
            response = await http.request(method, path, content=body, headers=given)
            error = response.json()["error"]
            return response.status_code, error["type"], error["message"]

        chat = "/v1/chat/completions"
        assert (await failed("POST", chat, b"{"))[:2] == (400, "invalid_request_error")
        assert (await failed("POST", chat, b"\xff"))[:2] == (400, "invalid_request_error")
        assert (await failed("POST", chat, b'{"model": "caller", "messages": []}'))[0] == 400
        assert (await failed("GET", chat))[:2] == (405, "invalid_request_error")
        assert (await failed("POST", "/v1/embeddings"))[:2] == (404, "not_found_error")
        large = b" " * (16 * 1024 * 1024 + 1)
        assert (await failed("POST", chat, large))[0] == 413
        for header, status in (("Host", 421), ("Origin", 403)):
            evil = {header: "https://evil.example" if header == "Origin" else "evil.example"}
            assert (await failed("GET", "/v1/models", headers=evil))[0] == status
        assert (await http.get("/health")).status_code == 200
        assert await gate.text("say on") == "on"


async def test_busy_session_queues_requests_and_then_refuses(state: Path) -> None:
    async with serving(state, waiting=1) as gate:
        stream = await gate.ask("wait", stream=True)
        session = stream.response.headers["acp-session-id"]
        here = {"extra_headers": {"Acp-Session-Id": session}}
        second = asyncio.create_task(gate.text("say second", **here))
        async with asyncio.timeout(20):
            while gate.sessions.running_turns < 2:
                await asyncio.sleep(0)
        with pytest.raises(openai.RateLimitError) as refused:
            await gate.ask("say third", **here)
        assert refused.value.code == "session_busy"
        assert refused.value.response.headers["retry-after"] == "1"
        await stream.close()
        assert await second == "second"


async def test_callers_that_leave_at_any_point_leave_nothing_behind(state: Path) -> None:
    async with serving(state) as gate:
        session = (await gate.ask("say one")).acp["session_id"]
        here = {"extra_headers": {"Acp-Session-Id": session}}
        leaving: list[asyncio.Task[Any]] = []
        for pause in (0.0, 0.001, 0.003, 0.01, 0.03):
            task = asyncio.create_task(gate.ask("think a\nsay b\nwait", **here))
            leaving.append(task)
            await asyncio.wait([task], timeout=pause)
            task.cancel()
        await asyncio.wait(leaving)
        asked = await gate.ask("call lookup {}", tools=[LOOKUP], **here)
        assert asked.choices[0].finish_reason == "tool_calls"
        # The caller forgets the call, and goes on.
        assert gate.sessions.running_turns == 1
        [waiting] = gate.sessions.waiting.values()
        waiting.cancel()
        assert await gate.text("say on", **here) == "on"
        assert gate.sessions.running_turns == 0
        assert not gate.sessions.waiting


async def test_slow_caller_stops_the_agent_and_not_the_others(state: Path) -> None:
    async with serving(state) as gate:
        stream = await gate.ask("many 20000", stream=True)
        chunks = aiter(stream)
        await anext(chunks)  # and reads no more for now
        assert await gate.text("say other") == "other"
        count = sum([1 async for chunk in chunks if chunk.choices[0].delta.content])
        assert count == 20_000


async def test_turns_end_while_the_gateway_drains(state: Path) -> None:
    async with serving(state, drain_s=10) as gate:
        stream = await gate.ask("say begun\nmany 3000", stream=True)
        chunks = aiter(stream)
        await anext(chunks)
        gate.stop.request()
        count = sum([1 async for chunk in chunks if chunk.choices[0].delta.content])
        assert count == 3_001


# Who may do what.


async def test_session_follows_the_rules_of_the_gateway_that_runs_it(state: Path) -> None:
    async with serving(state, approvals=Approvals(yes=True)) as gate:
        first = await gate.ask("edit")
        assert first.choices[0].message.content == "allowed"
        here: Any = {"extra_headers": {"Acp-Session-Id": first.acp["session_id"]}}
        # Its owner lives on, with the rules that it was started with.
        async with serving(state) as strict:
            assert await strict.text("edit", **here) == "rejected"
        async with asyncio.timeout(20):
            while has_owner(first.acp["session_id"]):
                await asyncio.sleep(0)
    async with serving(state, approvals=Approvals(deny=("edit",))) as strict:
        assert await strict.text("edit", **here) == "rejected"
        record = Store().read(first.acp["session_id"])
        assert record.approvals == Approvals(deny=("edit",))
    (state / "other").mkdir()
    elsewhere: list[dict[str, Any]] = [{"cwd": state / "other"}, {"scratch": True}]
    for settings in elsewhere:
        async with serving(state, **settings) as other:
            with pytest.raises(openai.PermissionDeniedError, match="is not allowed here"):
                await other.ask("edit", **here)
    async with serving(state, cwd=state / "other", roots=(state,)) as other:
        assert await other.text("say here", **here) == "here"


async def test_call_is_answered_by_its_own_principal_only(state: Path) -> None:
    def log_in(request: RemoteRequest) -> Principal:
        return Principal(request.headers["authorization"][0])

    async with serving(state, access=Access(authenticate=log_in)) as gate:
        asked = await gate.ask("call lookup {}", tools=[LOOKUP])
        [call] = asked.choices[0].message.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "<a>"}
        output: Any = [{"type": "function_call_output", "call_id": call.id, "output": "<a>"}]
        other = openai.AsyncOpenAI(base_url=f"{gate.url}/v1", api_key="another", max_retries=0)
        async with other:
            with pytest.raises(openai.ConflictError, match="is not open"):
                await other.chat.completions.create(model="caller", messages=[result])
            with pytest.raises(openai.ConflictError, match="is not open"):
                await other.responses.create(model="caller", input=output)
        # Each of two turns gets the result of its own call.
        again = await gate.ask("call lookup {}", tools=[LOOKUP])
        [second] = again.choices[0].message.tool_calls
        first, _ = gate.sessions.waiting.values()
        more = {"role": "tool", "tool_call_id": second.id, "content": "<b>"}
        answer = await gate.ask(result, more, tools=[LOOKUP])
        assert answer.choices[0].message.content == "<b>"
        async with asyncio.timeout(10):
            await first.wait_ended()
        assert first.stop_reason == "end_turn"


async def test_session_stays_with_its_principal(state: Path) -> None:
    async with serving(state) as gate:
        one, other = Principal("one"), Principal("other")
        conversation = await gate.sessions.new("caller", one)
        gate.sessions.remember(conversation, "caller", other, b"head")
        assert gate.sessions.find(conversation.id, one) is conversation
        with pytest.raises(GatewayError, match="Unknown session"):
            gate.sessions.find(conversation.id, other)


async def test_turns_that_wait_do_not_begin_when_the_gateway_ends(state: Path) -> None:
    async with serving(state, turns=1) as gate:
        stream = await gate.ask("wait", stream=True)
        session = stream.response.headers["acp-session-id"]
        token = Principal("test", all_sessions=True)
        conversation = gate.sessions.find(session, token)
        elsewhere = await gate.sessions.new("caller", token)
        waiting = [conversation.start(["wait"]), elsewhere.start(["wait"])]
        gate.stop.request()
        async with asyncio.timeout(20):
            await asyncio.gather(*(one.wait_ended() for one in waiting))
        assert not conversation.requests
        assert not elsewhere.requests
        with pytest.raises(GatewayError, match="The gateway ends"):
            conversation.start(["say late"])


# Bounds.


async def test_caller_that_is_asked_does_not_hold_back_other_turns(state: Path) -> None:
    async with serving(state, turns=1) as gate:
        asked = await gate.ask("call lookup {}", tools=[LOOKUP])
        assert await gate.text("say other") == "other"
        stream = await gate.ask("wait", stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content == "waiting":
                break
        [call] = asked.choices[0].message.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "<a>"}
        resumed = asyncio.create_task(gate.text(result, tools=[LOOKUP]))
        [exchange] = gate.sessions.waiting.values()
        async with asyncio.timeout(20):
            while exchange.is_open(call.id):
                await asyncio.sleep(0)
        assert not exchange.has_ended  # the other turn has the only slot
        await stream.close()
        assert await resumed == "<a>"
        assert await gate.text("say free") == "free"


async def test_requests_of_all_sessions_are_bounded(state: Path) -> None:
    async with serving(state, turns=1, waiting=0) as gate:
        streams = [asyncio.create_task(gate.ask("wait", stream=True)) for _ in range(4)]
        async with asyncio.timeout(20):
            while gate.sessions.running_turns < 4:
                await asyncio.sleep(0)
        count = len([*Store()])
        with pytest.raises(openai.RateLimitError) as refused:
            await gate.ask("say more")
        assert refused.value.code == "gateway_busy"
        assert refused.value.response.headers["retry-after"] == "1"
        assert len([*Store()]) == count, "a refused request leaves no session"
        for stream in streams:
            stream.cancel()
        await asyncio.wait(streams)


async def test_agents_that_are_not_used_end_for_others(state: Path) -> None:
    async with serving(state, agents=2) as gate:
        first = await gate.ask("pid")
        session = first.acp["session_id"]
        for _ in range(3):
            await gate.ask("say one")
        async with asyncio.timeout(20):
            while sum(has_owner(record.id) for record in Store()) > 2:
                await asyncio.sleep(0)
        assert not has_owner(session)
        later = await gate.ask("pid", first.choices[0].message.content, "pid")
        assert later.acp["session_id"] == session
        assert later.choices[0].message.content != first.choices[0].message.content


# The tools of callers.


async def test_other_tools_are_seen_and_do_not_change_the_running_turn(state: Path) -> None:
    other = {"type": "function", "function": {**LOOKUP["function"], "name": "other"}}
    async with serving(state) as gate:
        asked = await gate.ask("tools\ncall lookup {}\nsay .\ncall lookup {}", tools=[LOOKUP])
        here: Any = {"extra_headers": {"Acp-Session-Id": asked.acp["session_id"]}}
        token = Principal("test", all_sessions=True)
        conversation = gate.sessions.find(asked.acp["session_id"], token)
        queued = conversation.start(["tools"], tools=[CallerTool("other")])
        text = asked.choices[0].message.content
        for _ in range(2):
            [call] = asked.choices[0].message.tool_calls
            result = {"role": "tool", "tool_call_id": call.id, "content": "<a>"}
            asked = await gate.ask(result, tools=[LOOKUP])
            text += asked.choices[0].message.content or ""
        assert text == "lookup<a>.<a>"
        said = [
            item.text async for found in queued.happenings() for item in found if type(item) is Text
        ]
        assert "".join(said) == "other"
        assert await gate.text("tools", tools=[other, LOOKUP], **here) == "lookup other"
        pid = await gate.text("pid", **here)
        assert await gate.text("pid", tools=[other, LOOKUP], **here) == pid, "it knows them"


async def test_agent_without_stdio_servers_fails_requests_with_tools_alone(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLER_MCP", "")
    async with serving(state) as gate:
        first = await gate.ask("say one")
        here: Any = {"extra_headers": {"Acp-Session-Id": first.acp["session_id"]}}
        with pytest.raises(openai.APIStatusError, match="stdio"):
            await gate.ask("say two", tools=[LOOKUP], **here)
        assert await gate.text("say three", **here) == "three"


async def test_message_without_the_results_cancels_the_turn_that_waits_for_them(
    state: Path,
) -> None:
    async with serving(state) as gate:
        asked = await gate.ask("call lookup {}", tools=[LOOKUP])
        session = asked.acp["session_id"]
        assert await gate.text("say on", extra_headers={"Acp-Session-Id": session}) == "on"
        assert not gate.sessions.waiting
        tools: Any = [{"type": "function", **LOOKUP["function"]}]
        first = await gate.client.responses.create(
            model="caller", input="call lookup {}", tools=tools
        )
        more = await gate.client.responses.create(
            model="caller", input="say on", previous_response_id=first.id
        )
        assert more.output_text == "on"
