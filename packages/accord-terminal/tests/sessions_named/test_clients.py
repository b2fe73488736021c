"""Many clients of one session: what each sees, who answers, in both versions."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

import accord
from accord.client.elicitation import ElicitationForm, FormField
from accord.client.events import Decision
from accord_terminal.sessions import open_session
from accord_terminal.sessions.journal import Answered, Entry, Queued
from requirement import requirement
from sessions_named.machine import Machine

pytestmark = pytest.mark.slow


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def attached(version: Any, **options: Any) -> Any:
    command = [sys.executable, "-m", "accord", "session", "attach", "fix"]
    return accord.connect(command, versions=(version,), **options)


@pytest.mark.parametrize("of_agent", [1, 2])
async def test_editors_use_the_session_in_their_own_version(
    machine: Machine, of_agent: int
) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", str(of_agent))
    machine.ok("session", "prompt", "-s", "fix", "echo before")

    def texts(session: accord.ClientSession) -> list[str]:
        return [m.text for m in session.transcript.items if isinstance(m, accord.Message)]

    for of_client in (1, 2):
        async with attached(of_client) as agent:
            assert agent.version == of_client
            (listed,) = [info async for info in agent.list_sessions()]
            session = await agent.load_session(listed.id, machine.work)
            assert texts(session)[:2] == ["echo before", "before"]
            async with session.prompt("tools") as turn:
                assert await turn.wait() == "end_turn"
            calls = [item for item in session.transcript.items if isinstance(item, accord.ToolCall)]
            assert len(calls) > 15
            assert all(call.is_final for call in calls)
            assert turn.text.startswith("2") or "tool calls" in turn.text
            assert session.transcript.options
            assert session.transcript.commands
            # The prompt of another client is shown.
            machine.start("session", "prompt", "-s", "fix", "echo seen")
            await until(lambda: texts(session)[-2:] == ["echo seen", "seen"])  # noqa: B023


@pytest.mark.parametrize("protocol", ["1", "2"])
async def test_first_answer_to_a_permission_request_wins(machine: Machine, protocol: str) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", protocol)
    asked: list[str] = []
    withdrawn: list[str] = []
    entries: list[Entry] = []

    async def slow(request: accord.PermissionRequest) -> None:
        asked.append("slow")
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.append(request.title)

    async def quick(request: accord.PermissionRequest) -> Decision:
        await until(lambda: "slow" in asked)
        return "allow"

    async with (
        open_session("fix", client_name="Ann", permissions=slow),
        open_session(
            "fix",
            client_name="Bob",
            permissions=quick,
            on_entry=lambda cursor, entry: entries.append(entry),
        ) as second,
    ):
        async with second.session.prompt("permission") as turn:
            await turn.wait()
        assert turn.text.strip() == "1 of 1 allowed."
        await until(lambda: withdrawn)
    answers = [entry for entry in entries if isinstance(entry, Answered)]
    assert [(answer.by, answer.answer) for answer in answers] == [("Bob", "allow_once")]


async def test_form_is_filled_in_by_who_can(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")

    async def fill(form: ElicitationForm) -> dict[str, Any]:
        return {field.name: _value(field) for field in form.fields}

    async with (
        open_session("fix", client_name="Ann"),
        open_session("fix", client_name="Bob", on_elicit_form=fill) as second,
    ):
        async with second.session.prompt("elicit form") as turn:
            await turn.wait()
        assert "accept" in turn.text.lower() or "name" in turn.text.lower(), turn.text


def _value(field: FormField) -> Any:
    if field.choices:
        value = field.choices[0].value
        return [value] if field.kind == "choices" else value
    return {"boolean": True, "integer": field.minimum or 1, "number": field.minimum or 1}.get(
        field.kind, "Ann"
    )


async def test_option_set_by_one_client_is_seen_by_the_others(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    async with open_session("fix") as first, open_session("fix") as second:
        await first.session.set_mode("auto")

        def mode() -> Any:
            option = second.session.transcript.mode_option
            return option and option.value

        await until(lambda: mode() == "auto")


@requirement("R-NAMED-04")
async def test_queue_is_shown_and_withdrawn_by_a_client(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    entries: list[Entry] = []
    async with open_session(
        "fix", client_name="Ann", on_entry=lambda cursor, entry: entries.append(entry)
    ) as shared:
        async with shared.session.prompt("wait forever") as turn:
            await until(lambda: any(isinstance(entry, Queued) for entry in entries))
            second = await shared.submit("echo never")
            status = await shared.status()
            assert [(one.state, one.text, one.by) for one in status.queue] == [
                ("running", "wait forever", "Ann"),
                ("queued", "echo never", "Ann"),
            ]
            await shared.withdraw(second)
            assert len((await shared.status()).queue) == 1
            await turn.cancel()
        queued = [entry for entry in entries if isinstance(entry, Queued)]
        assert [entry.text for entry in queued] == ["wait forever", "echo never"]


@pytest.mark.parametrize("version", [1, 2])
async def test_cancel_right_after_its_prompt_finds_it(machine: Machine, version: int) -> None:
    """Both arrive in one piece; so do a prompt and the withdrawal of its request."""
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", str(version))
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", "session", "attach", "fix"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    session = {"sessionId": machine.record().id}
    implementation = {"name": "test", "version": "1"}

    def write(*messages: dict[str, Any]) -> None:
        assert program.stdin is not None
        lines = [json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages]
        program.stdin.write("".join(lines).encode())

    async def response(request: int) -> dict[str, Any]:
        assert program.stdout is not None
        async with asyncio.timeout(30):
            while True:
                message = json.loads(await program.stdout.readline())
                if message.get("id") == request and "method" not in message:
                    return message

    def prompt(request: int, text: str) -> dict[str, Any]:
        params = {**session, "prompt": [{"type": "text", "text": text}]}
        return {"id": request, "method": "session/prompt", "params": params}

    about = {"clientInfo" if version == 1 else "info": implementation}
    write({"id": 0, "method": "initialize", "params": {"protocolVersion": version, **about}})
    assert "result" in await response(0)
    params = {**session, "cwd": str(machine.work), "mcpServers": []}
    write({"id": 1, "method": "session/resume", "params": params})
    assert "result" in await response(1)

    write(prompt(2, "wait forever"), {"method": "session/cancel", "params": session})
    found = await response(2)
    if version == 1:
        assert found["result"]["stopReason"] == "cancelled"
    cancel = {"method": "$/cancel_request", "params": {"requestId": 3}}
    write(prompt(3, "wait forever"), cancel)
    assert await response(3)
    write(prompt(4, "echo next"))
    assert "result" in await response(4)
    if version == 2:
        async with asyncio.timeout(30):
            while b'"end_turn"' not in await program.stdout.readline():
                pass
    program.stdin.close()
    async with asyncio.timeout(30):
        assert await program.wait() == 0
