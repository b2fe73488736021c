"""Opens a recording in `accord inspect` with Chromium, filters and scrolls: `page.py FILE`.

Seconds are those until the page shows rows and final counts, milliseconds those of frames.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SIZE = {"width": 1280, "height": 900}
LIMIT_MS = 60_000
FILTERS = {
    "method_s": ("method=session/prompt", 20_000),
    "session_s": ("session=session-3&direction=to_client", 49_500),
    "errors_s": ("errors=1", 200),
    "text_s": ("text=needle+77", 111),
    "json_path_s": ("path=$.params.update.toolCallId", 10_000),
}
# Waits until the list has rows, and the line above it has no "so far"; returns its text.
SHOWN = """() => {
  const rows = [...document.querySelectorAll(".message-row:not(.loading)")];
  const text = document.querySelector(".list-status")?.textContent ?? "";
  return rows.some((row) => row.checkVisibility()) && PATTERN.test(text) && text;
}"""
# Goes to an address of the page; returns the seconds until it is shown.
FILTER = """async (address) => {
  const script = document.querySelector("script[type=module]").src;
  const { go } = await import(script.replace("app", "router"));
  const start = performance.now();
  go(address);
  const frame = () => new Promise(requestAnimationFrame);
  const isShown = SHOWN;
  let text = "";
  do await frame(); while (!(text = isShown()));
  return [(performance.now() - start) / 1000, text];
}"""
# Moves the list by many pixels at each frame, as a wheel does; returns the times between frames.
SCROLL = """async (step) => {
  const list = document.querySelector(".viewport");
  const times = [];
  let before = await new Promise(requestAnimationFrame);
  for (let count = 0; count < 240; count++) {
    list.scrollTop += step;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
  }
  return times;
}"""
DRAG = """async () => {
  const list = document.querySelector(".viewport");
  const room = list.scrollHeight - list.clientHeight;
  const times = [];
  let before = await new Promise(requestAnimationFrame);
  for (let count = 0; count <= 240; count++) {
    list.scrollTop = (room * count) / 240;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
  }
  return times;
}"""


@contextmanager
def inspector(path: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Run `accord inspect`; yield its address and its process."""
    words = (sys.executable, "-m", "accord", "inspect", "--no-open", "--port", "0", str(path))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, bufsize=1) as program:
        try:
            assert program.stdout is not None
            found = re.search(r"http://\S+", program.stdout.readline())
            assert found is not None
            yield found[0], psutil.Process(program.pid)
        finally:
            program.send_signal(signal.SIGINT)


def shown(pattern: str) -> str:
    return SHOWN.replace("PATTERN", pattern)


def opened(page: Page, path: Path, numbers: dict[str, float], name: str) -> None:
    """Open a recording, and measure from the start of the command."""
    start = time.perf_counter()
    with inspector(path) as (address, _):
        loading = time.perf_counter()
        page.goto(address)
        page.wait_for_function(shown("/messages/"), timeout=LIMIT_MS)
        numbers[f"{name}_rows_s"] = time.perf_counter() - loading
        page.wait_for_function(shown("/ messages(?! so far)/"), timeout=LIMIT_MS)
        numbers[f"{name}_all_s"] = time.perf_counter() - loading
        numbers[f"{name}_command_s"] = time.perf_counter() - start


def used_mb(page: Page) -> float:
    """Return the memory of the largest renderer of the browser."""
    assert page.context.browser is not None
    session = page.context.browser.new_browser_cdp_session()
    found: Any = session.send("SystemInfo.getProcessInfo")
    session.detach()
    pids = [one["id"] for one in found["processInfo"] if one["type"] == "renderer"]
    return max(psutil.Process(pid).memory_info().rss for pid in pids) / 1e6


def frames(times: list[float], name: str) -> dict[str, float]:
    ordered = sorted(times)
    return {
        f"{name}_p50_ms": ordered[len(ordered) // 2],
        f"{name}_p95_ms": ordered[len(ordered) * 95 // 100],
        f"{name}_max_ms": ordered[-1],
    }


def used(page: Page, path: Path) -> dict[str, float]:
    """Filter and scroll a recording that has an index."""
    numbers: dict[str, float] = {}
    with inspector(path) as (address, process):
        page.goto(address)
        page.wait_for_function(shown("/ messages(?! so far)/"), timeout=LIMIT_MS)
        root = f"http://{urlsplit(address).netloc}"
        script = FILTER.replace("SHOWN", shown("/^[\\d\\s]+ of [\\d\\s]+ messages(?! so far)/"))
        for name, (query, expected) in FILTERS.items():
            seconds, text = page.evaluate(script, f"{root}/timeline?{query}")
            found = int(re.sub(r"\s", "", text.partition(" of ")[0]))
            numbers[name] = seconds
            if "1 000 000" in text.replace("\u202f", " ").replace("\u2009", " "):
                assert found == expected, (name, text)
        page.evaluate(FILTER.replace("SHOWN", shown("/ messages/")), f"{root}/timeline")
        numbers.update(frames(page.evaluate(SCROLL, 60), "wheel"))
        numbers.update(frames(page.evaluate(DRAG), "drag"))
        numbers["page_mb"] = used_mb(page)
        numbers["server_mb"] = process.memory_info().rss / 1e6
    return numbers


def main(path: Path) -> None:
    numbers: dict[str, float] = {}
    browser_path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if browser_path is None:
        sys.exit("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        opened(page, path, numbers, "first")
        opened(page, path, numbers, "indexed")
        numbers.update(used(page, path))
        browser.close()
    print("RESULT", json.dumps(numbers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
