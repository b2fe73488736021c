"""The model providers of the script agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accord import ProviderInfo
from accord.agent import ProvidersMixin

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
    """Two providers, `main` and `spare`, without models."""

    def __init__(self) -> None:
        self.providers: dict[str, ProviderInfo] = {provider.id: provider for provider in _PROVIDERS}

    async def list_providers(self) -> Sequence[ProviderInfo]:
        """Return both providers."""
        return list(self.providers.values())

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Store the settings of a provider; discard the headers."""
        self._change(provider_id, api_type, base_url)

    async def disable_provider(self, provider_id: str) -> None:
        """Clear the settings of a provider."""
        self._change(provider_id, None, None)

    def _change(self, provider_id: str, api_type: str | None, base_url: str | None) -> None:
        before = self.providers[provider_id]
        self.providers[provider_id] = ProviderInfo(
            id=before.id,
            supported=before.supported,
            required=before.required,
            api_type=api_type,
            base_url=base_url,
        )
