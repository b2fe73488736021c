"""A real Chromium for the tests of the inspector's page.

A module with browser tests has `pytestmark = pytest.mark.asyncio(loop_scope="session")`: all of
them share one Chromium, and each test has a context (cookies, storage) of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

try:
    from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect
except ImportError:
    MISSING = "playwright is not installed"
else:
    MISSING = ""

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
    expect.set_options(timeout=15_000)
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=FLAGS, headless=True)
        yield opened
        await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser profile: its pages share cookies. Errors of scripts fail the test."""
    opened = await browser.new_context()
    opened.set_default_timeout(15_000)
    problems: list[str] = []
    opened.on("weberror", lambda error: problems.append(str(error.error)))
    opened.on(
        "console",
        lambda message: (
            problems.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    yield opened
    await opened.close()
    assert not problems, problems


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> Page:
    """A page of its own browser profile."""
    return await context.new_page()
