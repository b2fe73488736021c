"""The script agent with next edit suggestions: `python -m accord_conformance.nes` serves it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from accord import InvalidParams
from accord.script_agent.agent import ScriptAgent
from accord_conformance.nes import types as t
from accord_conformance.nes.agent import NextEditsMixin

# The script agent with next edit suggestions: `python -m accord_conformance.nes` serves it.


class ScriptNextEdits(NextEditsMixin):
    """Suggests repeating the line at the cursor, in the documents that the client has opened."""

    def __init__(self) -> None:
        self._documents: dict[str, dict[str, str]] = {}  # texts, by URI, of each session
        self._sessions = itertools.count(1)
        self._suggestions = itertools.count(1)

    async def start_nes(self, params: t.StartNesRequest) -> t.StartNesResponse:
        """Begin a session that knows of no document."""
        session_id = f"hints-{next(self._sessions)}"
        self._documents[session_id] = {}
        return t.StartNesResponse(session_id=session_id)

    async def suggest_nes(self, params: t.SuggestNesRequest) -> t.SuggestNesResponse:
        """Suggest the line again, above itself. Return no suggestion for an unknown document."""
        lines = self._of(params.session_id).get(params.uri, "").splitlines()
        number = params.position.line
        if number >= len(lines):
            return t.SuggestNesResponse(suggestions=[])
        start = t.Position(line=number, character=0)
        again = t.NesTextEdit(range=t.Range(start=start, end=start), new_text=f"{lines[number]}\n")
        edit = t.NesEditSuggestion(
            id=f"hint-{next(self._suggestions)}", uri=params.uri, edits=[again]
        )
        return t.SuggestNesResponse(suggestions=[edit])

    async def close_nes(self, params: t.CloseNesRequest) -> t.CloseNesResponse:
        """Forget the session."""
        self._of(params.session_id)
        del self._documents[params.session_id]
        return t.CloseNesResponse()

    async def did_open_document(self, params: t.DidOpenDocumentNotification) -> None:
        """Keep its text."""
        self._keep(params.session_id, params.uri, params.text)

    async def did_change_document(self, params: t.DidChangeDocumentNotification) -> None:
        """Keep its new text, which comes whole."""
        for change in params.content_changes:
            self._keep(params.session_id, params.uri, change.text)

    async def did_close_document(self, params: t.DidCloseDocumentNotification) -> None:
        """Forget its text."""
        self._documents.get(params.session_id, {}).pop(params.uri, None)

    def _keep(self, session_id: str, uri: str, text: str) -> None:
        if session_id in self._documents:
            self._documents[session_id][uri] = text

    def _of(self, session_id: str) -> dict[str, str]:
        found = self._documents.get(session_id)
        if found is None:
            raise InvalidParams("Unknown session of suggestions", data={"sessionId": session_id})
        return found


class NextEditsScriptAgent(ScriptNextEdits, ScriptAgent):
    """Runs the commands of the script agent, and suggests edits."""

    def __init__(self, *, exit_process: Callable[[int], object] | None = None) -> None:
        ScriptNextEdits.__init__(self)
        ScriptAgent.__init__(self, exit_process=exit_process)


if __name__ == "__main__":
    NextEditsScriptAgent().run()
