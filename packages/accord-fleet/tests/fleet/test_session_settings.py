"""The mode and the options of a task: an agent that does not offer them says what it offers."""

from __future__ import annotations

from typing import Any

import pytest

from accord_fleet import AgentSpec
from fleet.running import SCRIPT, raw, result, task

script = AgentSpec(name="script", command=SCRIPT)


async def test_mode_and_options_are_set() -> None:
    given = task("system", mode="read", options={"mode": "auto"})
    assert (await result(given, script)).status == "finished"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"mode": "yolo"},
            "Expected a value of the mode that the agent offers (ask, auto, read), got 'yolo'",
        ),
        ({"options": {"mode": "x"}}, "of the option mode that the agent offers (ask, auto, read)"),
        ({"options": {"colour": "red"}}, "Expected an option that the agent offers (mode, "),
    ],
)
async def test_what_the_agent_does_not_offer_is_named(fields: dict[str, Any], message: str) -> None:
    found = await result(task("system", **fields), script)
    assert found.failure is not None
    assert found.failure.where == "session"
    assert message in found.failure.message


async def test_an_agent_without_modes_is_named_as_such() -> None:
    found = await result(task("say 1", mode="plan"), raw())
    assert found.failure is not None
    assert found.failure.message == (
        "The task has the mode 'plan': expected an agent with modes, this one has none"
    )
    found = await result(task("say 1", options={"a": True}), raw())
    assert found.failure is not None
    assert found.failure.message == "Expected an option that the agent offers (none), got 'a'"
