"""Makes the pictures of `accord chat` in docs/images: `python docs/chat_pictures.py`.

Names of pictures may follow; without them all are made.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from pictures import IMAGES, PROJECT, PROMPT
from textual.widgets import OptionList

from accord_chat.chat import Chat
from accord_chat.live_session import Watcher
from accord_chat.model.saved import PermissionMemory, SavedChats
from accord_chat.sources import OwnAgent, SourceSetup
from accord_chat.view.app import ChatApp
from accord_chat.view.composer import Composer
from accord_chat.view.permission_panel import PermissionPanel
from accord_chat.view.pick_screen import PickScreen
from accord_terminal.agents.installation import own_target

WAIT_S = 60.0
AGENT = [sys.executable, "-m", "accord", "agent", "coder"]

SAMPLE_AGENT = {
    "id": "tidy",
    "name": "Tidy",
    "version": "1.4.0",
    "description": "An agent that tidies up code: it reviews, renames and tests.",
    "license": "Apache-2.0",
    "authors": ["The Tidy authors"],
    "website": "https://tidy.example",
    "distribution": {
        "binary": {
            own_target(): {
                "archive": "https://tidy.example/1.4.0/tidy.tar.gz",
                "cmd": "./bin/tidy",
                "args": ["--acp"],
                "sha256": "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
            }
        },
        "npx": {"package": "tidy-agent@1.4.0", "args": ["--acp"]},
    },
}


class Run:
    """A chat with the demonstration model."""

    def __init__(self, app: ChatApp) -> None:
        self.app = app

    async def send(self, text: str) -> None:
        self.app.screen.query_one(Composer).set_text(text)
        await self.press("enter")

    async def press(self, *keys: str) -> None:
        await self.app._press_keys(keys)  # noqa: SLF001  # as its pilot does

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)  # the frame

    async def allow_all(self) -> None:
        """Allow every action until the turn ends."""
        assert self.app.chat is not None
        session = self.app.chat.current
        while session.is_busy:
            await asyncio.sleep(0.05)
            for panel in self.app.screen.query(PermissionPanel):
                if session.questions:
                    panel.take_focus(asked=True)
                    await self.press("y")


async def first(run: Run) -> None:
    """Show a new session as it is."""


async def turn(run: Run) -> None:
    await run.send(PROMPT)
    await run.allow_all()


async def permission(run: Run) -> None:
    await run.send(PROMPT)
    await run.until(lambda: run.app.screen.query(PermissionPanel))
    for panel in run.app.screen.query(PermissionPanel):
        panel.take_focus(asked=True)


async def review(run: Run) -> None:
    await turn(run)
    await run.press("f4")


async def registry(run: Run) -> None:
    made = Path(tempfile.mkdtemp())
    file = made / "registry.json"
    file.write_text(json.dumps({"version": "1.0.0", "agents": [SAMPLE_AGENT]}))
    os.environ.update(ACCORD_REGISTRY=str(file), ACCORD_DATA=str(made), ACCORD_CONFIG=str(made))
    await run.press("alt+n")
    await run.until(lambda: isinstance(run.app.screen, PickScreen))
    await run.press("pagedown", "enter")
    await run.until(lambda: run.app.screen.query("#about"))
    await run.until(lambda: run.app.screen.query_one(OptionList).option_count)
    await run.press("enter")
    await run.until(lambda: run.app.screen.query("#back"))
    await run.press("right")
    shutil.rmtree(made)


PICTURES: dict[str, tuple[tuple[int, int], Callable[[Run], Awaitable[None]]]] = {
    "chat-first": ((90, 22), first),
    "chat": ((90, 34), turn),
    "chat-permission": ((90, 28), permission),
    "chat-review": ((90, 18), review),
    "chat-registry": ((90, 26), registry),
}


async def picture(name: str) -> str:
    size, act = PICTURES[name]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "shop")
        folder.mkdir()  # noqa: ASYNC240
        os.environ["HOME"] = made  # the picture shows ~/shop
        for file, text in PROJECT.items():
            (folder / file).write_text(text)
        setup = SourceSetup(env={"ACCORD_MODEL": "demo", "ACCORD_DATA": f"{made}/data"})
        source = OwnAgent("accord", AGENT, setup)
        saved = SavedChats(folder, Path(made, "state"))
        memory = PermissionMemory(Path(made, "state"))

        def make_chat(watcher: Watcher, tasks: asyncio.TaskGroup) -> Chat:
            chat = Chat(folder, saved, lambda _: source, tasks, watcher, memory)
            chat.open_session("accord")
            return chat

        app = ChatApp(make_chat)
        try:
            async with app.run_test(size=size):
                run = Run(app)
                await run.until(lambda: app.chat is not None and len(app.screen_stack) > 1)
                assert app.chat is not None
                chat = app.chat
                await run.until(lambda: chat.current.state == "idle")
                await act(run)
                await asyncio.sleep(0.3)
                return app.export_screenshot(title="accord chat")
        finally:
            await app.aclose()


def main() -> None:
    for name in sys.argv[1:] or PICTURES:
        text = asyncio.run(picture(name))
        number = re.search(r"terminal-(\d+)-", text)
        if number is not None:  # the same name in each run
            text = text.replace(f"terminal-{number[1]}", f"terminal-{name}")
        text = re.sub(r"@font-face \{.*?\}\n?", "", text, flags=re.S)  # fonts of another server
        text = re.sub(r"<!-- .*? -->\n?", "", text, flags=re.S)
        (IMAGES / f"{name}.svg").write_text(text, "utf-8")
        sys.stderr.write(f"{name}.svg\n")


if __name__ == "__main__":
    main()
