"""Conversations exported as pages, in a browser: readable on a phone; agents write only text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Raw
from playwright.async_api import Browser, Page

from accord import Diff
from accord.agent import MessageUpdate, PlanUpdate, ToolCallUpdate
from accord.client.events import Event, Plan, Text, Thought, ToolCall, UserText
from accord.client.transcript import Transcript
from accord.text.markdown_html import page_of
from accord.types.session import PlanEntry
from accord_chat.model.conversation import Timeline
from accord_chat.model.conversation import exported as exported_chat
from accord_coder.commands.builtin import markdown_parts
from accord_terminal.sessions.cli.transfer import exported as exported_session
from accord_terminal.sessions.journal import Ended, Entry, Queued, Started, Updated
from accord_terminal.sessions.records import Record
from inspector.test_accessibility import AXE, problems_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = "a_very_long_name_without_any_space_" * 8
HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
ANSWER = f"""# Result

**Bold**, `code`, [a link](https://example.com/x) and [another](javascript:alert(1)).
{HOSTILE} \u202egnp.exe ![picture](https://example.com/track.png)

| Name | Value | Notes |
|---|:-:|---|
| {WIDE} | 1 | {WIDE} |

- [ ] one
- two

```python
print("{WIDE}")
```

~~gone~~

```
left open"""
OLD, NEW = "a = 1\nb = 2\n", f"a = 1\nb = '{HOSTILE}'\n{WIDE}\n"
PATCH = "@@ -1,2 +1,3 @@\n a = 1\n-b = 2\n" + "".join(f"+{line}\n" for line in NEW.splitlines()[1:])
TITLE = "Edit **app.py** <b>"


def chat() -> str:
    events: list[Event] = [
        UserText("Fix *it*", "1"),
        Thought("I think\n\nabout it."),
        ToolCall(
            id="t",
            title=TITLE,
            kind="edit",
            status="completed",
            content=(Diff("/w/app.py", OLD, NEW), "1 file changed"),
        ),
        Text(ANSWER),
        Plan((PlanEntry("Fix it", "high", "completed"),)),
        UserText("Thanks", "2"),
        Text("After the open block."),
    ]
    timeline = Timeline(Transcript.from_events(events))
    timeline.sync()
    return exported_chat("html", TITLE, "/w", timeline.entries, timeline.transcript).text


def update(**value: object) -> Updated:
    return Updated(prompt="p1", at="2026-01-01T00:00:00Z", update=Raw(json.dumps(value).encode()))


def chunk(kind: str, text: str) -> Updated:
    return update(sessionUpdate=kind, content={"type": "text", "text": text})


def session() -> str:
    at = "2026-01-01T00:00:00Z"
    content = Raw(json.dumps([{"type": "text", "text": "Fix *it*\nplease"}]).encode())
    entries: list[Entry] = [
        Queued(prompt="p1", at=at, content=content, text="Fix *it*", by="me"),
        Started(prompt="p1", at=at, content=content, by="me"),
        chunk("agent_thought_chunk", "I think\n\nabout it."),
        update(
            sessionUpdate="tool_call",
            toolCallId="t",
            title=TITLE,
            kind="edit",
            status="completed",
            content=[
                {"type": "diff", "path": "/w/app.py", "oldText": OLD, "newText": NEW},
                {"type": "content", "content": {"type": "text", "text": "1 file changed"}},
            ],
        ),
        chunk("agent_message_chunk", ANSWER),
        Ended(prompt="p1", at=at, stop_reason="end_turn"),
        Queued(prompt="p2", at=at, content=content, text="Thanks", by="me"),
        Started(prompt="p2", at=at, content=content, by="me"),
        chunk("agent_message_chunk", "After the open block."),
        Ended(prompt="p2", at=at, stop_reason="end_turn"),
    ]
    record = Record(
        id="s-1", cwd="/w", agent="x", argv=("x",), created_at=at, used_at=at, title=TITLE
    )
    return exported_session(record, entries, "html").decode()


def coder() -> str:
    updates = [
        MessageUpdate("user", "1", ("Fix *it*",)),
        MessageUpdate("thought", "2", ("I think\n\nabout it.",)),
        ToolCallUpdate(
            id="t",
            title=TITLE,
            status="completed",
            content=(Diff("/w/app.py", patch=PATCH), "1 file changed"),
        ),
        MessageUpdate("agent", "3", (ANSWER,)),
        PlanUpdate("p", (PlanEntry("Fix it", "high", "completed"),)),
        MessageUpdate("agent", "4", ("After the open block.",)),
    ]
    return page_of(TITLE, markdown_parts(updates, TITLE))


EACH = pytest.mark.parametrize("export", [chat, session, coder])


async def opened(
    browser: Browser, tmp_path: Path, page: str, width: int, *, scripts: bool = False
) -> Page:
    file = tmp_path / "export.html"
    file.write_text(page, "utf-8")
    context = await browser.new_context(
        bypass_csp=scripts, viewport={"width": width, "height": 800}, color_scheme="dark"
    )
    tab = await context.new_page()
    await tab.goto(file.as_uri())
    return tab


@EACH
async def test_axe_finds_nothing_serious_in_an_exported_page(
    browser: Browser, tmp_path: Path, export: Callable[[], str]
) -> None:
    if not AXE.is_file():
        why = "axe-core is not installed: sh packages/accord-inspector/tests/inspector/install.sh"
        if os.environ.get("ACCORD_REQUIRE_BROWSER"):
            pytest.fail(why)
        pytest.skip(why)
    page = await opened(browser, tmp_path, export(), 360, scripts=True)
    await page.add_script_tag(path=AXE)
    assert await problems_of(page, "") == []
    await page.emulate_media(color_scheme="light")
    assert await problems_of(page, "runOnly: ['color-contrast']") == []
    await page.context.close()


@pytest.mark.parametrize("width", [320, 360, 1280])
@EACH
async def test_exported_page_does_not_scroll_sideways(
    browser: Browser, tmp_path: Path, export: Callable[[], str], width: int
) -> None:
    page = await opened(browser, tmp_path, export(), width)
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    await page.context.close()


@EACH
async def test_exported_page_shows_markdown_and_runs_and_loads_nothing(
    browser: Browser, tmp_path: Path, export: Callable[[], str]
) -> None:
    page = await opened(browser, tmp_path, export(), 800)
    assert await page.locator("strong", has_text="Bold").count() == 1
    assert await page.locator("td").count() == 3
    assert await page.locator("pre code.language-python").count() == 1
    assert await page.locator("ins", has_text="<script>").count() >= 1
    assert await page.locator("del", has_text="b = 2").count() == 1
    assert await page.locator("p", has_text="After the open block.").count() == 1
    assert await page.locator("img, script, iframe, main b").count() == 0
    assert await page.title() == TITLE
    links = await page.locator("a").evaluate_all("all => all.map(one => one.href)")
    assert links == ["https://example.com/x", "https://example.com/track.png"]
    assert "\u202e" not in await page.inner_text("main")
    style = "getComputedStyle(document.querySelector('main')).maxWidth"
    assert await page.evaluate(style) == "832px", "the policy allows the page's own style"
    await page.context.close()
