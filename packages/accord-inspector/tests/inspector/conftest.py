"""A real Chromium for the tests of the inspector's page; programs of Accord start by forks.

A module with browser tests has `pytestmark = pytest.mark.asyncio(loop_scope="session")`: all of
them share one Chromium with one profile (cookies, storage, cache), because a new profile loads the
page anew. Each test has a tab of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from forked import forked_programs

try:
    from playwright.async_api import (
        Browser,
        BrowserContext,
        ConsoleMessage,
        Page,
        async_playwright,
        expect,
    )
except ImportError:
    MISSING = "playwright is not installed"
else:
    MISSING = ""

WAIT_MS = 25_000  # on a busy machine
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    """Start programs by forks; a module whose subject is the start itself has its own `forks`."""
    with forked_programs():
        yield


def chromium_path() -> str:
    """Return the browser's path; skip the test without one, unless ACCORD_REQUIRE_BROWSER."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    why = MISSING or ("" if found else "Chromium is not installed")
    if why:
        if os.environ.get("ACCORD_REQUIRE_BROWSER"):
            pytest.fail(why)
        pytest.skip(why)
    assert found is not None
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = chromium_path()
    expect.set_options(timeout=WAIT_MS)
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=FLAGS, headless=True)
        yield opened
        await opened.close()


class Profile:
    """A browser profile. Errors of scripts in its tabs are collected."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.problems: list[str] = []
        context.set_default_timeout(WAIT_MS)
        context.on("weberror", lambda error: self.problems.append(str(error.error)))
        context.on("console", self._console)

    def _console(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.problems.append(message.text)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def profile(browser: Browser) -> AsyncIterator[Profile]:
    context = await browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    yield Profile(context)
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def context(profile: Profile) -> AsyncIterator[BrowserContext]:
    """The browser profile; errors of scripts fail the test, whose tabs are closed at its end."""
    profile.problems.clear()
    before = set(profile.context.pages)
    yield profile.context
    for page in set(profile.context.pages) - before:
        await page.close()
    assert not profile.problems, profile.problems


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> Page:
    """A tab."""
    return await context.new_page()
