"""Model servers on this machine, on the ports that they use by default."""

from __future__ import annotations

from msgspec import Struct

from accord_coder.models.providers import ModelProvider

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
