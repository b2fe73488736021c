"""The next edit suggestions, which left the schema: a table of their types, written as a schema.

One line per type. `?` after a key: may be absent; `|null`, `[]` as usual; `~`: a value of the wrong
shape reads as absent; `~skip`: items of the wrong shape are left out too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

Node = dict[str, Any]

ENUMS = {
    "TextDocumentSyncKind": "full incremental",
    "PositionEncodingKind": "utf-16 utf-32 utf-8",
    "NesTriggerKind": "automatic diagnostic manual",
    "NesDiagnosticSeverity": "error warning information hint",
    "NesRejectReason": "rejected ignored replaced cancelled",
}
OBJECTS = """
StartNesRequest workspaceUri?:string|null~ workspaceFolders?:WorkspaceFolder[]|null
  repository?:NesRepository|null~
StartNesResponse sessionId:string
SuggestNesRequest sessionId:string uri:string version:int64 position:Position selection?:Range|null
  triggerKind:NesTriggerKind context?:NesSuggestContext|null
SuggestNesResponse suggestions:NesSuggestion[]
AcceptNesNotification sessionId:string id:string
RejectNesNotification sessionId:string id:string reason?:NesRejectReason|null~
CloseNesRequest sessionId:string
CloseNesResponse
DidOpenDocumentNotification sessionId:string uri:string languageId:string version:int64 text:string
DidChangeDocumentNotification sessionId:string uri:string version:int64
  contentChanges:TextDocumentContentChangeEvent[]
DidCloseDocumentNotification sessionId:string uri:string
DidSaveDocumentNotification sessionId:string uri:string
DidFocusDocumentNotification sessionId:string uri:string version:int64 position:Position
  visibleRange:Range
NesDocumentDidOpenCapabilities
NesDocumentDidChangeCapabilities syncKind:TextDocumentSyncKind
NesDocumentDidCloseCapabilities
NesDocumentDidSaveCapabilities
NesDocumentDidFocusCapabilities
NesDocumentEventCapabilities didOpen?:NesDocumentDidOpenCapabilities|null~
  didChange?:NesDocumentDidChangeCapabilities|null~
  didClose?:NesDocumentDidCloseCapabilities|null~ didSave?:NesDocumentDidSaveCapabilities|null~
  didFocus?:NesDocumentDidFocusCapabilities|null~
NesEventCapabilities document?:NesDocumentEventCapabilities|null~
NesRecentFilesCapabilities maxCount?:uint32|null~
NesRelatedSnippetsCapabilities
NesEditHistoryCapabilities maxCount?:uint32|null~
NesUserActionsCapabilities maxCount?:uint32|null~
NesOpenFilesCapabilities
NesDiagnosticsCapabilities
NesContextCapabilities recentFiles?:NesRecentFilesCapabilities|null~
  relatedSnippets?:NesRelatedSnippetsCapabilities|null~
  editHistory?:NesEditHistoryCapabilities|null~ userActions?:NesUserActionsCapabilities|null~
  openFiles?:NesOpenFilesCapabilities|null~ diagnostics?:NesDiagnosticsCapabilities|null~
NesCapabilities events?:NesEventCapabilities|null~ context?:NesContextCapabilities|null~
Position line:uint32 character:uint32
Range start:Position end:Position
NesTextEdit range:Range newText:string
NesEditSuggestion id:string uri:string edits:NesTextEdit[] cursorPosition?:Position|null~
NesJumpSuggestion id:string uri:string position:Position
NesRenameSuggestion id:string uri:string position:Position newName:string
NesSearchAndReplaceSuggestion id:string uri:string search:string replace:string
  isRegex?:boolean|null
NesJumpCapabilities
NesRenameCapabilities
NesSearchAndReplaceCapabilities
ClientNesCapabilities jump?:NesJumpCapabilities|null~ rename?:NesRenameCapabilities|null~
  searchAndReplace?:NesSearchAndReplaceCapabilities|null~
WorkspaceFolder uri:string name:string
NesRepository name:string owner:string remoteUrl:string
NesRecentFile uri:string languageId:string text:string
NesExcerpt startLine:uint32 endLine:uint32 text:string
NesRelatedSnippet uri:string excerpts:NesExcerpt[]
NesEditHistoryEntry uri:string diff:string
NesUserAction action:string uri:string position:Position timestampMs:uint64
NesOpenFile uri:string languageId:string visibleRange?:Range|null~ lastFocusedMs?:uint64|null~
NesDiagnostic uri:string range:Range severity:NesDiagnosticSeverity message:string
NesSuggestContext recentFiles?:NesRecentFile[]|null relatedSnippets?:NesRelatedSnippet[]|null
  editHistory?:NesEditHistoryEntry[]|null userActions?:NesUserAction[]|null
  openFiles?:NesOpenFile[]|null diagnostics?:NesDiagnostic[]|null
TextDocumentContentChangeEvent range?:Range|null text:string
"""
SUGGESTIONS = {
    "edit": "NesEditSuggestion",
    "jump": "NesJumpSuggestion",
    "rename": "NesRenameSuggestion",
    "searchAndReplace": "NesSearchAndReplaceSuggestion",
}
# Keys of next edit suggestions in the capabilities of `initialize`, by their class.
CAPABILITIES = {
    "AgentCapabilities": "nes?:NesCapabilities|null~ positionEncoding?:PositionEncodingKind|null~",
    "ClientCapabilities": "nes?:ClientNesCapabilities|null~"
    " positionEncodings?:PositionEncodingKind[]~skip",
}
# Method, params, result (None: a notification), capability.
METHODS = (
    ("nes/start", "StartNesRequest", "StartNesResponse"),
    ("nes/suggest", "SuggestNesRequest", "SuggestNesResponse"),
    ("nes/accept", "AcceptNesNotification", None),
    ("nes/reject", "RejectNesNotification", None),
    ("nes/close", "CloseNesRequest", "CloseNesResponse"),
    ("document/didOpen", "DidOpenDocumentNotification", None),
    ("document/didChange", "DidChangeDocumentNotification", None),
    ("document/didClose", "DidCloseDocumentNotification", None),
    ("document/didSave", "DidSaveDocumentNotification", None),
    ("document/didFocus", "DidFocusDocumentNotification", None),
)
# The capability of each method, as keys.
GATES = {
    **dict.fromkeys(
        ("nes/start", "nes/suggest", "nes/accept", "nes/reject", "nes/close"), "agent.nes"
    ),
    **{
        f"document/{event}": f"agent.nes.events.document.{event}"
        for event in ("didOpen", "didChange", "didClose", "didSave", "didFocus")
    },
}
KEYS = ("nes", "positionEncoding", "positionEncodings")
META: Node = {
    "type": ["object", "null"],
    "additionalProperties": True,
    "x-deserialize-default-on-error": True,
}


def schema() -> Node:
    """Return the table as a JSON Schema."""
    defs: Node = {
        name: {"oneOf": [{"type": "string", "const": value} for value in values.split()]}
        for name, values in ENUMS.items()
    }
    for line in OBJECTS.replace("\n  ", " ").strip().splitlines():
        name, *keys = line.split()
        defs[name] = _object(keys, {"_meta": META})
    for name, keys in CAPABILITIES.items():
        defs[name] = _object(keys.split(), {})
    defs["NesSuggestion"] = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"type": "string", "const": tag}},
                "required": ["kind"],
                "allOf": [{"$ref": f"#/$defs/{name}"}],
            }
            for tag, name in SUGGESTIONS.items()
        ]
    }
    return {"$defs": defs}


def _object(keys: Sequence[str], properties: Node) -> Node:
    required: list[str] = []
    properties = dict(properties)
    for key in keys:
        match = re.fullmatch(r"(\w+)(\??):(\w+)(\[])?(\|null)?(~)?(skip)?", key)
        assert match is not None, key
        name, optional, kind, many, null, lenient, skip = match.groups()
        node: Any = _plain(kind) if kind[0].islower() else {"$ref": f"#/$defs/{kind}"}
        if many:
            node = {"type": "array", "items": node}
            if skip:
                node["x-deserialize-skip-invalid-items"] = True
        if null:
            node = {"anyOf": [node, {"type": "null"}]}
        if lenient:
            node["x-deserialize-default-on-error"] = True
        properties[name] = node
        if not optional:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _plain(kind: str) -> Node:
    if "int" in kind:
        return {"type": "integer", "format": kind}
    return {"type": kind}
