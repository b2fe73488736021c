"""`accord run`: what it serves, what it refuses with which words, and where sessions are kept.

Most is checked in this process by `load`, which the command calls; one program shows the rest.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import Agent
from accord.transports.process import process
from accord_bridges import BridgedAgent, UnknownKind, as_agent, command
from accord_bridges.command import RunError, load, load_stored, store_path

APP = """
from accord import Agent, Turn

print("printed while it is imported")


async def hello(prompt: str, session: Turn):
    print("printed in a turn")
    yield f"Hello {prompt}"


def make():
    return hello


def broken():
    raise RuntimeError("the database is away")


def needs(name):
    return hello


def with_tools(tools):
    return hello


class Own(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say("own")


def own_with_model(model):
    return Own()


class Holder:
    agent = Own()


number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A folder with programs, which is the working directory; imports are forgotten."""
    (tmp_path / "app_of_test.py").write_text(APP)
    (tmp_path / "bad_of_test.py").write_text("import sys\n\nimport no_such_package_at_all\n")
    (tmp_path / "typo_of_test.py").write_text("value = (\n")
    (tmp_path / "exits_of_test.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_STATE", str(tmp_path / "state"))
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    for name in [name for name in sys.modules if name.endswith("_of_test")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "name",
    ["app_of_test:hello", "app_of_test.py:hello", "app_of_test:make", "app_of_test:Own",
     "app_of_test:Holder.agent"],
)  # fmt: skip
def test_object_becomes_an_agent(folder: Path, name: str) -> None:
    assert isinstance(load(name), Agent)


REFUSED = [
    ("app_of_test:helo", "app_of_test has no 'helo'; did you mean app_of_test:hello?"),
    ("app_of_test", "app_of_test has no agent of a known framework; name the object"),
    ("nowhere_of_test:agent", "no module nowhere_of_test in "),
    ("nowhere_of_test.py:agent", "nowhere_of_test.py: no such file (in "),
    (":agent", "expected MODULE:OBJECT, FILE.py:OBJECT, or a URL, got ':agent'"),
    ("a-b:agent", "expected MODULE:OBJECT, FILE.py:OBJECT, or a URL, got 'a-b'"),
    ("bad_of_test:agent", "bad_of_test.py, line 3: import no_such_package_at_all\nModuleNotFound"),
    ("typo_of_test:agent", "typo_of_test.py, line 1: value = (\nSyntaxError: '(' was never closed"),
    ("exits_of_test:agent", "exits_of_test cannot be imported: it has exited with 3"),
    ("app_of_test:broken", 'line 17: raise RuntimeError("the database is away")\nRuntimeError'),
    ("app_of_test:broken", "while broken() made the agent"),
    ("app_of_test:needs", "needs is a function that needs arguments (name)"),
    ("app_of_test:with_tools", "with_tools is a function that needs arguments (tools)"),
    ("app_of_test:own_with_model", "own_with_model is a function that needs arguments (model)"),
    ("app_of_test:number", "an object of the class builtins.int cannot be an agent"),
    ("ftp://host/v1", "expected an object of a framework, or the URL of an OpenAI-compatible API"),
    ("http://host/agent", "http://…/v1#MODEL"),
]


@pytest.mark.parametrize(("name", "why"), REFUSED)
def test_what_cannot_be_served_is_explained(folder: Path, name: str, why: str) -> None:
    with pytest.raises(RunError) as refused:
        load(name)
    assert why in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_module_is_found_in_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert isinstance(load("app_of_test:hello", folder=folder), BridgedAgent)


def test_objects_have_a_file_of_sessions_each(folder: Path) -> None:
    paths = {
        store_path(name) for name in ("a:x", "a:y", "b.py:x", "http://h/v1#m", "http://h/v1#n")
    }
    paths.add(store_path("a:x", folder / "other"))
    assert len(paths) == 6
    assert {path.parent for path in paths} == {folder / "state" / "run"}
    stored = load_stored("app_of_test:hello")
    assert isinstance(stored.store, accord.SqliteStore)


def test_kinds_and_the_nearest_one_are_named() -> None:
    class Agents:
        pass

    Agents.__module__ = "agents"
    with pytest.raises(UnknownKind) as refused:
        as_agent(Agents())
    said = str(refused.value)
    assert "The nearest: openai-agents, an object of the class Agent." in said
    kinds = "agno, langgraph, claude-agent-sdk, smolagents, agent-framework; an async function"
    assert kinds in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"model": ["a"]}, "the options: name, version, store, models"),
        ({"settings": {"depth": 1}}, "FunctionAgent knows no such setting; its settings: none"),
        ({"editor_tools": True}, "editor_tools=…: the framework of FunctionAgent cannot use it"),
    ],
)
def test_wrong_option_is_explained(options: dict[str, Any], why: str) -> None:
    async def answer(prompt: str) -> str:
        return prompt

    with pytest.raises(TypeError) as refused:
        as_agent(answer, **options)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "expected MODULE:OBJECT, FILE.py:OBJECT, or a URL"),
        (["a:b", "--modle", "x"], "--modle"),
        (["a:b", "--mode", "=x"], "--mode: expected NAME or NAME=DESCRIPTION, got '=x'"),
        (["a:b", "--store", "s", "--no-store"], "expected --store or --no-store, got both"),
    ],
)
def test_wrong_command_line_is_explained(
    folder: Path, capfd: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert command.main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert why in err


async def test_program_serves_and_keeps_what_is_printed_out_of_the_protocol(folder: Path) -> None:
    words = [sys.executable, "-m", "accord", "run", "app_of_test:hello", "--mode", "calm=No hurry"]
    printed: list[str] = []

    def start() -> Any:
        env = {"ACCORD_STATE": str(folder / "state")}
        return process(*words, cwd=folder, env=env, on_stderr=printed.append)

    async with asyncio.timeout(30):
        async with accord.connect(start()) as agent:
            session = await agent.new_session(folder)
            assert [option.id for option in session.transcript.options] == ["mode"]
            async with session.prompt("you") as turn:
                await turn.wait()
            assert turn.text == "Hello you"
        async with accord.connect(start()) as agent:
            assert [each.id async for each in agent.list_sessions()] == [session.id]
    assert "printed while it is imported" in "".join(printed)
    assert os.listdir(folder / "state" / "run")  # noqa: PTH208  # names
