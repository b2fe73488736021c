"""`accord.tool` marks methods."""

from __future__ import annotations

import accord
from accord.mcp.provider import marked_tools


class Base:
    @accord.tool
    def one(self) -> str:
        return f"one of {type(self).__name__}"

    @accord.tool
    def two(self) -> str:
        return "two"

    def other(self) -> str:
        raise AssertionError

    @property
    def broken(self) -> str:
        raise AssertionError("not to be read")


class Derived(Base):
    def two(self) -> str:
        raise AssertionError

    @accord.tool
    @staticmethod
    def three() -> str:
        return "three"


def test_marked_methods_are_bound_and_in_the_order_of_their_definition() -> None:
    assert [method() for method in marked_tools(Base())] == ["one of Base", "two"]


def test_an_override_is_a_tool_only_if_it_is_marked() -> None:
    assert [method() for method in marked_tools(Derived())] == ["one of Derived", "three"]


def test_a_marked_function_stays_as_it_is() -> None:
    def function() -> None: ...

    assert accord.tool(function) is function
