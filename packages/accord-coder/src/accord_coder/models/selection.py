"""Selects models: the default, the models to offer, and opening one; and finds local models."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from accord import InvalidParams, OptionChoice, SelectOption
from accord.installed import install_command
from accord_coder.models.base import ModelError
from accord_coder.models.providers import PROVIDERS, ModelProvider, missing_key_error, provider_of
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord_coder.models.base import Model
    from accord_coder.models.keys import ApiKeys
    from accord_coder.models.remote import RetryPolicy


log = logging.getLogger("accord_coder")

DEMO = "demo"
_EFFORTS = {"low": "Low", "medium": "Medium", "high": "High"}


def default_model(
    settings: Settings, keys: ApiKeys, environ: Mapping[str, str] | None = None
) -> str:
    """Return the model of new sessions: the user's choice, else the first with a key."""
    if (named := named_model(settings, environ)) is not None:
        return named
    with_models = [source for source in PROVIDERS if source.models]
    for has_key in (keys.in_environment, keys.has_key):
        for source in with_models:
            if has_key(source):
                return f"{source.id}:{source.models[0]}"
    return DEMO


def named_model(settings: Settings, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the user's choice: the command line, the environment, or `config.toml`."""
    environ = os.environ if environ is None else environ
    named = settings.model or environ.get("ACCORD_MODEL") or _configured(settings.config)
    return named or None


def _configured(config: Path | None) -> str | None:
    """Return the model in the user's `config.toml`."""
    if config is None:
        return None
    try:
        model = msgspec.toml.decode((config / "config.toml").read_bytes()).get("model")
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        log.warning("! config.toml cannot be read: %s", exc)
        return None
    return model if isinstance(model, str) else None


def model_choices(
    settings: Settings, keys: ApiKeys, local: Sequence[LocalModel] = ()
) -> tuple[OptionChoice, ...]:
    """Return the models to offer: the default, those of providers with a key, local ones, demo."""
    names = (
        default_model(settings, keys),
        *_with_keys(keys),
        *(f"{LOCAL}:{model.name}" for model in local),
        DEMO,
    )
    return tuple(_choice(name) for name in dict.fromkeys(names))


def _with_keys(keys: ApiKeys) -> Iterator[str]:
    for source in PROVIDERS:
        if keys.has_key(source):
            for name in source.models:
                yield f"{source.id}:{name}"


def _choice(model: str) -> OptionChoice:
    if model == DEMO:
        return OptionChoice(DEMO, "Demo", "Not a language model: runs a few fixed commands")
    if model == LOCAL:
        return OptionChoice(LOCAL, "Local", "The first model of a server on this machine")
    if is_local(model):
        return OptionChoice(model, model.partition(":")[2], group="Local")
    found = provider_of(model)
    if found is None:
        return OptionChoice(model, model)
    source, name = found
    return OptionChoice(model, name, group=source.name)


def model_option(
    settings: Settings, keys: ApiKeys, local: Sequence[LocalModel] = ()
) -> SelectOption:
    """Return the option that selects the model."""
    return SelectOption(
        id="model",
        name="Model",
        description="The model that answers",
        category="model",
        value=default_model(settings, keys),
        choices=model_choices(settings, keys, local),
    )


def effort_option(model: Model, value: str | None = None) -> SelectOption | None:
    """Return the option for how long the model thinks; None if it does not support that."""
    if not model.efforts:
        return None
    own = OptionChoice("default", "Default", "The model's default")
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
    """Return the provider whose key a model lacks; None if the model is usable."""
    found = provider_of(model)
    if found is None:
        return None
    source, _ = found
    if source.keyless or keys.has_key(source) or _address(source, settings, keys) is not None:
        return None
    return source


def _address(source: ModelProvider, settings: Settings, keys: ApiKeys) -> str | None:
    """Return the base URL of a provider; None for its default.

    `--base-url` applies only to the provider of the model that the user names with it.
    """
    if settings.base_url is not None:
        named = provider_of(default_model(settings, keys))
        if named is not None and named[0] is source:
            return settings.base_url
    if source.id == "ollama":
        return os.environ.get("OLLAMA_BASE_URL") or source.address
    return source.address


def _servers(settings: Settings) -> Sequence[LocalServer]:
    """Return the servers that `local` asks: only the one at `--base-url` if it is given."""
    if settings.base_url is not None and is_local(named_model(settings) or ""):
        return (LocalServer("The server", settings.base_url),)
    return SERVERS


async def local_models(settings: Settings, keys: ApiKeys) -> list[LocalModel]:
    """Return the models to offer of servers on this machine, if the default is one of them."""
    if not is_local(default_model(settings, keys)):
        return []
    return await find_local_models(_servers(settings))


async def open_model(
    name: str, settings: Settings, keys: ApiKeys, *, retry_policy: RetryPolicy | None = None
) -> Model:
    """Return a model, ready to answer; raise `AuthRequired` or `InvalidParams`."""
    if name == DEMO:
        from accord_coder.models.demo import DemoModel

        return DemoModel()
    if is_local(name):
        picked = await pick_local_model(name, _servers(settings))
        provider = local_provider(picked.server)
        model = await asyncio.to_thread(
            _open_provider_model, provider, picked.name, picked.server.base_url, keys, retry_policy
        )
        model.context_size = picked.context_size or model.context_size
        return model
    found = provider_of(name)
    if found is None:
        known = ", ".join(source.id for source in PROVIDERS)
        raise InvalidParams(
            f"Unknown model {name}: expected `local`, `demo` or `PROVIDER:NAME`, where PROVIDER is"
            f" one of {known}"
        )
    source, model = found
    if (lacking := needs_key(name, settings, keys)) is not None:
        raise missing_key_error(lacking)
    address = _address(source, settings, keys)
    if source.id == "compatible" and address is None:
        raise InvalidParams(f"{name} requires a base URL: add `--base-url URL`")
    # In a thread: the keyring and the import of the libraries are slow.
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
        raise missing_key_error(source)  # not in the keyring
    try:
        from accord_coder.models.remote import open_remote
    except ImportError as exc:
        raise InvalidParams(
            f"{source.name} requires more packages: {install_command('coder')}"
        ) from exc
    return open_remote(source, name, key=key, address=address, retry_policy=retry_policy)


# Model servers on this machine, on the ports that they use by default, for `--model local`.

LOCAL = "local"  # the name of the model that is picked; `local:NAME` names one


class LocalServer(Struct, frozen=True):
    """A program that serves models on this machine, and where."""

    name: str
    base_url: str


# In order of preference.
SERVERS = (
    LocalServer("Ollama", "http://127.0.0.1:11434/v1"),
    LocalServer("llama.cpp", "http://127.0.0.1:8080/v1"),
    LocalServer("LM Studio", "http://127.0.0.1:1234/v1"),
    LocalServer("vLLM", "http://127.0.0.1:8000/v1"),
)


class LocalModel(Struct, frozen=True):
    """A model of a local server; `context_size` is in tokens, if the server reports it."""

    server: LocalServer
    name: str
    context_size: int | None = None


def is_local(name: str) -> bool:
    """Return whether a model's name is `local` or `local:NAME`."""
    return name == LOCAL or (name.startswith(f"{LOCAL}:") and name != f"{LOCAL}:")


def local_provider(server: LocalServer) -> ModelProvider:
    """Return a provider for a server: its name for messages, and its optional key."""
    return ModelProvider(id=LOCAL, name=server.name, variables=("ACCORD_API_KEY",), keyless=True)


_TIMEOUT_S = 3.0
_MAX_BYTES = 4 * 1024 * 1024


class _Model(Struct):
    id: str
    max_model_len: int | None = None  # vLLM reports the context size


class _Models(Struct):
    data: list[_Model] = []


async def find_local_models(servers: Sequence[LocalServer] | None = None) -> list[LocalModel]:
    """Return the models of all servers that respond, by server and then by name."""
    servers = SERVERS if servers is None else servers
    found = await asyncio.gather(*map(_models_of, servers))
    return [model for models in found for model in models]


async def pick_local_model(name: str, servers: Sequence[LocalServer] | None = None) -> LocalModel:
    """Return the model of `local` or `local:NAME`; raise `ModelError` if it is not available.

    `local` is the first model, by name, of the first server that has any. Models whose name
    contains "embed" compute embeddings and cannot answer.
    """
    servers = SERVERS if servers is None else servers
    models = await find_local_models(servers)
    wanted = name.partition(":")[2]
    for model in models:
        if model.name == wanted if wanted else "embed" not in model.name.lower():
            return model
    if models:
        names = ", ".join(f"local:{model.name}" for model in models)
        raise ModelError(
            f"No local server has the model {wanted!r}: choose one of {names}."
            if wanted
            else f"The local servers have only models that compute embeddings: {names}."
        )
    tried = ", ".join(f"{server.name} ({server.base_url})" for server in servers)
    raise ModelError(
        f"No local model server responded. Tried {tried}. Start one, for example with"
        " `ollama serve` after `ollama pull qwen3`; for another address use"
        " `--model compatible:NAME --base-url URL`."
    )


async def _models_of(server: LocalServer) -> list[LocalModel]:
    """Return the models of a server, none if it does not respond in time or in another format."""
    import httpx2  # slow to import

    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            # No proxy, no redirect: the server is on this machine.
            httpx2.AsyncClient(trust_env=False, follow_redirects=False) as client,
            client.stream("GET", f"{server.base_url}/models") as response,
        ):
            if response.status_code != 200:
                return []
            data = b""
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > _MAX_BYTES:
                    return []
            models = msgspec.json.decode(data, type=_Models).data
    except (TimeoutError, httpx2.HTTPError, msgspec.DecodeError):
        return []
    models.sort(key=lambda model: model.id)
    return [LocalModel(server, model.id, model.max_model_len) for model in models]
