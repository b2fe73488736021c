"""`accord web` in a real Chromium with touch, at the size of a phone."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from accord_terminal.sessions.named import SharedSession, open_session
from sessions_named.machine import Machine
from web.web_harness import paired, serving

pytestmark = [pytest.mark.programs, pytest.mark.asyncio(loop_scope="session")]

SCRIPT = f"{sys.executable} -m accord agent script"
CODER = f"{sys.executable} -m accord agent"


def expect(found: Any) -> Any:
    from playwright.async_api import expect

    return expect(found)


async def say(shared: SharedSession, text: str) -> None:
    async with shared.session.prompt(text) as turn:
        async for _ in turn:
            pass


async def test_answer_a_question_of_the_agent_from_the_phone(
    machine: Machine, browser: Any
) -> None:
    entries: list[Any] = []
    async with serving() as server:
        phone = await paired(browser, server, "Phone")
        assert "#" not in phone.url
        await expect(phone.get_by_text("No sessions yet.")).to_be_visible()
        async with open_session(  # a chat that is left alone: only the phone can answer
            "fix",
            machine.work,
            agent=CODER,
            client_name="chat",
            decides=False,
            on_entry=lambda _cursor, entry: entries.append(entry),
        ) as shared:
            await expect(phone.locator("a.line", has_text="fix")).to_contain_text(
                "open in Phone, chat"
            )
            turn = shared.session.prompt("create notes.txt hello")
            async with turn:
                line = phone.locator("a.line", has_text="fix")
                await expect(line).to_contain_text("waits for you")
                await expect(phone).to_have_title(re.compile(r"^\(1\) Accord"))
                await line.tap()
                card = phone.locator(".question")
                await expect(card).to_contain_text("notes.txt")
                await card.get_by_role("button", name="Allow", exact=False).first.tap()
                texts = [str(event) async for event in turn]
            assert any("notes.txt" in text for text in texts)
        answered = [e for e in entries if type(e).__name__ == "Answered"]
        assert [entry.by for entry in answered] == ["Phone"]
        await expect(card).to_have_count(0)
        log = phone.get_by_role("log")
        await expect(log).to_contain_text("by Phone")
        await expect(log).to_contain_text("You (chat)")
        await expect(log).to_contain_text("Turn ended")
        assert (machine.work / "notes.txt").read_text().strip() == "hello"
        assert phone.context.problems == []
        await phone.context.close()


async def test_follow_up_with_a_photo_cancel_and_a_server_that_was_killed(
    machine: Machine, browser: Any
) -> None:
    async with open_session("fix", machine.work, agent=SCRIPT, client_name="chat", decides=False):
        async with serving() as server:
            port = server.port
            phone = await paired(browser, server, "Phone")
            await phone.locator("a.line", has_text="fix").tap()
            prompt = phone.get_by_label("Prompt", exact=True).locator("textarea")
            await expect(prompt).to_be_visible()
            png = bytes.fromhex(
                "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
                "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
                "0000000049454e44ae426082"
            )
            photo = {"name": "photo.png", "mimeType": "image/png", "buffer": png}
            await phone.get_by_label("Files to attach").set_input_files([photo])
            await expect(phone.get_by_label("Attachments")).to_contain_text("photo.png")
            await prompt.fill("echo I see it")
            await phone.get_by_role("button", name="Send").tap()
            log = phone.get_by_role("log")
            await expect(log).to_contain_text("I see it")
            await expect(log.locator("img")).to_have_count(2)  # the agent repeats it
            await expect(log).to_contain_text("Turn ended")

            await prompt.fill("wait 60")
            await phone.get_by_role("button", name="Send").tap()
            cancel = phone.get_by_role("button", name="Cancel the turn")
            await cancel.tap()
            await expect(log).to_contain_text("Turn ended: cancelled")
            await prompt.fill("a draft that is not sent")

        await expect(phone.get_by_text("No connection to the computer.")).to_be_visible()
        async with serving(port=port):
            await expect(phone.get_by_text("No connection to the computer.")).to_be_hidden()
            await phone.reload()
            await expect(log).to_contain_text("Turn ended: cancelled")
            await expect(prompt).to_have_value("a draft that is not sent")
            await expect(log.locator(".entry.user")).to_have_count(2)
        assert phone.context.problems == []
        await phone.context.close()


async def test_hostile_text_of_an_agent_is_only_text(machine: Machine, browser: Any) -> None:
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    hostile = f"{markup} [x](javascript:alert(3)) \u202eevil"
    async with serving() as server:
        phone = await paired(browser, server, "Phone <b>bold</b>")
        dialogs: list[Any] = []
        phone.on("dialog", lambda dialog: dialogs.append(dialog))
        async with open_session("<b>fix</b>", machine.work, agent=SCRIPT, decides=False) as shared:
            await say(shared, f"echo {hostile}")
            line = phone.locator("a.line")
            await expect(line).to_contain_text("<b>fix</b>")
            await line.tap()
            log = phone.get_by_role("log")
            await expect(log).to_contain_text(r"\u202eevil")
            await expect(phone.locator("script:not([type=module]), [onerror]")).to_have_count(0)
            await expect(phone.locator("a[href^='javascript']")).to_have_count(0)
        assert dialogs == []
        assert phone.context.problems == []
        await phone.context.close()


async def test_roles_of_devices(machine: Machine, browser: Any) -> None:
    async with (
        serving() as server,
        open_session("fix", machine.work, agent=SCRIPT, decides=False) as shared,
    ):
        watcher = await paired(browser, server, "Watcher", "watch")
        await watcher.locator("a.line", has_text="fix").tap()
        await say(shared, "echo Hello")
        await expect(watcher.get_by_role("log")).to_contain_text("Hello")
        await expect(watcher.locator("form.composer")).to_be_hidden()
        assert [device.name for device in server.devices.all()] == ["Watcher"]
        assert server.devices.revoke(1)
        await say(shared, "echo Again")
        await expect(watcher.get_by_text("This browser is not paired")).to_be_visible()
        await watcher.context.close()


AXE = (
    Path(__file__).parents[3] / "accord-inspector/tests/inspector/node_modules/axe-core/axe.min.js"
)
FOUND = """async () => (await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21aa"]}))
  .violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_at_any_width(machine: Machine, browser: Any, scheme: str) -> None:
    if not AXE.exists():
        if os.environ.get("ACCORD_REQUIRE_BROWSER"):
            pytest.fail("axe-core is not installed")
        pytest.skip("axe-core is not installed: the inspector's install.sh")
    async with serving(roots=(machine.work,), agents=("coder",)) as server:
        phone = await paired(browser, server, "Phone", bypass_csp=True, color_scheme=scheme)
        async with open_session(
            "fix", machine.work, agent=CODER, client_name="chat", decides=False
        ) as shared:
            await expect(phone.locator("a.line")).to_contain_text("open in Phone")
            async with shared.session.prompt("create notes.txt hello") as turn:
                await expect(phone.locator("a.line")).to_contain_text("waits for you")
                for path, shown in (
                    ("/", "a.line.waits"),
                    ("/new", "form.new"),
                    ("/devices", ".devices li"),
                    (f"/session/{shared.record.id}", ".question button.allows:enabled"),
                ):
                    await phone.goto(server.address + path)
                    await expect(phone.locator(shown).first).to_be_visible()
                    await phone.add_script_tag(path=AXE)
                    for width in (360, 390, 768, 1280):
                        await phone.set_viewport_size({"width": width, "height": 844})
                        assert await phone.evaluate(FOUND) == [], (path, width)
                        room = "document.documentElement.scrollWidth <= innerWidth"
                        assert await phone.evaluate(room), (path, width)
                await phone.locator(".question button.allows").first.click()
                async for _ in turn:
                    pass
        await phone.context.close()
