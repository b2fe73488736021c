"""The rules that wrong fields of next edit suggestions break."""

from __future__ import annotations

from accord import v2
from accord_conformance.judges.field_rule import (
    MALFORMED,
    FieldRule,
    absent,
    below,
    fields,
    inside,
)
from accord_conformance.nes import types as nes

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
