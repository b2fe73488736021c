"""Command lines of acpx after `accord session`, and the page that has them in a table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from accord.program import load_command
from accord_terminal.sessions.acpx import is_of_acpx, words_of_acpx
from project import ROOT
from requirement import requirement
from sessions_named.machine import Machine

PAGE = ROOT / "docs/how-to/come-from-acpx.md"
READS = "--allow read --allow search"


@requirement("R-NAMED-01")
@pytest.mark.parametrize(
    ("of_acpx", "of_accord"),
    [
        ("claude prompt -s fix 'Do it.'", f"prompt --agent claude -s fix {READS} -- 'Do it.'"),
        ("claude 'Do it.'", f"prompt --agent claude {READS} -- 'Do it.'"),
        ("claude -s fix --file p.md", f"prompt --agent claude -s fix --file p.md {READS}"),
        ("--approve-all pi prompt -- -x", "prompt --agent pi --yes -- -x"),
        ("--deny-all pi prompt --no-wait x", "prompt --agent pi --no-wait --deny '*' -- x"),
        ("--agent './a --acp' x", f"prompt --agent './a --acp' {READS} -- x"),
        ("--timeout=5 --format quiet pi x", f"prompt --agent pi --timeout 5 {READS} --quiet -- x"),
        ("--cwd /w pi exec x --format json", f"exec --agent pi --cwd /w {READS} --json -- x"),
        ("exec x", f"exec --agent codex {READS} -- x"),
        ("exec fix the tests", f"exec --agent codex {READS} -- 'fix the tests'"),
        ("pi exec summarize README.md", f"exec --agent pi {READS} -- 'summarize README.md'"),
        ("pi exec -- -x y", f"exec --agent pi {READS} -- '-x y'"),
        ("pi exec", f"exec --agent pi {READS}"),
        ("pi exec --file p.md", f"exec --agent pi --file p.md {READS}"),
        ("pi exec -f - more words", f"exec --agent pi --file - {READS} -- 'more words'"),
        ("--prompt-retries 2 pi exec x", f"exec --agent pi --retries 2 {READS} -- x"),
        ("--prompt-retries 2 pi x", f"prompt --agent pi --retries 2 {READS} -- x"),
        (
            "--max-turns 3 --allowed-tools 'Read, Bash(ls:*)' claude sessions new",
            "new --agent claude --meta "
            """'{"claudeCode":{"options":{"allowedTools":["Read","Bash(ls:*)"],"maxTurns":3}}}'""",
        ),
        (
            "--allowed-tools '' claude exec x",
            """exec --agent claude --meta '{"claudeCode":{"options":{"allowedTools":[]}}}' """
            f"{READS} -- x",
        ),
        (
            "--system-prompt 'Be brief.' claude sessions ensure",
            """ensure --agent claude --meta '{"systemPrompt":"Be brief."}'""",
        ),
        (
            "--append-system-prompt 'Be brief.' claude sessions new",
            """new --agent claude --meta '{"systemPrompt":{"append":"Be brief."}}'""",
        ),
        ("pi prompt fix the tests", f"prompt --agent pi {READS} -- fix the tests"),
        ("sessions", "list --all"),
        ("pi sessions list --local --format json", "list --json --all"),
        ("pi sessions new --name fix --ttl 9", "new --agent pi -s fix --ttl 9"),
        ("--approve-all pi sessions ensure", "ensure --agent pi"),
        ("pi sessions show fix", "show --agent pi -s fix"),
        ("pi status -s fix", "show --agent pi -s fix"),
        ("pi sessions close fix", "close --agent pi -s fix"),
        ("pi sessions history fix --limit 2", "history --agent pi --tail 2 -s fix"),
        ("pi sessions read fix --tail 2", "history --agent pi --tail 2 -s fix"),
        ("pi sessions watch -s fix --cursor C", "watch --agent pi -s fix --cursor C"),
        (
            "pi sessions export fix --output f.json",
            "export --agent pi --output f.json -s fix --format json",
        ),
        ("pi sessions import f.json --name fix", "import -s fix -- f.json"),
        ("sessions prune --older-than 3 --dry-run", "prune --older-than 3 --dry-run"),
        ("pi cancel -s fix", "cancel --agent pi -s fix"),
        ("pi set-mode plan -s fix", "set --agent pi -s fix -- mode plan"),
        ("pi set effort high", "set --agent pi -- effort high"),
        (
            "--auth-policy fail --non-interactive-permissions deny --no-fs --verbose pi prompt x",
            f"prompt --agent pi {READS} -- x",
        ),
    ],
)
def test_command_line_of_acpx_has_words_of_accord(of_acpx: str, of_accord: str) -> None:
    words = shlex.split(of_acpx)
    assert is_of_acpx(words, {"claude", "pi"})
    found = words_of_acpx(words)
    assert shlex.join(found) == of_accord
    accepts(found)


def accepts(words: list[str]) -> None:
    """Parse words for `accord session` as the program does, without files and without effect."""
    session = load_command("session")
    assert isinstance(session, click.Group)
    context = click.Context(session)
    command = session.get_command(context, words[0])
    assert command is not None
    parser = command.make_parser(click.Context(command))
    _, left, _ = parser.parse_args(words[1:])
    assert left == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("pi prompt --suppress-reads x", "has no option --suppress-reads of acpx"),
        ("--max-turns 0 pi exec x", "--max-turns: expected a number above 0, got '0'"),
        ("--allowed-tools a,,b pi exec x", "--allowed-tools: expected names separated by commas"),
        ("--system-prompt ' ' pi exec x", "--system-prompt: expected a text, got an empty one"),
        (
            "--system-prompt a --append-system-prompt b pi exec x",
            "--system-prompt and --append-system-prompt exclude each other",
        ),
        ("pi --format yaml x", "--format: expected text, json, quiet, got yaml"),
        ("pi prompt x --file", "--file requires a value"),
        ("--approve-all --deny-all pi x", "exclude each other"),
        ("--auth-policy skip pi x", "--auth-policy skip is not available"),
        ("pi prompt --mcp-config m.json x", "`prompt` has no option --mcp"),
        ("pi sessions rename fix", "no command `sessions rename`"),
        ("pi sessions show fix --tail 2", "`show` has no option --tail"),
        ("pi sessions prune", "deletes closed sessions of all agents, got pi"),
        ("pi flow run", "`flow` of acpx does not exist: write a script of `accord session"),
        ("config show", "`config` of acpx does not exist: the settings are in the file that"),
        ("compare a b x", "`compare` of acpx is `accord compare PROMPT --agent A --agent B`"),
    ],
)
def test_what_accord_does_not_have_is_named(words: str, error: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(error)):
        words_of_acpx(shlex.split(words))


def test_misspelt_command_is_not_taken_for_an_agent() -> None:
    for words in ("promt -s fix x", "fix", "claud 'Do it.'", "--protocol 2 new"):
        assert not is_of_acpx(shlex.split(words), {"claude"}), words


@pytest.mark.slow
@requirement("R-NAMED-01")
def test_script_for_acpx_runs_with_the_same_exit_statuses(machine: Machine) -> None:
    assert machine.run("session", "script", "prompt", "-s", "fix", "echo x").returncode == 4
    machine.ok("session", "script", "sessions", "new", "--name", "fix")
    quiet = ("session", "--format", "quiet", "script")
    assert machine.ok(*quiet, "-s", "fix", "echo Hello.") == "Hello.\n"
    assert machine.run(*quiet, "prompt", "-s", "fix", "permission").returncode == 5
    allowed = machine.ok("session", "--approve-all", "script", "-s", "fix", "permission")
    assert "1 of 1 allowed." in allowed
    assert machine.ok(*quiet, "exec", "echo", "once", "more") == "once more\n"
    assert machine.run(*quiet, "exec", "permission").returncode == 5
    timed = machine.run("session", "--timeout", "1", "script", "-s", "fix", "wait forever")
    assert timed.returncode == 3
    assert "Hello." in machine.ok("session", "script", "sessions", "history", "fix")
    machine.ok("session", "script", "sessions", "close", "fix")
    assert machine.run("session", "script", "flow", "run").returncode == 2
    for word in ("compare", "config", "flow"):
        refused = machine.run("session", word)
        assert refused.returncode == 2
        assert f"`{word}` of acpx" in refused.stderr


def test_first_words_on_the_page_are_those_of_acpx_and_of_accord() -> None:
    session = load_command("session")
    assert isinstance(session, click.Group)
    page = " ".join(PAGE.read_text("utf-8").split())
    of_acpx, of_accord = (
        re.findall(r"`([^`]+)`", page.partition(f" {start} ")[2].partition(end)[0])
        for start, end in (("A line of acpx begins with", "."), ("A line that begins with", " is "))
    )
    assert set(of_acpx) == {"exec", "sessions", "set-mode", "status"}
    assert all(is_of_acpx([word], ()) for word in of_acpx)
    assert not set(of_acpx) & set(session.list_commands(click.Context(session)))
    assert set(of_accord) == {"cancel", "prompt", "set"}
    assert set(of_accord) < set(session.list_commands(click.Context(session)))


def rows(heading: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the first cell, and the code in the second one, of the table below a heading."""
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and cells[0] != "acpx":
            yield cells[0], re.findall(r"`([^`]+)`", cells[1])


def test_commands_and_options_on_the_page_exist() -> None:
    session = load_command("session")
    assert isinstance(session, click.Group)
    found = 0
    for _, codes in rows("Commands"):
        for code in codes:
            words = shlex.split(code.replace("[", "").replace("]", ""))
            if words[0] != "accord":
                continue
            command = load_command(words[1])
            if words[1] == "session":
                command = session.get_command(click.Context(session), words[2])
            assert command is not None, code
            options = {option for param in command.params for option in param.opts}
            assert {word for word in words if word.startswith("-")} <= options, code
            found += 1
    assert found >= 15


def test_options_on_the_page_exist() -> None:
    options = {
        option
        for name in ("prompt", "new")
        for param in getattr(command_of_session(name), "params", ())
        for option in param.opts
    }
    for first, codes in rows("Options"):
        named = [code.split()[0] for code in codes if code.startswith("--")]
        assert set(named) <= options, first


COMMANDS = {
    "cancel": "cancel",
    "exec": "exec x",
    "prompt": "prompt x",
    "sessions close": "sessions close fix",
    "sessions ensure": "sessions ensure",
    "sessions export": "sessions export",
    "sessions history": "sessions history fix",
    "sessions import": "sessions import f.json",
    "sessions list": "sessions list",
    "sessions new": "sessions new",
    "sessions prune": "sessions prune",
    "sessions show": "sessions show fix",
    "sessions watch": "sessions watch",
    "set": "set effort high",
    "set-mode": "set-mode plan",
    "status": "status",
}


def users_of(option: str) -> dict[str, set[str]]:
    """Return what an option does: it is "used", "ignored" or an "error" of commands."""
    found: dict[str, set[str]] = {"used": set(), "ignored": set(), "error": set()}
    for name, line in COMMANDS.items():
        words = shlex.split(line)
        try:
            is_used = words_of_acpx([*shlex.split(option), *words]) != words_of_acpx(words)
        except click.UsageError:
            found["error"].add(name)
        else:
            found["used" if is_used else "ignored"].add(name)
    return found


def test_what_commands_ignore_is_on_the_page() -> None:
    table = PAGE.read_text("utf-8").partition("\n| Option | Used by |\n")[2].partition("\n\n")[0]
    options: list[str] = []
    for line in table.splitlines()[1:]:
        first, second = (re.findall(r"`([^`]+)`", cell) for cell in line.strip("| ").split(" | "))
        named = set(COMMANDS) - set(second) if "all commands but" in line else set(second)
        for option in first:
            expected = {"used": named, "ignored": set(COMMANDS) - named, "error": set[str]()}
            assert users_of(option) == expected, option
        options += first
    assert len(options) >= 9


def test_other_options_are_used_or_an_error() -> None:
    for option in (
        *("--before 2026-11-30", "--cursor C", "--dry-run", "--file f", "--mcp-config m.json"),
        *("--no-wait", "--older-than 3", "--output f", "-s other", "--tail 2"),
    ):
        assert users_of(option)["ignored"] == set(), option


def command_of_session(name: str) -> click.Command | None:
    session = load_command("session")
    assert isinstance(session, click.Group)
    return session.get_command(click.Context(session), name)
