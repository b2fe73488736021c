"""Marks functions and methods as MCP tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_MARK = "__accord_tool__"


def tool(function: FunctionT) -> FunctionT:
    """Mark a method as an MCP tool; its signature and docstring describe the tool.

    The methods of an object in `tools=[…]`, and those of a `Proxy`, are tools if they are marked.
    """
    setattr(function, _MARK, True)
    return function


def is_tool(function: object) -> bool:
    """Return whether a function is marked."""
    return getattr(function, _MARK, False) is True


def marked_tools(owner: object) -> list[Callable[..., Any]]:
    """Return the marked methods of an object, bound to it, in the order of their definition.

    A method that a subclass overrides is a tool if the override is marked.
    """
    names = dict.fromkeys(name for cls in reversed(type(owner).__mro__) for name in vars(cls))
    methods = (getattr(owner, name) for name in names if _is_marked(type(owner), name))
    return list(methods)


def _is_marked(cls: type, name: str) -> bool:
    definition = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    function = getattr(definition, "__func__", definition)  # of a static or class method
    marks = (getattr(each, _MARK, False) for each in (definition, function))
    return callable(function) and True in marks
