"""Capabilities: a side uses only what the other side advertises."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from accord.errors import DecodeError
from accord.rules.gates import is_open
from accord.text.lenient_json import is_object
from accord.v1.methods import PARAM_GATES as NEEDS_V1
from accord.v2.methods import PARAM_GATES as NEEDS_V2
from accord.wire.codec import convert
from accord.wire.protocol import Method
from accord_conformance.judges.base import Evidence, Judge
from accord_conformance.judges.paths import items
from accord_conformance.traffic.connection_state import methods, update_of
from accord_conformance.traffic.frame import Side, other
from accord_conformance.traffic.message import Notification, Request

# By version and method; R-INIT-29 is for all others.
_OF_METHOD: dict[tuple[int, str], str] = {
    (1, "session/load"): "R-SESS-07",
    (1, "session/resume"): "R-SESS-11",
    (1, "session/close"): "R-SESS-20",
    (1, "session/list"): "R-LIST-01",
    (1, "logout"): "R-AUTH-25",
    (1, "fs/read_text_file"): "R-FS-01",
    (1, "fs/write_text_file"): "R-FS-01",
    **{
        (version, method): rule
        for version in (1, 2)
        for method, rule in {
            "session/delete": "R-LIST-12",
            "session/fork": "R-SESS-24",
            "session/archive": "R-ARCH-01",
            "session/unarchive": "R-ARCH-01",
            "session/status": "R-STATUS-01",
            "session/set_title": "R-TITLE-01",
            "auth/status": "R-ASTAT-01",
            "auth/status_update": "R-ASTAT-06",
            "elicitation/create": "R-ELIC-02",
            "elicitation/complete": "R-ELIC-02",
        }.items()
    },
    **{
        (1, f"terminal/{name}"): "R-TERM-01"
        for name in ("create", "output", "wait_for_exit", "kill", "release")
    },
}
_OF_UPDATE = {
    "notice": ("R-NOTICE-01", "client.session.notices"),
    "compaction_update": ("R-COMP-01", "client.session.compaction"),
    "compaction_summary_chunk": ("R-COMP-01", "client.session.compaction"),
    "plan_update": ("R-PLAN-08", "client.plan"),
    "plan_removed": ("R-PLAN-08", "client.plan"),
    "subagent_update": ("R-SUBAG-01", "client.subagents"),
    "session_message": ("R-SUBAG-01", "client.subagents"),
    "session_message_chunk": ("R-SUBAG-01", "client.subagents"),
}
_OF_PARAMS = (
    ("agent.session_capabilities.additional_directories", "R-DIR-01"),
    ("agent.session.additional_directories", "R-DIR-01"),
    ("agent.session_capabilities.system_prompt", "R-SYSP-01"),
    ("agent.session.system_prompt", "R-SYSP-01"),
    ("agent.session_capabilities.archive", "R-ARCH-01"),
    ("agent.session.archive", "R-ARCH-01"),
    ("agent.mcp_capabilities.acp", "R-MOA-01"),
    ("agent.session.mcp.acp", "R-MOA-01"),
    ("agent.mcp_capabilities", "R-MCP-02"),
    ("agent.session.mcp", "R-MCP-03"),
    ("agent.prompt_capabilities", "R-PROMPT-02"),
    ("agent.session.prompt", "R-PROMPT-02"),
)
_UNGATED = "agent.session.unknown"
# Other rules cover whether these are served: R-INIT-27, R-AUTH-04, R-CONF-18, R-PROV-01, R-MOA-09.
_JUDGED_ELSEWHERE = {
    *((2, f"session/{name}") for name in ("new", "list", "resume", "close", "prompt")),
    *((2, name) for name in ("auth/login", "auth/logout", "session/set_config_option")),
    *((version, f"providers/{name}") for version in (1, 2) for name in ("list", "set", "disable")),
    *((version, "mcp/message") for version in (1, 2)),
}


class Gates(Judge):
    """Methods, updates and parts of params that need a capability."""

    rules = tuple(
        sorted(
            {"R-INIT-29", "R-CONF-08", "R-ERR-01"}
            | {rule for rule, _ in _OF_UPDATE.values()}
            | {rule for _, rule in _OF_PARAMS}
        )
    )

    @classmethod
    def judged_rules(cls) -> Collection[str]:
        return {*cls.rules, *_OF_METHOD.values()}

    def on_request(self, call: Request) -> None:
        if call.method != "initialize":
            self._method(call.method, call.sender, call, is_request=True)
            self._params(call)

    def on_notification(self, note: Notification) -> None:
        self._method(note.method, note.sender, note, is_request=False)
        if note.method != "session/update" or self.state.version is None:
            return
        update = update_of(note)
        kind = update.get("sessionUpdate")
        if isinstance(kind, str) and kind in _OF_UPDATE:
            rule, gate = _OF_UPDATE[kind]
            if self.state.version == 1:
                self._gate(rule, gate, f"the update {kind}", note.sender, note)
        if kind == "config_option_update":
            self._booleans(update, note)

    def on_response(self, call: Request) -> None:
        if call.sender == "client" and is_object(call.result):
            self._booleans(call.result, call)
        if call.code == -32601:
            self._not_found(call)

    def _not_found(self, call: Request) -> None:
        """Judge that a side serves the methods that it advertises."""
        version = self.state.version
        if version is None or None in self.state.capabilities.values():
            return
        if (version, call.method) in _JUDGED_ELSEWHERE:
            return
        for method in methods(version):
            gate = method.gate
            if method.name != call.method or not method.is_request or not gate:
                continue
            owner: Side = "agent" if gate.startswith("agent.") else "client"
            if call.method == "elicitation/create":
                gate = _elicitation_gate(call) or gate
            if owner != call.sender and is_open(gate, self.state.capabilities):
                self.judge(
                    "R-ERR-01",
                    False,
                    self.state.initialized,
                    call,
                    expected=f"{call.method} is served, as {_wire(gate)} offers it",
                    got="-32601, unknown method",
                    by=owner,
                )

    def _booleans(self, value: dict[str, Any], seen: Evidence) -> None:
        if any(option.get("type") == "boolean" for option in items(value, "configOptions")):
            gate = "client.session.config_options.boolean"
            self._gate("R-CONF-08", gate, "an option of type boolean", "agent", seen)

    def _method(self, name: str, sender: Side, seen: Evidence, *, is_request: bool) -> None:
        version = self.state.version
        if version is None:
            return
        for method in methods(version):
            if method.name == name and method.is_request is is_request and method.gate:
                rule = _OF_METHOD.get((version, name), "R-INIT-29")
                gate = method.gate
                if name == "elicitation/create":
                    gate = _elicitation_gate(seen) or gate
                self._gate(rule, gate, name, sender, seen)

    def _params(self, call: Request) -> None:
        version = self.state.version
        needs = NEEDS_V1 if version == 1 else NEEDS_V2
        if version is None:
            return
        for method in methods(version):
            if method.name == call.method and method.call in needs:
                self._needs(method, needs[method.call], call)

    def _needs(self, method: Method, needs: Any, call: Request) -> None:
        try:
            params = convert(call.params, method.params)
        except DecodeError:
            return  # the judge of wire types reports it
        for what, gate in needs(params):
            if gate == _UNGATED:
                continue
            rule = next((rule for path, rule in _OF_PARAMS if gate.startswith(path)), "R-INIT-29")
            self._gate(rule, gate, what, call.sender, call)

    def _gate(self, rule: str, gate: str, what: str, by: Side, seen: Evidence) -> None:
        if None in self.state.capabilities.values():
            return
        opened = is_open(gate, self.state.capabilities)
        owner: Side = "agent" if gate.startswith("agent.") else "client"
        offered = "" if owner == by else f", offered by the {other(by)}"
        self.judge(
            rule,
            opened,
            self.state.initialized,
            seen,
            expected=f"{what} only with the capability {_wire(gate)}{offered}",
            got=f"{what} without it",
            by=by,
        )


def add_gate_rules(rules: Mapping[tuple[int, str], str]) -> None:
    """Add the rules that methods of an extension break, by version and method."""
    _OF_METHOD.update(rules)


def _elicitation_gate(seen: Evidence) -> str | None:
    params = seen.params if isinstance(seen, Request) else None
    mode = params.get("mode") if is_object(params) else None
    return f"client.elicitation.{mode}" if mode in ("form", "url") else None


def _wire(gate: str) -> str:
    """Return a gate in the spelling of the wire."""
    _, *path = gate.split(".")
    words = (name.split("_") for name in path)
    return ".".join(first + "".join(word.title() for word in rest) for first, *rest in words)
