"""A mistake of a beginner raises at once, and the error says what to write instead."""

# Everything here is used in a wrong way.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportUnusedCoroutine=false, reportIndexIssue=false

from __future__ import annotations

import gc
import logging
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from accord import ClientSession, ConnectedAgent, LocalProtocolError, McpServerStdio, ask, connect
from accord.client.permissions import allow, deny
from client.wire_agents import agent_by_hand, opened

GREETER = [sys.executable, str(Path(__file__).with_name("greeter.py"))]
CONNECT = "write `async with accord.connect(…) as agent:`"
PROMPT = "write `async with session.prompt(…) as turn:`, and in it `await turn.wait()`"


@pytest_asyncio.fixture(params=[1, 2], ids=["v1", "v2"])
async def both(request: Any) -> AsyncGenerator[tuple[ConnectedAgent, ClientSession], None]:
    async with agent_by_hand(request.param) as (agent, raw):
        yield agent, await opened(agent, raw)


# Without `async with`, or with another word.


def _with(value: Any) -> None:
    with value:
        pass


def _for(value: Any) -> None:
    for _ in value:
        pass


async def _async_for(value: Any) -> None:
    async for _ in value:
        pass


async def _await(value: Any) -> None:
    await value


async def _async_with(value: Any) -> None:
    async with value:
        pass


def _use(value: Any) -> None:
    value.new_session()


@pytest.mark.parametrize("use", [_with, _for, _async_for, _await, _use])
async def test_connection_that_is_not_entered_names_the_cure(use: Any) -> None:
    with pytest.raises((TypeError, AttributeError)) as caught:
        await _awaited(use(connect(GREETER)))
    assert CONNECT in str(caught.value)
    assert "_" not in str(caught.value).split("`")[0]  # no name of a class of ours


@pytest.mark.parametrize("use", [_with, _for, _async_for, _await])
async def test_turn_that_is_not_entered_names_the_cure(
    both: tuple[ConnectedAgent, ClientSession], use: Any
) -> None:
    with pytest.raises((TypeError, LocalProtocolError)) as caught:
        await _awaited(use(both[1].prompt("Hi")))
    assert PROMPT in str(caught.value)
    with pytest.raises(LocalProtocolError) as caught:
        await both[1].prompt("Hi").wait()
    assert PROMPT in str(caught.value)


@pytest.mark.parametrize("use", [_with, _for, _async_for, _await])
async def test_events_that_are_not_entered_name_the_cure(
    both: tuple[ConnectedAgent, ClientSession], use: Any
) -> None:
    with pytest.raises(TypeError, match=r"`async with session\.events\(\) as events:`"):
        await _awaited(use(both[1].events()))


@pytest.mark.parametrize("use", [_for, _await])
async def test_list_of_sessions_names_async_for(
    both: tuple[ConnectedAgent, ClientSession], use: Any
) -> None:
    with pytest.raises(TypeError, match=r"`async for info in agent\.list_sessions"):
        await _awaited(use(both[0].list_sessions()))


# Without `await`.


@pytest.mark.parametrize("use", [_async_with, _async_for, lambda call: call.prompt("Hi"), bool])
async def test_session_that_is_not_awaited_names_the_cure(
    both: tuple[ConnectedAgent, ClientSession], use: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises((TypeError, AttributeError), match=r"write `await agent\.new_session"):
        await _awaited(use(both[0].new_session()))


async def test_call_that_is_dropped_is_named_in_the_log(
    both: tuple[ConnectedAgent, ClientSession], caplog: pytest.LogCaptureFixture
) -> None:
    both[1].set_mode("code")
    gc.collect(0)
    (record,) = caplog.records
    assert record.name == "accord.client"
    assert "write `await session.set_mode(…)`" in record.getMessage()


async def _awaited(value: Any) -> None:
    if isinstance(value, Awaitable):
        await value


# Arguments.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"files": True}, 'files=…): expected "ro", "rw", None'),
        ({"files": "read"}, "got str: 'read'"),
        ({"env": ["A=b"]}, 'env=…): expected a dict, such as {"NAME": "value"}'),
        ({"env": {"A": b"secret"}}, "got bytes as the value of 'A'"),
        ({"versions": 1}, "a list of versions, such as (1,)"),
        ({"observers": print}, "observers=…): expected a list of functions"),
        ({"on_stderr": "log.txt"}, "on_stderr=…): expected a function, got str: 'log.txt'"),
        ({"on_elicit_form": True}, "on_elicit_form=…): expected a function"),
        ({"reconnect": "yes"}, "reconnect=…): expected bool or Reconnect"),
        ({"limits": {}}, "limits=…): expected Limits or None"),
        ({"client_info": "me"}, "client_info=…): expected Implementation or None"),
        ({"initialize_timeout_s": "3"}, "initialize_timeout_s=…): expected int or float"),
        ({"timeout_s": "3"}, "timeout_s=…): expected int, float or None"),
        ({"timeout": 3}, "unexpected keyword argument 'timeout'; did you mean 'timeout_s'?"),
        ({"permission": ()}, "argument 'permission'; did you mean 'permissions'?"),
        ({"versionz": (1,)}, "'versionz'; did you mean 'versions'?"),
        ({"promt": 3}, "'promt'; did you mean 'prompt'?"),
        ({"comand": "x"}, "'comand'; did you mean 'command'?"),
        ({"permissions": allow}, '`allow` makes a policy: write allow("*")'),
        ({"permissions": [deny]}, '`deny` makes a policy: write deny("*")'),
    ],
)
def test_option_of_a_wrong_type_raises_before_the_agent_starts(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        ask("no-such-agent", "Hi", **options)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cwd": None}, "cwd=…: expected str or PathLike, got None"),
        # Its characters would be directories, the root among them.
        ({"additional_directories": "/tmp"}, "additional_directories=…: expected a list of str"),
        ({"additional_directories": Path("/tmp")}, "expected a list of str"),
        ({"mcp_servers": "server"}, "mcp_servers=…: expected a list of MCP servers"),
        ({"mcp_servers": [{"command": "x"}]}, 'such as [McpServerStdio("name",'),
        ({"mcp_servers": {"command": "x"}}, "expected a list of MCP servers"),
        ({"mcp_servers": McpServerStdio("a", "/b")}, "expected a list of MCP servers"),
        ({"system_prompt": ["x"]}, "system_prompt=…: expected str, SystemPrompt or None"),
        ({"meta": "x"}, "meta=…: expected dict or None"),
        ({"tools": "x"}, "tools=…: expected a list of functions"),
    ],
)
async def test_argument_of_a_session_has_its_type(
    both: tuple[ConnectedAgent, ClientSession], options: dict[str, Any], message: str
) -> None:
    agent = both[0]
    for open_session in (agent.new_session, lambda **given: agent.load_session("s", **given)):
        call: Callable[..., Any] = open_session
        with pytest.raises(TypeError) as caught:
            await call(**options)
        assert message in str(caught.value)


async def test_unknown_argument_suggests_the_nearest_one(
    both: tuple[ConnectedAgent, ClientSession],
) -> None:
    agent: Any = both[0]
    session: Any = both[1]
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: connect("agent", permission=()), "'permission'; did you mean 'permissions'?"),
        (lambda: connect("agent", unknown=1), "connect() got an unexpected keyword argument"),
        (lambda: agent.new_session(pwd="/"), "'pwd'; did you mean 'cwd'?"),
        (lambda: agent.list_sessions(cwdd="/"), "'cwdd'; did you mean 'cwd'?"),
        (lambda: session.set_option("a", val="b"), "'val'; did you mean 'value'?"),
    ]
    for call, message in calls:
        with pytest.raises(TypeError, match=re.escape(message)) as caught:
            call()
        assert caught.value.__suppress_context__, "one traceback is enough"
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'mode'$"):
        session.set_mode()


@pytest.mark.parametrize("prompt", [["Hi"], None, b"Hi", {"type": "text", "text": "Hi"}])
async def test_prompt_of_a_wrong_type_says_what_can_be_in_it(
    both: tuple[ConnectedAgent, ClientSession], prompt: Any
) -> None:
    with pytest.raises(TypeError, match="expected str, ImageContent, AudioContent"):
        both[1].prompt(prompt)


async def test_relative_directory_must_exist(
    both: tuple[ConnectedAgent, ClientSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotADirectoryError, match="nosuchfolder does not exist"):
        await both[0].new_session("nosuchfolder")
    with pytest.raises(NotADirectoryError, match="file is a file"):
        await both[0].new_session("file")


def test_absolute_directory_that_does_not_exist_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It can be one of a container that the command starts."""
    missing = tmp_path / "missing"
    assert ask(GREETER, "Hi", cwd=missing).text == "Hello! You wrote: Hi"
    (record,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert record.getMessage().endswith(f"does not exist on this machine: {missing}")


def test_python_file_that_is_not_executable_names_the_interpreter(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.touch(mode=0o644)
    with pytest.raises(Exception, match=r"is not executable; start it with Python: .*agent\.py"):
        ask(str(program), "Hi")


def test_time_out_of_ask_says_what_did_not_end() -> None:
    with pytest.raises(TimeoutError, match=r"The turn did not end within 0\.5 s"):
        ask(GREETER, "wait", timeout_s=0.5)
