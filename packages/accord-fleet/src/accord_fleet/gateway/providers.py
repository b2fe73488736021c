"""Providers of models: their addresses, and the variables that tell agents the gateway's."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from accord.errors import AccordError

Api = Literal["anthropic", "openai", "google", "mistral"]

# How each API takes the key.
KEY_HEADERS: dict[Api, tuple[str, str]] = {
    "anthropic": ("x-api-key", "{key}"),
    "openai": ("authorization", "Bearer {key}"),
    "google": ("x-goog-api-key", "{key}"),
    "mistral": ("authorization", "Bearer {key}"),
}


class ProviderError(AccordError):
    """The settings of a provider are wrong, or its key is missing."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a model, for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of input tokens that were read from a cache; the price of `input` if it is None."""


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider of models that the gateway serves."""

    name: str
    api: Api
    base_url: str
    """The address that agents' libraries take as their base URL."""
    key: str
    """Name of the environment variable with the key. The value is only read in the gateway."""
    env: dict[str, str] = {}
    """Variables for agents; `{url}` is the address of the gateway, `{token}` replaces the key."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    prices: dict[str, Price] = {}
    """Prices by name of the model; `*` matches any characters."""
    currency: str = "USD"

    def price(self, model: str) -> Price | None:
        """Return the price of a model; None if it is not known."""
        for pattern, price in self.prices.items():
            if fnmatchcase(model, pattern):
                return price
        return None

    def key_value(self, environ: Mapping[str, str]) -> str:
        """Return the key; raise `ProviderError` if its variable is not set."""
        if not (value := environ.get(self.key, "").strip()):
            raise ProviderError(
                f"Provider {self.name}: expected its key in the environment variable {self.key},"
                " which is not set"
            )
        return value


# What agents' libraries read.
KNOWN_PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="anthropic",
            api="anthropic",
            base_url="https://api.anthropic.com",
            key="ANTHROPIC_API_KEY",
            env={"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{token}"},
        ),
        Provider(
            name="openai",
            api="openai",
            base_url="https://api.openai.com/v1",
            key="OPENAI_API_KEY",
            env={
                "OPENAI_BASE_URL": "{url}",
                "OPENAI_API_BASE": "{url}",
                "OPENAI_API_KEY": "{token}",
            },
        ),
        Provider(
            name="google",
            api="google",
            base_url="https://generativelanguage.googleapis.com",
            key="GEMINI_API_KEY",
            env={
                "GOOGLE_GEMINI_BASE_URL": "{url}",
                "GEMINI_API_KEY": "{token}",
                "GOOGLE_API_KEY": "{token}",
            },
        ),
        Provider(
            name="mistral",
            api="mistral",
            base_url="https://api.mistral.ai",
            key="MISTRAL_API_KEY",
            env={"MISTRAL_BASE_URL": "{url}", "MISTRAL_API_KEY": "{token}"},
        ),
    )
}


def read_providers(path: Path) -> tuple[Provider, ...]:
    """Read `providers.toml`; raise `ProviderError` that names the file and everything wrong."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise ProviderError(f"{path}: expected a TOML file with providers: {exc}") from exc
    errors: list[str] = []
    found: list[Provider] = []
    for name, table in tables.items():
        try:
            found.append(_provider(name, table))
        except (ProviderError, msgspec.ValidationError) as exc:
            errors.append(f"{path}: [{name}]: {exc}")
    if errors:
        raise ProviderError("\n".join(errors))
    return tuple(found)


def providers_of(
    names: Mapping[str, str], settings: tuple[Provider, ...] = ()
) -> dict[str, Provider]:
    """Return the providers that agents name, by name; `names` has them by agent.

    Raise `ProviderError` for a name that is in neither the settings nor `KNOWN_PROVIDERS`.
    """
    known = {**KNOWN_PROVIDERS, **{provider.name: provider for provider in settings}}
    for agent, name in names.items():
        if name not in known:
            raise ProviderError(
                f"Agent {agent}: expected a provider out of {', '.join(sorted(known))},"
                f" got {name!r}"
            )
    return {name: known[name] for name in sorted(set(names.values()))}


def _provider(name: str, table: Any) -> Provider:
    if not isinstance(table, dict):
        raise ProviderError(f"expected a table, got {table!r}")
    given: dict[str, Any] = dict(table)  # pyright: ignore[reportUnknownArgumentType]
    base = KNOWN_PROVIDERS.get(name)
    if base is None and (like := KNOWN_PROVIDERS.get(str(given.get("api")))) is not None:
        # The variables are those of the API; the address and the key are the provider's own.
        given.setdefault("env", like.env)
    known: dict[str, Any] = {} if base is None else msgspec.to_builtins(base)
    provider = msgspec.convert({**known, **given, "name": name}, Provider)
    address = urlsplit(provider.base_url)
    if address.scheme not in ("http", "https") or not address.hostname or address.query:
        raise ProviderError(f"expected an http(s) address as base_url, got {provider.base_url!r}")
    if address.username or address.password:
        raise ProviderError("expected a base_url without a user name or password")
    for what in ("requests_per_minute", "tokens_per_minute"):
        rate = getattr(provider, what)
        if rate is not None and rate <= 0:
            raise ProviderError(f"expected a positive number as {what}, got {rate}")
    return provider
