"""The session: plans, options, title, cost, login, notices."""

from __future__ import annotations

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import HasItem
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import StateProbe, expect, expect_or_absent
from accord_conformance.traffic.frame import Frame

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


SCENARIOS = (_plan, _plans, _options, _title, _cost, _login, _notices)
