"""The page shows the deliberate mistake of each of ten broken agents."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from accord_trace.recording import HopRecorder, Recording
from inspector.inspector_process import MODULE, go, inspecting
from inspector.recordings import opening, save

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

BROKEN = Path(__file__).parent / "broken"
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("initialize", {"protocolVersion": 1, "clientInfo": {"name": "test", "version": "1"}}),
    ("session/new", {"cwd": "/", "mcpServers": []}),
    ("session/prompt", {"sessionId": "session-1", "prompt": [{"type": "text", "text": "List"}]}),
    ("session/set_mode", {"sessionId": "session-1", "modeId": "code"}),
)
# The rule that a message breaks, and what the page says of it.
SHOWN: dict[str, tuple[str | None, str]] = {
    "agent_01": ("R-INIT-08", "title"),
    "agent_02": (None, "No response so far"),
    "agent_03": ("R-GEN-06", "exactly one response"),
    "agent_04": ("R-SESS-02", "session-2"),
    "agent_05": ("R-PROMPT-06", "one of cancelled, end_turn"),
    "agent_06": ("R-TOOL-01", "call-7"),
    "agent_07": ("R-TERM-01", "terminal/create"),
    "agent_08": ("R-STDIO-04", "not a message"),
    "agent_09": ("R-GEN-06", '"2"'),
    "agent_10": ("R-PERM-16", "maybe"),
}


async def record(program: Path, hop: HopRecorder) -> None:
    """Talk to an agent as a client that makes no mistakes; record both sides."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def send(message: dict[str, Any]) -> None:
        frame = json.dumps({"jsonrpc": "2.0", **message}).encode()
        hop.frames("to_agent", [frame])
        process.stdin.write(frame + b"\n")

    left = [{"id": n, "method": m, "params": p} for n, (m, p) in enumerate(REQUESTS)]
    send(left.pop(0))
    while line := await process.stdout.readline():
        hop.frames("to_client", [line.rstrip()])
        if not line.startswith(b"{"):
            continue
        message = json.loads(line)
        if "method" in message and "id" in message:
            outcome = {"outcome": {"outcome": "cancelled"}}
            if options := message["params"].get("options"):
                chosen = {"outcome": "selected", "optionId": options[0]["optionId"]}
                outcome = {"outcome": chosen}
            if message["method"] == "terminal/create":
                error = {"code": -32601, "message": "Method not found"}
                send({"id": message["id"], "error": error})
            else:
                send({"id": message["id"], "result": outcome})
        elif message.get("id") == len(REQUESTS) - 1:
            process.stdin.close()
        elif "result" in message and len(left) == 2:
            # The last request is sent with the prompt: some agents never answer that.
            send(left.pop(0))
            send(left.pop(0))
        elif "result" in message and left:
            send(left.pop(0))
    await process.wait()


async def test_the_page_shows_the_mistake_of_each_broken_agent(page: Page, tmp_path: Path) -> None:
    programs = {path.stem: path for path in BROKEN.glob("*.py")}
    assert set(programs) == {*SHOWN, "correct"}
    path = tmp_path / "broken.acp.jsonl"
    with Recording(path) as recording:
        async with asyncio.timeout(30):
            for name, program in programs.items():
                await record(program, recording.hop(conn=name))
    async with inspecting(str(path)) as inspector:
        await page.goto(inspector.address)
        await expect(page.get_by_text(re.compile(r"\d broken rules"))).to_be_visible(
            timeout=15_000
        )  # all judged
        found = await page.evaluate("fetch('/api/messages?count=500').then(r => r.json())")
        marked: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
        for row in found["rows"]:
            if "rules" in row or (row["kind"] == "request" and "pair" not in row):
                marked[row["conn"]].append(row)
        assert marked.pop("correct") == []
        for name, rows in marked.items():
            rule, text = SHOWN[name]
            assert rows, name
            rows.sort(key=lambda row: "rules" not in row)
            assert rule in rows[0].get("rules", [None])
            await go(page, f"/timeline/{rows[0]['n'] + 1}")
            message = page.locator("message-view")
            await expect(message).to_contain_text(f"#{rows[0]['n'] + 1}")
            if rule is not None:
                message = page.get_by_role("region", name="Broken rules")
                await expect(message).to_contain_text(rule)
            await expect(message).to_contain_text(text)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("agent_01", "Expected string, got integer at $.update.title"),
        ("agent_03", "Turn ended"),
        ("agent_05", "Turn ended with the unknown stop reason “done”"),
        ("agent_07", "Turn ended"),
        ("agent_08", "The program writes a line to stdout that is not a message"),
    ],
)
async def test_every_view_leads_to_the_messages_that_break_rules(
    page: Page, name: str, seen: str
) -> None:
    async with inspecting("--", sys.executable, str(BROKEN / f"{name}.py")) as inspector:
        await page.goto(inspector.address)
        await expect(page.locator("header .state")).to_have_text("Agent running")
        await expect(page.locator("header .broken")).to_be_hidden()
        await go(page, "/conversation")
        await page.get_by_role("button", name="New session").click()
        box = page.locator("textarea.prompt")
        await box.fill("List the files")
        await box.press("Enter")
        allow = page.locator(".question.permission button").first
        await expect(allow.or_(page.locator(".entry.end")).first).to_be_visible()
        if await allow.is_visible():
            await allow.click()
        await expect(page.locator("view-conversation")).to_contain_text(seen)
        await expect(page.locator(".entry.failure")).to_have_count(0)
        await go(page, "/statistics")
        await page.get_by_role("link", name="1 message breaks a rule").click()
        await expect(page).to_have_url(f"{inspector.origin}/timeline?rule=any")
        await expect(page.locator(".list-status")).to_contain_text("1 of 1")
        await expect(page.locator(".list-status")).to_contain_text("1 broken rule")
        await page.locator(".message-row .marks:has-text('R-')").click()
        await expect(page.get_by_role("region", name="Broken rules")).to_be_visible()
        if name == "agent_03":
            rules = page.get_by_role("region", name="Broken rules")
            await expect(rules).to_contain_text("Respond to each request exactly once")
            await expect(page.locator("message-view")).to_contain_text("Its request: none")


async def test_conversation_names_and_marks_the_messages_that_break_rules(
    page: Page, tmp_path: Path
) -> None:
    path = tmp_path / "broken.acp.jsonl"
    with Recording(path) as recording:
        async with asyncio.timeout(30):
            await record(BROKEN / "agent_10.py", recording.hop())
    async with inspecting(str(path)) as inspector:
        await page.goto(inspector.address)
        await go(page, "/conversation")
        line = page.locator(".broken-line")
        await expect(line).to_contain_text("1 message of this session breaks a rule: #")
        link = line.get_by_role("link", name="R-PERM-16")
        number = (await link.inner_text()).split()[0]
        marked = page.locator(".entry.permission .message-link")
        await expect(marked).to_have_text(f"⚠ {number}")
        await expect(page.locator(".message-link.bad")).to_have_count(1)
        await expect(page.locator("agent-trouble")).to_be_hidden()  # a recording has no agent
        box = await line.bounding_box()
        assert box is not None
        assert box["height"] < 60  # the rest of the room is for the conversation
        await link.click()
        await expect(page).to_have_url(f"{inspector.origin}/timeline/{number.removeprefix('#')}")
        await expect(page.get_by_role("region", name="Broken rules")).to_contain_text("R-PERM-16")


async def test_messages_that_break_rules_are_not_loaded_with_each_new_count(
    page: Page, tmp_path: Path
) -> None:
    """The server looks through the recording each time, and counts come ten times a second."""
    await page.route_web_socket("**/api/live", lambda _socket: None)  # the counts come from here
    async with inspecting(str(save(tmp_path / "r.acp.jsonl", opening()))) as inspector:
        await page.goto(inspector.address)
        await page.goto(f"{inspector.origin}/faults")
        asked: list[int] = await page.evaluate(
            f"""async () => {{
              const {{ live }} = await ({MODULE})("api");
              const {{ BrokenLine }} = await ({MODULE})("conversation_broken");
              const {{ fetch, setTimeout }} = window;
              let asked = 0;
              window.fetch = async (url, options) => {{
                if (!url.includes("only-here")) return fetch(url, options);
                return Response.json({{ matched: ++asked, rows: [] }});
              }};
              const timers = [];
              window.setTimeout = (call) => timers.push(call);
              window.clearTimeout = (timer) => {{ timers[timer - 1] = () => {{}}; }};
              const counts = {{ total: 9, matched: 9, complete: true, rate: 0, broken: 0 }};
              const pushTwice = () => {{
                for (const _ of "12") {{
                  counts.broken += 1;
                  live.received({{ messages: {{ watch: live.watches, ...counts }} }});
                }}
                return asked;
              }};
              const shown = async () => {{
                for (let n = 0; n < 2000; n += 1) {{
                  if (line.element.textContent.startsWith(`⚠ ${{asked}} message`)) return;
                  await new Promise((done) => setTimeout(done, 10));
                }}
              }};
              const wake = () => {{
                timers.forEach((call, at) => {{ timers[at] = () => {{}}; call(); }});
                return asked;
              }};
              const line = new BrokenLine("only-here", "", document.body);
              const seen = [pushTwice()];
              await shown();
              seen.push(pushTwice(), wake());
              await shown();
              seen.push(wake(), pushTwice());
              await shown();
              pushTwice();
              line.end();
              seen.push(wake(), pushTwice());
              return seen;
            }}"""
        )
        assert asked == [1, 1, 2, 2, 3, 3, 3]
