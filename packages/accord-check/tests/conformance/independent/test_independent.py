"""The kit and the library, tested with an agent and a client that were written independently."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import accord
from accord.client.permissions import allow
from accord.transports.base import Transport
from accord.transports.memory import ServedTransport
from accord.transports.process import process
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import read_settings
from accord_conformance.reports.report import RunResult
from conformance.independent.threads import select, serve
from conformance.live import _form
from versions import only

HERE = Path(__file__).parent
AGENT = (sys.executable, str(HERE / "agent.py"))
ACCORD = (sys.executable, "-m", "accord")
PATIENCE_S = 55.0
BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


async def check(
    breaks: str,
    versions: tuple[int, ...],
    chosen: str = "",
    *,
    vary: str = "",
    in_process: bool = False,
) -> RunResult:
    """Check the independent agent: all scenarios, or those of some areas or names.

    It runs in threads of this process, or as the process that it is where that matters.
    """
    names = chosen.split()
    scenarios = [
        one
        for one in agent_scenarios()
        if not names or one.name in names or one.name.partition("/")[0] in names
    ]
    settings = read_settings(HERE / "kept.toml")
    # Only these are waited for; the others have time on a busy machine.
    is_silent = breaks in ("no-idle", "other-id") or vary == "deaf"
    timeout, answer = (4.0, 2.0) if is_silent else (30.0, 15.0)
    settings = msgspec.structs.replace(settings, timeout=timeout, answer=answer)

    def connect(noise: Callable[[str], None]) -> Transport:
        if in_process:
            return process(*AGENT, env={"BREAK": breaks, "VARY": vary}, on_stdout_noise=noise)()
        return ServedTransport(serve)

    select(breaks, vary)

    async with asyncio.timeout(PATIENCE_S):
        return await AgentRun(connect, scenarios, settings).run(versions)


def broken(result: RunResult) -> set[tuple[str, int]]:
    return set(result.failed_rules(strict=True))


async def run_client(*arguments: str, cwd: Path, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """Run the independent client, and return its output."""
    client = await asyncio.create_subprocess_exec(
        sys.executable,
        str(HERE / "client.py"),
        "--cwd",
        str(cwd),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(patience_s):
            output, _ = await client.communicate()
    finally:
        if client.returncode is None:
            client.kill()
            await client.wait()
    seen: dict[str, Any] = json.loads(output)
    assert "problem" not in seen
    assert client.returncode == 0
    return seen


async def test_independent_agent_conforms() -> None:
    result = await check("", (1, 2))
    assert broken(result) == set()
    assert [one for one in result.scenario_results if one.outcome == "unfinished"] == []
    passed = [version for _, version in result.passed_rules()]
    # Few less than now, so that a rule that is no longer exercised does not count as passed.
    assert passed.count(1) >= 110
    assert passed.count(2) >= 150


@pytest.mark.parametrize(
    ("vary", "scenarios"),
    [
        (
            "spaces,words-as-ids,whole,no-background",
            "prompts permissions files terminals background",
        ),
        ("chunks,close-fails", "prompts cancellation sessions reopening"),
        ("bare", "handshake login session-list reopening options sessions"),
        ("deaf", "prompts/held cancellation permissions"),
        ("cancel-error", "cancellation permissions"),
    ],
)
async def test_allowed_variants_are_not_findings(vary: str, scenarios: str) -> None:
    # The first one is about lines, too.
    result = await check("", (1, 2), scenarios, vary=vary, in_process="spaces" in vary)
    assert broken(result) == set()
    assert [one for one in result.scenario_results if one.outcome == "unfinished"] == []


@pytest.mark.timeout(180)  # all scenarios, on a busy machine
@BOTH
async def test_independent_client_conforms(version: int, tmp_path: Path) -> None:
    seen = await run_client(
        "--version",
        str(version),
        "--cancel-on",
        "Please cancel this turn",
        "check: all",
        "check: cancellation/turn",
        "--",
        # With the usual time limit for the user: all later scenarios would miss one who is late.
        *(*ACCORD, "check", "client", "--report", "report.json"),
        cwd=tmp_path,
        patience_s=150.0,
    )
    assert seen["version"] == version
    assert seen["stops"] == ["cancelled", "cancelled"]
    reports = json.loads((tmp_path / "report.json").read_text("utf-8"))["reports"]
    rules = [rule for report in reports for rule in report["rules"]]
    assert [rule["id"] for rule in rules if rule["broken"]] == []
    assert sum(rule["kept"] > 0 for rule in rules) >= 70


BREAKS = [
    # the break, its version, the scenarios that show it, the rule, and what follows from it
    ("no-stop-reason", 1, "prompts/text sessions/new", "R-PROMPT-04"),
    ("late-update", 1, "prompts/tool sessions/new", "R-PROMPT-08"),
    ("backwards", 1, "prompts/tool sessions/new", "R-TOOL-04"),
    ("backwards", 2, "prompts/tool sessions/new", "R-TOOL-04"),
    ("works-on", 1, "cancellation sessions/new", "R-CANCEL-05"),
    ("works-on", 2, "cancellation sessions/new", "R-CANCEL-07"),
    ("no-running", 2, "prompts/text sessions/new", "R-PROMPT-11"),
    ("no-idle", 2, "prompts/text session-list/delete", "R-PROMPT-12"),
    ("any-session", 2, "sessions reopening/unknown", "R-SESS-37", "R-SESS-02"),
    ("no-replay", 1, "reopening session-list", "R-SESS-08"),
    ("lists-all", 1, "reopening session-list", "R-LIST-03"),
    ("lists-all", 2, "reopening session-list", "R-LIST-03"),
    ("other-id", 1, "session-list/pages sessions/new", "R-GEN-06"),
    ("answers-twice", 2, "session-list sessions/new", "R-GEN-06"),
    ("chatter", 2, "sessions/new session-list", "R-STDIO-04"),
    ("relative-path", 1, "files terminals sessions/new", "R-GEN-01"),
    ("relative-path", 2, "files terminals sessions/new", "R-GEN-01"),
    ("keeps-terminals", 1, "files terminals sessions/new", "R-TERM-09"),
    ("unknown-option", 1, "permissions/invalid-response sessions/new", "R-PERM-05"),
    ("unknown-option", 2, "permissions/invalid-response sessions/new", "R-PERM-05"),
    ("leaves-open", 2, "permissions/close sessions/new", "R-SESS-34"),
    ("unserved:session/load", 1, "reopening sessions/new", "R-ERR-01"),
    ("unserved:session/fork", 2, "reopening sessions/new", "R-ERR-01"),
    ("unserved:logout", 1, "login sessions/new", "R-ERR-01"),
    ("any-cursor", 2, "reopening sessions/new", "R-SESS-16"),
    ("unserved:tool_call/cancel", 2, "background sessions/new", "R-TCAN-05"),
]


@pytest.mark.parametrize(
    ("breaks", "version", "scenarios", "rules"),
    [(name, version, chosen, set(rules)) for name, version, chosen, *rules in BREAKS],
    ids=[f"{one[0]}-v{one[1]}" for one in BREAKS],
)
async def test_break_fails_its_rule_and_no_other(
    breaks: str, version: int, scenarios: str, rules: set[str]
) -> None:
    result = await check(breaks, (version,), scenarios, in_process=breaks == "chatter")
    assert broken(result) == {(rule, version) for rule in rules}


@BOTH
async def test_accord_client_works_with_the_independent_agent(version: int, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("A note.", "utf-8")
    reported: dict[str, str] = {}
    async with (
        asyncio.timeout(PATIENCE_S),
        accord.connect(
            AGENT,
            versions=only(version),
            permissions=allow("*"),
            files="rw",
            terminals=True,
            on_elicit_form=_form,
        ) as agent,
    ):
        assert agent.version == version
        session = await agent.new_session(tmp_path)
        for words in ("hello", "list", "touch", "read", "write", "run", "ask", "/greet Ada"):
            async with session.prompt(words) as turn:
                await turn.wait()
            assert turn.stop_reason == "end_turn"
            reported[words] = turn.text
        async with session.prompt("wait") as turn:
            async for event in turn:
                if isinstance(event, accord.Text):
                    await turn.cancel()
        assert turn.stop_reason == "cancelled"
        listed = [one.id async for one in agent.list_sessions(tmp_path)]
        assert session.id in listed
        await session.close()
    assert (tmp_path / "permitted.txt").exists()
    assert (tmp_path / "written.txt").read_text("utf-8") == "hello\n"
    assert reported["hello"] == "hello"
    assert reported["read"] == "A note."
    assert reported["ask"] == "Hello, some."
    assert reported["/greet Ada"] == "Hello, Ada!"


@BOTH
async def test_independent_client_works_with_the_script_agent(version: int, tmp_path: Path) -> None:
    seen = await run_client(
        "--version",
        str(version),
        *("echo hello", "tools", "permission 2", "fs write note.txt A note"),
        *("fs read note.txt", "terminal echo done", "elicit form", "plan"),
        "--",
        *(*ACCORD, "agent", "script"),
        cwd=tmp_path,
    )
    assert seen["version"] == version
    assert seen["stops"] == ["end_turn"] * 8
    assert seen["texts"][0] == "hello"
    assert "2 of 2 allowed." in seen["texts"][2]
    assert (tmp_path / "note.txt").read_text("utf-8") == "A note\n"
    assert seen["texts"][5].startswith("`echo` ended with status 0")
    assert set(seen["tools"].values()) == {"completed", "failed"}
    calls = set(seen["calls"])
    assert {"session/request_permission", "elicitation/create"} <= calls
    on_disk = {"fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"}
    assert calls & on_disk == (on_disk if version == 1 else set())


@BOTH
async def test_independent_client_cancels_the_script_agent(version: int, tmp_path: Path) -> None:
    seen = await run_client(
        *("--version", str(version), "--cancel-on", "5", "stream 1000000"),
        *("--", *ACCORD, "agent", "script"),
        cwd=tmp_path,
    )
    assert seen["stops"] == ["cancelled"]
