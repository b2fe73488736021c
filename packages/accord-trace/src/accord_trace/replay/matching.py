"""Finds the message of the recording for a message of the live client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from accord.text.lenient_json import is_object
from accord_trace.comparing import ValueDifference, canonical, value_differences
from accord_trace.replay.mapping import ValueMap
from accord_trace.replay.script import Script, Step

_DIRECTORIES = ("cwd", "additionalDirectories")  # mapped, not compared


class Match(Struct, frozen=True, eq=False):
    """The recorded message, and what is different from it."""

    step: Step
    differences: list[ValueDifference]


class Matcher:
    """Matches by method, session and canonical params (R-TRACE-04); each message is used once.

    If no params are equal, the next unused message of the method and the session is the match.
    """

    def __init__(self, script: Script, values: ValueMap) -> None:
        self._values = values
        self._unused: dict[int, Step] = {step.number: step for step in script.steps}
        self._sessions = {step.session for step in script.steps}
        for step in script.steps:
            if not step.from_client or step.kind in ("end", "invalid"):
                del self._unused[step.number]

    @property
    def unused(self) -> list[Step]:
        """The messages of the client that were not used, answers included."""
        return list(self._unused.values())

    def use(self, step: Step) -> None:
        """Mark a message as used."""
        self._unused.pop(step.number, None)

    def find(self, kind: str, method: str, params: Any) -> Match | None:
        """Return the match, which is not marked as used yet; None if there is none."""
        found = [
            step for step in self._unused.values() if step.kind == kind and step.method == method
        ]
        live = params.get("sessionId") if is_object(params) else None
        session = self.session_of(live)
        if isinstance(live, str):
            here = [step for step in found if step.session == session]
            if session is None:  # the client names a session of its own, such as a stored one
                here = [step for step in found if self._is_free(step.session)]
            found = here or found
        first: Match | None = None
        for match in self._compared(found, params, session, live):
            if not match.differences:
                return match
            first = first or match
        return first

    def bind(self, step: Step, params: Any) -> None:
        """Pair the session and the directories in params with those of a match."""
        recorded = step.value()
        if is_object(params) and is_object(recorded):
            old, new = recorded.get("sessionId"), params.get("sessionId")
            if isinstance(old, str) and isinstance(new, str):
                self._values.bind_id("sessionId", old, new)
        self._values.bind_directories(step.session, recorded, params)

    def session_of(self, live: Any) -> str | None:
        """Return the recorded id of a live session; None if the session is not known."""
        if not isinstance(live, str):
            return None
        bound = self._values.recorded_id("sessionId", live)
        if bound is not None:
            return bound
        return live if live in self._sessions and self._is_free(live) else None

    def _is_free(self, session: str | None) -> bool:
        return session is None or self._values.live_id("sessionId", session) is None

    def _compared(
        self, steps: Iterable[Step], params: Any, session: str | None, live: Any
    ) -> Iterable[Match]:
        for step in steps:
            recorded = step.value()
            got = self._values.to_recorded(params, step.session)
            if is_object(params) and "cwd" in params:
                opened = ValueMap()  # as it would be if this were the match
                opened.bind_directories(None, recorded, params)
                got = opened.to_recorded(params, None)
            differences = list(value_differences(_compared(recorded), _compared(got)))
            if step.method == "initialize" and _is_agreed(step, params):
                differences = [one for one in differences if one.path != "protocolVersion"]
            if isinstance(live, str) and step.session not in (session, None) and session:
                old = f'session "{step.session}"'
                differences.append(ValueDifference("sessionId", old, f'session "{session}"'))
            yield Match(step, differences)


def _compared(params: Any) -> Any:
    """Return the part of params that is compared; the session and the directories are mapped."""
    found = canonical(params)
    if is_object(found):
        left_out = (*_DIRECTORIES, "sessionId") if "cwd" in found else ("sessionId",)
        return {key: item for key, item in found.items() if key not in left_out}
    return {} if found is None else found


def _is_agreed(step: Step, params: Any) -> bool:
    """Return whether a client would agree on the recorded version: it may offer a newer one."""
    result = step.response.value() if step.response is not None else None
    offered = params.get("protocolVersion") if is_object(params) else None
    agreed = result.get("protocolVersion") if is_object(result) else None
    return isinstance(offered, int) and isinstance(agreed, int) and offered >= agreed
