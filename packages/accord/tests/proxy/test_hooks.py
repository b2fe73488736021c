"""Mistakes in a class of proxies are reported when the class is defined."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from accord import Proxy, tool


def _define(**methods: Any) -> type[Proxy]:
    return type("Mine", (Proxy,), methods)


async def _two(self: Any, turn: Any, forward: Any) -> Any:
    return await forward()


def _one(self: Any, event: Any) -> Any:
    return event


NEARLY = [
    ("promt", _two, "prompt"),
    ("updates", _one, "update"),
    ("Update", _one, "update"),
    ("decidepermission", _two, "decide_permission"),
    ("read_fiel", _two, "read_file"),
    ("agent_capabilities_v3", _one, "agent_capabilities_v1"),
]


def test_name_that_is_nearly_that_of_a_method_is_an_error() -> None:
    for name, method, meant in NEARLY:
        with pytest.raises(TypeError, match=f"Mine.{name} is never called: did you mean `{meant}`"):
            _define(**{name: method})


def test_other_methods_with_similar_names_are_none() -> None:
    def updates(self: Any) -> list[str]:
        return []  # other parameters

    _define(updates=updates)
    _define(_updates=_one)
    _define(updates=_one, update=_one)  # the class has that method, too
    _define(updates=tool(lambda self, event: event))
    base = _define(update=_one)
    assert type("Derived", (base,), {"updates": _one}).updates is _one  # type: ignore[attr-defined]  # defined there


def test_request_method_that_is_no_coroutine_function_is_an_error() -> None:
    def prompt(self: Any, turn: Any, forward: Any) -> Any:
        return None

    with pytest.raises(
        TypeError, match=r"Mine.prompt has to be a coroutine function: write `async"
    ):
        _define(prompt=prompt)

    async def yields(self: Any, turn: Any, forward: Any) -> Any:
        yield "text"

    with pytest.raises(TypeError, match=r"Mine.prompt must not yield"):
        _define(prompt=yields)


def test_methods_that_may_or_may_not_be_awaited_are_accepted() -> None:
    def write_file(self: Any, request: Any, forward: Any) -> Awaitable[None]:
        return forward()

    async def update(self: Any, event: Any) -> Any:
        return event

    _define(write_file=write_file, update=update)
