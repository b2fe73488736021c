"""Shell commands as text: which need a shell, and what "always" covers."""

from __future__ import annotations

import time

import pytest

from accord_coder.permissions.command_lines import argv_of, commands_in, suggest_pattern, words_in


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
def test_plain_commands_are_split_into_words(command: str, words: tuple[str, ...]) -> None:
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
def test_shell_syntax_is_not_split_into_words(command: str) -> None:
    assert argv_of(command) is None


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git status --short", "git status *"),
        ("git -c alias.x=!sh status", "git -c alias.x=!sh status"),
        ("npm run build -- --fast", "npm run build -- --fast"),
        ("npm run", "npm run"),
        ("uv pip install x", "uv pip install x"),
        ("rm -rf build", "rm -rf build"),
        ("pytest tests", "pytest tests"),
        ("python -c print", "python -c print"),
        ("git status; rm x", "git status; rm x"),
        ("./git status", "./git status"),
    ],
)
def test_always_covers_a_subcommand_or_the_exact_command(command: str, rule: str) -> None:
    assert suggest_pattern(command) == rule


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
        "find . -exec git push ;",
        "fd x --exec git push",
        "sudo -u bob git push",
        "timeout -s KILL 5 git push",
        "env -u X git push",
        "env -S 'git push'",
        "stdbuf -o0 git push",
        "flock file git push",
        "busybox git push",
        "su -c 'git push'",
        "script -c 'git push'",
        "trap 'git push' EXIT",
        "2>/dev/null git push",
        ">out git push",
        "$'git' push",
    ],
)
def test_command_is_found_inside_other_commands(command: str) -> None:
    assert any(words[:2] == ("git", "push") for words in commands_in(command))


@pytest.mark.parametrize(
    "command",
    [
        "git pu'sh'",
        'g"i"t push',
        "git\\ push",
        "gi\\t push",
        'echo "$(git push)"',
        'echo "`git push`"',
        "bash -c \"git 'push'\"",
        "sh -c 'sh -c \"git push\"'",
    ],
)
def test_quotes_and_backslashes_do_not_hide_a_command(command: str) -> None:
    words = [words for words in commands_in(command) if words]
    assert any(" ".join(one).startswith("git push") for one in words), words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat .e'n'v", ["cat", ".env"]),
        ('cat ".e"nv', ["cat", ".env"]),
        ("cat .e\\nv", ["cat", ".env"]),
        ("cat<.env", ["cat", ".env"]),
        ("cat '' x", ["cat", "", "x"]),
        ("cat 'open .env", ["cat", "open", ".env"]),
    ],
)
def test_words_are_split_as_by_a_shell(command: str, words: list[str]) -> None:
    assert words_in(command) == words


@pytest.mark.parametrize(
    "piece",
    ["a", "'", '"', "$(", "`", "sh ", "sudo ", "a b ", "\\", "sh 'a ", "sudo 'a ", "-exec ", "> "],
)
def test_long_commands_are_parsed_fast(piece: str) -> None:
    began = time.process_time()
    command = piece * (1_000_000 // len(piece))
    assert argv_of(command) is None
    commands_in(command)
    words_in(command)
    assert time.process_time() - began < 2
