"""Which model answers: what there is to choose from, the default, and how one is opened."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from accord import AuthRequired, InvalidParams, OptionChoice, SelectOption
from accord_coder.models.providers import PROVIDERS, ModelProvider, provider_of
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord_coder.models.api_keys import ApiKeys
    from accord_coder.models.base import Model
    from accord_coder.models.retry import RetryPolicy

__all__ = (
    "EMBEDDED",
    "default_model",
    "effort_option",
    "missing_key_error",
    "model_choices",
    "model_option",
    "named_model",
    "needs_key",
    "open_model",
)

log = logging.getLogger("accord_coder")

EMBEDDED = "embedded"
_EFFORTS = {"low": "Low", "medium": "Medium", "high": "High"}


def default_model(
    settings: Settings, keys: ApiKeys, environ: Mapping[str, str] | None = None
) -> str:
    """Return the model of new sessions: what the user names, else the first that has a key."""
    if (named := named_model(settings, environ)) is not None:
        return named
    with_models = [source for source in PROVIDERS if source.models]
    for has_key in (keys.in_environment, keys.has_key):
        for source in with_models:
            if has_key(source):
                return f"{source.id}:{source.models[0]}"
    return EMBEDDED


def named_model(settings: Settings, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the model that the user names: on the command line, in the environment, or kept."""
    environ = os.environ if environ is None else environ
    named = settings.model or environ.get("ACCORD_MODEL") or _configured(settings.config)
    return named or None


def _configured(config: Path | None) -> str | None:
    """Return the model that the user's `config.toml` names."""
    if config is None:
        return None
    import tomllib

    try:
        with (config / "config.toml").open("rb") as file:
            model = tomllib.load(file).get("model")
    except FileNotFoundError:
        return None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        log.warning("! config.toml is not read: %s", exc)
        return None
    return model if isinstance(model, str) else None


def model_choices(settings: Settings, keys: ApiKeys) -> tuple[OptionChoice, ...]:
    """Return the models to offer: the default one, what there are keys for, the embedded one."""
    found = dict.fromkeys((default_model(settings, keys), *_with_keys(keys), EMBEDDED))
    return tuple(_choice(name) for name in found)


def _with_keys(keys: ApiKeys) -> Iterator[str]:
    for source in PROVIDERS:
        if keys.has_key(source):
            for name in source.models:
                yield f"{source.id}:{name}"


def _choice(model: str) -> OptionChoice:
    if model == EMBEDDED:
        why = "No language model and no network: does what plain requests say"
        return OptionChoice(EMBEDDED, "Embedded", why)
    found = provider_of(model)
    if found is None:
        return OptionChoice(model, model)
    source, name = found
    return OptionChoice(model, name, group=source.name)


def model_option(settings: Settings, keys: ApiKeys) -> SelectOption:
    """Return the option that chooses the model."""
    return SelectOption(
        id="model",
        name="Model",
        description="What answers",
        category="model",
        value=default_model(settings, keys),
        choices=model_choices(settings, keys),
    )


def effort_option(model: Model, value: str | None = None) -> SelectOption | None:
    """Return the option that chooses how long a model thinks; None if it cannot be told."""
    if not model.efforts:
        return None
    own = OptionChoice("default", "Default", "As the model has it")
    named = [OptionChoice(effort, _EFFORTS.get(effort, effort.title())) for effort in model.efforts]
    return SelectOption(
        id="effort",
        name="Thinking",
        description="How long the model thinks before it answers",
        category="thought_level",
        value=value if value in model.efforts else "default",
        choices=(own, *named),
    )


def needs_key(model: str, settings: Settings, keys: ApiKeys) -> ModelProvider | None:
    """Return the provider whose key is missing for a model; None when it can be asked."""
    found = provider_of(model)
    if found is None:
        return None
    source, _ = found
    if source.keyless or keys.has_key(source) or _address(source, settings, keys) is not None:
        return None
    return source


def _address(source: ModelProvider, settings: Settings, keys: ApiKeys) -> str | None:
    """Return where a provider is asked; None for its own place.

    `--base-url` is meant for the model that the user names with it, and for no other provider.
    """
    if settings.base_url is not None:
        named = provider_of(default_model(settings, keys))
        if named is not None and named[0] is source:
            return settings.base_url
    if source.id == "ollama":
        return os.environ.get("OLLAMA_BASE_URL") or source.address
    return source.address


def missing_key_error(source: ModelProvider) -> AuthRequired:
    """Return the error that says how to give the key of a provider."""
    variables = " or ".join(source.variables)
    return AuthRequired(
        f"{source.name} needs a key: set {variables}, or run `accord agent --login {source.id}`",
        data={"provider": source.id, "variables": list(source.variables)},
    )


async def open_model(
    name: str, settings: Settings, keys: ApiKeys, *, retry_policy: RetryPolicy | None = None
) -> Model:
    """Return a model, ready to answer; raise `AuthRequired` or `InvalidParams`."""
    if name == EMBEDDED:
        from accord_coder.models.embedded.model import Embedded

        return Embedded()
    found = provider_of(name)
    if found is None:
        known = ", ".join(source.id for source in PROVIDERS)
        raise InvalidParams(
            f"There is no model {name}: write `embedded`, or `provider:name` with one of {known}"
        )
    source, model = found
    if (lacking := needs_key(name, settings, keys)) is not None:
        raise missing_key_error(lacking)
    address = _address(source, settings, keys)
    if source.id == "compatible" and address is None:
        raise InvalidParams(f"{name} needs an address: give it with `--base-url`")
    # The keyring asks other programs, and the libraries take their time to load.
    return await asyncio.to_thread(_open_provider_model, source, model, address, keys, retry_policy)


def _open_provider_model(
    source: ModelProvider,
    name: str,
    address: str | None,
    keys: ApiKeys,
    retry_policy: RetryPolicy | None,
) -> Model:
    key = keys.find(source)
    if key is None and not source.keyless and address is None:
        raise missing_key_error(source)  # the keyring does not have it after all
    try:
        from accord_coder.models.remote import open_remote
    except ImportError as exc:
        raise InvalidParams(
            f"{source.name} needs more than is installed: pip install 'accord[coder]'"
        ) from exc
    return open_remote(source, name, key=key, address=address, retry_policy=retry_policy)
