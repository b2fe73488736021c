"""What the script agent offers besides sessions: providers of models, and the next edits."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from accord import InvalidParams, ProviderInfo, v1
from accord.agent import NextEdits, ProvidersMixin

__all__ = ("ScriptNextEdits", "ScriptProviders")

_PROVIDERS = (
    ProviderInfo(
        id="main",
        supported=("openai", "anthropic"),
        required=True,
        api_type="openai",
        base_url="https://models.example.com/v1",
    ),
    ProviderInfo(id="spare", supported=("anthropic",)),
)


class ScriptProviders(ProvidersMixin):
    """Two providers, `main` and `spare`, which no model is behind."""

    def __init__(self) -> None:
        self.providers = {provider.id: provider for provider in _PROVIDERS}

    async def list_providers(self) -> Sequence[ProviderInfo]:
        """Return both."""
        return list(self.providers.values())

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Take note of it; headers are forgotten at once."""
        self._change(provider_id, api_type, base_url)

    async def disable_provider(self, provider_id: str) -> None:
        """Take note of it."""
        self._change(provider_id, None, None)

    def _change(self, provider_id: str, api_type: str | None, base_url: str | None) -> None:
        was = self.providers[provider_id]
        self.providers[provider_id] = ProviderInfo(
            id=was.id,
            supported=was.supported,
            required=was.required,
            api_type=api_type,
            base_url=base_url,
        )


class ScriptNextEdits(NextEdits):
    """Suggests to repeat the line that the cursor is in, of documents that it was told of."""

    def __init__(self) -> None:
        self._documents: dict[str, dict[str, str]] = {}  # texts, by URI, of each session
        self._sessions = itertools.count(1)
        self._suggestions = itertools.count(1)

    async def start_nes(self, params: v1.StartNesRequest) -> v1.StartNesResponse:
        """Begin a session that knows of no document."""
        session_id = f"hints-{next(self._sessions)}"
        self._documents[session_id] = {}
        return v1.StartNesResponse(session_id=session_id)

    async def suggest_nes(self, params: v1.SuggestNesRequest) -> v1.SuggestNesResponse:
        """Suggest the line once more, above itself; nothing for what is not known."""
        lines = self._of(params.session_id).get(params.uri, "").splitlines()
        number = params.position.line
        if number >= len(lines):
            return v1.SuggestNesResponse(suggestions=[])
        start = v1.Position(line=number, character=0)
        again = v1.NesTextEdit(
            range=v1.Range(start=start, end=start), new_text=f"{lines[number]}\n"
        )
        edit = v1.NesEditSuggestion(
            id=f"hint-{next(self._suggestions)}", uri=params.uri, edits=[again]
        )
        return v1.SuggestNesResponse(suggestions=[edit])

    async def close_nes(self, params: v1.CloseNesRequest) -> v1.CloseNesResponse:
        """Forget the session."""
        self._of(params.session_id)
        del self._documents[params.session_id]
        return v1.CloseNesResponse()

    async def did_open_document(self, params: v1.DidOpenDocumentNotification) -> None:
        """Keep its text."""
        self._keep(params.session_id, params.uri, params.text)

    async def did_change_document(self, params: v1.DidChangeDocumentNotification) -> None:
        """Keep its new text, which comes whole."""
        for change in params.content_changes:
            self._keep(params.session_id, params.uri, change.text)

    async def did_close_document(self, params: v1.DidCloseDocumentNotification) -> None:
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
