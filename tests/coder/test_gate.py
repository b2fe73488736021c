"""Permission, as a client sees it: modes, rules, secrets, and what lies outside."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accord import PermissionRequest, SelectOption
from accord_coder.settings import Settings
from coder.harness import BOTH, CoderHarness, coder_session
from coder.scripted_model import ScriptedModel

posix = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
RULES = Path(".accord", "permissions.toml")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\n")
    (folder / ".env").write_text("KEY=1\n")
    (tmp_path / "outside.txt").write_text("out\n")
    return folder


def chosen(kind: str) -> Callable[[PermissionRequest], Any]:
    """Answer with the option of a kind."""
    return lambda request: next(option for option in request.options if option.kind == kind)


def kinds(talk: CoderHarness) -> list[str]:
    """Return what could be chosen in the last question."""
    return [option.kind for option in talk.asked[-1].options]


async def does(talk: CoderHarness, what: str, project: Path) -> bool:
    """Have the model do something; tell whether it could."""
    tool, arguments = {
        "read": ("read", {"path": "notes.txt"}),
        "read a secret": ("read", {"path": ".env"}),
        "read outside": ("read", {"path": "../outside.txt"}),
        "edit": ("write", {"path": "new.txt", "text": "x\n"}),
        "edit a guarded file": ("write", {"path": ".accord/permissions.toml", "text": "\n"}),
        "edit outside": ("write", {"path": "../new.txt", "text": "x\n"}),
        "delete": ("delete", {"path": "notes.txt"}),
        "execute": ("execute", {"command": "echo hi"}),
    }[what]
    result = await talk.use(tool, **arguments)
    return not result.failed


# allowed, asked or refused
EXPECTED = {
    "read": "allow allow allow allow allow",
    "read a secret": "ask ask ask refuse allow",
    "read outside": "ask ask ask refuse allow",
    "edit": "ask allow refuse refuse allow",
    "edit a guarded file": "ask ask refuse refuse allow",
    "edit outside": "ask ask refuse refuse allow",
    "delete": "ask allow refuse refuse allow",
    "execute": "ask ask refuse refuse allow",
}


@BOTH
@pytest.mark.parametrize("mode", MODES)
async def test_mode_decides(version: int, mode: str, project: Path) -> None:
    settings = Settings(mode=mode, bypass=True)
    found: dict[str, str] = {}
    async with coder_session(
        version, cwd=project, settings=settings, model=ScriptedModel(), allow="reject"
    ) as talk:
        for what in EXPECTED:
            asked = len(talk.asked)
            done = await does(talk, what, project)
            found[what] = "ask" if len(talk.asked) > asked else "allow" if done else "refuse"
            assert done is (found[what] == "allow")
    at = MODES.index(mode)
    assert found == {what: expected.split()[at] for what, expected in EXPECTED.items()}


@BOTH
async def test_mode_that_never_asks_is_offered_with_its_flag_alone(
    version: int, project: Path
) -> None:
    async with coder_session(version, cwd=project, model=ScriptedModel()) as talk:
        mode = talk.session.transcript.options[0]
        assert isinstance(mode, SelectOption)
        assert [choice.value for choice in mode.choices] == list(MODES[:4])
        with pytest.raises(Exception, match="no such value"):
            await talk.session.set_option("mode", "bypassPermissions")


@BOTH
async def test_mode_can_be_switched_in_the_session(version: int, project: Path) -> None:
    async with coder_session(version, cwd=project, model=ScriptedModel(), allow="reject") as talk:
        assert not await does(talk, "edit", project)
        await talk.session.set_option("mode", "acceptEdits")
        assert await does(talk, "edit", project)
        assert len(talk.asked) == 1


@BOTH
async def test_refusal_says_why(version: int, project: Path) -> None:
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=Settings(mode="plan")
    ) as talk:
        result = await talk.use("execute", command="echo hi")
        assert "Plan mode" in result.text
        await talk.session.set_option("mode", "dontAsk")
        result = await talk.use("execute", command="echo hi")
        assert "no rule allows this" in result.text


@BOTH
async def test_always_is_written_and_not_asked_again(version: int, project: Path) -> None:
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), allow=chosen("allow_always")
    ) as talk:
        assert await does(talk, "edit", project)
        assert talk.asked[-1].options[1].name == "Always allow: edit new.txt"
        await talk.use("write", path="new.txt", text="y\n")
        assert len(talk.asked) == 1
    assert "new.txt" in (project / RULES).read_text()


@BOTH
async def test_rejected_always_is_not_asked_again(version: int, project: Path) -> None:
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), allow=chosen("reject_always")
    ) as talk:
        for _ in range(2):
            assert not await does(talk, "execute", project)
        assert len(talk.asked) == 1
        result = await talk.use("execute", command="true; echo hi")
        assert "A rule of this project forbids it" in result.text


@BOTH
async def test_allowed_once_is_asked_again(version: int, project: Path) -> None:
    async with coder_session(version, cwd=project, model=ScriptedModel()) as talk:
        for _ in range(2):
            assert await does(talk, "read outside", project)
            assert await does(talk, "execute", project)
        assert len(talk.asked) == 4


@BOTH
async def test_allowed_command_does_not_carry_another(version: int, project: Path) -> None:
    settings = Settings(mode="dontAsk")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings
    ) as talk:
        await talk.prompt("/permissions allow execute echo *")
        assert not (await talk.use("execute", command="echo hi")).failed
        for command in ("echo hi; echo ho", "echo `ls`", "echo hi > x", "A=1 echo", "echo\nls"):
            assert (await talk.use("execute", command=command)).failed, command
        for command in ("echo .env", "echo ../outside.txt", "echo /etc/passwd", "echo --x=/etc"):
            assert (await talk.use("execute", command=command)).failed, command
        assert (await talk.use("execute", command="echo hi", cwd="..")).failed
        assert not (project / "x").exists()


@BOTH
async def test_rule_that_rejects_wins_in_every_mode(version: int, project: Path) -> None:
    settings = Settings(mode="bypassPermissions", bypass=True)
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings
    ) as talk:
        await talk.prompt("/permissions allow edit **")
        await talk.prompt("/permissions reject edit *.txt")
        assert not await does(talk, "edit", project)
        assert not (project / "new.txt").exists()
        assert talk.asked == []


@BOTH
async def test_what_a_project_brings_along_allows_nothing(version: int, project: Path) -> None:
    (project / ".accord").mkdir()
    (project / RULES).write_text('[allow]\nexecute = ["*", "echo hi"]\nedit = ["**"]\n')
    settings = Settings(mode="dontAsk")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings
    ) as talk:
        assert not await does(talk, "execute", project)
        assert not await does(talk, "edit", project)
        assert "not accepted by you" in await talk.prompt("/permissions")
        await talk.prompt("/permissions trust")
        assert await does(talk, "execute", project)
        assert await does(talk, "edit", project)


@BOTH
async def test_secret_is_asked_about_whatever_is_allowed(version: int, project: Path) -> None:
    async with coder_session(version, cwd=project, model=ScriptedModel(), allow="reject") as talk:
        await talk.prompt("/permissions allow read **")
        assert not await does(talk, "read a secret", project)
        assert "allow_always" not in kinds(talk)
        await talk.prompt("/permissions allow execute cat *")
        assert (await talk.use("execute", command="cat .env")).failed
        assert len(talk.asked) == 2
        assert "allow_always" not in kinds(talk)


@BOTH
async def test_directory_with_a_secret_is_moved_or_deleted_after_a_question_alone(
    version: int, project: Path
) -> None:
    (project / "app" / "deep").mkdir(parents=True)
    (project / "app" / "deep" / ".env").write_text("KEY=1\n")
    settings = Settings(mode="acceptEdits")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings, allow="reject"
    ) as talk:
        await talk.prompt("/permissions allow edit **")
        await talk.prompt("/permissions allow delete **")
        assert (await talk.use("move", source="app", target="lib")).failed
        assert (await talk.use("delete", path="app/deep")).failed
        assert len(talk.asked) == 2
        assert "allow_always" not in kinds(talk)
        why = None if version == 1 else "deep contains .env."  # v1 has no place for it
        assert talk.asked[-1].description == why
        assert (project / "app" / "deep" / ".env").exists()


@BOTH
@pytest.mark.parametrize(
    ("inside", "target"),
    [
        ("fish/config.fish", ".config"),
        ("config.toml", ".cargo"),
        ("workflows/ci.yml", ".github"),
        ("hosts.yml", ".config/gh"),
    ],
)
async def test_directory_is_asked_about_if_its_files_are_guarded_at_the_target(
    version: int, inside: str, target: str, project: Path
) -> None:
    file = project / "plain" / inside
    file.parent.mkdir(parents=True)
    file.write_text("x\n")
    settings = Settings(mode="acceptEdits")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings, allow="reject"
    ) as talk:
        assert (await talk.use("move", source="plain", target=target)).failed
        assert len(talk.asked) == 1
        assert file.exists()


@BOTH
async def test_directory_without_secrets_is_moved_as_the_mode_says(
    version: int, project: Path
) -> None:
    (project / "app").mkdir()
    (project / "app" / "main.py").write_text("x\n")
    settings = Settings(mode="acceptEdits")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings
    ) as talk:
        assert not (await talk.use("move", source="app", target="lib")).failed
        assert talk.asked == []


@BOTH
@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
async def test_mode_that_refuses_says_so_before_a_file_is_looked_at(
    version: int, mode: str, project: Path
) -> None:
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=Settings(mode=mode)
    ) as talk:
        for tool, arguments in (
            ("write", {"path": "notes.txt", "text": "x\n"}),  # not read yet
            ("edit", {"path": "none.txt", "edits": [{"old": "a", "new": "b"}]}),
            ("delete", {"path": "notes.txt"}),
        ):
            result = await talk.use(tool, **arguments)
            assert ("Plan mode" if mode == "plan" else "no rule allows this") in result.text
            assert talk.call.content == (result.text,)  # no change is shown
        assert talk.asked == []


@posix
@BOTH
async def test_link_is_moved_and_deleted_as_itself(version: int, project: Path) -> None:
    for name in ("a", "b"):
        (project / name).symlink_to("../outside.txt")
    outside = project.parent / "outside.txt"
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), allow=chosen("allow_always")
    ) as talk:
        assert not (await talk.use("delete", path="a")).failed
        assert not (await talk.use("move", source="b", target="c")).failed
        deleting, moving = talk.asked
        assert deleting.options[1].name == "Always allow: delete a"
        assert moving.options[1].name == "Always allow: edit b, c"
        assert deleting.description is None
        assert moving.description is None
    assert str(outside) not in (project / RULES).read_text()
    assert (project / "c").is_symlink()
    assert outside.read_text() == "out\n"


@posix
@BOTH
async def test_what_is_behind_a_link_to_a_directory_lies_outside_all_the_same(
    version: int, project: Path
) -> None:
    (project / "there").symlink_to("..")
    settings = Settings(mode="acceptEdits")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings, allow="reject"
    ) as talk:
        assert (await talk.use("delete", path="there/outside.txt")).failed
        assert (await talk.use("move", source="notes.txt", target="there/n.txt")).failed
        assert len(talk.asked) == 2


@BOTH
async def test_rules_and_guarded_files_are_never_changed_silently(
    version: int, project: Path
) -> None:
    settings = Settings(mode="acceptEdits")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings, allow="reject"
    ) as talk:
        await talk.prompt("/permissions allow edit **")
        for path in (".accord/commands/x.md", ".git/hooks/pre-commit", ".vscode/tasks.json"):
            assert (await talk.use("write", path=path, text="x")).failed
        assert len(talk.asked) == 3
        assert "allow_always" not in kinds(talk)


@posix
@BOTH
async def test_links_are_followed_before_deciding(version: int, project: Path) -> None:
    (project / "plain.txt").symlink_to(".env")
    (project / "here.txt").symlink_to("../outside.txt")
    (project / "there").symlink_to("..")
    async with coder_session(version, cwd=project, model=ScriptedModel(), allow="reject") as talk:
        for path in ("plain.txt", "here.txt", "there/outside.txt"):
            assert (await talk.use("read", path=path)).failed
        assert len(talk.asked) == 3
        await talk.prompt("/permissions allow edit **")
        assert (await talk.use("write", path="there/new.txt", text="x")).failed
        assert len(talk.asked) == 4


@BOTH
async def test_what_lies_outside_is_allowed_by_its_own_path(version: int, project: Path) -> None:
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), allow=chosen("allow_always")
    ) as talk:
        for _ in range(2):
            assert await does(talk, "read outside", project)
        assert len(talk.asked) == 1
        (project.parent / "other.txt").write_text("x")
        await talk.use("read", path="../other.txt")
        assert len(talk.asked) == 2


@BOTH
async def test_further_roots_are_inside(version: int, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("x")
    async with coder_session(
        version, cwd=project, roots=[other], model=ScriptedModel(), allow="reject"
    ) as talk:
        assert not (await talk.use("read", path=str(other / "a.txt"))).failed
        assert talk.asked == []


@BOTH
async def test_rules_that_cannot_be_read_have_edits_asked_about(
    version: int, project: Path
) -> None:
    (project / ".accord").mkdir()
    (project / RULES).write_text("[reject\n")
    settings = Settings(mode="acceptEdits")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings, allow="reject"
    ) as talk:
        assert not await does(talk, "edit", project)
        assert len(talk.asked) == 1
        assert "cannot be used" in await talk.prompt("/permissions")


@BOTH
async def test_plan_ends_in_a_question_and_a_new_mode(version: int, project: Path) -> None:
    settings = Settings(mode="plan")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings
    ) as talk:
        assert not await does(talk, "edit", project)
        assert not (await talk.use("exit_plan", plan="1. Write new.txt")).failed
        assert talk.state.mode != "plan"
        assert await does(talk, "edit", project)


@BOTH
async def test_always_for_a_command_allows_no_option_that_writes_or_runs(
    version: int, project: Path
) -> None:
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("")
    settings = Settings(mode="acceptEdits")
    answers = iter(["allow_always"])

    def once(request: PermissionRequest) -> Any:
        kind = next(answers, "reject_once")
        return next(option for option in request.options if option.kind == kind)

    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings, allow=once
    ) as talk:
        await talk.use("execute", command="git log")
        assert talk.asked[-1].options[1].name == "Always allow: execute git log *"
        await talk.use("execute", command="git log --oneline -3")
        assert len(talk.asked) == 1
        for asked, command in enumerate(
            (
                "git log --output=.git/config",
                "git log --output=.accord/permissions.toml",
                "git log '--out'=x",
                "git log --ext-diff",
                "git log HEAD:.e'n'v",
                "git log > .git/config",
            ),
            2,
        ):
            assert (await talk.use("execute", command=command)).failed
            assert len(talk.asked) == asked, command
        assert (project / ".git" / "config").read_text() == ""


@BOTH
async def test_file_that_a_program_runs_is_asked_about_in_every_mode_but_one(
    version: int, project: Path
) -> None:
    settings = Settings(mode="acceptEdits")
    async with coder_session(
        version, cwd=project, model=ScriptedModel(), settings=settings, allow="reject"
    ) as talk:
        paths = (".zed/tasks.json", ".github/workflows/ci.yml", "AGENTS.md", "sub/.envrc")
        for asked, path in enumerate(paths, 1):
            assert (await talk.use("write", path=path, text="x\n")).failed
            assert len(talk.asked) == asked
            assert not (project / path).exists()
