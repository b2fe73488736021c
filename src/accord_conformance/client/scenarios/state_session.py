"""What holds for a session: its plans, options, title, cost, and what its notices do to it."""

from __future__ import annotations

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import (
    HasItem,
)
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import (
    StateProbe,
    expect,
    expect_or_absent,
)
from accord_conformance.traffic.frame import Frame

__all__ = ("SCENES",)

_WHEN = "2026-01-02T03:04:05Z"


@probe_scenario("shown/plan", "R-PLAN-03", versions=(1,))
async def _plan(scene: ClientContext, window: StateProbe) -> None:
    """A plan is replaced by a shorter one."""
    sent = [scene.update("plan", entries=_entries("A", "B"))]
    await window.check(sent, expect("R-PLAN-03", "plans", entries=_entries("A", "B")))
    sent += [scene.update("plan", entries=_entries("C"))]
    await window.check(sent, expect("R-PLAN-03", "plans", entries=_entries("C")))


@probe_scenario("shown/plans", "R-PLAN-06", "R-PLAN-12", "R-PLAN-13", versions=(2,))
async def _plans(scene: ClientContext, window: StateProbe) -> None:
    """Several plans are replaced, also by what is of an unknown type."""
    sent = [_items(scene, "one", "A", "B"), _items(scene, "two", "C")]
    sent += [_items(scene, "one", "D")]
    await window.check(
        sent,
        expect("R-PLAN-06", "plans", "one", entries=_entries("D")),
        expect("R-PLAN-06", "plans", "two", entries=_entries("C")),
    )
    odd: list[Json] = [{"content": "Odd", "priority": "_accord_soon", "status": "accord_later"}]
    sent = [scene.update("plan_update", plan={"type": "items", "planId": "odd", "entries": odd})]
    await window.check(sent, expect("R-PLAN-12", "plans", "odd", entries=odd))
    sent = [_items(scene, "later", "A")]
    sent += [scene.update("plan_update", plan={"type": "_accord_map", "planId": "later", "of": 1})]
    replaced = expect_or_absent(expect("R-PLAN-13", "plans", "later", entries=None))
    await window.check(sent, replaced)
    for ident in ("one", "two", "odd", "later"):
        scene.update("plan_removed", planId=ident)


@probe_scenario("shown/options", "R-CONF-04")
async def _options(scene: ClientContext, window: StateProbe) -> None:
    """The list of options is replaced: one of them vanishes, another one comes."""
    mode = scene.session.mode
    sent: list[Frame] = []
    for name, other in (("before", "after"), ("after", "before")):
        every = fixtures.config_options(scene.version, mode, _option(scene, name))
        sent += [scene.update("config_option_update", configOptions=every)]
        wanted = HasItem("configId", there=name, gone=other)
        await window.check(sent, expect("R-CONF-04", "", configOptions=wanted))
    scene.update("config_option_update", configOptions=fixtures.config_options(scene.version, mode))


@probe_scenario("shown/title", "R-LIST-15")
async def _title(scene: ClientContext, window: StateProbe) -> None:
    """Title and time are given, left out and taken back."""
    kind, title = "session_info_update", "Title of this check"
    sent = [scene.update(kind, title=title)]
    await window.learn()
    sent += [scene.update(kind, updatedAt=_WHEN)]
    await window.check(sent, expect("R-LIST-15", "", title=title))
    sent += [scene.update(kind, title=None)]
    await window.check(sent, expect("R-LIST-15", "", title=None, updatedAt=_WHEN))
    sent += [scene.update(kind, title=title, updatedAt=None)]
    await window.check(sent, expect("R-LIST-15", "", title=title, updatedAt=None))
    scene.update(kind, title="Check of this client")


@probe_scenario("shown/cost", "R-USAGE-05", versions=(2,))
async def _cost(scene: ClientContext, window: StateProbe) -> None:
    """What it has cost is given, left out and taken back."""
    cost: Json = {"amount": 1.5, "currency": "EUR"}
    sent = [scene.update("usage_update", used=10, size=100, cost=cost)]
    await window.learn()
    sent += [scene.update("usage_update", used=20, size=100)]
    await window.check(sent, expect("R-USAGE-05", "usage", used=20, cost=cost))
    sent += [scene.update("usage_update", used=30, size=100, cost=None)]
    await window.check(sent, expect("R-USAGE-05", "usage", used=30, cost=None))


@probe_scenario("shown/login", "R-ASTAT-03")
async def _login(scene: ClientContext, window: StateProbe) -> None:
    """Whether somebody is logged in is told, and then in a way that nobody knows."""
    method = "auth/status_update"
    sent = [scene.send_notification(method, {"state": "authenticated"})]
    await window.check(sent, expect("R-ASTAT-03", "", login="authenticated"))
    sent += [scene.send_notification(method, {"state": "accord_later"})]
    await window.check(sent, expect("R-ASTAT-03", "", login="unknown"))
    scene.send_notification(method, {"state": "authenticated"})


@probe_scenario("shown/notices", "R-NOTICE-05")
async def _notices(scene: ClientContext, window: StateProbe) -> None:
    """Notices of unknown severity and of an error come while a tool call is at work."""
    known = scene.version == 2 or scene.supports("session", "notices")
    scene.require(known, "the client takes no notices")
    tool = scene.add_tool_call("At work", status="in_progress")
    odd = "Of a severity that nobody knows"
    sent = [scene.update("notice", severity="_accord_later", title=odd)]
    sent += [scene.update("notice", severity="error", title="This fails nothing")]
    await window.check(
        sent,
        expect("R-NOTICE-05", "toolCalls", tool, status="in_progress"),
        expect("R-NOTICE-05", "notices", odd, severity="_accord_later"),
    )
    if scene.version == 2:
        await window.check(sent, expect("R-NOTICE-05", "", state="running"))


def _entries(*texts: str) -> list[Json]:
    return [{"content": text, "priority": "medium", "status": "pending"} for text in texts]


def _items(scene: ClientContext, ident: str, *texts: str) -> Frame:
    plan: Json = {"type": "items", "planId": ident, "entries": _entries(*texts)}
    return scene.update("plan_update", plan=plan)


def _option(scene: ClientContext, name: str) -> Json:
    return {
        "id" if scene.version == 1 else "configId": name,
        "type": "select",
        "name": name,
        "currentValue": "a",
        "options": [{"value": "a", "name": "A"}],
    }


SCENES = (_plan, _plans, _options, _title, _cost, _login, _notices)
