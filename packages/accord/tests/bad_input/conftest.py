"""Agents that receive all bad input of one file, and must survive it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bad_input.raw import Program, agent
from forked import forked_programs


@pytest.fixture(autouse=True, scope="package")
def forks() -> Iterator[None]:
    """Start programs by forks, which is quicker."""
    with forked_programs():
        yield


@pytest.fixture(scope="module")
def survivor_v1() -> Iterator[Program]:
    with agent() as running:
        yield running


@pytest.fixture(scope="module")
def survivor_v2() -> Iterator[Program]:
    with agent(version=2) as running:
        yield running


@pytest.fixture(params=[1, 2])
def survivor(request: pytest.FixtureRequest) -> Program:
    return request.getfixturevalue(f"survivor_v{request.param}")
