"""The model providers of the script agent, which are never used."""

from __future__ import annotations

from typing import Any

import pytest

from accord import InvalidParams, v1, v2
from script_agent.conversation import BOTH, connected

MAIN = ("main", "openai", "https://models.example.com/v1")


@BOTH
async def test_providers_are_listed_and_can_be_set_and_disabled(version: int) -> None:
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
