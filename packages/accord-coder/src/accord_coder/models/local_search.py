"""Finds the models of servers on this machine, for `--model local`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from accord_coder.models.base import ModelError
from accord_coder.models.local_servers import SERVERS, LocalModel, LocalServer

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
