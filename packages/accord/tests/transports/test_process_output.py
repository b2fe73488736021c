"""What errors report of the output of a process: its last lines, without secrets and escapes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionLost,
    InternalError,
    MethodNotFound,
    RequestCancelled,
)
from accord.testing import Recorder
from accord.transports.process import MAX_LINE_CHARACTERS, MAX_LINES, ProcessTransport, process

loops = ("asyncio",)  # test_process.py reads stderr on all of them
SECRET = "sk-0123456789"
HEAD = """
import os, sys
def say(text, stream=sys.stderr):
    print(text, file=stream, flush=True)
"""


async def ended(code: str, **options: Any) -> tuple[ProcessTransport, ConnectionLost]:
    """Run a program until it exits."""
    transport = process(sys.executable, "-c", HEAD + code, **options)()
    heard = Recorder()
    await transport.start(heard)
    await heard.until(lambda: heard.ended)
    error = await transport.exit_error()
    assert isinstance(error, ConnectionLost)
    await transport.aclose()
    return transport, error


def notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("'plain'", "plain"),
        (r"'\x1b[31mred\x1b[0m \x1b]0;title\x07end'", "red end"),
        (r"'\x1b[2J\x1b[H' + 'a\u202eb\u200bc\x00d\x9be'", "abcde"),
        (r"'10%\r50%\r100%'", "100%"),
        (r"'first\n\n  \nlast'", "first\nlast"),
        ("'key ' + os.environ['MY_API_KEY'] + '.'", "key [redacted]."),
        # The marks of colours do not divide a secret.
        (r"'\x1b[1m' + os.environ['MY_API_KEY'].replace('-', '-\x1b[0m')", "[redacted]"),
        ("os.environ['MY_PRIVATE_KEY'].split()[1]", "[redacted]"),  # one line of several
        (
            "'ValueError: api_key=abcd1234 and --token abcd1234'",
            "ValueError: api_key=[redacted] and --token [redacted]",
        ),
        ("'Bearer abcd1234 sk-' + 20 * 'a1'", "Bearer [redacted] [redacted]"),
        ("'https://me:abcd1234@x.test'", "https://%5Bredacted%5D@x.test"),
        (r"""'start\n{"env": {"A": "abcd1234"}}'""", 'start\n{"env":{"A":"[redacted]"}}'),
        ("'unexpected token: }, 12 tokens'", "unexpected token: }, 12 tokens"),
        ("os.environ['MY_NAME']", "a name of some length"),
        ("'x' * 5000 + 'end'", f"{'x' * 248} … {'x' * 245}end"),
        ("chr(10).join(map(str, range(100)))", "\n".join(map(str, range(80, 100)))),
    ],
)
async def test_lines_are_the_last_ones_cleaned_and_without_secrets(
    written: str, shown: str
) -> None:
    env = {
        "MY_API_KEY": SECRET,
        "MY_PRIVATE_KEY": "-----BEGIN\nMIIEvQIBADAN\n-----END",
        "MY_NAME": "a name of some length",
        "PYTHONIOENCODING": "utf-8",
    }
    _, error = await ended(f"say({written}); sys.exit(3)", env=env)
    assert error.stderr == shown
    assert "\n" not in str(error)
    assert SECRET not in str(error)
    lines = "\n".join(f"  {line}" for line in shown.split("\n"))
    assert notes(error) == [f"The last lines of the agent's stderr:\n{lines}"]


async def test_private_key_is_replaced_as_a_whole() -> None:
    key = r"-----BEGIN PRIVATE KEY-----\nMIIEvQ\nabcd\n-----END PRIVATE KEY-----"
    _, error = await ended(f"say('start\\n{key}\\nend'); sys.exit(3)")
    assert error.stderr == "start\n[redacted]\nend"


@pytest.mark.parametrize("end", ["'\\n'", "''"], ids=["lines", "one line"])
async def test_megabytes_of_stderr_cost_neither_memory_nor_the_secrets_in_them(end: str) -> None:
    code = f"""
for _ in range(400):
    sys.stderr.write((os.environ["MY_TOKEN"] + "." * 10) * 1000 + {end})
sys.exit(1)
"""
    transport, error = await ended(code, env={"MY_TOKEN": SECRET})
    assert error.stderr is not None
    assert len(transport.stderr_tail) == 64 * 1024
    assert len(error.stderr) <= MAX_LINES * (MAX_LINE_CHARACTERS + 1)
    for start in range(len(SECRET) - 4):  # not even a part of one that was cut
        assert SECRET[start : start + 5] not in error.stderr.replace("[redacted]", "")


async def test_reason_that_an_early_exit_prints_on_stdout_is_reported() -> None:
    code = "say('No model is set.', sys.stdout); say('Run setup first.', sys.stdout); sys.exit(2)"
    _, error = await ended(code)
    assert str(error).endswith("exited with status 2: Run setup first.")
    assert error.stdout == "No model is set.\nRun setup first."
    assert notes(error) == [
        "The last lines on the agent's stdout, which must contain only JSON:\n"
        "  No model is set.\n  Run setup first."
    ]


async def test_lines_on_stdout_of_an_agent_that_has_sent_messages_are_not_its_reason() -> None:
    code = "say('{}', sys.stdout); say('debug', sys.stdout); sys.exit(2)"
    _, error = await ended(code)
    assert error.stdout is None
    assert notes(error) == []


async def test_lines_that_a_callback_has_received_are_not_added_again() -> None:
    heard: list[str] = []
    code = "say('on stderr'); say('on stdout', sys.stdout); sys.exit(2)"
    transport, error = await ended(code, on_stderr=heard.append, on_stdout_noise=heard.append)
    assert sorted(heard) == ["on stderr", "on stdout"]
    assert notes(error) == []
    refused = InternalError()
    await transport.explain(refused)
    assert (refused.stderr, refused.stdout, notes(refused)) == (None, None, [])
    # The program that passes the callbacks has them.
    assert transport.last_lines().stderr == ("on stderr",)
    assert transport.last_lines().stdout == ("on stdout",)


async def test_line_that_is_written_just_after_the_response_is_waited_for() -> None:
    code = """
for line in sys.stdin:
    say("{}", sys.stdout)
    say("Traceback")
    say("the reason")
"""
    transport = process(sys.executable, "-c", HEAD + code)()
    heard = Recorder()
    await transport.start(heard)
    try:
        transport.write([b"{}"])
        await heard.until(lambda: bool(heard.frames))
        error = InternalError()
        await transport.explain(error)
        assert error.stderr == "Traceback\nthe reason"
    finally:
        await transport.aclose()


@pytest.mark.parametrize(
    ("code", "after", "lines"),
    [
        ("say('one'); say('two')", 0, ("one", "two")),
        ("say('one'); say('two')", 4, ("two",)),
        ("say('one'); say('two')", 6, ("two",)),  # the rest of a line is not enough
        ("say('one'); say('two')", 8, ()),
        ("say('x' * 200_000); say('two')", 200_001, ("two",)),
        ("say('x\\n' * 100_000); say('two')", 10, ("x",) * (MAX_LINES - 1) + ("two",)),
    ],
)
async def test_lines_after_a_place_are_whole(code: str, after: int, lines: tuple[str, ...]) -> None:
    transport, _ = await ended(code)
    assert (await transport.lines_after(after)).stderr == lines


async def test_agent_that_never_stops_writing_delays_an_error_only_for_a_bounded_time() -> None:
    code = "say('{}', sys.stdout)\nwhile True: say('still here')"
    transport = process(sys.executable, "-c", HEAD + code, stop_times_s=(0.1, 0.5, 1))()
    heard = Recorder()
    await transport.start(heard)
    try:
        await heard.until(lambda: bool(heard.frames))
        error = InternalError()
        await transport.explain(error)
        assert error.stderr is not None
        assert set(error.stderr.split("\n")) == {"still here"}
    finally:
        await transport.aclose()


async def test_error_is_explained_once_and_only_if_it_is_a_failure() -> None:
    transport, lost = await ended("say('reason'); sys.exit(1)")
    before = list(notes(lost))
    await transport.explain(lost)
    assert notes(lost) == before
    late = TimeoutError("late")
    await transport.explain(late)
    await transport.explain(late)
    assert len(notes(late)) == 1
    for clear in (MethodNotFound(), RequestCancelled()):
        await transport.explain(clear)
        assert notes(clear) == []
    login = AuthRequired()
    await transport.explain(login)
    assert login.stderr == "reason"
    assert AccordError().stderr is None
