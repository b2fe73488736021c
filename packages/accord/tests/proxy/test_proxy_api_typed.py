"""`accord.v1.Proxy` and `accord.v2.Proxy`: one method for each method of a version."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accord import RequestError, v1, v2
from accord.proxy.handlers import TypedStage
from accord.roles.proxy import TypedProxy
from proxy.conversation import SESSION, conversation
from requirement import requirement

VERSIONS: dict[int, Any] = {1: v1, 2: v2}


def _proxy(version: int) -> Any:
    types = VERSIONS[version]

    class Small(types.Proxy):
        async def prompt(self, params: Any, forward: Any) -> Any:
            block = types.TextContent(text="first")
            changed = msgspec.structs.replace(params, prompt=[block, *params.prompt])
            result = await forward(changed)
            if version == 2:
                return msgspec.structs.replace(result, message_id="mine")
            return msgspec.structs.replace(result, stop_reason="refusal")

        async def close_session(self, params: Any, forward: Any) -> Any:
            return None  # an empty result

        async def set_session_config_option(self, params: Any, forward: Any) -> Any:
            raise RequestError("Not this one", code=-32001, data={"k": 1})

        async def list_sessions(self, params: Any, forward: Any) -> Any:
            raise ValueError("a secret")

        def session_update(self, params: Any) -> Any:
            update = params.update
            if not isinstance(update, types.AgentMessageChunk):
                return params
            if update.content.text == "drop":
                return None
            content = msgspec.structs.replace(update.content, text="changed")
            return msgspec.structs.replace(
                params, update=msgspec.structs.replace(update, content=content)
            )

        async def request_permission(self, params: Any, forward: Any) -> Any:
            return await forward()

        async def extension_request(self, method: str, params: Any, forward: Any) -> Any:
            if method == "_mine":
                return {"sum": params["a"] + 1}
            return await forward({**params, "added": True})

        def extension_notification(self, method: str, params: Any) -> Any:
            return None if method == "_drop" else params

    return Small()


@pytest.mark.parametrize("version", [1, 2])
@requirement("R-PROXY-05", "R-PROXY-15", "R-PROXY-20")
async def test_edits_keep_what_the_types_do_not_know(version: int) -> None:
    async with conversation(TypedStage(_proxy(version)), version=version) as talk:
        asked_id = talk.prompt()
        asked = await talk.agent_gets()
        assert asked["params"]["y"] == 2
        assert asked["params"]["prompt"] == [
            {"type": "text", "text": "first"},
            {"type": "text", "text": "hello", "x": 1.0},
        ]
        talk.text("drop")
        talk.text("x", q=1.0)
        key, value = ("stopReason", "end_turn") if version == 1 else ("messageId", "u")
        talk.agent_answers(asked, {key: value, "z": 3})
        update = (await talk.client_gets())["params"]["update"]
        assert update["content"]["text"] == "changed"
        assert update["q"] == 1.0
        changed = {"stopReason": "refusal"} if version == 1 else {"messageId": "mine"}
        answer = await talk.client_gets()
        assert (answer["id"], answer["result"]) == (asked_id, {**changed, "z": 3})
        # What only passes `forward` keeps its bytes.
        option = '{"optionId":"o","name":"x","kind":"allow_once", "b":1.0}'
        params = (
            f'{{"sessionId":"s","title":"t" ,"toolCall":{{"toolCallId":"c"}},"options":[{option}]}}'
        )
        frame = '{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":%s}'
        talk.ends.agent.write([(frame % (7, params)).encode()])
        await talk.client_gets()
        assert bytes(talk.ends.at_client.frames[-1]) == (frame % (0, params)).encode()


@pytest.mark.parametrize("version", [1, 2])
async def test_methods_answer_and_fail(version: int, caplog: pytest.LogCaptureFixture) -> None:
    async with conversation(TypedStage(_proxy(version)), version=version) as talk:
        talk.ask_agent("session/close", {"sessionId": SESSION})
        assert (await talk.client_gets())["result"] == {}
        params = {"sessionId": SESSION, "configId": "c", "value": "v", "type": "id"}
        talk.ask_agent("session/set_config_option", params)
        assert (await talk.client_gets())["error"] == {
            "code": -32001,
            "message": "Not this one",
            "data": {"k": 1},
        }
        talk.ask_agent("session/list", {})
        message = (await talk.client_gets())["error"]["message"]
        assert message == "The proxy failed: Small.list_sessions raised an exception"
        assert "a secret" in caplog.text
        talk.ask_agent("_mine", {"a": 1})
        assert (await talk.client_gets())["result"] == {"sum": 2}
        talk.ask_agent("_other", {"a": 1})
        asked = await talk.agent_gets()
        assert asked["params"] == {"a": 1, "added": True}
        talk.agent_answers(asked, [1.0])
        assert (await talk.client_gets())["result"] == [1.0]
        talk.tell_agent("_drop", {})
        talk.tell_agent("_keep", {})
        assert (await talk.agent_gets())["method"] == "_keep"


async def test_invalid_params_pass_unchanged_to_the_agent() -> None:
    async with conversation(TypedStage(_proxy(1))) as talk:
        talk.ask_agent("session/prompt", {"sessionId": 1})
        asked = await talk.agent_gets()
        assert asked["params"] == {"sessionId": 1}
        talk.agent_fails(asked, {"code": -32602, "message": "No"})
        assert (await talk.client_gets())["error"] == {"code": -32602, "message": "No"}


@pytest.mark.parametrize("version", [1, 2])
async def test_agent_cannot_evade_the_handler_of_a_request(version: int) -> None:
    async with conversation(TypedStage(_proxy(version)), version=version) as talk:
        talk.ask_client("session/request_permission", {"sessionId": 1})
        error = (await talk.agent_gets())["error"]
        assert error["code"] == -32602
        assert error["data"]["path"] == "$.sessionId"
        talk.ask_client("session/update", {"sessionId": SESSION, "update": {}})
        assert (await talk.agent_gets())["error"]["code"] == -32601
        talk.tell_client("session/request_permission", {"sessionId": SESSION})  # without an id
        update = {"sessionUpdate": "of_tomorrow"}
        talk.update(update)
        assert (await talk.client_gets())["params"]["update"] == update


@pytest.mark.parametrize("version", [1, 2])
@requirement("R-PROXY-14")
async def test_chain_of_another_version_is_refused(version: int) -> None:
    stage = TypedStage(_proxy(3 - version))
    async with conversation(stage, version=version, initialize=False) as talk:
        talk.ask_agent("initialize", {"protocolVersion": version})
        error = (await talk.client_gets())["error"]
        assert error["code"] == -32600
        assert error["data"] == {"supported": [3 - version], "requested": version}
        assert not talk.ends.at_agent.frames


class _Lies(v1.Proxy):
    async def initialize(self, params: Any, forward: Any) -> Any:
        return await forward(msgspec.structs.replace(params, protocol_version=2))


class _Names(v1.Proxy):
    async def initialize(self, params: Any, forward: Any) -> Any:
        result = await forward(
            msgspec.structs.replace(params, client_info=v1.Implementation(name="p", version="1"))
        )
        return msgspec.structs.replace(result, auth_methods=[])


@requirement("R-PROXY-06", "R-PROXY-14")
async def test_initialize_is_edited_but_not_its_version() -> None:
    async with conversation(TypedStage(_Names()), initialize=False) as talk:
        params, response = await talk.initialize()
        assert params["clientInfo"] == {"name": "p", "version": "1"}
        assert response["result"]["x"] == 1.0
    async with conversation(TypedStage(_Lies()), initialize=False) as talk:
        talk.ask_agent("initialize", {"protocolVersion": 1})
        assert (await talk.client_gets())["error"]["code"] == -32603
        assert not talk.ends.at_agent.frames


def test_every_method_of_a_version_can_be_overridden() -> None:
    for types in VERSIONS.values():
        own = {name for name in vars(types.Proxy) if not name.startswith("_")} - {"spec"}
        calls = {m.call for m in types.METHODS if m.to in ("agent", "client")}
        assert own == calls
        assert issubclass(types.Proxy, TypedProxy)
