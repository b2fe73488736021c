"""Providers that have no models, and hints that only repeat."""

from __future__ import annotations

from typing import Any

import pytest

from accord import InvalidParams, v1, v2
from scripted.conversation import BOTH, connected

MAIN = ("main", "openai", "https://models.example.com/v1")


@BOTH
async def test_providers_are_there_and_can_be_set_and_disabled(version: int) -> None:
    types: Any = v1 if version == 1 else v2
    async with connected(version) as agent:
        wire = agent.remote

        async def now() -> list[tuple[str, str | None, str | None]]:
            listed = await wire.list_providers(types.ListProvidersRequest())
            return [
                (
                    one.provider_id,
                    one.current and one.current.api_type,
                    one.current and one.current.base_url,
                )
                for one in listed.providers
            ]

        assert await now() == [MAIN, ("spare", None, None)]
        address = "https://spare.example.com"
        request = types.SetProviderRequest(
            provider_id="spare", api_type="anthropic", base_url=address
        )
        await wire.set_provider(request)
        assert await now() == [MAIN, ("spare", "anthropic", address)]
        await wire.disable_provider(types.DisableProviderRequest(provider_id="spare"))
        assert await now() == [MAIN, ("spare", None, None)]
        with pytest.raises(InvalidParams):
            await wire.disable_provider(types.DisableProviderRequest(provider_id="main"))


async def test_line_of_a_known_document_is_suggested_once_more() -> None:
    async with connected(1) as agent:
        wire: Any = agent.remote
        session = (await wire.start_nes(v1.StartNesRequest())).session_id

        async def hints(line: int) -> list[str]:
            answer = await wire.suggest_nes(
                v1.SuggestNesRequest(
                    session_id=session,
                    uri="file:///a",
                    version=1,
                    position=v1.Position(line=line, character=2),
                    trigger_kind="automatic",
                )
            )
            return [edit.new_text for one in answer.suggestions for edit in one.edits]

        assert await hints(0) == []
        await wire.did_open_document(
            v1.DidOpenDocumentNotification(
                session_id=session, uri="file:///a", language_id="text", version=1, text="a\nb"
            )
        )
        assert await hints(1) == ["b\n"]
        assert await hints(2) == []
        await wire.did_change_document(
            v1.DidChangeDocumentNotification(
                session_id=session,
                uri="file:///a",
                version=2,
                content_changes=[v1.TextDocumentContentChangeEvent(text="c")],
            )
        )
        assert await hints(0) == ["c\n"]
        await wire.did_close_document(
            v1.DidCloseDocumentNotification(session_id=session, uri="file:///a")
        )
        assert await hints(0) == []
        await wire.close_nes(v1.CloseNesRequest(session_id=session))
        with pytest.raises(InvalidParams, match="Unknown session of suggestions"):
            await hints(0)
