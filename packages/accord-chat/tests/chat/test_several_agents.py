"""Several agents in one window: choosing one, tabs, failures, permissions, coming back."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest

from accord import Agent, MemoryStore, Turn
from accord.errors import AccordError
from accord.script_agent.agent import ScriptAgent
from accord.transports.base import Transport
from accord_chat.model.saved import SavedChat, SavedChats, SavedTab
from accord_chat.sources import ChatOptions, OwnAgent, Sources, SourceSetup, short_name
from accord_chat.view.bars import tab_line
from accord_chat.view.pick_screen import PickScreen
from chat.chats import LocalAgent, Typist, open_chat
from chat.forked import started_command
from raw_peer import RawPeer


def saved_tabs(folder: Path, *tabs: SavedTab) -> SavedChats:
    """Save these tabs, as an earlier chat in the folder."""
    saved = SavedChats(folder, folder / ".state")
    assert saved.acquire()
    saved.save(SavedChat(tabs=list(tabs)))
    saved.release()
    return saved


def script(label: str, agent: ScriptAgent | None = None) -> LocalAgent:
    return LocalAgent(agent or ScriptAgent(), label=label)


async def choose(user: Typist, text: str) -> None:
    """Type a text at the list of agents, and press Enter."""
    await user.press("alt+n")
    await user.until(lambda: isinstance(user.app.screen, PickScreen))
    await user.sees("Open a session of an agent")
    await user.type(text)
    await user.sees(f"Start {text}")
    await user.press("enter")
    await user.until(lambda: not isinstance(user.app.screen, PickScreen))


async def test_second_agent_is_opened_in_a_tab(tmp_path: Path) -> None:
    async with open_chat(script("one"), script("two"), folder=tmp_path) as user:
        await user.send("echo from one")
        await user.sees("  from one")
        await user.press("alt+n")
        await user.sees("✓ one  open here", "two  settings: two-command")
        await user.press("escape")
        await user.until(lambda: user.composer.has_focus)
        assert len(user.chat.sessions) == 1
        await choose(user, "two")
        await user.until(lambda: user.session.state == "idle")
        await user.send("echo from two")
        await user.sees(" 1 one: echo from one ", " 2 two: echo from two ", "  from two")
        assert [session.agent_name for session in user.chat.sessions] == ["one", "two"]
        await user.press("alt+1")
        user.chat.sessions[1].send("permission")
        await user.sees(" 2? two: ", "asks a question")
        await user.press("alt+2")
        await user.question()
        await user.press("y")
        await user.sees("1 of 1 allowed.")


async def test_command_can_be_typed_and_what_names_no_agent_is_reported(tmp_path: Path) -> None:
    async with open_chat(script("one"), script("my-agent --acp"), folder=tmp_path) as user:
        await user.press("alt+n")
        await user.sees("Open a session of an agent")
        await user.type("nobody")
        await user.sees("Start nobody", "Search the registry for nobody")
        await user.press("pagedown", "enter")  # the last line: it is not in PATH
        await user.sees("No agent nobody")
        assert len(user.chat.sessions) == 1
        await choose(user, "my-agent --acp")
        await user.until(lambda: user.session.state == "idle")
        await user.sees("one: new session", "my-agent: new session")


async def test_list_is_opened_with_the_mouse(tmp_path: Path) -> None:
    async with open_chat(script("one"), script("two"), folder=tmp_path) as user:
        await user.pilot.click("#tabs", offset=(78, 0))
        await user.sees("Open a session of an agent")
        row = next(n for n, line in enumerate(user.screen.split("\n")) if "two-command" in line)
        await user.pilot.click(offset=(20, row))
        await user.until(lambda: user.session.agent_name == "two")


async def test_agent_that_cannot_start_leaves_the_others_alone(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    broken = OwnAgent("broken", [str(program)], SourceSetup())
    async with open_chat(script("one"), broken, folder=tmp_path) as user:
        await choose(user, "broken")
        await user.sees("✗ Cannot start", "Ctrl+R starts it again", " 2✗ broken: new session ")
        await user.press("alt+1")
        await user.send("echo still here")
        await user.sees("  still here")
        command = shlex.join(started_command("-m", "accord", "agent", "script"))
        program.write_text(f"#!/bin/sh\nexec {command}\n")
        program.chmod(0o755)
        await user.press("alt+2", "ctrl+r")
        await user.until(lambda: user.session.state == "idle")


async def test_agent_that_dies_leaves_the_others_alone(tmp_path: Path) -> None:
    one, two = script("one"), script("two")
    async with open_chat(one, two, folder=tmp_path) as user:
        await choose(user, "two")
        await user.until(lambda: user.session.state == "idle")
        await user.send("wait forever")
        await user.until(lambda: user.session.state == "running")
        await user.press("alt+1")
        await two.lose()
        await user.sees("2✗ two: wait forever", "two: wait forever has failed")
        await user.send("echo still here")
        await user.sees("  still here")


async def test_agent_that_never_answers_can_be_started_again(tmp_path: Path) -> None:
    started, answers = tmp_path / "started", tmp_path / "answers"
    program = tmp_path / "agent"
    command = shlex.join(started_command("-m", "accord", "agent", "script"))
    program.write_text(
        f"#!/bin/sh\necho >> {started}\n[ -e {answers} ] || exec sleep 1000\nexec {command}\n"
    )
    program.chmod(0o755)
    slow = OwnAgent("slow", [str(program)], SourceSetup())
    async with open_chat(script("one"), slow, folder=tmp_path) as user:
        await choose(user, "slow")
        await user.sees("starting slow")
        await user.until(started.exists)
        answers.touch()
        await user.press("ctrl+r")
        await user.until(lambda: user.session.state == "idle")
        assert len(started.read_text()) == 2


async def test_leaving_does_not_wait_for_an_agent_that_never_answers(tmp_path: Path) -> None:
    silent = OwnAgent("silent", ["sleep", "1000"], SourceSetup())
    async with open_chat(script("one"), silent, folder=tmp_path) as user:
        await choose(user, "silent")
        await user.sees("starting silent")
        async with asyncio.timeout(60):  # `initialize` has 120 s
            await user.app.aclose()
        assert user.chat.sessions[1].link.state == "off"


class Thinker(Agent):
    """Asks whether it may think."""

    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Think", kind="think") as call:
            await turn.say("thought" if await call.permission() else "nothing")


async def test_remembered_permission_is_for_one_agent(tmp_path: Path) -> None:
    one, two = (LocalAgent(Thinker(), label=label) for label in ("one", "two"))
    async with open_chat(one, two, folder=tmp_path) as user:
        await user.send("go")
        await user.question()
        await user.press("r")
        await user.sees("  thought")
        await user.send("go on")
        await user.sees("Allowed, as remembered")
        await choose(user, "two")
        await user.until(lambda: user.session.state == "idle")
        await user.send("go")
        await user.question()
        await user.sees("two asks for permission")


async def test_sessions_of_all_agents_come_back_with_their_drafts(tmp_path: Path) -> None:
    agents = {"one": ScriptAgent(), "two": ScriptAgent()}
    for agent in agents.values():
        agent.store = MemoryStore()

    def sources() -> list[LocalAgent]:
        return [script(label, agent) for label, agent in agents.items()]

    async with open_chat(*sources(), folder=tmp_path) as user:
        await user.send("echo in the first")
        await user.sees("  in the first")
        await user.type("first draft")
        await choose(user, "two")
        await user.until(lambda: user.session.state == "idle")
        await user.send("echo in the second")
        await user.sees("  in the second")
        await user.type("second draft")
    async with open_chat(*sources(), folder=tmp_path, restores=True) as user:
        await user.sees("  in the second", "second draft", "1 one: echo in the first")
        await user.press("alt+1")
        await user.sees("  in the first", "first draft")


async def test_draft_for_an_agent_that_is_gone_comes_back(tmp_path: Path) -> None:
    saved_tabs(tmp_path, SavedTab(agent="gone", draft="what I wanted to ask"))
    async with open_chat(script("one"), folder=tmp_path, restores=True) as user:
        await user.sees("✗ No agent gone", "what I wanted to ask", "Ctrl+R starts it again")


async def test_sessions_of_other_agents_are_kept_while_one_is_named(tmp_path: Path) -> None:
    mine, other = SavedTab(agent="one", draft="mine"), SavedTab(agent="two", draft="other")
    saved = saved_tabs(tmp_path, other, mine)
    async with open_chat(script("one"), folder=tmp_path, restores=True, only="one") as user:
        await user.sees("mine")
        assert len(user.chat.sessions) == 1
    assert [tab.draft for tab in saved.load().tabs] == ["mine", "other"]


async def test_new_session_keeps_what_was_not_sent(tmp_path: Path) -> None:
    draft, done = SavedTab(agent="one", draft="not sent"), SavedTab(agent="one", session_id="s")
    saved = saved_tabs(tmp_path, draft, done)
    async with open_chat(script("one"), folder=tmp_path) as user:
        user.chat.set_aside(None)
        await user.type("new")
    assert [tab.draft for tab in saved.load().tabs] == ["new", "not sent"]


async def test_line_of_tabs_shows_the_active_one_and_marks_hidden_ones(tmp_path: Path) -> None:
    async with open_chat(script("one"), folder=tmp_path) as user:
        for _ in range(9):
            user.chat.open_session("one")
        sessions = user.chat.sessions
        await user.until(lambda: all(session.state == "idle" for session in sessions))
        sessions[0].needs_attention = True
        line = tab_line(sessions, 9, 44)
        assert line.text.plain == "‹●  9 new session   10 new session        + "
        assert [line.at(1), line.at(5), line.at(42)] == [7, 8, "more"]
        assert tab_line(sessions, 0, 40).text.plain.startswith(" 1● new session ")


NAMES = {
    "claude": "claude",
    "/opt/agents/bin/kimi acp": "kimi",
    "python3.11 -m my_agent --acp": "my_agent",
    "node /opt/agent/dist/index.js": "index.js",
    "wss://agent.example:8443/acp": "agent.example",
    "session fix": "session fix",
    "it's": "it's",
}


def test_short_name_of_an_agent() -> None:
    assert {label: short_name(label) for label in NAMES} == NAMES


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path / "data"))
    return tmp_path / "config"


def test_token_goes_to_one_server_only(config: Path, tmp_path: Path) -> None:
    from accord_terminal.toolkit.agent_names import Settings

    token = tmp_path / "token"
    token.write_text("secret-word")
    address = "wss://agent.example/acp"
    sources = Sources(ChatOptions(agent=address, token_file=token), Settings())

    def has_token(label: str) -> bool:
        source = sources.find(label)
        assert isinstance(source, OwnAgent)
        return source.token is not None

    assert [has_token(one) for one in (address, "wss://other.example/acp")] == [True, False]


def test_rules_for_a_named_agent_are_not_for_others(config: Path) -> None:
    from accord_terminal.toolkit.agent_names import Settings

    options = ChatOptions(agent="script", allow_rules=("*",), deny_rules=("fetch",), terminals=True)
    named, other = (Sources(options, Settings()).find(label).setup for label in ("script", "x"))
    assert (named.allow_rules, named.terminals) == (("*",), True)
    assert (other.allow_rules, other.terminals) == ((), False)
    assert named.deny_rules == other.deny_rules == ("fetch",)


def test_named_agents_that_can_start_are_listed_with_the_default_first(config: Path) -> None:
    from accord_terminal.toolkit.agent_names import load_settings, settings_path

    config.mkdir()
    settings_path().write_text(
        f"[agents.mine]\ncommand = ['{sys.executable}', 'agent.py']\n"
        "[agents.far]\ncommand = 'wss://agent.example/acp'\n"
        "[agents.missing]\ncommand = '/no/such/program'\n"
    )
    known = Sources(ChatOptions(agent="script"), load_settings()).known()
    assert [(one.label, one.origin) for one in known if one.origin != "well known"] == [
        ("script", "bundled"),
        ("far", "settings"),
        ("mine", "settings"),
        ("accord", "bundled"),
    ]
    assert known[0].command == "accord agent script"


def test_agent_in_quarantine_is_an_error_of_its_tab(config: Path, tmp_path: Path) -> None:
    from accord_terminal.toolkit.agent_names import Settings

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "agents.json").write_text(
        '{"bad": {"version": "1.0.0", "kind": "binary", "argv": ["bad"], "folder": "bad/1",'
        ' "registry": "https://r.example", "quarantine": "it is broken"}}'
    )
    sources = Sources(ChatOptions(), Settings())
    with pytest.raises(AccordError, match="it is broken"):
        sources.find("bad")


class SilentAgent(LocalAgent):
    """A source whose agent never responds to `initialize`."""

    async def _serve(self, transport: Transport) -> None:
        await transport.start(RawPeer(transport))


async def test_session_of_an_agent_that_does_not_respond_can_be_closed(tmp_path: Path) -> None:
    silent = SilentAgent(None, label="silent")
    async with asyncio.timeout(30.0), open_chat(script("one"), silent, folder=tmp_path) as user:
        await choose(user, "silent")
        await user.sees("starting silent")
        await user.press("f12")
        await user.until(lambda: [one.agent_name for one in user.chat.sessions] == ["one"])


async def test_new_session_in_place_of_a_lost_one_has_no_title(tmp_path: Path) -> None:
    saved_tabs(tmp_path, SavedTab(agent="one", session_id="lost", title="The lost one"))
    async with open_chat(script("one"), folder=tmp_path, restores=True) as user:
        await user.sees("The earlier session could not be opened", "new session")
        assert "The lost one" not in user.screen


async def test_chat_that_cannot_be_saved_says_so(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with open_chat(script("one"), folder=tmp_path, state=state) as user:
        for file in state.iterdir():
            file.unlink()
        state.rmdir()
        await user.type("not kept")
        await user.sees("Sessions and drafts of this window", "are not kept.")
