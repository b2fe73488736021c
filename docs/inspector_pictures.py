"""Makes the pictures of `accord inspect` in docs/images: `make screenshots`.

It talks to the script agent on the real page, in a Chromium that is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

IMAGES = Path(__file__).parent / "images"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SIZE = {"width": 1200, "height": 720}
MAX_BYTES = 160_000
FOLDER = "/home/me/shop"  # shown in place of the real folder
# Replaces a text everywhere on the page, also in fields.
REPLACE = """([from, to]) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.data.includes(from)) node.data = node.data.replaceAll(from, to);
  }
  for (const field of document.querySelectorAll("input, textarea")) {
    if (field.value.includes(from)) field.value = field.value.replaceAll(from, to);
  }
}"""


@contextmanager
def inspected(folder: Path) -> Iterator[str]:
    """Run the program in a folder; yield the address of its page."""
    tools = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
    }
    words = ["accord", "inspect", "--no-open", "--port", "0", "--", "accord", "agent", "script"]
    with subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            found = re.search(r"http://\S+", program.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            program.send_signal(signal.SIGINT)


class Camera:
    """Takes pictures of a page."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self._folder = folder

    def take(self, name: str) -> None:
        self.page.evaluate(REPLACE, [str(self._folder), FOLDER])
        path = IMAGES / f"inspector-{name}.png"
        self.page.screenshot(path=path, animations="disabled", caret="hide")
        size = path.stat().st_size
        print(f"{path.name}: {size} bytes")
        assert size < MAX_BYTES, f"{path.name} is too large for the docs"


def talk(camera: Camera) -> None:
    """A turn in the conversation, with a permission request."""
    page = camera.page
    page.get_by_role("link", name="Conversation").click()
    page.get_by_role("button", name="New session").click()
    box = page.locator("textarea.prompt")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    box.fill("full shop.py")
    box.press("Escape")
    box.press("Enter")
    allow = page.get_by_role("button", name=re.compile("Allow")).first
    expect(allow).to_be_visible()
    expect(page.locator(".entry").nth(4)).to_be_attached()
    page.set_viewport_size({"width": SIZE["width"], "height": 900})
    camera.take("conversation")
    page.set_viewport_size(SIZE)
    allow.click()
    expect(page.locator("view-conversation")).to_contain_text("I have deleted it again")


def send(camera: Camera, origin: str) -> None:
    """A request by hand, with a mistake."""
    page = camera.page
    page.goto(f"{origin}/send?version=2&direction=to_agent&method=session/prompt")
    params = page.get_by_label("Params as JSON")
    expect(params).to_have_value(re.compile("session-"))
    for number, text in enumerate(("stream 200 a", "updates", "stream 50 b", "updates"), 1):
        page.get_by_label("text", exact=True).fill(text)
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.locator(".answers").get_by_text("answered after")).to_have_count(number)
    params.fill(params.input_value().replace('"updates"', "42"))
    expect(page.locator(".field-problem")).to_be_visible()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".answers li").first).to_contain_text("error after")
    page.locator("main").evaluate("main => main.scrollTo(0, 0)")
    camera.take("send")


def take_all(camera: Camera, origin: str) -> None:
    page = camera.page
    talk(camera)
    send(camera, origin)
    page.goto(f"{origin}/timeline?errors=1")
    page.locator(".message-row.error").last.click()
    request = page.get_by_role("link", name="Its request").get_attribute("href") or ""
    page.goto(f"{origin}{request.partition('?')[0]}?method=session/prompt")
    expect(page.locator("message-view .broken")).to_be_visible()
    expect(page.get_by_text(re.compile("^[0-9]+ of [0-9]+ messages"))).to_be_visible()
    page.set_viewport_size({"width": 1100, "height": 600})
    camera.take("timeline")
    page.set_viewport_size(SIZE)
    page.goto(f"{origin}/statistics")
    expect(page.locator("view-statistics svg")).not_to_have_count(0)
    camera.take("statistics")
    page.goto(f"{origin}/process")
    expect(page.locator("view-process svg")).to_have_count(2)
    camera.take("process")
    page.goto(f"{origin}/capabilities")
    expect(page.locator("table.capabilities")).to_have_count(2)
    camera.take("capabilities")
    page.goto(f"{origin}/faults")
    page.get_by_role("combobox", name="Fault", exact=True).select_option(label="Drop")
    page.get_by_label("Only this method").fill("session/update")
    page.get_by_label("Every n-th").fill("3")
    page.get_by_role("button", name="Switch on").click()
    expect(page.locator("faults-bar")).to_be_visible()
    camera.take("faults")


def main() -> None:
    """Make all pictures."""
    browser_path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if browser_path is None:
        sys.exit("make screenshots needs Chromium: apt-get install chromium")
    expect.set_options(timeout=30_000)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = Path(temporary).resolve()
        (folder / "shop.py").write_text("def price(net, rate=0.19):\n    return net * (1 + rate)\n")
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        with inspected(folder) as address:
            page = browser.new_page(viewport=SIZE, color_scheme="dark")  # type: ignore[arg-type]
            page.goto(address)
            expect(page.locator("header .state")).to_have_text("Agent running")
            take_all(Camera(page, folder), page.url.partition("/timeline")[0])
        browser.close()


if __name__ == "__main__":
    main()
