"""A real Chromium with touch for the tests of the page, and a machine with sessions of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Generator, Iterator

import pytest
import pytest_asyncio

from forked import forked_programs
from sessions_named.machine import Machine, new_machine

try:
    from playwright.async_api import Browser, async_playwright, expect
except ImportError:
    MISSING = "playwright is not installed"
else:
    MISSING = ""

WAIT_MS = 25_000  # on a busy machine
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    """Start the programs of the tests by forks."""
    with forked_programs():
        yield


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Generator[Machine]:
    with new_machine(monkeypatch) as found:
        yield found


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
