"""The wire types of the family, and the capabilities of version 1 extended by its own."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord import v1
from accord.v1.content import SessionId
from accord.v1.methods import SPEC as V1
from accord.wire.base import Int64, Lenient, LenientList, UInt32, UInt64, Wire
from accord.wire.protocol import Method

__all__ = (
    "AcceptNesNotification",
    "AgentCapabilities",
    "ClientCapabilities",
    "ClientNesCapabilities",
    "CloseNesRequest",
    "CloseNesResponse",
    "DidChangeDocumentNotification",
    "DidCloseDocumentNotification",
    "DidFocusDocumentNotification",
    "DidOpenDocumentNotification",
    "DidSaveDocumentNotification",
    "InitializeRequest",
    "InitializeResponse",
    "NesCapabilities",
    "NesContextCapabilities",
    "NesDiagnostic",
    "NesDiagnosticSeverity",
    "NesDiagnosticsCapabilities",
    "NesDocumentDidChangeCapabilities",
    "NesDocumentDidCloseCapabilities",
    "NesDocumentDidFocusCapabilities",
    "NesDocumentDidOpenCapabilities",
    "NesDocumentDidSaveCapabilities",
    "NesDocumentEventCapabilities",
    "NesEditHistoryCapabilities",
    "NesEditHistoryEntry",
    "NesEditSuggestion",
    "NesEventCapabilities",
    "NesExcerpt",
    "NesJumpCapabilities",
    "NesJumpSuggestion",
    "NesOpenFile",
    "NesOpenFilesCapabilities",
    "NesRecentFile",
    "NesRecentFilesCapabilities",
    "NesRejectReason",
    "NesRelatedSnippet",
    "NesRelatedSnippetsCapabilities",
    "NesRenameCapabilities",
    "NesRenameSuggestion",
    "NesRepository",
    "NesSearchAndReplaceCapabilities",
    "NesSearchAndReplaceSuggestion",
    "NesSuggestContext",
    "NesSuggestion",
    "NesSuggestionId",
    "NesTextEdit",
    "NesTriggerKind",
    "NesUserAction",
    "NesUserActionsCapabilities",
    "Position",
    "PositionEncodingKind",
    "Range",
    "RejectNesNotification",
    "StartNesRequest",
    "StartNesResponse",
    "SuggestNesRequest",
    "SuggestNesResponse",
    "TextDocumentContentChangeEvent",
    "TextDocumentSyncKind",
    "WorkspaceFolder",
)

NesSuggestionId: TypeAlias = str
TextDocumentSyncKind: TypeAlias = Literal["full", "incremental"]
PositionEncodingKind: TypeAlias = Literal["utf-16", "utf-32", "utf-8"]
NesTriggerKind: TypeAlias = Literal["automatic", "diagnostic", "manual"]
NesDiagnosticSeverity: TypeAlias = Literal["error", "warning", "information", "hint"]
NesRejectReason: TypeAlias = Literal["rejected", "ignored", "replaced", "cancelled"]


# What an agent wants to be told.


class NesDocumentDidOpenCapabilities(Wire):
    """Tell when a document is opened."""


class NesDocumentDidChangeCapabilities(Wire):
    """Tell when a document changes: all of its text, or what changed."""

    sync_kind: TextDocumentSyncKind


class NesDocumentDidCloseCapabilities(Wire):
    """Tell when a document is closed."""


class NesDocumentDidSaveCapabilities(Wire):
    """Tell when a document is saved."""


class NesDocumentDidFocusCapabilities(Wire):
    """Tell which document the user looks at."""


class NesDocumentEventCapabilities(Wire):
    """Which events of documents the agent wants."""

    did_open: Lenient[NesDocumentDidOpenCapabilities | None] = None
    did_change: Lenient[NesDocumentDidChangeCapabilities | None] = None
    did_close: Lenient[NesDocumentDidCloseCapabilities | None] = None
    did_save: Lenient[NesDocumentDidSaveCapabilities | None] = None
    did_focus: Lenient[NesDocumentDidFocusCapabilities | None] = None


class NesEventCapabilities(Wire):
    """Which events the agent wants."""

    document: Lenient[NesDocumentEventCapabilities | None] = None


class NesRecentFilesCapabilities(Wire):
    """Send the files that were open lately."""

    max_count: Lenient[UInt32 | None] = None


class NesRelatedSnippetsCapabilities(Wire):
    """Send pieces of other files that have to do with this one."""


class NesEditHistoryCapabilities(Wire):
    """Send the latest edits."""

    max_count: Lenient[UInt32 | None] = None


class NesUserActionsCapabilities(Wire):
    """Send what the user did lately."""

    max_count: Lenient[UInt32 | None] = None


class NesOpenFilesCapabilities(Wire):
    """Send which files are open."""


class NesDiagnosticsCapabilities(Wire):
    """Send the errors and warnings."""


class NesContextCapabilities(Wire):
    """What the agent wants with every request for suggestions."""

    recent_files: Lenient[NesRecentFilesCapabilities | None] = None
    related_snippets: Lenient[NesRelatedSnippetsCapabilities | None] = None
    edit_history: Lenient[NesEditHistoryCapabilities | None] = None
    user_actions: Lenient[NesUserActionsCapabilities | None] = None
    open_files: Lenient[NesOpenFilesCapabilities | None] = None
    diagnostics: Lenient[NesDiagnosticsCapabilities | None] = None


class NesCapabilities(Wire):
    """The agent suggests edits; it wants these events and this context."""

    events: Lenient[NesEventCapabilities | None] = None
    context: Lenient[NesContextCapabilities | None] = None


# What a client can show in addition to edits.


class NesJumpCapabilities(Wire):
    """The client can show a jump."""


class NesRenameCapabilities(Wire):
    """The client can show a renaming."""


class NesSearchAndReplaceCapabilities(Wire):
    """The client can show a replacement throughout a file."""


class ClientNesCapabilities(Wire):
    """The kinds of suggestion that the client shows in addition to edits."""

    jump: Lenient[NesJumpCapabilities | None] = None
    rename: Lenient[NesRenameCapabilities | None] = None
    search_and_replace: Lenient[NesSearchAndReplaceCapabilities | None] = None


# The capabilities of version 1, with those of the family.


class AgentCapabilities(v1.AgentCapabilities):
    """The capabilities of an agent; the default encoding of positions is utf-16."""

    __extends__: ClassVar[type[Wire]] = v1.AgentCapabilities

    nes: Lenient[NesCapabilities | None] = None
    position_encoding: Lenient[PositionEncodingKind | None] = None


class ClientCapabilities(v1.ClientCapabilities):
    """The capabilities of a client."""

    __extends__: ClassVar[type[Wire]] = v1.ClientCapabilities

    nes: Lenient[ClientNesCapabilities | None] = None
    position_encodings: Lenient[LenientList[PositionEncodingKind]] = []


class InitializeRequest(v1.InitializeRequest):
    """`initialize` of version 1, from a client that may show suggestions."""

    __extends__: ClassVar[type[Wire]] = v1.InitializeRequest

    client_capabilities: Lenient[ClientCapabilities] = ClientCapabilities()


class InitializeResponse(v1.InitializeResponse):
    """The result of `initialize` of version 1, from an agent that may suggest edits."""

    __extends__: ClassVar[type[Wire]] = v1.InitializeResponse

    agent_capabilities: Lenient[AgentCapabilities] = AgentCapabilities()


# Places in documents.


class Position(Wire):
    """A place in a text; both numbers begin at 0."""

    line: UInt32
    character: UInt32  # in units of the agreed encoding


class Range(Wire):
    """A range of a text; `end` is the first position after it."""

    start: Position
    end: Position


# Documents.


class DidOpenDocumentNotification(Wire):
    """A document is open; from now on the editor's text counts, not the file's."""

    session_id: SessionId
    uri: str
    language_id: str
    version: Int64
    text: str


class TextDocumentContentChangeEvent(Wire):
    """The text of a range is replaced, or without a range the text of the document."""

    text: str
    range: Range | None = None


class DidChangeDocumentNotification(Wire):
    """A document changed; the changes apply one after the other."""

    session_id: SessionId
    uri: str
    version: Int64
    content_changes: list[TextDocumentContentChangeEvent]


class DidCloseDocumentNotification(Wire):
    """A document is closed; the file's text counts again."""

    session_id: SessionId
    uri: str


class DidSaveDocumentNotification(Wire):
    """A document is saved."""

    session_id: SessionId
    uri: str


class DidFocusDocumentNotification(Wire):
    """The user looks at a document, at this place of it."""

    session_id: SessionId
    uri: str
    version: Int64
    position: Position
    visible_range: Range


# Sessions of suggestions; their ids are separate from those of chat sessions.


class WorkspaceFolder(Wire):
    """A folder open in the editor."""

    uri: str
    name: str


class NesRepository(Wire):
    """The repository that is being worked on."""

    name: str
    owner: str
    remote_url: str


class StartNesRequest(Wire):
    """Begin a session of suggestions."""

    workspace_uri: Lenient[str | None] = None
    workspace_folders: list[WorkspaceFolder] | None = None
    repository: Lenient[NesRepository | None] = None


class StartNesResponse(Wire):
    """The session has begun."""

    session_id: SessionId


class CloseNesRequest(Wire):
    """End a session of suggestions."""

    session_id: SessionId


class CloseNesResponse(Wire):
    """The session has ended, and its resources are released."""


# Suggestions.


class NesRecentFile(Wire):
    """A file that was open lately."""

    uri: str
    language_id: str
    text: str


class NesExcerpt(Wire):
    """Some lines of a file; the first line is 0."""

    start_line: UInt32
    end_line: UInt32
    text: str


class NesRelatedSnippet(Wire):
    """Pieces of a file."""

    uri: str
    excerpts: list[NesExcerpt]


class NesEditHistoryEntry(Wire):
    """An edit, as a diff."""

    uri: str
    diff: str


class NesUserAction(Wire):
    """Something that the user did, insertChar or cursorMovement for instance."""

    action: str
    uri: str
    position: Position
    timestamp_ms: UInt64


class NesOpenFile(Wire):
    """A file that is open."""

    uri: str
    language_id: str
    visible_range: Lenient[Range | None] = None
    last_focused_ms: Lenient[UInt64 | None] = None


class NesDiagnostic(Wire):
    """An error or a warning about a stretch of a file."""

    uri: str
    range: Range
    severity: NesDiagnosticSeverity
    message: str


class NesSuggestContext(Wire):
    """What the agent asked for in its capabilities."""

    recent_files: list[NesRecentFile] | None = None
    related_snippets: list[NesRelatedSnippet] | None = None
    edit_history: list[NesEditHistoryEntry] | None = None
    user_actions: list[NesUserAction] | None = None
    open_files: list[NesOpenFile] | None = None
    diagnostics: list[NesDiagnostic] | None = None


class SuggestNesRequest(Wire):
    """Ask what the user may want to do next, from this place."""

    session_id: SessionId
    uri: str
    version: Int64
    position: Position
    trigger_kind: NesTriggerKind
    selection: Range | None = None
    context: NesSuggestContext | None = None


class NesTextEdit(Wire):
    """A stretch of text, and what to put in its place."""

    range: Range
    new_text: str


class NesEditSuggestion(Wire, tag_field="kind", tag="edit"):
    """Edit a file; every client can show this."""

    id: NesSuggestionId
    uri: str
    edits: list[NesTextEdit]
    cursor_position: Lenient[Position | None] = None  # after the edits


class NesJumpSuggestion(Wire, tag_field="kind", tag="jump"):
    """Go to a place."""

    id: NesSuggestionId
    uri: str
    position: Position


class NesRenameSuggestion(Wire, tag_field="kind", tag="rename"):
    """Rename the symbol at a position."""

    id: NesSuggestionId
    uri: str
    position: Position
    new_name: str


class NesSearchAndReplaceSuggestion(Wire, tag_field="kind", tag="searchAndReplace"):
    """Replace throughout a file; `search` may be a regular expression."""

    id: NesSuggestionId
    uri: str
    search: str
    replace: str
    is_regex: bool | None = None


NesSuggestion: TypeAlias = (
    NesEditSuggestion | NesJumpSuggestion | NesRenameSuggestion | NesSearchAndReplaceSuggestion
)


class SuggestNesResponse(Wire):
    """What the user may want to do next; nothing is an answer too."""

    suggestions: list[NesSuggestion]


class AcceptNesNotification(Wire):
    """The user took a suggestion."""

    session_id: SessionId
    id: NesSuggestionId


class RejectNesNotification(Wire):
    """The user did not take a suggestion."""

    session_id: SessionId
    id: NesSuggestionId
    reason: Lenient[NesRejectReason | None] = None


# The methods of next edit suggestions, and version 1 extended by them.

METHODS: tuple[Method, ...] = (
    Method(
        name="initialize",
        call="initialize",
        params=InitializeRequest,
        result=InitializeResponse,
        to="agent",
    ),
    Method(
        name="nes/start",
        call="start_nes",
        params=StartNesRequest,
        result=StartNesResponse,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="nes/suggest",
        call="suggest_nes",
        params=SuggestNesRequest,
        result=SuggestNesResponse,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="nes/accept",
        call="accept_nes",
        params=AcceptNesNotification,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="nes/reject",
        call="reject_nes",
        params=RejectNesNotification,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="nes/close",
        call="close_nes",
        params=CloseNesRequest,
        result=CloseNesResponse,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="document/didOpen",
        call="did_open_document",
        params=DidOpenDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_open",
    ),
    Method(
        name="document/didChange",
        call="did_change_document",
        params=DidChangeDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_change",
    ),
    Method(
        name="document/didClose",
        call="did_close_document",
        params=DidCloseDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_close",
    ),
    Method(
        name="document/didSave",
        call="did_save_document",
        params=DidSaveDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_save",
    ),
    Method(
        name="document/didFocus",
        call="did_focus_document",
        params=DidFocusDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_focus",
    ),
)

SPEC = V1.extended(
    METHODS,
    initialize_request=InitializeRequest,
    initialize_response=InitializeResponse,
    capability_types={"agent": AgentCapabilities, "client": ClientCapabilities},
)
