"""Early spellings of version 1, which old programs still use: read here, never written.

Ordinary traffic does not need this. It is for messages whose method is unknown, or whose
params do not decode.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from accord.errors import DecodeError
from accord.rules.quirks import QUIRKS, tolerates
from accord.v1.content import SessionId
from accord.v1.updates import (
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SetSessionConfigOptionRequest,
)
from accord.wire.base import Lenient, LenientList, Wire
from accord.wire.codec import convert, decode
from accord.wire.protocol import Method

__all__ = (
    "LEGACY_METHODS",
    "SETUP_CALLS",
    "SET_SESSION_MODEL",
    "ModelInfo",
    "SessionModelState",
    "SetSessionModelRequest",
    "SetSessionModelResponse",
    "model_option",
    "models_in",
    "set_model",
    "translate_early",
)

LEGACY_METHODS: dict[str, str] = {
    **QUIRKS["early-methods"].methods,
    **QUIRKS["set-model"].methods,
}

_MODEL = "model"
_MAX_ITEMS = 1000  # of a list that is looked through; an early program has a handful

Params: TypeAlias = dict[str, Any]


def translate_early(method: str, params: Any) -> tuple[str, Any]:
    """Return a message's method and params in the current spelling.

    Without an early spelling, both are returned unchanged, the params as the same object.
    """
    rewrite = _REWRITES.get(method)
    method = LEGACY_METHODS.get(method, method)
    rewrite = rewrite or _REWRITES.get(method)
    if rewrite is None or not isinstance(params, dict):
        return method, params
    return method, rewrite(params)  # pyright: ignore[reportUnknownArgumentType]  # JSON


def _set_model(params: Params) -> Params:
    old, new = QUIRKS["set-model"].keys["session/set_model"]
    if old not in params:
        return params
    rest = {key: value for key, value in params.items() if key != old}
    return rest | {"configId": _MODEL, new: params[old]}


def _set_mode(params: Params) -> Params:
    return _renamed(params, *QUIRKS["mode-key"].keys["session/set_mode"])


def _renamed(params: Params, old: str, new: str) -> Params:
    if new in params or old not in params:
        return params
    return {new if key == old else key: value for key, value in params.items()}


def _setup(params: Params) -> Params:
    return _each(params, "mcpServers", _mcp_server)


@tolerates("mcp-server-shapes")
def _mcp_server(server: Params) -> Params:
    """Add missing lists (A-92), and convert maps to lists."""
    match server.get("type"):
        case "acp":
            return server
        case "http" | "sse":
            keys = ("headers",)
        case _:
            keys = ("args", "env")
    new: Params = {key: [] for key in keys if key not in server}
    for key in ("env", "headers"):
        if isinstance(server.get(key), dict):
            pairs: Params = server[key]
            new[key] = [{"name": name, "value": value} for name, value in pairs.items()]
    return server | new if new else server


def _prompt(params: Params) -> Params:
    return _each(params, "prompt", _block)


@tolerates("context-block")
def _block(block: Params) -> Params:
    if block.get("type") == "context" and "resource" in block:
        return block | {"type": "resource"}
    return block


def _update(params: Params) -> Params:
    update = params.get("update")
    match update:
        case {"sessionUpdate": "current_mode_update"}:
            newer = _renamed(update, *QUIRKS["current-mode-key"].keys["session/update"])
        case {"content": {"type": "context"} as block}:
            newer = update | {"content": _block(block)}
        case _:
            return params
    return params if newer is update else params | {"update": newer}


def _each(params: Params, key: str, rewrite: Callable[[Params], Params]) -> Params:
    """Rewrite the objects of a list of limited length."""
    if not isinstance(params.get(key), list) or len(params[key]) > _MAX_ITEMS:
        return params
    old: list[Any] = params[key]
    new: list[Any] = [rewrite(item) if isinstance(item, dict) else item for item in old]  # pyright: ignore[reportUnknownArgumentType]  # JSON
    return params if all(map(operator.is_, old, new)) else params | {key: new}


_REWRITES: dict[str, Callable[[Params], Params]] = {
    "session/load": _setup,
    "session/new": _setup,
    "session/prompt": _prompt,
    "session/resume": _setup,
    "session/fork": _setup,
    "session/set_mode": _set_mode,
    "session/set_model": _set_model,
    "session/update": _update,
}


# The models of a session, before they were a config option.


class ModelInfo(Wire):
    """A model that can be selected."""

    model_id: str
    name: str
    description: Lenient[str | None] = None


class SessionModelState(Wire):
    """The models of a session and the current one: `models` in a setup response."""

    current_model_id: str
    available_models: Lenient[LenientList[ModelInfo]]


def model_option(models: Any) -> SessionConfigSelect | None:
    """Return the raw `models` of a setup response as a config option, None if they are invalid."""
    try:
        state = convert(models, SessionModelState)
    except DecodeError:
        return None
    return SessionConfigSelect(
        id=_MODEL,
        name="Model",
        category="model",
        current_value=state.current_model_id,
        options=[
            SessionConfigSelectOption(
                value=model.model_id, name=model.name, description=model.description
            )
            for model in state.available_models
        ],
    )


# The calls whose results may carry `models`.
SETUP_CALLS = frozenset({"new_session", "load_session", "resume_session", "fork_session"})


@tolerates("set-model")
def models_in(
    text: bytes, options: Sequence[SessionConfigOption] | None
) -> SessionConfigSelect | None:
    """Return the `models` of a setup result as an option, unless it has one for the model."""
    if b'"models"' not in text or any(option.category == "model" for option in options or ()):
        return None
    result = decode(text, dict[str, Any])
    return model_option(result.get("models"))


def set_model(params: SetSessionConfigOptionRequest) -> SetSessionModelRequest | None:
    """Return the early spelling of choosing a model, None if another option is set."""
    if params.config_id != _MODEL or not isinstance(params.value, str):
        return None
    return SetSessionModelRequest(session_id=params.session_id, model_id=params.value)


class SetSessionModelRequest(Wire):
    """Selects a model of an agent that sent `models` without a config option for them."""

    session_id: SessionId
    model_id: str


class SetSessionModelResponse(Wire):
    """The model is selected."""


# The one early spelling that is sent: to agents that know nothing else.
SET_SESSION_MODEL = Method(
    name="session/set_model",
    call="set_session_model",
    params=SetSessionModelRequest,
    result=SetSessionModelResponse,
    to="agent",
)
