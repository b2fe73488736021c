"""What `Proxy` overrides besides prompts and updates, in both versions."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

import accord
from accord import AvailableCommand, McpServerHttp, OpeningSession, PermissionRequest, Proxy
from accord.client.permissions import allow, deny
from accord.client.permissions import chain as policies
from accord.proxy.hooks import FileRead, FileWrite, TerminalStart
from proxy.conversation import SESSION, conversation
from quirk import quirk
from requirement import requirement

both_versions = pytest.mark.parametrize("version", [1, 2])
OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


def _permission(call: Any) -> dict[str, Any]:
    return {
        "sessionId": SESSION,
        "title": "May I?",
        "toolCall": call,
        "subject": {"type": "tool_call", "toolCall": call},
        "options": OPTIONS,
        "x": 1.0,
    }


class Policy(Proxy):
    rules = staticmethod(policies(deny("execute:rm *"), allow("read")))

    async def decide_permission(self, request: PermissionRequest, forward: Any) -> Any:
        if request.title == "break":
            raise ValueError("x")
        return await self.rules(request) or await forward()


@both_versions
@requirement("R-PROXY-05")
async def test_permission_is_decided_with_all_that_is_known_of_the_call(version: int) -> None:
    async with conversation(Policy().stage(), version=version) as talk:
        new = "tool_call" if version == 1 else "tool_call_update"
        call: dict[str, Any] = {
            "toolCallId": "t",
            "title": "Remove",
            "kind": "execute",
            "rawInput": {"command": "rm -rf x"},
        }
        talk.update({"sessionUpdate": new, **call})
        assert (await talk.client_gets())["params"]["update"]["title"] == "Remove"
        asked = talk.ask_client("session/request_permission", _permission({"toolCallId": "t"}))
        answer = await talk.agent_gets()  # by the kind and the input of the earlier update
        assert answer["id"] == asked
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "n"}
        read = {"toolCallId": "r", "title": "Read", "kind": "read"}
        talk.ask_client("session/request_permission", _permission(read))
        assert (await talk.agent_gets())["result"]["outcome"]["optionId"] == "y"
        other = {"toolCallId": "o", "title": "Think", "kind": "think"}
        talk.ask_client("session/request_permission", _permission(other))
        passed = await talk.client_gets()
        assert passed["params"]["x"] == 1.0
        talk.client_answers(passed, {"outcome": {"outcome": "selected", "optionId": "y"}, "q": 1})
        assert (await talk.agent_gets())["result"]["q"] == 1


@both_versions
async def test_escaped_update_of_a_call_is_known_to_the_policy(version: int) -> None:
    async with conversation(Policy().stage(), version=version) as talk:
        new = "tool_call" if version == 1 else "tool_call_update"
        frame = (
            '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
            f'{{"sessionUpdate":"\\u0074{new[1:]}","toolCallId":"t","title":"Remove",'
            '"kind":"execute","rawInput":{"command":"rm -rf x"}}}}'
        )
        talk.ends.agent.write([frame.encode()])
        await talk.client_gets()
        talk.ask_client("session/request_permission", _permission({"toolCallId": "t"}))
        assert (await talk.agent_gets())["result"]["outcome"]["optionId"] == "n"


@both_versions
async def test_permission_is_rejected_if_the_proxy_fails(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with conversation(Policy().stage(), version=version) as talk:
        broken = _permission({"toolCallId": "t", "title": "break"}) | {"title": "break"}
        talk.ask_client("session/request_permission", broken)
        assert (await talk.agent_gets())["result"]["outcome"]["optionId"] == "n"
        assert any(record.levelno == logging.ERROR for record in caplog.records)


# Sessions.


class Sessions(Proxy):
    commands = (AvailableCommand("mine", "From the proxy", hint="what"),)

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def open_session(self, session: OpeningSession, forward: Any) -> None:
        self.seen.append((session.action, session.session_id, session.cwd))
        if session.cwd == "/no":
            raise accord.InvalidParams("Not there")
        if session.cwd == "/lazy":
            return
        session.mcp_servers.append(McpServerHttp("added", "https://example.org"))
        session.cwd = "/other"
        self.seen.append(await forward())

    async def close_session(self, session_id: str, forward: Any) -> None:
        self.seen.append(session_id)
        await forward()


@both_versions
async def test_sessions_are_opened_with_what_the_proxy_adds(version: int) -> None:
    proxy = Sessions()
    async with conversation(proxy.stage(), version=version) as talk:
        server = {"type": "http", "name": "own", "url": "https://x", "headers": [], "x": 1.0}
        talk.ask_agent("session/new", {"cwd": "/w", "mcpServers": [server], "y": 1.0})
        asked = await talk.agent_gets()
        assert asked["params"]["cwd"] == "/other"
        assert asked["params"]["y"] == 1.0
        assert asked["params"]["mcpServers"][0] == server
        assert asked["params"]["mcpServers"][1]["name"] == "added"
        own = {"type": "command", "name": "own", "description": "Of the agent", "x": 1}
        talk.agent_answers(asked, {"sessionId": SESSION, "availableCommands": [own], "z": 1})
        answer = (await talk.client_gets())["result"]
        assert answer["z"] == 1
        if version == 1:
            update = (await talk.client_gets())["params"]["update"]
            assert [c["name"] for c in update["availableCommands"]] == ["mine"]
        else:
            assert answer["availableCommands"][0] == own
            assert [c["name"] for c in answer["availableCommands"]] == ["own", "mine"]
        talk.update({"sessionUpdate": "available_commands_update", "availableCommands": [own]})
        update = (await talk.client_gets())["params"]["update"]
        assert update["availableCommands"][0] == own
        assert update["availableCommands"][1]["name"] == "mine"
        assert update["availableCommands"][1]["input"]["hint"] == "what"
        talk.ask_agent("session/resume", {"sessionId": SESSION, "cwd": "/no", "mcpServers": []})
        assert (await talk.client_gets())["error"]["message"] == "Not there"
        talk.ask_agent("session/resume", {"sessionId": SESSION, "cwd": "/lazy", "mcpServers": []})
        assert "has to call forward()" in (await talk.client_gets())["error"]["message"]
        talk.ask_agent("session/close", {"sessionId": SESSION})
        talk.agent_answers(await talk.agent_gets(), {"x": 1})
        assert (await talk.client_gets())["result"] == {"x": 1}
        assert proxy.seen[:2] == [("new", None, "/w"), SESSION]
        assert proxy.seen[-1] == SESSION


# Files, terminals and elicitation.


class Files(Proxy):
    async def read_file(self, request: FileRead, forward: Any) -> str:
        if request.path == "/virtual":
            return "from the proxy"
        text = await forward(msgspec.structs.replace(request, path="/real"))
        return text if request.line == 1 else text.upper()

    async def write_file(self, request: FileWrite, forward: Any) -> None:
        if request.path != "/ignored":
            await forward(msgspec.structs.replace(request, text=request.text + "\n"))

    async def start_terminal(self, request: TerminalStart, forward: Any) -> str:
        return await forward(msgspec.structs.replace(request, env={**request.env, "CI": "1"}))

    async def elicit_form(self, form: Any, forward: Any) -> Any:
        return {"name": "x"} if form.message == "name" else await forward()

    async def elicit_url(self, request: Any, forward: Any) -> bool:
        return False


async def test_files_and_terminals_are_changed_and_answered() -> None:
    async with conversation(Files().stage()) as talk:
        talk.ask_client("fs/read_text_file", {"sessionId": SESSION, "path": "/virtual"})
        assert (await talk.agent_gets())["result"] == {"content": "from the proxy"}
        for line, text in ((1, "a"), (2, "A")):
            params = {"sessionId": SESSION, "path": "/x", "line": line, "u": 1.0}
            talk.ask_client("fs/read_text_file", params)
            asked = await talk.client_gets()
            assert asked["params"] == {**params, "path": "/real"}
            talk.client_answers(asked, {"content": "a", "z": 1})
            assert (await talk.agent_gets())["result"] == {"content": text, "z": 1}
        params = {"sessionId": SESSION, "path": "/ignored", "content": "b"}
        talk.ask_client("fs/write_text_file", params)
        assert (await talk.agent_gets())["result"] == {}
        talk.ask_client("fs/write_text_file", {**params, "path": "/w"})
        asked = await talk.client_gets()
        assert asked["params"]["content"] == "b\n"
        talk.client_answers(asked, {})
        assert (await talk.agent_gets())["result"] == {}
        talk.ask_client("terminal/create", {"sessionId": SESSION, "command": "make", "k": 1})
        asked = await talk.client_gets()
        env = [{"name": "CI", "value": "1"}]
        assert asked["params"] == {"sessionId": SESSION, "command": "make", "k": 1, "env": env}
        talk.client_answers(asked, {"terminalId": "t", "z": 1})
        assert (await talk.agent_gets())["result"] == {"terminalId": "t", "z": 1}


@quirk("early-methods")
async def test_agent_cannot_evade_a_proxy() -> None:
    """By params that cannot be read, or by the early names of methods."""
    async with conversation(Files().stage()) as talk:
        talk.ask_client("fs/write_text_file", {"sessionId": SESSION, "path": ["/ignored"]})
        error = (await talk.agent_gets())["error"]
        assert error["code"] == -32602
        assert error["data"]["path"] == "$.path"
        talk.ask_client("fs/readTextFile", {"sessionId": SESSION, "path": "/virtual"})
        assert (await talk.agent_gets())["result"] == {"content": "from the proxy"}
        talk.ask_client("fs/readTextFile", {"sessionId": SESSION, "path": "/x", "line": 1})
        asked = await talk.client_gets()
        assert (asked["method"], asked["params"]["path"]) == ("fs/readTextFile", "/real")
        talk.client_answers(asked, {"content": "a"})
        assert (await talk.agent_gets())["result"] == {"content": "a"}


@both_versions
async def test_elicitation_is_answered_or_passes(version: int) -> None:
    async with conversation(Files().stage(), version=version) as talk:
        form = {
            "sessionId": SESSION,
            "mode": "form",
            "message": "name",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        }
        talk.ask_client("elicitation/create", form)
        assert (await talk.agent_gets())["result"] == {"action": "accept", "content": {"name": "x"}}
        talk.ask_client("elicitation/create", {**form, "message": "age"})
        talk.client_answers(await talk.client_gets(), {"action": "cancel", "z": 1})
        assert (await talk.agent_gets())["result"] == {"action": "cancel", "z": 1}
        page = {"mode": "url", "elicitationId": "e", "url": "https://x", "message": "Open"}
        talk.ask_client("elicitation/create", {"sessionId": SESSION, **page})
        assert (await talk.agent_gets())["result"] == {"action": "decline"}


class FailsToAsk(Proxy):
    async def elicit_form(self, form: Any, forward: Any) -> Any:
        raise KeyError("form")

    async def elicit_url(self, request: Any, forward: Any) -> bool:
        raise KeyError("url")


@both_versions
async def test_error_names_the_method_of_the_elicitation_that_failed(version: int) -> None:
    async with conversation(FailsToAsk().stage(), version=version) as talk:
        page = {"mode": "url", "elicitationId": "e", "url": "https://x", "message": "Open"}
        schema = {"type": "object", "properties": {}}
        form = {"mode": "form", "message": "name", "requestedSchema": schema}
        for mode, params in (("url", page), ("form", form)):
            talk.ask_client("elicitation/create", {"sessionId": SESSION, **params})
            message = (await talk.agent_gets())["error"]["message"]
            assert message == f"The proxy failed: FailsToAsk.elicit_{mode} raised an exception"


# Capabilities and extensions.


class Capabilities(Proxy):
    def client_capabilities_v1(self, offered: Any) -> Any:
        return msgspec.structs.replace(offered, terminal=False)

    def client_capabilities_v2(self, offered: Any) -> Any:
        return msgspec.structs.replace(offered, elicitation=None)

    def agent_capabilities_v1(self, offered: Any) -> Any:
        return msgspec.structs.replace(offered, load_session=False)

    def agent_capabilities_v2(self, offered: Any) -> Any:
        return msgspec.structs.replace(offered, session=None)

    async def extension_request(self, method: str, params: Any, forward: Any) -> Any:
        return 7 if method == "_mine" else await forward(params)


@both_versions
@requirement("R-PROXY-06", "R-PROXY-14")
async def test_capabilities_are_taken_away_and_the_version_stays(version: int) -> None:
    async with conversation(Capabilities().stage(), version=version, initialize=False) as talk:
        client = {"terminal": True} if version == 1 else {"elicitation": {"form": {}}}
        params, response = await talk.initialize(**client, _x=1.0)
        result = response["result"]
        assert params["protocolVersion"] == result["protocolVersion"] == version
        assert result["x"] == 1.0
        if version == 1:
            assert params["clientCapabilities"] == {"_x": 1.0}  # false is the default
            assert result["agentCapabilities"] == {"x": 2}
        else:
            assert params["capabilities"] == {"_x": 1.0}
            assert result["capabilities"] == {}
        talk.ask_client("_mine", {})
        assert (await talk.agent_gets())["result"] == 7
        talk.ask_agent("_other", {"a": 1.0})
        asked = await talk.agent_gets()
        talk.agent_fails(asked, {"code": 5, "message": "m", "data": [1.0]})
        assert (await talk.client_gets())["error"] == {"code": 5, "message": "m", "data": [1.0]}


class Inherits(Proxy):
    """Returns the capabilities that the base class returns."""

    def client_capabilities_v1(self, offered: Any) -> Any:
        return super().client_capabilities_v1(offered)

    def client_capabilities_v2(self, offered: Any) -> Any:
        return super().client_capabilities_v2(offered)

    def agent_capabilities_v1(self, offered: Any) -> Any:
        return super().agent_capabilities_v1(offered)

    def agent_capabilities_v2(self, offered: Any) -> Any:
        return super().agent_capabilities_v2(offered)


@both_versions
async def test_capabilities_of_the_base_class_are_what_was_offered(version: int) -> None:
    async with conversation(Inherits().stage(), version=version, initialize=False) as talk:
        client = {"terminal": True} if version == 1 else {"elicitation": {"form": {}}}
        params, response = await talk.initialize(**client)
        if version == 1:
            assert params["clientCapabilities"] == client
            assert response["result"]["agentCapabilities"] == {"loadSession": True, "x": 2}
        else:
            assert params["capabilities"] == client
            assert response["result"]["capabilities"] == {"session": {"x": 2}}


async def test_unknown_version_is_refused() -> None:
    async with conversation(Capabilities().stage(), initialize=False) as talk:
        talk.ask_agent("initialize", {"protocolVersion": 1})
        talk.agent_answers(await talk.agent_gets(), {"protocolVersion": 9})
        assert (await talk.client_gets())["error"]["data"] == {"supported": [1, 2], "requested": 9}


class WrongResults(Proxy):
    """Every method returns what it was made with."""

    def __init__(self, wrong: Any) -> None:
        self.wrong = wrong

    async def read_file(self, request: Any, forward: Any) -> Any:
        return self.wrong

    async def start_terminal(self, request: Any, forward: Any) -> Any:
        return self.wrong


@pytest.mark.parametrize("wrong", [None, 42])
async def test_wrong_results_of_requests_name_the_method(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with conversation(WrongResults(wrong).stage()) as talk:
        asked = {
            "fs/read_text_file": ({"path": "/a"}, "read_file"),
            "terminal/create": ({"command": "ls"}, "start_terminal"),
        }
        for method, (params, hook) in asked.items():
            talk.ask_client(method, {"sessionId": SESSION, **params})
            message = f"The proxy failed: WrongResults.{hook} raised an exception"
            assert (await talk.agent_gets())["error"]["message"] == message
            assert f"the result of WrongResults.{hook}: expected str" in caplog.text


class WrongCapabilities(Proxy):
    def __init__(self, wrong: Any) -> None:
        self.wrong = wrong

    def agent_capabilities_v1(self, offered: Any) -> Any:
        if self.wrong == "raises":
            raise ValueError("no")
        return self.wrong

    agent_capabilities_v2 = agent_capabilities_v1


@both_versions
@pytest.mark.parametrize("wrong", [None, 42, "raises"])
async def test_errors_of_capabilities_name_the_method(
    version: int, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = WrongCapabilities(wrong)
    async with conversation(proxy.stage(), version=version, initialize=False) as talk:
        _, response = await talk.initialize()
    hook = f"WrongCapabilities.agent_capabilities_v{version}"
    assert response["error"]["message"] == f"The proxy failed: {hook} raised an exception"
    expected = "ValueError: no" if wrong == "raises" else f"the result of {hook}: expected"
    assert expected in caplog.text
