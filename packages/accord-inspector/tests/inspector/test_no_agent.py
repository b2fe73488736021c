"""Programs that are not agents: the page loads, and says what is wrong and what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Page, expect

from inspector.inspector_process import go, inspecting

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

PYTHON = sys.executable
MEMORY_MB = 200

# A function of the script that sends what `yes` sends, also where it is not installed.
FLOOD = "import os, sys\nblock = sys.argv[1].encode() * (2**16 // len(sys.argv[1]))\n"
FLOOD += "while True: os.write(1, block)"
CLOSES = (
    "import os, sys, time; sys.stderr.write('going silent\\n'); sys.stderr.flush(); os.close(1)"
)
CLOSES += "; time.sleep(600)"
LEAVES = "import sys; sys.stderr.write('reading settings\\nfatal: KEY is not set\\n'); sys.exit(3)"
ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
ONCE = "import pathlib, sys; pathlib.Path(sys.argv[1]).unlink(); sys.exit(1)"

ARGUMENT = "only with an argument such as acp"


@pytest.mark.parametrize("line", ["y\n", "{}\n", '["a"]\n'])
async def test_flood_of_lines_that_are_no_messages(page: Page, line: str) -> None:
    async with inspecting("--", PYTHON, "-c", FLOOD, line) as inspector:
        await page.goto(inspector.address)
        lines = page.locator("header .lines")
        await expect(lines).to_contain_text("lines to stdout that are not messages: “")
        await expect(lines).to_contain_text(line.strip())
        # More come, and few of them are listed.
        await expect(lines).to_contain_text(
            re.compile(r"\(\d \d{3} \d{3} lines, of which the time")
        )
        shown = await lines.inner_text()
        found = re.search(r"shows (\d+)\)", shown)
        assert found is not None, shown
        assert int(found[1]) < 2000
        await expect(page.locator(".message-row:has-text('initialize')")).to_be_visible()
        await go(page, "/conversation")
        await expect(page.locator("agent-trouble")).to_contain_text(ARGUMENT)
        assert psutil.Process(inspector.process.pid).memory_info().rss < MEMORY_MB * 1e6


@pytest.mark.parametrize(
    ("script", "header", "advice"),
    [
        (ECHO, "Agent failed: the program sends back what it receives", ARGUMENT),
        ("import time; time.sleep(600)", "it has not responded to initialize yet", ARGUMENT),
        (
            LEAVES,
            "exited with status 3 before it responded to initialize: fatal: KEY",
            "Start again",
        ),
        (CLOSES, "closed its stdout before it responded to initialize, and was stopped", ARGUMENT),
        ("print('usage: …')", "exited with status 0 before it responded to initialize", ARGUMENT),
    ],
)
async def test_program_that_is_not_an_agent(
    page: Page, script: str, header: str, advice: str
) -> None:
    async with inspecting("--", PYTHON, "-c", script) as inspector:
        await page.goto(inspector.address)
        await expect(page.locator("header .state")).to_contain_text(header)
        await go(page, "/conversation")
        trouble = page.locator("agent-trouble")
        await expect(trouble).to_contain_text(header.removeprefix("Agent failed: "))
        await expect(trouble).to_contain_text(advice)
        if "stderr" in script:
            last = script.partition("write('")[2].partition("\\n'")[0].rpartition("\\n")[2]
            await expect(trouble.locator("pre")).to_contain_text(last)
        await expect(page.get_by_role("button", name="New session")).to_be_disabled()


async def test_program_that_writes_garbage(page: Page) -> None:
    script = "import os, time; os.write(1, bytes(range(14, 256)) * 30 + b'\\n'); time.sleep(600)"
    async with inspecting("--", PYTHON, "-c", script) as inspector:
        await page.goto(inspector.address)
        lines = page.locator("header .lines")
        await expect(lines).to_contain_text("writes a line to stdout that is not a message: “\\x0e")
        assert "\x1b" not in await lines.inner_text()
        await go(page, "/conversation")
        await expect(page.locator("agent-trouble")).to_contain_text("Its log goes to stderr")
        await go(page, "/process")
        await expect(page.locator("view-process .bad").first).to_contain_text("is not a message")


async def test_program_that_does_not_respond_is_started_again(page: Page, tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text("import time; time.sleep(600)")
    async with inspecting("--", PYTHON, str(script)) as inspector:
        await page.goto(inspector.address)
        await expect(page.locator("header .state")).to_have_text("Agent starting")
        script.write_text((Path(__file__).parent / "flooding_agent.py").read_text())
        await page.get_by_role("button", name="Start again").click()
        await expect(page.locator("header .state")).to_have_text("Agent running")


async def test_program_that_is_gone_when_it_is_started_again(
    page: Page, tmp_path: Path, make_program: Callable[[Path, str], None]
) -> None:
    program = tmp_path / "agent"
    make_program(program, ONCE.replace("sys.argv[1]", repr(str(program))))
    async with inspecting("--", str(program)) as inspector:
        await page.goto(inspector.address)
        await expect(page.locator("header .state")).to_contain_text("exited with status 1")
        await page.get_by_role("button", name="Start again").click()
        await expect(page.locator("header .state")).to_contain_text("Agent failed: Cannot start")


@pytest.fixture
def make_program() -> Callable[[Path, str], None]:
    """Return what writes a program that can be started by its path."""

    def make(path: Path, script: str) -> None:
        path.write_text(f"#!{PYTHON}\n{script}\n")
        path.chmod(0o700)

    return make


async def test_agent_that_also_writes_a_line_works(page: Page, tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    agent = (Path(__file__).parent / "flooding_agent.py").read_text()
    at = agent.index("for line in sys.stdin")
    script.write_text(f'{agent[:at]}os.write(1, b"debug: ready\\n")\n{agent[at:]}')
    async with inspecting("--", PYTHON, str(script)) as inspector:
        await page.goto(inspector.address)
        await expect(page.locator("header .state")).to_have_text("Agent running")
        await expect(page.locator("header .lines")).to_have_text(
            "The program writes a line to stdout that is not a message: “debug: ready”"
        )
        # A later start has nothing to do with it.
        script.write_text(agent)
        await page.get_by_role("button", name="Restart").click()
        await expect(page.locator("header .lines")).to_be_empty()
        await expect(page.locator("header .state")).to_have_text("Agent running")
