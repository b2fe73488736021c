"""Compares every message with the wire types of the agreed version."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from accord import v1, v2
from accord.rules.quirks import tolerates
from accord.text.lenient_json import is_array, is_object
from accord.v1.early_spellings import LEGACY_METHODS
from accord.wire.protocol import Method
from accord_conformance.judges.base import Evidence, Judge
from accord_conformance.judges.fields import field_rule_ids, rule_for_problem, rules_for_keys
from accord_conformance.judges.handshake import OTHER_KEYS, is_of_other_version
from accord_conformance.judges.protocol_keys import protocol_keys
from accord_conformance.traffic.connection_state import methods
from accord_conformance.traffic.frame import Side, other
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import (
    TypeProblem,
    VisitedKey,
    find_problems,
    format_value,
)

# The rules that methods break in a version that does not have them, by the version and the
# beginning of their names; R-INIT-09 is for the others.
_version_rules = {
    (2, "fs/"): "R-FS-08",
    (2, "terminal/"): "R-TERM-13",
    (2, "session/set_mode"): "R-MODE-06",
}
# Keys of early drafts, which some programs still send for old peers, in addition to the new keys.
_EARLY_KEYS = tolerates("set-model")({"models"})
# A client for both versions sends the keys of both.
_EITHER_VERSION = {"clientInfo", "clientCapabilities", "info", "capabilities"}


class WireTypes(Judge):
    """Fields, their types and values; methods of the other version."""

    rules = ("R-INIT-08", "R-INIT-09", "R-GEN-10", "R-MOA-09")

    @classmethod
    def judged_rules(cls) -> Collection[str]:
        return {*cls.rules, *field_rule_ids(), *_version_rules.values()}

    def on_request(self, call: Request) -> None:
        if call.method == "initialize":
            self._ask(call)
        elif self.state.version is not None and self._known(call.method, call.sender, call):
            self._value(call.method, "params", call.params, self.state.version, call.sender, call)

    def _ask(self, call: Request) -> None:
        """Judge the params of `initialize` by the version that they request."""
        version = call.params.get("protocolVersion") if is_object(call.params) else None
        if isinstance(version, int) and version > 2:
            return  # the shape of a future version is unknown
        self._value("initialize", "params", call.params, 2 if version == 2 else 1, "client", call)

    def on_notification(self, note: Notification) -> None:
        if self.state.version is not None and self._known(note.method, note.sender, note):
            self._value(note.method, "note", note.params, self.state.version, note.sender, note)

    def on_response(self, call: Request) -> None:
        replier = other(call.sender)
        if not call.ok:
            return
        if call.method == "initialize":
            if is_object(call.result) and not is_of_other_version(call.result):
                says = call.result.get("protocolVersion")
                version = 2 if says == 2 or (says != 1 and "info" in call.result) else 1
                self._value("initialize", "result", call.result, version, replier, call)
            return
        if self.state.version is None:
            return
        method = _method(call.method, "result", self.state.version)
        if method is None:
            return
        if call.result is None:
            if _may_be_null(method):
                self.judge("R-GEN-10", False, call, expected="an object", got="null", by=replier)
                return
        elif call.result == {}:
            self.judge("R-GEN-10", True, by=replier)
        self._value(call.method, "result", call.result, self.state.version, replier, call)

    def _known(self, method: str, sender: Side, seen: Evidence) -> bool:
        """Judge the method; return whether its params can be judged."""
        version = self.state.version
        assert version is not None
        if method.startswith(("_", "$/")) and method != "$/cancel_request":
            return False
        if _method(method, None, version) is not None:
            self.judge("R-INIT-09", True, by=sender)
            expected = _sent_otherwise(method, version, sender, isinstance(seen, Request))
            rule = "R-MOA-09" if expected and method == "mcp/message" else "R-INIT-08"
            self.judge(rule, not expected, seen, expected=expected, got=method, by=sender)
            return not expected
        if method in LEGACY_METHODS:
            return False
        rule, expected = "R-INIT-08", f"a method of version {version}, or one that begins with `_`"
        if _method(method, None, 3 - version) is not None:
            named = (
                rule
                for (without, head), rule in _version_rules.items()
                if without == version and method.startswith(head)
            )
            rule = next(named, "R-INIT-09")
            expected = f"a method of version {version}"
        self.judge(rule, False, seen, expected=expected, got=method, by=sender)
        return False

    def _value(
        self, method: str, part: str, value: Any, version: int, sender: Side, seen: Evidence
    ) -> None:
        found = _method(method, part, version)
        if found is None:
            return
        visits: set[VisitedKey] = set()
        tp = found.result if part == "result" else found.params
        broken: set[str] = set()
        for problem in find_problems(tp, value, visits):
            if _is_forgiven(problem, value, version):
                continue
            rule = rule_for_problem(problem, version)
            if rule == "":
                continue
            rule = rule or "R-INIT-08"
            broken.add(rule)
            got = "nothing" if problem.what == "missing" else format_value(problem.got)
            expected = f"{problem.expected} at {problem.path} of {method}"
            if rule == "R-INIT-08":
                expected += f", as defined by version {version}"
            # A key that the protocol has elsewhere, stable or not, is not a custom key.
            known = rule == "R-GEN-12" and problem.key in protocol_keys()
            # Nor does the text forbid these keys where the schema does not have them.
            known |= problem.what == "extra" and rule in _NOT_FORBIDDEN
            self.judge(
                rule,
                False,
                seen,
                expected=expected,
                got=got,
                by=sender,
                authority="derived" if known else None,
            )
        for rule in ({"R-INIT-08"} | rules_for_keys(visits, version)) - broken:
            self.judge(rule, True, by=sender)


# Rules about a `type` that a type of version 1 does not have, but a type of version 2 does.
_NOT_FORBIDDEN = ("R-CMD-05", "R-CONF-09", "R-MCP-04")


def add_version_rules(rules: Mapping[tuple[int, str], str]) -> None:
    """Add the rules that methods of an extension break in a version that does not have them."""
    _version_rules.update(rules)


@tolerates("null-result")
def _may_be_null(method: Method) -> bool:
    """Return whether a method's result has no required member, so that null reads as empty."""
    return not find_problems(method.result, {})


def _sent_otherwise(name: str, version: int, sender: Side, is_request: bool) -> str:
    """Return how a method has to be sent, or an empty text if it was sent like that."""
    found = [method for method in methods(version) if method.name == name]
    kinds = [method for method in found if method.is_request is is_request]
    if not kinds:
        return f"a {'notification' if is_request else 'request'}"
    if all(method.to == sender for method in kinds):
        return f"a method that the {sender} handles and the {other(sender)} sends"
    return ""


def _is_forgiven(problem: TypeProblem, value: Any, version: int) -> bool:
    if problem.what == "variant" and problem.got == "env_var":
        return True  # reported by R-AUTH-24
    if problem.what != "extra":
        return False
    if problem.key in _EARLY_KEYS and problem.path.count(".") == 1 and version == 1:
        return True
    if (
        problem.owner in (v1.InitializeRequest, v2.InitializeRequest)
        and problem.key in _EITHER_VERSION
    ):
        return True
    if (
        problem.owner in (v1.InitializeResponse, v2.InitializeResponse)
        and problem.key in OTHER_KEYS[version]
    ):
        return True  # reported by R-INIT-12
    # An auth method of an unknown type is read as one without a type, with any members.
    is_method = problem.owner in (v1.AuthMethodAgent, v2.AuthMethodAgent)
    return is_method and _has_type(value, problem.path)


def _has_type(value: Any, path: str) -> bool:
    """Return whether the auth method at a path has a type."""
    methods = value.get("authMethods") if is_object(value) else None
    index = path.partition("[")[2].partition("]")[0]
    if not is_array(methods) or not index.isdigit():
        return False
    method = methods[int(index)]
    return is_object(method) and "type" in method


@cache
def _method(name: str, part: str | None, version: int) -> Method | None:
    """Return a method by its name: the request or the notification, if there are both."""
    for method in methods(version):
        fits = part is None or (part == "note") is not method.is_request
        if method.name == name and fits and not name.startswith("proxy/"):
            return method
    return None
