"""Names that `accord` shares with a version package are version-neutral forms of wire types."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

import accord
from accord import agent, v1, v2

# The content of messages: a type alias without a docstring. Its members name their wire types.
ALIASES = {"ContentBlock"}
# Made from a table, which type checkers do not read.
PUBLIC: tuple[str, ...] = vars(accord)["__all__"]
SHARED = sorted(set(PUBLIC) & {*v1.__all__, *v2.__all__})


@pytest.mark.parametrize("name", SHARED)
def test_class_with_the_name_of_a_wire_type_mentions_it(name: str) -> None:
    neutral = getattr(accord, name)
    versions: list[ModuleType] = [version for version in (v1, v2) if name in version.__all__]
    if all(getattr(version, name) is neutral for version in versions):
        return
    if name in ALIASES:
        assert not isinstance(neutral, type)
        return
    assert isinstance(neutral, type), f"accord.{name} is not a class: rename it"
    named = set(re.findall(r"`(v[12])\.(\w+)`", neutral.__doc__ or ""))
    for version in versions:
        short = version.__name__.rpartition(".")[2]
        assert (short, name) in named, f"The docstring of accord.{name} must name `{short}.{name}`"


@pytest.mark.parametrize("version", [v1, v2], ids=["v1", "v2"])
def test_docstrings_name_existing_wire_types(version: ModuleType) -> None:
    short = version.__name__.rpartition(".")[2]
    for name in PUBLIC:
        text = getattr(accord, name).__doc__ or ""
        for found in re.findall(rf"`{short}\.(\w+)`", text):
            assert hasattr(version, found), f"accord.{name} names {short}.{found}"


def test_package_and_agent_package_share_no_name() -> None:
    assert not set(PUBLIC) & set(vars(agent)["__all__"])
