"""The description of a process's end is short and contains no secrets."""

from __future__ import annotations

import signal

import pytest

from accord.errors import ConnectionLost
from accord_conformance.harness import SecretMask, describe_exit, last_stderr_lines


def lost(status: int | None = None, stderr: str = "") -> ConnectionLost:
    return ConnectionLost("gone", exit_status=status, stderr=stderr)


def test_end_of_a_process_is_described() -> None:
    assert describe_exit(lost(3)) == "it exited with status 3"
    assert describe_exit(lost(-signal.SIGTERM)) == "it was ended by SIGTERM"


def test_running_or_missing_process_has_no_description() -> None:
    assert describe_exit(lost()) == ""
    assert describe_exit(None) == ""
    assert last_stderr_lines(None, SecretMask({})) == []


def test_last_stderr_lines_are_few_and_short() -> None:
    words = last_stderr_lines(
        lost(stderr="".join(f"{n} {'x' * 999}\n\n" for n in range(30))), SecretMask({})
    )
    assert [line.split()[0] for line in words] == [str(n) for n in range(10, 30)]
    assert all(len(line) == 200 for line in words)


def test_control_characters_are_escaped() -> None:
    assert last_stderr_lines(lost(stderr="\x1b[31mred\r\n"), SecretMask({})) == [
        "\\x1b[31mred\\x0d"
    ]


def test_secrets_of_both_environments_are_replaced_by_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "abcdef")
    monkeypatch.setenv("SOME_COLOUR", "orange")
    veil = SecretMask({"MODEL_URL": "http://u:p@host", "MODE": "on"})
    text = veil("key abcdef at http://u:p@host, orange, on")
    assert text == "key $SOME_API_KEY at $MODEL_URL, orange, on"


def test_part_of_a_secret_is_not_shown() -> None:
    secret = "s" * 40
    (line,) = last_stderr_lines(lost(stderr=f"{'x' * 180}{secret}"), SecretMask({"KEY": secret}))
    assert line == f"{'x' * 180}$KEY"


def test_longer_secret_is_replaced_before_its_prefix() -> None:
    assert SecretMask({"A": "abcd", "B": "abcdef"})("abcdef") == "$B"
