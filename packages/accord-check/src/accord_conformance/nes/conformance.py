"""Next edit suggestions: a family that has left the schema, as an extension of the kit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from accord import v2
from accord.rules.gates import is_open
from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import ALL_CAPABILITIES_V1, Json, ScenarioClient
from accord_conformance.extension import add_extension
from accord_conformance.harness import LoginRequired, NoResponse, NotExercised, scenario
from accord_conformance.judges.base import Judge, items
from accord_conformance.judges.fields import MALFORMED, FieldRule, absent, below, fields, inside
from accord_conformance.judges.turns import NOTICED_S
from accord_conformance.nes import types as nes
from accord_conformance.nes.types import METHODS
from accord_conformance.traffic.message import Notification, Request, format_value

# The rules that wrong fields of next edit suggestions break.

_SUGGESTIONS = (
    nes.NesEditSuggestion,
    nes.NesJumpSuggestion,
    nes.NesRenameSuggestion,
    nes.NesSearchAndReplaceSuggestion,
)
_NAMED = (*_SUGGESTIONS, nes.AcceptNesNotification, nes.RejectNesNotification)

FIELD_RULES = (
    FieldRule(
        "R-NES-12",
        tuple(
            place
            for owner in (v2.ClientCapabilities, v2.AgentCapabilities)
            for place in absent(owner, "nes", "positionEncoding", "positionEncodings")
        ),
        frozenset(("extra",)),
    ),
    FieldRule(
        "R-NES-10",
        tuple(place for owner in _NAMED for place in absent(owner, "suggestionId")),
        frozenset(("extra",)),
    ),
    FieldRule(
        "R-NES-10", tuple(place for owner in _NAMED for place in fields(owner, "id")), MALFORMED
    ),
    FieldRule(
        "R-NES-13",
        (
            *fields(nes.AgentCapabilities, "position_encoding"),
            *fields(nes.ClientCapabilities, "position_encodings"),
            *fields(nes.NesDocumentDidChangeCapabilities, "sync_kind"),
            *fields(nes.SuggestNesRequest, "trigger_kind"),
            *fields(nes.RejectNesNotification, "reason"),
            *inside(nes.SuggestNesResponse, "suggestions"),
            *below(nes.DidChangeDocumentNotification, "content_changes"),
            *below(nes.StartNesRequest, "workspace_folders"),
            *below(nes.SuggestNesRequest, "context"),
        ),
    ),
)


# Next edit suggestions, an optional family of version 1.

_CONTEXT = {
    "recentFiles": "recent_files",
    "relatedSnippets": "related_snippets",
    "editHistory": "edit_history",
    "userActions": "user_actions",
    "openFiles": "open_files",
    "diagnostics": "diagnostics",
}
_KINDS = {"jump": "jump", "rename": "rename", "searchAndReplace": "search_and_replace"}
_ENCODINGS = ("utf-16", "utf-32", "utf-8")
_FAMILY = ("nes/", "document/")


class Nes(Judge):
    """The rules of NES, except those that a wrong field breaks."""

    rules: ClassVar[tuple[str, ...]] = (
        "R-NES-01",
        "R-NES-02",
        "R-NES-04",
        "R-NES-06",
        "R-NES-07",
        "R-NES-09",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._started: set[str] = set()
        self._closed: dict[str, Request] = {}

    def on_request(self, call: Request) -> None:
        if call.sender != "client" or self.state.version != 1:
            return
        self._named(call)
        if call.method == "nes/suggest" and is_object(call.params):
            self._context(call, call.params.get("context"))

    def on_notification(self, note: Notification) -> None:
        if note.sender != "client" or self.state.version != 1:
            return
        self._named(note)
        if note.method == "document/didChange" and is_object(note.params):
            self._changed(note, items(note.params, "contentChanges"))

    def on_response(self, call: Request) -> None:
        if call.sender != "client":
            return
        result: dict[str, Any] = call.result if is_object(call.result) else {}
        match call.method:
            case "initialize":
                self._encoding(call, result)
            case "nes/start" if isinstance(result.get("sessionId"), str):
                self._started.add(result["sessionId"])
                self._closed.pop(result["sessionId"], None)
            case "nes/close" if call.ok and call.session_id is not None:
                self._closed[call.session_id] = call
            case "nes/suggest" if self.state.version == 1:
                suggestions = items(result, "suggestions")
                self._kinds(call, suggestions)
                self._after_close(call, bool(suggestions))
            case _:
                pass

    def _named(self, seen: Request | Notification) -> None:
        """An id may name both a chat and an NES session; one that only a chat has is wrong here."""
        ident = seen.session_id
        if ident is None or not seen.method.startswith(_FAMILY):
            return
        own = ident in self._started
        if own or (
            self.state.find_session(ident) and not self.state.unanswered("client", "nes/start")
        ):
            self.judge(
                "R-NES-02",
                own,
                seen,
                expected="an id that nes/start returned",
                got=f"{format_value(ident)}, which is a chat session",
            )

    def _context(self, call: Request, context: Any) -> None:
        if not is_object(context) or not self._offers("agent.nes"):
            return
        for key, name in _CONTEXT.items():
            if context.get(key):
                self.judge(
                    "R-NES-01",
                    self._offers(f"agent.nes.context.{name}"),
                    self.state.initialized,
                    call,
                    expected=f"{key} only if the agent declared nes.context.{key}",
                    got=f"{key} without it",
                    by="client",
                )

    def _changed(self, note: Notification, changes: list[dict[str, Any]]) -> None:
        path = ("nes", "events", "document", "did_change", "sync_kind")
        kind: Any = self.state.capabilities["agent"]
        for name in path:
            kind = getattr(kind, name, None)
        ranges = [change.get("range") is not None for change in changes]
        if kind == "full":
            self.judge(
                "R-NES-06",
                not any(ranges),
                self.state.initialized,
                note,
                expected="the whole text without a range, as the agent's syncKind is full",
                got="a range",
            )
        elif kind == "incremental" and ranges and all(ranges):
            self.judge("R-NES-06", True)  # a change without range replaces all, in either kind

    def _encoding(self, call: Request, result: dict[str, Any]) -> None:
        params = call.params if is_object(call.params) else {}
        agent, client = result.get("agentCapabilities"), params.get("clientCapabilities")
        if result.get("protocolVersion") != 1 or not is_object(agent):
            return
        picked = agent.get("positionEncoding")
        if picked not in _ENCODINGS or (client is None and "capabilities" in params):
            return
        offered = client.get("positionEncodings") if is_object(client) else None
        known = offered if is_array(offered) else []
        self.judge(
            "R-NES-04",
            picked == "utf-16" or picked in known,
            call,
            expected=f"utf-16, or one of {format_value(known)}",
            got=format_value(picked),
            by="agent",
        )

    def _kinds(self, call: Request, suggestions: list[dict[str, Any]]) -> None:
        if self.state.capabilities["client"] is None:
            return
        for suggestion in suggestions:
            kind = suggestion.get("kind")
            if not isinstance(kind, str) or kind not in ("edit", *_KINDS):
                continue
            self.judge(
                "R-NES-07",
                kind == "edit" or self._offers(f"client.nes.{_KINDS[kind]}"),
                self.state.initialized,
                call,
                expected="an edit, or a kind that the client advertised",
                got=format_value(kind),
            )

    def _after_close(self, call: Request, suggests: bool) -> None:
        closed = self._closed.get(call.session_id or "")
        if closed is None or closed.response is None or call.response is None:
            return
        asked_later = call.frame.number > closed.response.frame.number
        late = call.response.frame.time - closed.response.frame.time >= NOTICED_S
        if suggests and not asked_later and not late:
            return  # it may have been done when the close came
        self.judge(
            "R-NES-09",
            not suggests,
            closed,
            call,
            expected="no suggestions from a closed session",
            got="suggestions",
        )

    def _offers(self, gate: str) -> bool:
        return is_open(gate, self.state.capabilities)


# Next edit suggestions: sessions of their own, as in an editor while the user types.

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


add_extension(
    rules=Path(__file__).parent / "rules",
    methods={1: METHODS},
    judges=(Nes,),
    field_rules=FIELD_RULES,
    gate_rules={
        (1, f"document/did{name}"): "R-NES-01"
        for name in ("Open", "Change", "Close", "Save", "Focus")
    },
    version_rules={(2, "nes/"): "R-NES-12", (2, "document/"): "R-NES-12"},
    capabilities={"next edit suggestions": ("nes", "")},
    agent_scenarios=SCENARIOS,
)
