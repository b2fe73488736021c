"""The rule for an unknown value of each enum and union of both versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from accord import v1
from accord.wire.describe import List, Mapping, Object, Shape, Text, describe
from accord_conformance.judges.fields import absent, fields, rule_for_problem
from accord_conformance.traffic.connection_state import methods
from accord_conformance.traffic.message import Member, ProblemKind, TypeProblem, owner_of
from conformance.doubles.conversation import Talker

OTHERWISE = "R-INIT-08"
# Enums and unions without a rule of their own, with their keys.
WITHOUT_A_RULE = {
    1: {
        "PlanEntry.priority",
        "PlanEntry.status",
        "PlanUpdate.type",
        "SessionNotification.sessionUpdate",
        "SubagentUpdate.state",
        *(
            f"ToolCall{kind}.{key}"
            for kind in ("", "Details", "Update")
            for key in ("kind", "status", "type")
        ),
    },
    2: {
        "PlanUpdate.type",
        "RequestPermissionRequest.type",
        "ResumeSessionRequest.type",
        "SessionStatusResponse.state",
        "SubagentUpdate.state",
        "ToolCallContentChunk.type",
        "ToolCallDetails.type",
        "ToolCallUpdate.type",
        "UpdateSessionNotification.sessionUpdate",
        "UpdateSessionNotification.state",
    },
}


class Place(NamedTuple):
    """The place of an enum, or of the tag of a union."""

    owner: Any
    key: str
    path: str
    within: tuple[Member, ...]
    what: ProblemKind

    @property
    def name(self) -> str:
        """The owner and the key; a message that is a union has no name."""
        owner = self.owner.__name__ if isinstance(self.owner, type) else ""
        return f"{owner}.{self.key}"

    def at(self, key: str, owner: Any = None) -> Place:
        """Return the place of a member of the value here."""
        within = (*self.within, (self.owner, self.key)) if self.key else self.within
        return Place(owner or self.owner, key, f"{self.path}.{key}", within, "value")


def places(shape: Shape, place: Place, above: tuple[str, ...] = ()) -> Iterator[Place]:
    """Yield all enums and tags below, and how a value there can be wrong."""
    objects = [kind for kind in shape if isinstance(kind, Object)]
    for kind in shape:
        match kind:
            case Text(values=frozenset(), open=is_open):
                yield place._replace(what="custom" if is_open else "value")
            case List(item=item):
                yield from places(item, place._replace(path=f"{place.path}[0]"), above)
            case Mapping(value=value):
                yield from places(value, place.at("k"), above)
            case _:
                pass
    yield from tags(objects, place)
    for kind in objects:
        owner = owner_of(kind.cls) if kind.name else place.owner
        if above.count(str(owner)) > 1:
            continue
        fixed = {key for key, _ in kind.tags}
        for key, field in kind.fields.items():
            if key not in fixed:
                yield from places(field.shape, place.at(key, owner), (*above, str(owner)))


def tags(objects: list[Object], place: Place) -> Iterator[Place]:
    rests = {kind.rest.tag_field for kind in objects if kind.rest is not None}
    if any(not kind.tags and not kind.rest for kind in objects):
        closed: set[str] = set()
    else:
        closed = {key for kind in objects if not kind.rest for key, _ in kind.tags}
    for key in rests | closed:
        whats: tuple[ProblemKind, ...] = (
            ("variant", "missing", "type") if key in rests else ("value",)
        )
        for what in whats:
            yield place.at(key)._replace(what=what)


def rules(version: int) -> dict[Place, str]:
    """Return the rule that a wrong value violates, for each place of the protocol."""
    found: dict[Place, str] = {}
    for method in methods(version):
        if method.name.startswith("proxy/"):
            continue
        for tp in (method.params, method.result if method.is_request else None):
            if tp is None:
                continue
            for place in places(describe(tp), Place(owner_of(tp), "", "$", (), "value")):
                found[place] = at(place, version)
    return found


def at(place: Place, version: int) -> str:
    owner, key, path, within, what = place
    got: Any = 5 if what == "type" else None if what == "missing" else "zzz"
    wrong = TypeProblem(
        what=what, path=path, owner=owner, key=key, within=within, expected="", got=got
    )
    rule = rule_for_problem(wrong, version)
    return OTHERWISE if rule is None else rule


@pytest.mark.parametrize("version", [1, 2])
def test_wrong_value_violates_the_rule_for_it(version: int) -> None:
    bare = {
        place.name
        for place, rule in rules(version).items()
        # The members with config options have several names.
        if rule == OTHERWISE and "configOptions" not in place.path
    }
    assert bare == WITHOUT_A_RULE[version]


@pytest.mark.parametrize(
    ("version", "where", "what", "rule"),
    [
        (1, "PromptResponse.stopReason", "value", "R-PROMPT-06"),
        (1, "PermissionOption.kind", "value", "R-PERM-16"),
        (1, "Annotations.audience", "value", "R-CONT-01"),
        (1, "PromptRequest.type", "value", "R-CONT-01"),
        (1, "CompactionUpdate.type", "value", "R-CONT-01"),
        (1, "Notice.severity", "custom", ""),  # open in version 1 too
        (2, "IdleStateUpdate.stopReason", "custom", "R-PROMPT-21"),
        (2, "UpdateSessionNotification.state", "variant", "R-PROMPT-21"),
        (2, "AuthStatusResponse.state", "custom", "R-EXT-09"),
        (2, "PermissionOption.kind", "custom", "R-EXT-09"),
        (2, "PlanEntry.priority", "custom", "R-EXT-09"),
        (2, "Notice.severity", "custom", "R-EXT-09"),
        (2, "ToolCallUpdate.kind", "custom", "R-TOOL-12"),
        (2, "ToolCallUpdate.status", "custom", "R-TOOL-12"),
        (2, "ToolCallUpdate.type", "variant", "R-TOOL-12"),
        (2, "AgentMessageChunk.type", "variant", "R-CONT-05"),
        (2, "AgentMessageChunk.type", "missing", "R-CONT-01"),
        (2, "Diff.operation", "missing", "R-TOOL-20"),
        (2, "IdleStateUpdate.type", "missing", "R-BGW-01"),
        (2, "NewSessionRequest.type", "variant", "R-MCP-06"),
        (2, "PlanUpdate.type", "variant", "R-PLAN-07"),
    ],
)
def test_wrong_value_at_a_place_violates_its_rule(
    version: int, where: str, what: str, rule: str
) -> None:
    found = {
        reported
        for place, reported in rules(version).items()
        if place.name == where and place.what == what and "systemPrompt" not in place.path
    }
    assert found == {rule}


def test_value_without_a_rule_is_reported_with_the_valid_values() -> None:
    talker = Talker(1)
    talker.initialize()
    talker.new()
    talker.tool(kind="juggle")
    (finding,) = talker.observer.finish().failures()
    assert finding.rule == OTHERWISE
    assert "one of delete, edit, " in finding.expected
    assert finding.expected.endswith("as defined by version 1")
    assert "values" in finding.requirement.rule


def test_renaming_a_wire_type_or_member_cannot_change_a_verdict_unnoticed() -> None:
    with pytest.raises(TypeError, match=r"accord\.v1\.session\.PromptResponse has no member why"):
        fields(v1.PromptResponse, "why")
    with pytest.raises(TypeError, match="PromptResponse has stopReason"):
        absent(v1.PromptResponse, "stopReason")
