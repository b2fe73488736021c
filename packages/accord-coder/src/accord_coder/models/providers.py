"""The table of model providers, the only place with their names; and servers on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from accord import AuthRequired
from accord.installed import install_command
from accord_coder.models.base import ModelError


def how_to_get_a_model() -> str:
    """Return what users of the demonstration model can do."""
    return (
        "To use a language model, set the API key of a provider (such as `ANTHROPIC_API_KEY` or"
        " `OPENAI_API_KEY`) or save one with `accord agent --login PROVIDER`. Without an account,"
        " start a model server on this machine (Ollama, llama.cpp, LM Studio or vLLM) and run"
        f" `accord agent --model local`. Both require `{install_command('coder')}`."
    )


class ModelProvider(Struct, frozen=True, kw_only=True):
    """A provider: the variables of its key, and the models to offer, the default first.

    `address` is the default base URL. A `keyless` provider needs no key.
    """

    id: str
    name: str
    variables: tuple[str, ...]
    models: tuple[str, ...] = ()
    address: str | None = None
    keyless: bool = False


# In order of preference. `--model` accepts other model names too; these are offered.
PROVIDERS = (
    ModelProvider(
        id="anthropic",
        name="Anthropic",
        variables=("ANTHROPIC_API_KEY",),
        models=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    ),
    ModelProvider(
        id="openai",
        name="OpenAI",
        variables=("OPENAI_API_KEY",),
        models=("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna"),
    ),
    ModelProvider(
        id="google",
        name="Google",
        variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        models=("gemini-3.8-flash", "gemini-3.1-pro-preview"),
    ),
    ModelProvider(
        id="mistral",
        name="Mistral",
        variables=("MISTRAL_API_KEY",),
        models=("mistral-medium-latest", "mistral-large-latest", "codestral-latest"),
    ),
    ModelProvider(
        id="ollama",
        name="Ollama",
        variables=("OLLAMA_API_KEY",),
        address="http://localhost:11434/v1",
        keyless=True,
    ),
    # Any server for Chat Completions, at `--base-url`.
    ModelProvider(
        id="compatible", name="OpenAI-compatible", variables=("ACCORD_API_KEY",), keyless=True
    ),
    ModelProvider(id="deepseek", name="DeepSeek", variables=("DEEPSEEK_API_KEY",)),
    ModelProvider(id="openrouter", name="OpenRouter", variables=("OPENROUTER_API_KEY",)),
)

# Removed from the environment of commands that the agent runs.
KEY_VARIABLES = frozenset(name for source in PROVIDERS for name in source.variables)


def provider_of(model: str) -> tuple[ModelProvider, str] | None:
    """Return provider and name of `provider:name`; None for anything else."""
    provider, colon, name = model.partition(":")
    if not (colon and name):
        return None
    for source in PROVIDERS:
        if source.id == provider:
            return source, name
    return None


def missing_key_error(source: ModelProvider) -> AuthRequired:
    """Return the error for a missing key of a provider."""
    variables = " or ".join(source.variables)
    return AuthRequired(
        f"{source.name} needs a key: set {variables}, or run `accord agent --login {source.id}`",
        data={"provider": source.id, "variables": list(source.variables)},
    )


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
