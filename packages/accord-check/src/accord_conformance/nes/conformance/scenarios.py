"""Next edit suggestions: sessions of their own, as in an editor while the user types."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import ALL_CAPABILITIES_V1, Json, ScenarioClient
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import LoginRequired, NotExercised, scenario
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value

_LOGIN_NEEDED = -32000
_SHOWS: Json = {**ALL_CAPABILITIES_V1, "nes": {"jump": {}}}  # other kinds must not be sent
_TEXT = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n"


class _Typing:
    """A document that is edited; the agent receives the notifications that it supports."""

    def __init__(self, editor: ScenarioClient, session: str, uri: str) -> None:
        self._editor = editor
        self._session = session
        self._uri = uri
        self._version = 1
        self._column = 0
        offers: Any = editor.result.get("agentCapabilities")
        for key in ("nes", "events", "document"):
            offers = offers.get(key) if is_object(offers) else None
        self._wants: Json = offers if is_object(offers) else {}

    def open(self) -> None:
        self._tell("didOpen", languageId="python", version=1, text=_TEXT)

    def type(self) -> None:
        """Write the last line, sent as the full text or as a change."""
        added = "    return "
        start, end = {"line": 5, "character": 0}, {"line": 5, "character": self._column}
        wanted = self._wants.get("didChange")
        if not is_object(wanted):
            return
        self._version += 1
        whole = wanted.get("syncKind") == "full"
        change: Json = {"text": _TEXT + added if whole else added}
        if not whole:
            change["range"] = {"start": start, "end": end}
        self._column = len(added)
        self._tell("didChange", version=self._version, contentChanges=[change])

    def save(self) -> None:
        self._tell("didSave")

    def close(self) -> None:
        self._tell("didClose")

    def wish(self) -> Request:
        """Ask for suggestions where the text ends."""
        place = {"line": 5, "character": self._column}
        params = {"uri": self._uri, "version": self._version, "position": place}
        more = {"sessionId": self._session, "triggerKind": "automatic"}
        return self._editor.connection.send_request("nes/suggest", {**params, **more})

    def _tell(self, event: str, **more: Any) -> None:
        if is_object(self._wants.get(event)):
            about = {"sessionId": self._session, "uri": self._uri}
            self._editor.connection.send_notification(f"document/{event}", {**about, **more})


@scenario("nes/session", "R-NES-09", versions=(1,), isolated=True)
async def _session(stage: AgentContext) -> None:
    """A document is edited, suggestions are taken and refused; the session is closed."""
    editor = await stage.connect_initialized(capabilities=_SHOWS)
    editor.require("next edit suggestions")
    session = await _start(editor)
    typing = _Typing(editor, session, stage.folder.joinpath("typed.py").as_uri())
    typing.open()
    for verdict in ("nes/accept", "nes/reject"):
        typing.type()
        call = typing.wish()
        await editor.connection.wait_for_response(call, within_s=stage.settings.timeout)
        for ident in _ids(call):
            params: Json = {"sessionId": session, "id": ident}
            if verdict == "nes/reject":
                params["reason"] = "ignored"
            editor.connection.send_notification(verdict, params)
    typing.save()
    crossed = typing.wish()
    closed = await editor.connection.call("nes/close", {"sessionId": session})
    try:
        await editor.connection.wait_for_response(crossed)
    except NoResponse as silence:
        if closed.ok:
            wanted = "a response to the request sent before the close"
            stage.judge("R-NES-09", False, crossed, closed, expected=wanted, got=str(silence))
        raise
    if closed.ok:
        await editor.connection.wait_for_response(
            typing.wish()
        )  # observed: no suggestions of a closed session


@scenario("nes/apart", versions=(1,), isolated=True)
async def _apart(stage: AgentContext) -> None:
    """Two sessions of suggestions and one for a chat live side by side."""
    editor = await stage.connect_initialized(capabilities=_SHOWS)
    editor.require("next edit suggestions")
    first, second = await _start(editor), await _start(editor)
    await editor.new_session()
    await editor.connection.call("nes/close", {"sessionId": first})
    typing = _Typing(editor, second, stage.folder.joinpath("other.py").as_uri())
    typing.open()
    await editor.connection.wait_for_response(typing.wish(), within_s=stage.settings.timeout)
    typing.close()
    await editor.connection.call("nes/close", {"sessionId": second})


async def _start(editor: ScenarioClient) -> str:
    folder: Json = {"uri": editor.folder.as_uri(), "name": "project"}
    call = editor.connection.send_request("nes/start", {"workspaceFolders": [folder]})
    await editor.connection.wait_for_response(call, within_s=editor.settings.timeout)
    if call.code == _LOGIN_NEEDED:
        raise LoginRequired("the agent requires a login before it suggests edits")
    session = call.result.get("sessionId") if is_object(call.result) else None
    if not isinstance(session, str):
        error = call.response.error if call.response else None
        raise NotExercised(
            f"no session was created: {format_value(error) if error else 'it has no id'}"
        )
    return session


def _ids(call: Request) -> list[Any]:
    found = call.result.get("suggestions") if is_object(call.result) else None
    known = found if is_array(found) else []
    return [one["id"] for one in known if is_object(one) and "id" in one]


SCENARIOS = (_session, _apart)
