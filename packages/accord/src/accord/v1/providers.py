"""Providers: the sources of the agent's models (v1, unstable)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v1.ids import ProviderId
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
    """The current configuration of a provider, without its headers."""

    __unstable__: ClassVar[bool] = True

    api_type: LlmProtocol
    base_url: str


class ProviderInfo(Wire):
    """A provider of the agent; a `required` one cannot be disabled."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId
    supported: Lenient[LenientList[LlmProtocol]]
    required: bool
    current: ProviderCurrentConfig | None = None  # None: disabled


class ListProvidersRequest(Wire):
    """Asks for the providers."""

    __unstable__: ClassVar[bool] = True


class ListProvidersResponse(Wire):
    """All providers of the agent."""

    __unstable__: ClassVar[bool] = True

    providers: list[ProviderInfo]


class SetProviderRequest(Wire):
    """Replaces the whole configuration of a provider."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId
    api_type: LlmProtocol
    base_url: str
    headers: dict[str, str] = {}


class SetProviderResponse(Wire):
    """The provider is configured."""

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
