"""Serves the page in this process, and opens it in a tab of a phone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from accord.remote.access import Access
from accord.remote.server import ServerOptions, Stop, run_server
from accord.remote.sockets import address_of, open_tcp
from accord_terminal.sessions.records import Store
from accord_web.app import WebApp, WebSettings
from accord_web.devices import Devices, Role, web_file

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 2,
}
WAIT_S = 25.0


class Server:
    """A server that listens."""

    def __init__(self, app: WebApp, devices: Devices, port: int) -> None:
        self.app = app
        self.devices = devices
        self.port = port
        self.address = f"http://127.0.0.1:{port}"

    def pairing(self, role: Role = "full") -> str:
        return f"{self.address}/pair#{self.devices.new_code(role)}"


@asynccontextmanager
async def serving(
    port: int = 0,
    roots: tuple[Path, ...] = (),
    agents: tuple[str, ...] = (),
    origins: Sequence[str] = (),
) -> AsyncIterator[Server]:
    """Serve the sessions of the machine of the test."""
    devices = Devices(web_file())
    opened = open_tcp("127.0.0.1", port)
    bound = address_of(opened)[1] or 0
    app = WebApp(
        Store(),
        devices,
        Access(authenticate=lambda _: None, origins=origins),
        WebSettings(roots=roots, agents=agents),
    )
    stop, ready = Stop(), asyncio.Event()
    options = ServerOptions(passed=[opened], drain_s=0.0)
    task = asyncio.create_task(run_server(app, options, lambda _: ready.set(), stop))
    try:
        async with asyncio.timeout(WAIT_S):
            await ready.wait()
        yield Server(app, devices, bound)
    finally:
        stop.request()
        async with asyncio.timeout(WAIT_S):
            await task


async def paired(browser: Any, server: Server, name: str, role: Role = "full", **more: Any) -> Any:
    """Return a tab of a phone that was paired; errors of its scripts are in `context.problems`."""
    context = await browser.new_context(**PHONE, **more)
    context.set_default_timeout(WAIT_S * 1000)
    context.problems = []
    context.on("weberror", lambda error: context.problems.append(str(error.error)))
    context.on(
        "console",
        lambda said: "Security Policy" in said.text and context.problems.append(said.text),
    )
    page = await context.new_page()
    await page.goto(server.pairing(role))
    await page.get_by_label("Name of this device").fill(name)
    await page.get_by_role("button", name="Pair this device").tap()
    await page.wait_for_url(f"{server.address}/")
    return page
