"""Two recordings are compared on the page, as `accord trace diff` compares them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from inspector.inspector_process import Inspector, go, inspecting
from inspector.recordings import chunk, message, opening, save, turn

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

HTML = "<img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings")
    save(path / "one.acp.jsonl", [*opening(), *turn(2, chunk("hello"))])
    save(path / "same.acp.jsonl", [*opening(), *turn(2, chunk("good"), chunk("bye"))])
    hostile = message("to_client", method=f"_x/{HTML}", params={"sessionId": "s1"})
    stop = message("to_client", id=2, result={"stopReason": "refusal"})
    frames = [*opening(), *turn(2, chunk("hello"))[:-1], stop, hostile]
    save(path / "two.acp.jsonl", frames)
    (path / "broken.acp.jsonl").write_text('{"type":"header","version":1}\nnot a record\n')
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector(folder: Path) -> AsyncIterator[Inspector]:
    async with inspecting(str(folder)) as running:
        yield running


async def test_differences_of_two_recordings_of_a_folder(
    page: Page, inspector: Inspector, folder: Path
) -> None:
    await page.goto(inspector.address)
    await go(page, "/timeline?recording=one.acp.jsonl")
    await page.get_by_role("link", name="Compare").click()
    await page.get_by_label("With another recording of this folder").fill("two.acp.jsonl")
    await page.get_by_role("button", name="Compare").click()
    status = page.get_by_role("main").get_by_role("status")
    await expect(status).to_have_text("2 differences; texts and numbers were not compared")
    rows = page.locator(".differences tbody tr")
    command = [sys.executable, "-m", "accord", "trace", "diff", "--json"]
    names = [str(folder / f"{name}.acp.jsonl") for name in ("one", "two")]
    told = await asyncio.to_thread(subprocess.run, [*command, *names], capture_output=True)
    differences = json.loads(told.stdout)["differences"]
    await expect(rows).to_have_count(len(differences))
    for number, one in enumerate(differences):
        await expect(rows.nth(number)).to_contain_text(one["text"].partition(" (message")[0])
    await expect(rows.nth(0)).to_contain_text('expected "end_turn", got "refusal"')
    assert await page.title() != "owned"
    # The address repeats it; the messages are links.
    await page.reload()
    await expect(rows).to_have_count(2)
    await rows.nth(1).get_by_role("link").click()
    await expect(page).to_have_url(re.compile(r"/timeline/8\?recording=two.acp.jsonl"))


async def test_values_are_compared_if_the_user_wants_it(page: Page, inspector: Inspector) -> None:
    await page.goto(inspector.address)
    await go(page, "/compare?recording=one.acp.jsonl&other=same.acp.jsonl")
    status = page.get_by_role("main").get_by_role("status")
    await expect(status).to_have_text("No differences; texts and numbers were not compared")
    await page.get_by_label("Compare values too").check()
    await page.get_by_role("button", name="Compare").click()
    await expect(status).to_have_text(re.compile(r"^1 difference; ids and times may differ"))
    await expect(page.locator(".differences")).to_contain_text("hello")


async def test_recording_is_compared_with_a_file_of_the_user(page: Page, folder: Path) -> None:
    async with inspecting(str(folder / "one.acp.jsonl")) as inspector:
        await page.goto(inspector.address)
        await expect(page.get_by_role("link", name="Compare")).to_be_visible()
        await page.keyboard.press("9")
        await expect(page.get_by_label("With another recording")).to_be_hidden()
        button = page.get_by_role("button", name="Compare")
        status = page.get_by_role("main").get_by_role("status")
        await button.click()
        await expect(status).to_have_text("Choose a file to compare with")
        file = page.get_by_label("With a file")
        await file.set_input_files(folder / "two.acp.jsonl")
        await button.click()
        await expect(status).to_contain_text("2 differences")
        await expect(page.locator(".differences")).to_contain_text("#8 of the file")
        payload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}
        await file.set_input_files([payload])  # pyright: ignore[reportArgumentType]
        await button.click()
        await expect(status).to_contain_text("Expected a recording in notes.txt")
        await expect(page.locator(".differences")).to_have_count(0)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("../../etc/passwd", "Expected a recording in"),
        ("none.acp.jsonl", "Expected a recording in"),
        ("huge.acp.jsonl", "more than 64 MB to compare on the page: use `accord trace diff"),
    ],
)
async def test_recording_that_cannot_be_compared_is_named(
    page: Page, inspector: Inspector, folder: Path, other: str, said: str
) -> None:
    huge = folder / "huge.acp.jsonl"
    save(huge, [*opening(), *turn(2, chunk("x" * 35_000_000))])  # has the text twice
    await page.goto(inspector.address)
    await go(page, f"/compare?recording=one.acp.jsonl&other={other}")
    status = page.get_by_role("main").get_by_role("status")
    await expect(status).to_contain_text(said)
    huge.unlink()


async def test_broken_recording_is_compared_as_far_as_it_can_be_read(
    page: Page, inspector: Inspector
) -> None:
    await page.goto(inspector.address)
    await go(page, "/compare?recording=one.acp.jsonl&other=broken.acp.jsonl")
    await expect(page.locator("view-compare .warn").first).to_contain_text("line 2")
