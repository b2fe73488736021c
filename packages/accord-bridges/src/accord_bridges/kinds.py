"""Finds the bridge for an object, by its classes: no framework is imported for that."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from msgspec import Struct

from accord import Agent
from accord_bridges.bridge import BridgedAgent, Options


class UnknownKind(TypeError):
    """No bridge is for an object of this class."""


class Kind(Struct, frozen=True):
    """A kind of objects that can be agents."""

    name: str
    """The name of the framework, as people write it."""
    package: str
    """The package that the object's class, or a class above it, is defined in."""
    classes: tuple[str, ...]
    """The names of the classes."""
    bridge: str
    """MODULE:CLASS of the bridge."""


def _kind(name: str, package: str, classes: str, bridge: str) -> Kind:
    return Kind(name, package, tuple(classes.split()), f"accord_bridges.frameworks.{bridge}")


KINDS: tuple[Kind, ...] = (
    _kind("pydantic-ai", "pydantic_ai", "AbstractAgent", "pydantic_ai:PydanticAiAgent"),
    _kind("openai-agents", "agents", "Agent", "openai_agents:OpenAiAgentsAgent"),
    _kind("google-adk", "google.adk", "BaseAgent App Runner", "google_adk:AdkAgent"),
    _kind("agno", "agno", "Agent Team", "agno:AgnoAgent"),
    _kind("langgraph", "langgraph", "Pregel StateGraph", "langgraph:LangGraphAgent"),
    _kind(
        "claude-agent-sdk",
        "claude_agent_sdk",
        "ClaudeAgentOptions ClaudeSDKClient",
        "claude_agent_sdk:ClaudeAgent",
    ),
    _kind("smolagents", "smolagents", "MultiStepAgent", "smolagents:SmolagentsAgent"),
    _kind("agent-framework", "agent_framework", "BaseAgent", "agent_framework:AgentFrameworkAgent"),
)
_OPENAI_API = "accord_bridges.frameworks.openai_api:OpenAiApiAgent"


def as_agent(target: Any, **options: Any) -> Agent:
    """Return an agent that runs an object of a framework; `as_agent(object).run()` is a program.

    `target` is an object of one of `KINDS`, an async function, the URL of an OpenAI-compatible
    API (`http://…/v1#MODEL`). A class or a function without parameters that
    makes such an object is called; so is a function of `tools`, `model` or both that makes a graph
    of LangGraph, for each session. `options` are those of `Options`. Raises `UnknownKind`, a
    `TypeError`, which names the kinds, and `ImportError` for a package that is missing.
    """
    given, target = target, _made(target, options)
    found = None if isinstance(target, Agent) else _bridge_of(target)
    if _factory_parameters(given):
        if found is not None and found.takes_factory:
            target = given
        elif needed := _needed(given):
            raise _needs_arguments(given, needed)
    if found is None:
        if options:
            raise TypeError(
                f"an agent of Accord takes no options, got {', '.join(sorted(options))}"
            )
        return target
    try:
        checked = Options(**options)
    except TypeError as error:
        known = ", ".join(Options.__struct_fields__)
        raise TypeError(f"as_agent(…): {error}; the options: {known}") from None
    return found(target, checked)


def _bridge_of(target: Any) -> type[BridgedAgent]:
    if isinstance(target, str):
        _check_url(target)
        return _load(_OPENAI_API)
    kind = kind_of(target)
    if kind is not None:
        return _load(kind.bridge)
    if callable(target) and not isinstance(target, type):
        from accord_bridges.frameworks import function

        why = function.check(target)
        if why is None:
            return function.FunctionAgent
        raise UnknownKind(f"{_shown(target)}: {why}")
    raise UnknownKind(_unknown(target))


def kind_of(target: Any) -> Kind | None:
    """Return the kind of an object by its classes; None for functions, URLs and other objects."""
    for cls in type(target).__mro__:
        for kind in KINDS:
            if cls.__name__ in kind.classes and (cls.__module__ + ".").startswith(
                kind.package + "."
            ):
                return kind
    return None


def _check_url(url: str) -> None:
    """Raise `UnknownKind` unless this is the URL of an OpenAI-compatible API."""
    path = url.partition("#")[0].partition("?")[0].rstrip("/")
    if not url.startswith(("http://", "https://")) or not ("#" in url or path.endswith("/v1")):
        raise UnknownKind(
            f"{url!r}: expected an object of a framework, or the URL of an OpenAI-compatible API,"
            " http://…/v1#MODEL"
        )


def _load(place: str) -> type[BridgedAgent]:
    """Import a bridge. Raises `ImportError`, which says what to install."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        needed = _requirement(module.rpartition(".")[2].replace("_", "-"))
        if needed is None:
            raise
        raise ImportError(
            f"{error}; the bridge needs {needed}: pip install -U '{needed}'", name=error.name
        ) from error


def _requirement(extra: str) -> str | None:
    """Return what an extra of this package requires first, for example `openai>=1.60`."""
    from importlib.metadata import PackageNotFoundError, requires

    extra = {"langgraph": "langgraph", "openai-api": "openai"}.get(extra, extra)
    try:
        for line in requires("accord-bridges") or ():
            requirement, _, marker = line.partition(";")
            if f"extra == '{extra}'" in marker.replace('"', "'"):
                return requirement.strip()
    except PackageNotFoundError:
        return None
    return None


def _factory_parameters(target: Any) -> set[str]:
    """Return which of `tools` and `model` a function that makes an agent has as parameters."""
    if not inspect.isfunction(target) or _is_async(target):
        return set()
    return {"tools", "model"}.intersection(inspect.signature(target).parameters)


def _made(target: Any, options: Mapping[str, Any]) -> Any:
    """Call a class, or a function that makes an object; a function that is an agent stays."""
    if not isinstance(target, type) and (not inspect.isfunction(target) or _is_async(target)):
        return target
    needed = _needed(target)
    if not _factory_parameters(target).issuperset(needed):
        raise _needs_arguments(target, needed)
    models = options.get("models")
    values = {"tools": [], "model": models[0] if models else None}
    try:
        return target(**{name: values[name] for name in needed})
    except Exception as error:
        error.add_note(f"while {_shown(target)}() made the agent")
        raise


def _needed(target: Any) -> list[str]:
    """Return the parameters that have no default."""
    return [
        parameter.name
        for parameter in inspect.signature(target).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def _needs_arguments(target: Any, needed: list[str]) -> UnknownKind:
    what = "class" if isinstance(target, type) else "function"
    return UnknownKind(
        f"{_shown(target)} is a {what} that needs arguments ({', '.join(needed)}): expected an"
        " object, or a function without parameters that makes it"
    )


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _shown(target: Any) -> str:
    return str(getattr(target, "__qualname__", None) or type(target).__qualname__)


def _unknown(target: Any) -> str:
    module, name = type(target).__module__, type(target).__name__
    place = f"{module}.{type(target).__qualname__}"
    of_package = [kind for kind in KINDS if f"{module}.".startswith(f"{kind.package}.")]
    names = {name: kind for kind in (*of_package, *KINDS) for name in kind.classes}
    near = difflib.get_close_matches(name, names, 1)
    found = [*of_package, *(names[one] for one in near)]
    kinds = ", ".join(kind.name for kind in KINDS)
    nearest = ""
    if found:
        kind = found[0]
        nearest = f" The nearest: {kind.name}, an object of the class {' or '.join(kind.classes)}."
    return (
        f"an object of the class {place} cannot be an agent.{nearest} Expected an object of"
        f" {kinds}; an async function; or the URL of an OpenAI-compatible API"
    )
