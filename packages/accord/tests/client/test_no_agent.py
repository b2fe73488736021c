"""Programs that are no agents are named as such, at once."""

from __future__ import annotations

import pytest

import accord
from accord.errors import ConnectionLost


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("cat", "The peer sends back what it receives: it is not an agent"),
        (
            "yes",
            "yes is not an agent: expected JSON-RPC messages on its stdout, got 10,000 other "
            "lines, such as 'y'",
        ),
    ],
)
async def test_program_that_is_not_an_agent_ends_the_connection(
    program: str, expected: str
) -> None:
    with pytest.raises(ConnectionLost) as raised:
        async with accord.connect(program, initialize_timeout_s=50):
            pass
    assert str(raised.value) == expected
