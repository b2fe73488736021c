"""Scenarios with the state probe: messages, the session, states of its work, and `_meta`."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.state_probe import (
    NO_PROBE,
    HasExactly,
    HasItem,
    HasLength,
    IsNot,
    StateProbe,
    expect,
    expect_or_absent,
    probe_state,
)
from accord_conformance.harness import NotExercised, Scenario, scenario
from accord_conformance.traffic.message import Frame

# Scenarios that use the state probe.


async def require_probe(context: ClientContext) -> StateProbe:
    """Return the probe of the session; raise `NotExercised` if the client does not support it."""
    posing, ident = context.agent, context.session.id
    if not posing.answers_probes or await probe_state(posing.connection, ident) is None:
        raise NotExercised(NO_PROBE)
    return StateProbe(posing.connection, ident, context.judge, posing.pause_s)


def probe_scenario(
    name: str, *rules: str, versions: tuple[int, ...] = (1, 2)
) -> Callable[[Callable[[Any, StateProbe], Awaitable[None]]], Scenario[Any]]:
    """Make a scenario of a coroutine function that takes the context and the probe."""

    def make(play: Callable[[Any, StateProbe], Awaitable[None]]) -> Scenario[Any]:
        async def played(context: ClientContext) -> None:
            probe = await require_probe(context)
            await play(context, probe)
            probe.require_judged()

        played.__doc__ = play.__doc__
        return scenario(name, *rules, versions=versions)(played)

    return make


# Messages: chunks, replacement, ids, and order.

_MANY = 200


@probe_scenario("state/messages", "R-MSG-06", "R-MSG-07", "R-MSG-08", "R-MSG-11", versions=(2,))
async def _messages(context: ClientContext, probe: StateProbe) -> None:
    """Messages get chunks, are replaced and emptied, in any order."""
    sent = [_chunk(context, "kept", "A"), _message(context, "kept"), _message(context, "kept")]
    await probe.check(sent, expect("R-MSG-06", "messages", "kept", content=_texts("A")))
    sent += [_message(context, "kept", content=_texts("B"))]
    await probe.check(sent, expect("R-MSG-06", "messages", "kept", content=_texts("B")))
    for nothing in (_texts(), None):
        sent = [_chunk(context, "kept", "C"), _message(context, "kept", content=nothing)]
        await probe.check(sent, expect("R-MSG-06", "messages", "kept", content=None))

    sent = [_message(context, "grows", content=_texts("A")), _chunk(context, "grows", "B")]
    sent += [_chunk(context, "grows", "C")]
    await probe.check(sent, expect("R-MSG-07", "messages", "grows", content=_texts("A", "B", "C")))

    sent: list[Frame] = []
    for whole, more in (("A", "B"), ("C", "D")):
        sent += [_message(context, "both", content=_texts(whole))]
        await probe.check(sent, expect("R-MSG-08", "messages", "both", content=_texts(whole)))
        sent += [_chunk(context, "both", more)]
        expected = _texts(whole, more)
        await probe.check(sent, expect("R-MSG-08", "messages", "both", content=expected))

    sent = [_chunk(context, one, text) for one, text in zip("mnmn", "1234", strict=True)]
    await probe.check(
        sent,
        expect("R-MSG-11", "messages", "m", content=_texts("1", "3")),
        expect("R-MSG-11", "messages", "n", content=_texts("2", "4")),
    )


@probe_scenario("state/ids", "R-MSG-04")
async def _ids(context: ClientContext, probe: StateProbe) -> None:
    """Messages have similar ids."""
    ids = ("id-1", "ID-1", "id-01", " id-1", "1", "01", "1.0", "ä", "a\u0308")
    sent = [_chunk(context, ident, f"Of {ident!r}.") for ident in ids]
    claims = (
        expect("R-MSG-04", "messages", ident, content=_texts(f"Of {ident!r}.")) for ident in ids
    )
    await probe.check(sent, *claims)


@probe_scenario("state/order", "R-GEN-17")
async def _order(context: ClientContext, probe: StateProbe) -> None:
    """Many updates of a message and a tool call arrive at once."""
    tool = context.add_tool_call("Step 0")
    texts = [f"{number} " for number in range(_MANY)]
    sent: list[Frame] = []
    for number, text in enumerate(texts):
        sent = [
            _chunk(context, "many", text),
            context.update("tool_call_update", toolCallId=tool, title=f"Step {number}"),
        ]
    await probe.check(
        sent,
        expect("R-GEN-17", "messages", "many", content=_texts("".join(texts))),
        expect("R-GEN-17", "toolCalls", tool, title=f"Step {_MANY - 1}"),
    )


def _chunk(context: ClientContext, ident: str, text: str) -> Frame:
    return context.update("agent_message_chunk", messageId=ident, content=fixtures.text_block(text))


def _message(context: ClientContext, ident: str, **more: Json | list[Json] | None) -> Frame:
    return context.update("agent_message", messageId=ident, **more)


def _texts(*texts: str) -> list[Json]:
    return [fixtures.text_block(text) for text in texts]


STATE_MESSAGES = (_messages, _ids, _order)


# The session: plans, options, title, cost, login, notices.

_WHEN = "2026-01-02T03:04:05Z"


@probe_scenario("state/plan", "R-PLAN-03", versions=(1,))
async def _plan(context: ClientContext, probe: StateProbe) -> None:
    """A plan is replaced by a shorter one."""
    sent = [context.update("plan", entries=_entries("A", "B"))]
    await probe.check(sent, expect("R-PLAN-03", "plans", entries=_entries("A", "B")))
    sent += [context.update("plan", entries=_entries("C"))]
    await probe.check(sent, expect("R-PLAN-03", "plans", entries=_entries("C")))


@probe_scenario("state/plans", "R-PLAN-06", "R-PLAN-12", "R-PLAN-13", versions=(2,))
async def _plans(context: ClientContext, probe: StateProbe) -> None:
    """Several plans are replaced, also by a plan of an unknown type."""
    sent = [_items(context, "one", "A", "B"), _items(context, "two", "C")]
    sent += [_items(context, "one", "D")]
    await probe.check(
        sent,
        expect("R-PLAN-06", "plans", "one", entries=_entries("D")),
        expect("R-PLAN-06", "plans", "two", entries=_entries("C")),
    )
    odd: list[Json] = [{"content": "Odd", "priority": "_accord_soon", "status": "accord_later"}]
    sent = [context.update("plan_update", plan={"type": "items", "planId": "odd", "entries": odd})]
    await probe.check(sent, expect("R-PLAN-12", "plans", "odd", entries=odd))
    sent = [_items(context, "later", "A")]
    sent += [
        context.update("plan_update", plan={"type": "_accord_map", "planId": "later", "of": 1})
    ]
    replaced = expect_or_absent(expect("R-PLAN-13", "plans", "later", entries=None))
    await probe.check(sent, replaced)
    for ident in ("one", "two", "odd", "later"):
        context.update("plan_removed", planId=ident)


@probe_scenario("state/options", "R-CONF-04")
async def _options(context: ClientContext, probe: StateProbe) -> None:
    """The list of options is replaced: one is removed, another one is added."""
    mode = context.session.mode
    sent: list[Frame] = []
    for name, other in (("before", "after"), ("after", "before")):
        every = fixtures.config_options(context.version, mode, _option(context, name))
        sent += [context.update("config_option_update", configOptions=every)]
        wanted = HasItem("configId", there=name, gone=other)
        await probe.check(sent, expect("R-CONF-04", "", configOptions=wanted))
    context.update(
        "config_option_update", configOptions=fixtures.config_options(context.version, mode)
    )


@probe_scenario("state/title", "R-LIST-15")
async def _title(context: ClientContext, probe: StateProbe) -> None:
    """Title and time are set, left out and cleared."""
    kind, title = "session_info_update", "Title of this check"
    sent = [context.update(kind, title=title)]
    await probe.learn()
    sent += [context.update(kind, updatedAt=_WHEN)]
    await probe.check(sent, expect("R-LIST-15", "", title=title))
    sent += [context.update(kind, title=None)]
    await probe.check(sent, expect("R-LIST-15", "", title=None, updatedAt=_WHEN))
    sent += [context.update(kind, title=title, updatedAt=None)]
    await probe.check(sent, expect("R-LIST-15", "", title=title, updatedAt=None))
    context.update(kind, title="Check of this client")


@probe_scenario("state/cost", "R-USAGE-05", versions=(2,))
async def _cost(context: ClientContext, probe: StateProbe) -> None:
    """The cost is set, left out and cleared."""
    cost: Json = {"amount": 1.5, "currency": "EUR"}
    sent = [context.update("usage_update", used=10, size=100, cost=cost)]
    await probe.learn()
    sent += [context.update("usage_update", used=20, size=100)]
    await probe.check(sent, expect("R-USAGE-05", "usage", used=20, cost=cost))
    sent += [context.update("usage_update", used=30, size=100, cost=None)]
    await probe.check(sent, expect("R-USAGE-05", "usage", used=30, cost=None))


@probe_scenario("state/login", "R-ASTAT-03")
async def _login(context: ClientContext, probe: StateProbe) -> None:
    """The auth status changes, the second time to an unknown state."""
    method = "auth/status_update"
    sent = [context.send_notification(method, {"state": "authenticated"})]
    await probe.check(sent, expect("R-ASTAT-03", "", login="authenticated"))
    sent += [context.send_notification(method, {"state": "accord_later"})]
    await probe.check(sent, expect("R-ASTAT-03", "", login="unknown"))
    context.send_notification(method, {"state": "authenticated"})


@probe_scenario("state/notices", "R-NOTICE-05")
async def _notices(context: ClientContext, probe: StateProbe) -> None:
    """Notices with an unknown severity and with an error arrive during a tool call."""
    is_supported = context.version == 2 or context.supports("session", "notices")
    context.require(is_supported, "the client does not support notices")
    tool = context.add_tool_call("At work", status="in_progress")
    odd = "Of an unknown severity"
    sent = [context.update("notice", severity="_accord_later", title=odd)]
    sent += [context.update("notice", severity="error", title="This fails nothing")]
    await probe.check(
        sent,
        expect("R-NOTICE-05", "toolCalls", tool, status="in_progress"),
        expect("R-NOTICE-05", "notices", odd, severity="_accord_later"),
    )
    if context.version == 2:
        await probe.check(sent, expect("R-NOTICE-05", "", state="running"))


def _entries(*texts: str) -> list[Json]:
    return [{"content": text, "priority": "medium", "status": "pending"} for text in texts]


def _items(context: ClientContext, ident: str, *texts: str) -> Frame:
    plan: Json = {"type": "items", "planId": ident, "entries": _entries(*texts)}
    return context.update("plan_update", plan=plan)


def _option(context: ClientContext, name: str) -> Json:
    return {
        "id" if context.version == 1 else "configId": name,
        "type": "select",
        "name": name,
        "currentValue": "a",
        "options": [{"value": "a", "name": "A"}],
    }


STATE_SESSION = (_plan, _plans, _options, _title, _cost, _login, _notices)


# Session states and background work (version 2).


@probe_scenario("state/states", "R-PROMPT-34", "R-PROMPT-37", versions=(2,))
async def _states(context: ClientContext, probe: StateProbe) -> None:
    """The agent sends an unknown state, and the state `unknown`."""
    sent = [_state(context, "running")]
    await probe.learn()
    sent += [_state(context, "_accord_dreaming")]
    await probe.check(sent, expect("R-PROMPT-34", "", state=IsNot(("idle", "running"))))
    sent = [_state(context, "requires_action"), _state(context, "unknown")]
    await probe.check(sent, expect("R-PROMPT-37", "", state=IsNot(("requires_action", "idle"))))
    _state(context, "running")


@probe_scenario("state/background", "R-BGW-06", "R-BGW-07", versions=(2,))
async def _background(context: ClientContext, probe: StateProbe) -> None:
    """The list of background work is replaced, malformed, and missing."""
    one, two = context.add_tool_call("One"), context.add_tool_call("Two")
    items: list[Json] = [{"type": "tool_call", "toolCallId": tool} for tool in (one, two)]
    sent: list[Frame] = []
    for item, tool in zip(items, (one, two), strict=True):
        sent += [_state(context, "running", background=[item])]
        await probe.check(sent, expect("R-BGW-06", "", background=[tool]))
    for more in ({"background": [items[0], {"type": "tool_call"}]}, {}):
        sent = [_state(context, "running", background=items), _state(context, "running", **more)]
        await probe.check(sent, expect("R-BGW-06", "", background=None))
    sent = [_state(context, "running", background=items)]
    sent += [_state(context, "_accord_dreaming", background=items)]
    await probe.check(sent, expect("R-BGW-06", "", background=None))
    later: Json = {"type": "_accord_errand", "of": 1}
    sent = [_state(context, "running", background=[later])]
    await probe.check(sent, expect("R-BGW-07", "", background=HasLength(1)))
    _state(context, "running", background=[])


def _state(context: ClientContext, state: str, **more: list[Json]) -> Frame:
    return context.update("state_update", state=state, **more)


STATE_ACTIVITY = (_states, _background)


# `_meta`, which a client need not keep: it is judged if the client reports it.

_FIRST: Json = {"accord.a": 1, "accord.b": {"x": 1, "y": 2}, "accord.c": "kept"}
_THEN: Json = {"accord.a": None, "accord.b": {"z": 3}, "accord.d": 4}
_PATCHED: Json = {"accord.b": {"z": 3}, "accord.c": "kept", "accord.d": 4}


@probe_scenario("state/meta", "R-MSG-09", "R-EXT-13", "R-DTERM-09", versions=(2,))
async def _meta(context: ClientContext, probe: StateProbe) -> None:
    """Messages, tool calls, terminals and their parts have `_meta`, which is patched."""
    ident = "meta"
    sent = [
        context.update(
            "agent_message", messageId=ident, content=[fixtures.text_block("A")], _meta=_FIRST
        )
    ]
    await probe.learn()
    more = {"messageId": ident, "content": fixtures.text_block("B"), "_meta": {"accord.a": 9}}
    sent += [context.update("agent_message_chunk", **more)]
    await probe.check(sent, expect("R-MSG-09", "messages", ident, _meta=HasExactly(_FIRST)))
    sent += [context.update("agent_message", messageId=ident, _meta=_THEN)]
    await probe.check(sent, expect("R-MSG-09", "messages", ident, _meta=HasExactly(_PATCHED)))

    tool = context.add_tool_call("Has metadata", _meta=_FIRST)
    patch = partial(context.update, "tool_call_update", toolCallId=tool)
    await _patched(probe, "R-EXT-13", "toolCalls", tool, patch)

    own, inner = {"accord.own": 1}, {"accord.inner": 2}
    data = base64.b64encode(b"out").decode()
    sent = [context.update("terminal_update", terminalId=ident, _meta=own)]
    parts: Json = {"output": {"data": data, "_meta": inner}, "exitStatus": {"_meta": inner}}
    sent += [context.update("terminal_update", terminalId=ident, **parts)]
    more = {"terminalId": ident, "data": data, "_meta": inner}
    sent += [context.update("terminal_output_chunk", **more)]
    await probe.check(sent, expect("R-DTERM-09", "terminals", ident, _meta=HasExactly(own)))


async def _patched(
    probe: StateProbe, rule: str, table: str, ident: str, update: Callable[..., Frame]
) -> None:
    await probe.learn()
    sent = [update(title="Has metadata still"), update(_meta={})]
    await probe.check(sent, expect(rule, table, ident, _meta=HasExactly(_FIRST)))
    sent += [update(_meta=_THEN)]
    await probe.check(sent, expect(rule, table, ident, _meta=HasExactly(_PATCHED)))
    sent += [update(_meta=None)]
    await probe.check(sent, expect(rule, table, ident, _meta=None))


@probe_scenario("state/meta-replaced", "R-EXT-14", versions=(1,))
async def _replaced(context: ClientContext, probe: StateProbe) -> None:
    """A compaction and a subagent have `_meta`, which is kept, replaced as a whole, and cleared."""
    if context.supports("session", "compaction"):
        known: Json = {"compactionId": "meta", "status": "in_progress"}
        await _whole(
            probe, "compactions", "meta", partial(context.update, "compaction_update", **known)
        )
    if context.supports("subagents"):
        child = f"{context.session.id}-meta"
        await _whole(
            probe, "subagents", child, partial(context.update, "subagent_update", sessionId=child)
        )
    offered = context.supports("session", "compaction") or context.supports("subagents")
    context.require(offered, "the client supports neither compactions nor subagents")


async def _whole(probe: StateProbe, table: str, ident: str, update: Callable[..., Frame]) -> None:
    rule = "R-EXT-14"
    sent = [update(_meta=_FIRST)]
    await probe.learn()
    sent += [update()]
    await probe.check(sent, expect(rule, table, ident, _meta=HasExactly(_FIRST)))
    sent += [update(_meta={"accord.d": 4})]
    await probe.check(sent, expect(rule, table, ident, _meta=HasExactly({"accord.d": 4})))
    sent += [update(_meta=None)]
    await probe.check(sent, expect(rule, table, ident, _meta=None))


STATE_META = (_meta, _replaced)
