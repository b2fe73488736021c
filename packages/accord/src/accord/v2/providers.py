"""Providers of language models, as the client may configure them (v2)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v2.ids import ProviderId, Uri
from accord.wire.base import Lenient, LenientList, OpenEnum, Wire
from accord.wire.method import Method

__all__ = (
    "DisableProviderRequest",
    "DisableProviderResponse",
    "ListProvidersRequest",
    "ListProvidersResponse",
    "LlmProtocol",
    "ProviderCurrentConfig",
    "ProviderInfo",
    "SetProviderRequest",
    "SetProviderResponse",
)

LlmProtocol: TypeAlias = OpenEnum[Literal["anthropic", "openai", "azure", "vertex", "bedrock"]]


class ProviderCurrentConfig(Wire):
    """The configuration of a provider, without the headers, which are secret."""

    __unstable__: ClassVar[bool] = True

    api_type: LlmProtocol
    base_url: Uri


class ProviderInfo(Wire):
    """A provider; without `current` it is disabled, which a `required` one never is."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId
    supported: Lenient[LenientList[LlmProtocol]]
    required: bool
    current: ProviderCurrentConfig | None = None


class ListProvidersRequest(Wire):
    """Asks for the providers."""

    __unstable__: ClassVar[bool] = True


class ListProvidersResponse(Wire):
    """The providers that can be configured."""

    __unstable__: ClassVar[bool] = True

    providers: list[ProviderInfo]


class SetProviderRequest(Wire):
    """Replaces the whole configuration of a provider; `headers` may contain secrets."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId
    api_type: LlmProtocol
    base_url: Uri
    headers: dict[str, str] = {}


class SetProviderResponse(Wire):
    """The provider is set."""

    __unstable__: ClassVar[bool] = True


class DisableProviderRequest(Wire):
    """Disables a provider."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId


class DisableProviderResponse(Wire):
    """The provider is disabled."""

    __unstable__: ClassVar[bool] = True


METHODS: tuple[Method, ...] = (
    Method(
        name="providers/list",
        call="list_providers",
        params=ListProvidersRequest,
        result=ListProvidersResponse,
        to="agent",
        unstable=True,
        gate="agent.providers",
    ),
    Method(
        name="providers/set",
        call="set_provider",
        params=SetProviderRequest,
        result=SetProviderResponse,
        to="agent",
        unstable=True,
        gate="agent.providers",
    ),
    Method(
        name="providers/disable",
        call="disable_provider",
        params=DisableProviderRequest,
        result=DisableProviderResponse,
        to="agent",
        unstable=True,
        gate="agent.providers",
    ),
)
