"""Shell commands as text: which need a shell, and what "always" covers."""

from __future__ import annotations

import time

from accord_coder.permissions.command_words import argv_of, commands_in, suggest_pattern, words_in


def test_plain_commands_are_split_into_words() -> None:
    for command, words in [
        ("git status", ("git", "status")),
        ("  ls  -la ", ("ls", "-la")),
        ("echo 'a; b'", ("echo", "a; b")),
        ('git commit -m "fix (all)"', ("git", "commit", "-m", "fix (all)")),
        ("echo '$HOME'", ("echo", "$HOME")),
    ]:
        assert argv_of(command) == words, (command, words)


def test_shell_syntax_is_not_split_into_words() -> None:
    for command in [
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
    ]:
        assert argv_of(command) is None, command


def test_always_covers_a_subcommand_or_the_exact_command() -> None:
    for command, rule in [
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
    ]:
        assert suggest_pattern(command) == rule, (command, rule)


def test_command_is_found_inside_other_commands() -> None:
    for command in [
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
    ]:
        assert any(words[:2] == ("git", "push") for words in commands_in(command)), command


def test_quotes_and_backslashes_do_not_hide_a_command() -> None:
    for command in [
        "git pu'sh'",
        'g"i"t push',
        "git\\ push",
        "gi\\t push",
        'echo "$(git push)"',
        'echo "`git push`"',
        "bash -c \"git 'push'\"",
        "sh -c 'sh -c \"git push\"'",
    ]:
        words = [words for words in commands_in(command) if words]
        assert any(" ".join(one).startswith("git push") for one in words), words


def test_words_are_split_as_by_a_shell() -> None:
    for command, words in [
        ("cat .e'n'v", ["cat", ".env"]),
        ('cat ".e"nv', ["cat", ".env"]),
        ("cat .e\\nv", ["cat", ".env"]),
        ("cat<.env", ["cat", ".env"]),
        ("cat '' x", ["cat", "", "x"]),
        ("cat 'open .env", ["cat", "open", ".env"]),
    ]:
        assert words_in(command) == words, (command, words)


def test_long_commands_are_parsed_fast() -> None:
    pieces = ["a", "'", '"', "$(", "`", "sh ", "sudo ", "a b ", "\\"]
    pieces += ["sh 'a ", "sudo 'a ", "-exec ", "> "]
    for piece in pieces:
        began = time.process_time()
        command = piece * (1_000_000 // len(piece))
        assert argv_of(command) is None, piece
        commands_in(command)
        words_in(command)
        assert time.process_time() - began < 2, piece
