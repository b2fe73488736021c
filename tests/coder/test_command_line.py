"""Commands as text: which need a shell, and what "always" stands for."""

from __future__ import annotations

import pytest

from accord.coder.command_line import argv_of, commands_in, usual_rule


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git status", ("git", "status")),
        ("  ls  -la ", ("ls", "-la")),
        ("echo 'a; b'", ("echo", "a; b")),
        ('git commit -m "fix (all)"', ("git", "commit", "-m", "fix (all)")),
        ("echo '$HOME'", ("echo", "$HOME")),
    ],
)
def test_plain_commands_are_words(command: str, words: tuple[str, ...]) -> None:
    assert argv_of(command) == words


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf x",
        "git status && rm x",
        "git status | sh",
        "git status\nrm x",
        "git status & rm x",
        "cat < x",
        "echo > x",
        "echo $(rm x)",
        "echo `rm x`",
        'echo "$(rm x)"',
        'echo "`rm x`"',
        "ls *.py",
        "ls ~",
        "echo $HOME",
        "A=1 make",
        "echo 'open",
        "(ls)",
        "{ ls; }",
        "ls \\; rm",
        "ls # comment",
        "",
        "   ",
        "''",
    ],
)
def test_what_a_shell_would_read_otherwise_is_no_list_of_words(command: str) -> None:
    assert argv_of(command) is None


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git status --short", "git status *"),
        ("git -c alias.x=!sh status", "git -c alias.x=!sh status"),
        ("npm run build -- --fast", "npm run build *"),
        ("npm run", "npm run"),
        ("uv pip install x", "uv pip install *"),
        ("rm -rf build", "rm -rf build"),
        ("pytest tests", "pytest tests"),
        ("python -c print", "python -c print"),
        ("git status; rm x", "git status; rm x"),
        ("./git status", "./git status"),
    ],
)
def test_always_is_a_subcommand_or_exactly_this(command: str, rule: str) -> None:
    assert usual_rule(command) == rule


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "cd x && git push",
        "echo; git push -f",
        "sudo git push",
        "sudo -n git push",
        "env A=1 git push",
        "A=1 git push",
        "timeout 5 git push",
        "if true; then git push; fi",
        "echo $(git push)",
        "sh -c 'git push'",
        'bash -c "cd x && git push"',
        "x | xargs git push",
        "'git' push",
        "git -C there push",
        "git --no-pager push -f",
        "git -c user.name=x --git-dir there push",
    ],
)
def test_command_is_seen_in_what_hides_it(command: str) -> None:
    assert any(words[:2] == ("git", "push") for words in commands_in(command))
