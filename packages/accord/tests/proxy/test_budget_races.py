"""A limit that is reached while the turn ends: one result, which is true, and each turn once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from accord import Budget
from accord.client.limits import Limits
from accord.proxy.budget import BudgetProxy
from client.wire_agents import BOTH
from proxy.conversation import SESSION, Conversation, conversation

RUNS = 300  # for each version


class Accounts:
    """A ledger in memory."""

    principal = ""

    def __init__(self) -> None:
        self.amounts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def read(self, key: str) -> Mapping[str, float]:
        return dict(self.amounts[key])

    def add(self, amounts: Iterable[tuple[str, str, float]]) -> None:
        for key, name, amount in amounts:
            self.amounts[key][name] += amount

    def of_session(self, name: str) -> float:
        """Return what the session has used."""
        (key,) = (key for key in self.amounts if key.startswith("session"))
        return self.amounts[key][name]


class Talk:
    """An agent by hand behind a `BudgetProxy`, and all that its client gets."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self.spent = 0.0

    @property
    def at_agent(self) -> list[dict[str, Any]]:
        """What has arrived at the agent."""
        return [json.loads(bytes(one)) for one in self.talk.ends.at_agent.frames]

    @property
    def at_client(self) -> list[dict[str, Any]]:
        """What has arrived at the client."""
        return [json.loads(bytes(one)) for one in self.talk.ends.at_client.frames]

    def costs(self, amount: float) -> None:
        """Report the cost of a request."""
        self.spent += amount
        cost = {"amount": self.spent, "currency": "USD"}
        self.talk.update({"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": cost})

    def end(self, asked: dict[str, Any], reason: str, *, is_error: bool, tokens: int = 0) -> None:
        """End the turn at the agent."""
        usage = {"totalTokens": tokens, "inputTokens": tokens, "outputTokens": 0}
        error = {"code": -32603, "message": "aborted"}
        if self.talk.version == 1:
            if is_error:
                self.talk.agent_fails(asked, error)
            else:
                result = {"stopReason": reason, **({"usage": usage} if tokens else {})}
                self.talk.agent_answers(asked, result)
        elif is_error:
            self.talk.idle(stopReason="error", error=error)
        else:
            self.talk.idle(stopReason=reason, **({"usage": usage} if tokens else {}))

    def ends(self, prompt: str, since: int) -> list[str]:
        """Return how the turn of a prompt has ended, once for each end."""
        found: list[str] = []
        for message in self.at_client[since:]:
            if self.talk.version == 1 and message.get("id") == prompt:
                result = message.get("result", {"stopReason": "error"})
                found.append(result["stopReason"])
            state: dict[str, Any] = message.get("params", {}).get("update", {})
            if state.get("state") == "idle":
                found.append(state["stopReason"])
        return found

    def said(self, since: int) -> str:
        """Return the text that the client has got."""
        updates = [one["params"]["update"] for one in self.at_client[since:] if "method" in one]
        return "".join(
            one["content"]["text"]
            for one in updates
            if one["sessionUpdate"] == "agent_message_chunk"
        )

    async def ended(self, prompt: str, since: int) -> str:
        """Wait for the end of a turn, and for what could follow it; return the only one."""
        await self.talk.ends.at_client.until(lambda: bool(self.ends(prompt, since)))
        await _some_time(20)
        (reason,) = self.ends(prompt, since)
        return reason


async def _some_time(iterations: int) -> None:
    for _ in range(iterations):
        await asyncio.sleep(0)


def _proxy(*budgets: Budget, accounts: Accounts | None = None) -> BudgetProxy:
    return BudgetProxy(Limits(budgets=budgets, unmetered=("", "x")), ledger=accounts)


@BOTH
@pytest.mark.slow
async def test_any_moment_of_a_limit_and_an_end_gives_one_true_result(version: int) -> None:
    for seed in range(RUNS):
        chance = random.Random(seed)
        accounts = Accounts()
        stage = _proxy(Budget(cost=10), Budget(cost=30, per="session"), accounts=accounts).stage()
        async with asyncio.timeout(30), conversation(stage, version=version) as ends:
            talk = Talk(ends)
            for _ in range(4):
                await _random_turn(talk, chance, f"seed {seed}")
                assert accounts.of_session("cost USD") == talk.spent, seed
                if talk.spent >= 30:
                    break


async def _random_turn(talk: Talk, chance: random.Random, seed: str) -> None:
    before, since, seen = talk.spent, len(talk.at_client), len(talk.at_agent)
    prompt = talk.talk.prompt()
    await talk.talk.ends.at_agent.until(lambda: len(talk.at_agent) > seen)
    asked = talk.at_agent[seen]
    assert asked["method"] == "session/prompt", seed
    if talk.talk.version == 2:
        talk.talk.agent_answers(asked, {"messageId": "u"})
        talk.talk.update({"sessionUpdate": "state_update", "state": "running"})
    is_cancelled = False
    for _ in range(chance.randrange(1, 5)):
        match chance.randrange(6):
            case 0 if not is_cancelled:
                is_cancelled = True
                talk.talk.tell_agent("session/cancel", {"sessionId": SESSION})
            case 1:
                talk.talk.text("word ")
            case _:
                talk.costs(chance.choice((1, 4, 6, 11)))
        if chance.randrange(2):
            await _some_time(chance.randrange(12))
    # The agent has got the cancellation, or ends before it arrives.
    is_aborted = any(one.get("method") == "session/cancel" for one in talk.at_agent[seen:])
    is_error = is_aborted and chance.randrange(4) == 0
    talk.end(asked, "cancelled" if is_aborted else "end_turn", is_error=is_error)
    reason = await talk.ended(prompt, since)
    is_over = talk.spent - before >= 10 or talk.spent >= 30
    assert talk.said(since).count("Limit of the") == is_over, (seed, talk.said(since))
    if not is_aborted:
        assert reason == "end_turn", seed
    elif is_cancelled:
        assert reason in (("cancelled", "error") if is_error else ("cancelled",)), seed
    else:
        assert is_over, seed
        assert reason == "max_turn_requests", seed
    if talk.spent >= 30:  # nothing is left for another one
        since, seen = len(talk.at_client), len(talk.at_agent)
        prompt = talk.talk.prompt()
        assert await talk.ended(prompt, since) == "max_turn_requests", seed
        assert len(talk.at_agent) == seen, seed


@BOTH
async def test_a_limit_found_in_the_end_of_the_turn_is_reported_with_it(version: int) -> None:
    accounts = Accounts()
    async with conversation(
        _proxy(Budget(tokens=10), accounts=accounts).stage(), version=version
    ) as c:
        talk = Talk(c)
        prompt = c.prompt()
        asked = await c.agent_gets()
        if version == 2:
            c.agent_answers(asked, {"messageId": "u"})
        talk.end(asked, "end_turn", is_error=False, tokens=25)
        assert await talk.ended(prompt, 1) == "end_turn"
        assert "Limit of the turn reached: 25 tokens of 10 tokens" in talk.said(1)
        assert len(talk.at_agent) == 2, "nothing is left to cancel"
        assert accounts.of_session("tokens") == 25


async def test_a_turn_of_two_prompts_is_counted_once() -> None:
    """The agent joins a second prompt (R-PROMPT-24): one state ends both, with one report."""
    accounts = Accounts()
    async with conversation(_proxy(Budget(tokens=999), accounts=accounts).stage(), version=2) as c:
        talk = Talk(c)
        prompts: list[str] = []
        for number in range(2):
            prompts.append(c.prompt())
            c.agent_answers(await c.agent_gets(), {"messageId": f"u{number}"})
            c.update({"sessionUpdate": "state_update", "state": "running"})
        await _some_time(20)
        talk.end({}, "end_turn", is_error=False, tokens=300)
        assert await talk.ended(prompts[1], 1) == "end_turn"
        assert accounts.of_session("tokens") == 300


async def test_two_prompts_of_a_turn_report_its_limit_once() -> None:
    async with conversation(_proxy(Budget(cost=5)).stage(), version=2) as c:
        talk = Talk(c)
        for number in range(2):
            c.prompt()
            c.agent_answers(await c.agent_gets(), {"messageId": f"u{number}"})
            c.update({"sessionUpdate": "state_update", "state": "running"})
        talk.costs(7)
        assert (await c.agent_gets())["method"] == "session/cancel"
        await _some_time(20)
        talk.end({}, "cancelled", is_error=False)
        assert await talk.ended("", 1) == "max_turn_requests"
        assert talk.said(1).count("Limit of the turn reached") == 1
        assert [one["method"] for one in talk.at_agent].count("session/cancel") == 1


async def test_time_that_is_over_at_the_end_of_the_turn_is_reported() -> None:
    async with conversation(_proxy(Budget(seconds=0.05)).stage()) as c:
        talk = Talk(c)
        prompt = c.prompt()
        asked = await c.agent_gets()
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.06
        while loop.time() < until:  # nothing else runs meanwhile
            pass
        talk.end(asked, "end_turn", is_error=False)
        assert await talk.ended(prompt, 1) in ("end_turn", "max_turn_requests")
        assert talk.said(1).count("Limit of the turn reached") == 1


@BOTH
async def test_a_message_at_the_end_of_the_turn_starts_none_without_a_budget(version: int) -> None:
    async with conversation(_proxy(Budget(cost=5)).stage(), version=version) as c:
        prompt = c.prompt()
        asked = await c.agent_gets()
        block = {"type": "text", "text": "and"}
        params = {"sessionId": SESSION, "prompt": [block], "_meta": {"x": {"y": 1.0}}}
        steering = c.ask_agent("_session/steering", params)
        got = await c.agent_gets()
        assert got["params"]["_meta"] == {
            "x": {"y": 1.0},
            "steering": {"idleBehavior": "promptRequired"},
        }
        await c.end_turn(asked)
        c.agent_answers(got, {"outcome": "promptRequired"})
        assert await c.turn_ended() == "end_turn"
        talk = Talk(c)
        answers = lambda: [m for m in talk.at_client if m.get("id") == steering]  # noqa: E731
        await c.ends.at_client.until(lambda: bool(answers()))
        assert answers()[0]["result"]["outcome"] == "promptRequired"
        assert prompt
