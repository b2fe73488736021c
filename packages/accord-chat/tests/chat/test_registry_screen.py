"""The registry on the screen: search, look, install, cancel, and what goes wrong."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from textual.widgets import Button

from accord.script_agent.agent import ScriptAgent
from accord_chat.sources import ChatOptions, Sources
from accord_chat.view.registry import InstallScreen, RegistryScreen
from accord_terminal.toolkit.agent_names import AgentEntry, Settings, load_installed
from chat.chats import LocalAgent, Typist, open_chat
from chat.forked import started_command
from registry.server import Registry, binary, entry, serving, tar

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agent is a shell script")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path / "data"))
    with serving() as served:
        monkeypatch.setenv("ACCORD_REGISTRY", served.url)
        yield served


def tiny(registry: Registry, version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    """Return an agent of the registry that is the script agent."""
    agent = shlex.join(started_command("-m", "accord", "agent", "script"))
    data = tar({"bin/tiny": f"#!/bin/sh\nexec {agent}\n".encode()})
    archive = registry.add(f"tiny-{version}.tar.gz", data)
    row = {**entry("tiny", version, binary=binary(archive, data)), **more}
    return {**row, "license": "MIT", "authors": ["Ann Author"]}


def sources(settings: Settings | None = None) -> Sources:
    return Sources(ChatOptions(), settings or Settings())


def local() -> LocalAgent:
    return LocalAgent(ScriptAgent())


async def search(user: Typist, words: str = "") -> None:
    """Open the registry, and search it."""
    await user.press("alt+n")
    await user.sees("Open a session of an agent", "Search the registry for more agents")
    await user.press("pagedown", "enter")
    await user.until(lambda: isinstance(user.app.screen, RegistryScreen))
    await user.type(words)


async def leave(user: Typist) -> None:
    """Close the registry."""
    await user.press("escape")
    await user.until(lambda: len(user.app.screen_stack) == 2)


async def look(user: Typist, name: str) -> None:
    """Search an agent, and look at it."""
    await search(user, name)
    await user.sees("1 of ", " agents")
    await user.press("enter")
    await user.until(lambda: isinstance(user.app.screen, InstallScreen))
    await user.until(lambda: user.app.screen.query("#back"))


async def press_button(user: Typist, name: str) -> None:
    button = await user.until(lambda: next(iter(user.app.screen.query(f"#{name}")), None))
    assert isinstance(button, Button)
    button.focus()
    await user.until(lambda: button.has_focus)
    await user.press("enter")


async def test_agent_is_installed_after_a_look_and_then_used(
    tmp_path: Path, registry: Registry
) -> None:
    other = entry("other", uvx={"package": "other==1.0"})
    registry.offer(tiny(registry), other)
    async with open_chat(local(), folder=tmp_path, more=sources()) as user:
        await user.press("alt+n")
        await user.sees("Open a session of an agent")
        await user.type("oth")  # what is typed at the list is searched
        await user.sees("Search the registry for oth")
        await user.press("enter")
        await user.sees("1 of 2 agents", "The agent other")
        await leave(user)
        await look(user, "tiny")
        await user.until(lambda: user.app.screen.query_one("#back").has_focus)
        await user.press("enter")  # alone installs nothing
        await user.until(lambda: isinstance(user.app.screen, RegistryScreen))
        assert load_installed() == {}
        await leave(user)
        await search(user)
        await user.sees("2 of 2 agents", "tiny  ", "The agent other", "Installs as: uvx")
        await user.type("tin")
        await user.sees("1 of 2 agents", "License: MIT · By Ann Author · Installs as: binary")
        await user.press("enter")
        await user.sees("To install it as binary", "Download http://127.0.0.1", "Check    sha256")
        await user.sees("Start    ./bin/tiny", "Back", "Install (binary)")
        assert load_installed() == {}
        await press_button(user, "binary")
        await user.sees("✓ Installed tiny 1.0.0", "Open a session")
        await press_button(user, "open")
        await user.until(lambda: user.session.agent_name == "tiny")
        await user.until(lambda: user.session.state == "idle")
        await user.send("echo from the registry")
        await user.sees("  from the registry")
        await user.press("alt+n")
        await user.sees("✓ tiny  open here")


async def test_failed_update_leaves_the_installed_version(
    tmp_path: Path, registry: Registry
) -> None:
    registry.offer(tiny(registry))
    async with open_chat(local(), folder=tmp_path, more=sources()) as user:
        await look(user, "tiny")
        await press_button(user, "binary")
        await user.sees("✓ Installed tiny 1.0.0")
        await user.press("escape")
        await user.until(lambda: isinstance(user.app.screen, RegistryScreen))
        await leave(user)
        wrong = binary(registry.add("wrong.tar.gz", b"something"), b"something else")
        registry.offer(entry("tiny", "2.0.0", binary=wrong), etag='"2"')
        await look(user, "tiny")
        await user.sees("Update (binary)")
        await press_button(user, "binary")
        await user.sees("wrong checksum", "Update (binary)", "Open a session")
        assert load_installed()["tiny"].version == "1.0.0"
        await press_button(user, "open")
        await user.until(lambda: user.session.agent_name == "tiny")
        await user.until(lambda: user.session.state == "idle")


async def test_without_a_registry_own_agents_still_work(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_REGISTRY", f"{registry.address}/nothing.json")
    async with open_chat(local(), folder=tmp_path, more=sources()) as user:
        await search(user)
        await user.sees("Cannot load the registry", "answered 404")
        await user.sees("Your own agents are not affected")
        await user.press("enter")
        await leave(user)
        await user.press("alt+n")
        await user.sees("local  open here")
        await user.type("script")
        await user.sees("script  bundled")
        await user.press("enter")
        await user.until(lambda: user.session.agent_name == "script")
        await user.until(lambda: user.session.state == "idle")


async def test_last_good_copy_is_used_and_said(tmp_path: Path, registry: Registry) -> None:
    registry.offer(tiny(registry))
    async with open_chat(local(), folder=tmp_path, more=sources()) as user:
        await search(user)
        await user.sees("1 of 1 agents")
        await leave(user)
        registry.index, registry.etag = b"{", '"2"'
        await search(user)
        await user.sees(
            "1 of 1 agents", "using the last good copy of registry.json: it is not JSON"
        )


async def test_agent_in_quarantine_is_not_offered(tmp_path: Path, registry: Registry) -> None:
    registry.offer(tiny(registry), entry("other", uvx={"package": "other==1.0"}))
    registry.quarantine = json.dumps({"tiny": "it deletes files"}).encode()
    async with open_chat(local(), folder=tmp_path, more=sources()) as user:
        await search(user)
        await user.sees("1 of 1 agents · 1 in quarantine not shown", "The agent other")
        assert "The agent tiny" not in user.screen


async def test_agent_of_the_settings_goes_before_one_of_its_name(
    tmp_path: Path, registry: Registry
) -> None:
    registry.offer(tiny(registry))
    mine = Settings(agents={"tiny": AgentEntry(command=[sys.executable, "mine.py"])})
    async with open_chat(local(), folder=tmp_path, more=sources(mine)) as user:
        await search(user)
        await user.sees("1 of 1 agents")
        await user.press("enter")
        await user.sees("Your settings have an agent of this name")


@pytest.fixture
def endless_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int | None]:
    """Put an npm into PATH that never ends; return what returns its process once it runs."""
    programs, started = tmp_path / "programs", tmp_path / "started"
    programs.mkdir()
    for name in ("npm", "node"):
        script = (
            f"#!/bin/sh\necho $$ > {started}.new\nmv {started}.new {started}\nexec sleep 1000\n"
        )
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return lambda: int(started.read_text()) if started.exists() else None


async def test_cancelled_installation_ends_what_it_has_started(
    tmp_path: Path, registry: Registry, endless_npm: Callable[[], int | None]
) -> None:
    registry.offer(entry("pack", npx={"package": "pack@1.0.0"}))
    async with open_chat(local(), folder=tmp_path, more=sources()) as user:
        await look(user, "pack")
        await user.sees("npm install pack@1.0.0")
        await press_button(user, "npx")
        pid = await user.until(endless_npm)
        await user.sees("◐ npm install pack@1.0.0", "Cancel")
        await user.press("escape")
        await user.sees("Cancelled: nothing was installed", "Install (npx)")
        assert not psutil.pid_exists(pid)
        assert load_installed() == {}
        assert list((tmp_path / "data" / "agents" / "pack").iterdir()) == []


async def test_leaving_the_program_cancels_an_installation(
    tmp_path: Path, registry: Registry, endless_npm: Callable[[], int | None]
) -> None:
    registry.offer(entry("pack", npx={"package": "pack@1.0.0"}))
    async with open_chat(local(), folder=tmp_path, more=sources()) as user:
        await look(user, "pack")
        await press_button(user, "npx")
        pid = await user.until(endless_npm)
    assert not psutil.pid_exists(pid)
    assert load_installed() == {}
