"""One session in `accord chat`, in an editor's client, and on a phone: all see one another."""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from accord import connect
from accord.client.events import Decision, PermissionRequest
from accord.transports.process import process
from accord_terminal.sessions.named import open_session
from chat.terminal import open_terminal
from sessions_named.machine import Machine
from web.test_page import CODER, SCRIPT, expect
from web.web_harness import WAIT_S, paired, serving

pytestmark = [
    pytest.mark.programs,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]


async def test_chat_editor_and_phone_on_one_session(machine: Machine, browser: Any) -> None:
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def editor_user(_request: PermissionRequest) -> Decision | None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        return None

    attach = [sys.executable, "-m", "accord", "session", "attach", "fix"]
    await asyncio.to_thread(machine.ok, "session", "new", "-s", "fix", "--agent", CODER)
    async with serving() as server:
        phone = await paired(browser, server, "Phone")
        with open_terminal(machine.base) as terminal:
            terminal.start("-s", "fix")
            await asyncio.to_thread(terminal.sees, "shows all keys")
            async with connect(
                process(*attach, cwd=str(machine.work)), permissions=editor_user
            ) as editor:
                await editor.new_session(machine.work)
                await expect(phone.locator("a.line")).to_contain_text("Phone")
                terminal.type("create notes.txt hello")
                terminal.press("Enter")
                await expect(phone.locator("a.line")).to_contain_text("waits for you")
                await asyncio.to_thread(terminal.sees, "Allow")
                async with asyncio.timeout(WAIT_S):
                    await asked.wait()
                await phone.locator("a.line").tap()
                card = phone.locator(".question")
                await expect(card.locator("diff-table")).to_contain_text("hello")
                await card.locator("button.allows").first.tap()
                async with asyncio.timeout(WAIT_S):
                    await withdrawn.wait()
                await asyncio.to_thread(terminal.sees, "Phone", "Created notes.txt")
                log = phone.get_by_role("log")
                await expect(log).to_contain_text("by Phone")
        assert (machine.work / "notes.txt").read_text().strip() == "hello"
        assert phone.context.problems == []
        await phone.context.close()


async def test_tap_on_a_question_that_appears_under_the_finger(
    machine: Machine, browser: Any
) -> None:
    async with (
        serving() as server,
        open_session("fix", machine.work, agent=CODER, decides=False) as shared,
    ):
        phone = await paired(browser, server, "Phone")
        await expect(phone.locator("a.line")).to_contain_text("Phone")
        await phone.locator("a.line").tap()
        await expect(phone.locator("textarea.prompt")).to_be_visible()
        # The finger is on the glass at the moment at which the buttons appear.
        await phone.evaluate(
            """() => new MutationObserver(() => {
              for (const button of document.querySelectorAll(".question button.option")) {
                window.tapped = (window.tapped ?? 0) + 1;
                button.click();
              }
            }).observe(document.querySelector(".questions"), {childList: true})"""
        )
        async with shared.session.prompt("create notes.txt hello") as turn:
            button = phone.locator(".question button.allows:enabled").first
            await expect(button).to_be_visible()
            assert await phone.evaluate("window.tapped") >= 1
            assert not (machine.work / "notes.txt").exists()
            await button.tap()
            async for _ in turn:
                pass
        assert (machine.work / "notes.txt").exists()
        await phone.context.close()


class Cuts:
    """A proxy of TCP whose connections are cut."""

    def __init__(self) -> None:
        self.target = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        self.open |= {writer, back}
        try:
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        finally:
            for one in (writer, back):
                self.open.discard(one)
                one.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    def cut(self) -> None:
        self.count += 1
        for writer in [*self.open]:
            writer.transport.abort()


@asynccontextmanager
async def cutting() -> AsyncIterator[tuple[Cuts, int]]:
    cuts = Cuts()
    listening = await asyncio.start_server(cuts.serve, "127.0.0.1", 0)
    try:
        yield cuts, listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        cuts.cut()


async def test_nothing_is_lost_or_doubled_when_connections_are_cut(
    machine: Machine, browser: Any
) -> None:
    seeded = random.Random(29)
    async with cutting() as (cuts, port), serving(origins=[f"http://127.0.0.1:{port}"]) as server:
        cuts.target = server.port
        server.address = origin = f"http://127.0.0.1:{port}"
        phone = await paired(browser, server, "Phone", "watch")
        async with open_session("fix", machine.work, agent=SCRIPT, decides=False) as shared:
            await phone.goto(f"{origin}/session/{shared.record.id}")
            log = phone.get_by_role("log")
            for number in range(10):
                async with shared.session.prompt(f"stream 400 part{number}-") as turn:
                    at = seeded.randrange(400)
                    seen = 0
                    async for _ in turn:
                        seen += 1
                        if seen == at:
                            cuts.cut()
            await expect(log).to_contain_text("part9-")
            await expect(log.locator(".entry.end")).to_have_count(10)
            found = await log.locator(".entry.agent .parts").all_inner_texts()
            messages = [text for text in shared.session.transcript.messages if text.role == "agent"]
            assert [" ".join(text.split()) for text in found] == [
                " ".join(message.text.split()) for message in messages
            ]
        assert cuts.count >= 8
        await phone.context.close()
