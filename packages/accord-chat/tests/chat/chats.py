"""Chats with an agent in this process, driven by the keyboard of a virtual terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot

import accord
from accord.agent.hooks import AgentHooks
from accord.transports.base import Transport, TransportFactory
from accord.transports.memory import pair
from accord_chat.chat import Chat
from accord_chat.live_session import LiveSession, Watcher
from accord_chat.model.saved import PermissionMemory, SavedChats
from accord_chat.sources import KnownAgent, Source, Sources, SourceSetup
from accord_chat.view.app import ChatApp
from accord_chat.view.composer import Composer
from accord_chat.view.permission_panel import PermissionPanel
from accord_chat.view.transcript_view import TranscriptView
from chat.quick_textual import collect_rarely, make_textual_quick, settle
from raw_peer import RawPeer
from versions import only

__all__ = ("HandAgent", "LocalAgent", "Typist", "open_chat", "typing_at")

make_textual_quick()
WAIT_S = 20.0
STEP_S = 0.02


class LocalAgent:
    """A source whose agent runs in this process; `lose` ends its connections."""

    is_remote = False
    login_command: Sequence[str] | None = None

    def __init__(
        self, agent: object, *, version: int = 2, label: str = "local", **setup: Any
    ) -> None:
        self.label = label
        self.setup = SourceSetup(protocol=only(version)[0], **setup)
        self._agent = cast("AgentHooks", agent)
        self._ends: list[Transport] = []
        self._tasks: list[asyncio.Task[None]] = []

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        def make() -> Transport:
            ours, theirs = pair()
            self._ends.append(theirs)
            self._tasks.append(asyncio.create_task(self._serve(theirs)))
            return ours

        return make

    async def _serve(self, transport: Transport) -> None:
        await accord.serve(self._agent, transport)

    async def lose(self) -> None:
        for end in self._ends:
            await end.aclose()

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


class HandAgent(LocalAgent):
    """A source whose agent answers with these results by method, or not if the result is `...`.

    It sends `raw` messages, too.
    """

    def __init__(self, version: int, results: Mapping[str, Any], *, label: str = "hand") -> None:
        super().__init__(None, version=version, label=label)
        info = {"name": "hand", "version": "1"}
        named = {"agentInfo": info} if version == 1 else {"info": info}
        self.results: dict[str, Any] = {"initialize": {"protocolVersion": version, **named}}
        self.results |= results
        self.requests: list[Any] = []
        self.raw: RawPeer | None = None

    def asked(self, method: str) -> list[Any]:
        """Return the params of the requests and notifications of a method so far."""
        return [one.get("params") for one in self.requests if one.get("method") == method]

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        assert self.raw is not None
        self.raw.tell(method, params)

    def update(self, session_id: str, **fields: Any) -> None:
        """Send an update."""
        self.tell("session/update", {"sessionId": session_id, "update": fields})

    async def _serve(self, transport: Transport) -> None:
        self.raw = raw = RawPeer(transport)
        await transport.start(raw)
        while True:
            message = await raw.get()
            self.requests.append(message)
            method = message.get("method")
            if "id" not in message or method is None:
                continue
            if self.results.get(method) is ...:
                pass  # it is not answered
            elif method in self.results:
                raw.answer(message["id"], self.results[method])
            else:
                error = {"code": -32601, "message": "Method not found"}
                raw.send({"jsonrpc": "2.0", "id": message["id"], "error": error})


class Typist:
    """Types at a chat and reads its screen."""

    def __init__(self, app: ChatApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def chat(self) -> Chat:
        assert self.app.chat is not None
        return self.app.chat

    @property
    def session(self) -> LiveSession:
        return self.chat.current

    @property
    def view(self) -> TranscriptView:
        return self.app.screen_stack[-1].query_one(TranscriptView)

    @property
    def composer(self) -> Composer:
        return self.app.screen_stack[-1].query_one(Composer)

    @property
    def screen(self) -> str:
        """The text of the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def press(self, *keys: str) -> None:
        # Not by the pilot, which waits for 30 s if a widget is removed meanwhile.
        await self.app._press_keys(keys)

    async def type(self, text: str) -> None:
        """Type all keys before anything happens for the first, as fast typists do."""
        assert self.app._driver is not None
        for letter in text:
            name = "ctrl+j" if letter == "\n" else _character_to_key(letter)
            key = Key(name, None if letter == "\n" else letter)
            key.set_sender(self.app)
            self.app._driver.send_message(key)
        await settle()

    async def send(self, text: str) -> None:
        """Write a prompt and press Enter."""
        self.composer.set_text(text)
        await self.press("enter")

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until something is true."""
        try:
            async with asyncio.timeout(WAIT_S):
                while not (found := condition()):
                    await settle()
                    if found := condition():
                        return found
                    await asyncio.sleep(STEP_S)
                return found
        except TimeoutError:
            raise AssertionError(f"It did not become true. The screen:\n{self.screen}") from None

    async def sees(self, *texts: str) -> None:
        """Wait until all these texts are on the screen."""

        def are_seen() -> bool:
            screen = self.screen
            return all(text in screen for text in texts)

        await self.until(are_seen)

    async def question(self) -> PermissionPanel:
        """Wait until a permission question takes keys."""
        base = self.app.screen_stack[-1]
        panel = await self.until(lambda: next(iter(base.query(PermissionPanel)), None))
        await self.until(lambda: panel.has_focus_within)
        panel.ignore_keys_until_s = 0.0
        return panel


@asynccontextmanager
async def open_chat(
    *sources: LocalAgent | Source,
    folder: Path,
    state: Path | None = None,
    size: tuple[int, int] = (80, 24),
    restores: bool = False,
    lists_sessions: bool = False,
    only: str | None = None,
    more: Sources | None = None,
    at_start: Callable[[ChatApp], None] = lambda app: None,
    at_open: Callable[[Typist], object] = lambda user: None,
) -> AsyncGenerator[Typist]:
    """Open a chat with the first of these agents; `state` is where it is saved.

    `at_open` is called when there is a screen, before the agent has started.
    """
    saved = SavedChats(folder, state or folder / ".state")
    assert saved.acquire()
    memory = PermissionMemory(saved.path.parent)
    by_label = {source.label: cast("Source", source) for source in sources}
    known = [KnownAgent(label, "settings", f"{label}-command") for label in by_label]

    def find(label: str) -> Source:
        if label not in by_label and more is not None:
            return more.find(label)
        if label not in by_label:
            raise ValueError(f"No agent {label}")
        return by_label[label]

    def list_known() -> list[KnownAgent]:
        return [*known, *(() if more is None else more.known())]

    def make_chat(watcher: Watcher, tasks: asyncio.TaskGroup) -> Chat:
        at_start(app)
        chat = Chat(folder, saved, find, tasks, watcher, memory, list_known)
        if not (restores and chat.restore(only)):
            chat.open_session(sources[0].label)
        return chat

    app = ChatApp(make_chat, lists_sessions=lists_sessions)
    try:
        async with typing_at(app, size, at_open) as typist:
            yield typist
    finally:
        for source in sources:
            if isinstance(source, LocalAgent):
                await source.aclose()


@asynccontextmanager
async def typing_at(
    app: ChatApp,
    size: tuple[int, int] = (80, 24),
    at_open: Callable[[Typist], object] = lambda user: None,
) -> AsyncGenerator[Typist]:
    """Run a program until the end of the block."""
    collect_rarely()
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            typist = Typist(app, pilot)
            await typist.until(lambda: app.chat is not None and len(app.screen_stack) > 1)
            at_open(typist)
            await typist.until(lambda: typist.session.state in ("idle", "failed", "logging_in"))
            yield typist
            assert app.failure is None, app.failure
    finally:
        await app.aclose()
