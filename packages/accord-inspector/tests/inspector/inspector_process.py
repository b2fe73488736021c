"""Runs `accord inspect` as a user does, for the tests of the inspector."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.async_api import Page

START_S = 30.0
STOP_S = 20.0
SCRIPT_AGENT = (sys.executable, "-m", "accord", "agent", "script")


# The module of the page that has this name, in a script.
MODULE = "(name) => import(document.querySelector('script[type=module]').src.replace('app', name))"


async def go(page: Page, address: str) -> None:
    """Go to an address of the page that is open, without loading it again."""
    await page.evaluate(f"async (target) => (await ({MODULE})('router')).go(target)", address)


class Inspector:
    """A running `accord inspect`."""

    def __init__(self, process: Process, address: str) -> None:
        self.process = process
        self.address = address  # with the token
        self.origin = "http://" + urlsplit(address).netloc

    async def interrupt(self) -> int:
        """Press Ctrl-C; return the exit status."""
        self.process.send_signal(signal.SIGINT)
        return await asyncio.wait_for(self.process.wait(), STOP_S)


async def start(*words: str, cwd: Path | None = None) -> Process:
    command = (sys.executable, "-m", "accord", "inspect", "--no-open", "--port", "0", *words)
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd
    )


async def address_in(stream: asyncio.StreamReader) -> str:
    """Return the address that the program prints."""
    async with asyncio.timeout(START_S):
        seen = ""
        while line := (await stream.readline()).decode():
            seen += line
            if found := re.search(r"http://\S+", line):
                return found[0]
    raise AssertionError(f"no address: {seen}")


@asynccontextmanager
async def inspecting(*words: str, cwd: Path | None = None) -> AsyncIterator[Inspector]:
    """Run the program inside the block; it must end by Ctrl-C with status 0."""
    process = await start(*words, cwd=cwd)
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read())
    try:
        try:
            address = await address_in(process.stdout)
        except AssertionError as error:
            raise AssertionError(f"{error}{(await errors).decode()}") from None
        inspector = Inspector(process, address)
        yield inspector
        if process.returncode is None:
            assert await inspector.interrupt() == 0, (await errors).decode()
        text = (await errors).decode()
        assert "Traceback" not in text, text
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await errors
