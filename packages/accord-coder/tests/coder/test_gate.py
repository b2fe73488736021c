"""Permissions as a client sees them: modes, rules, secrets, and paths outside of the project."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accord import PermissionRequest, SelectOption
from accord_coder.settings import Settings
from coder.harness import BOTH, CoderHarness, coder_session, scripted
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
    """Answer with the option of this kind."""
    return lambda request: next(option for option in request.options if option.kind == kind)


def kinds(harness: CoderHarness) -> list[str]:
    """Return the kinds of the options in the last permission request."""
    return [option.kind for option in harness.asked[-1].options]


async def does(harness: CoderHarness, what: str, project: Path) -> bool:
    """Let the model use a tool; return whether the tool ran."""
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
    result = await harness.use(tool, **arguments)
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


@pytest.mark.parametrize("mode", MODES)
async def test_mode_decides_what_requires_permission(mode: str, project: Path) -> None:
    settings = Settings(mode=mode, bypass=True)
    found: dict[str, str] = {}
    async with coder_session(
        cwd=project, settings=settings, model=ScriptedModel(), allow="reject"
    ) as harness:
        for what in EXPECTED:
            asked = len(harness.asked)
            done = await does(harness, what, project)
            found[what] = "ask" if len(harness.asked) > asked else "allow" if done else "refuse"
            assert done is (found[what] == "allow")
    at = MODES.index(mode)
    assert found == {what: expected.split()[at] for what, expected in EXPECTED.items()}


async def test_bypass_mode_is_available_with_its_flag_only(project: Path) -> None:
    async with scripted(project) as harness:
        mode = harness.session.transcript.options[0]
        assert isinstance(mode, SelectOption)
        assert [choice.value for choice in mode.choices] == list(MODES[:4])
        with pytest.raises(Exception, match="no such value"):
            await harness.session.set_option("mode", "bypassPermissions")


@BOTH
async def test_mode_can_be_changed_in_the_session(version: int, project: Path) -> None:
    async with scripted(project, version, allow="reject") as harness:
        assert not await does(harness, "edit", project)
        await harness.session.set_option("mode", "acceptEdits")
        assert await does(harness, "edit", project)
        assert len(harness.asked) == 1


async def test_rejection_has_a_reason(project: Path) -> None:
    async with scripted(project, settings=Settings(mode="plan")) as harness:
        result = await harness.use("execute", command="echo hi")
        assert "Plan mode" in result.text
        await harness.session.set_option("mode", "dontAsk")
        result = await harness.use("execute", command="echo hi")
        assert "no rule allows this" in result.text


@BOTH
async def test_always_is_saved_and_not_asked_again(version: int, project: Path) -> None:
    async with scripted(project, version, allow=chosen("allow_always")) as harness:
        assert await does(harness, "edit", project)
        assert harness.asked[-1].options[1].name == "Always allow: edit new.txt"
        await harness.use("write", path="new.txt", text="y\n")
        assert len(harness.asked) == 1
    assert "new.txt" in (project / RULES).read_text()


@BOTH
async def test_rejected_always_is_not_asked_again(version: int, project: Path) -> None:
    async with scripted(project, version, allow=chosen("reject_always")) as harness:
        for _ in range(2):
            assert not await does(harness, "execute", project)
        assert len(harness.asked) == 1
        result = await harness.use("execute", command="true; echo hi")
        assert "A rule of this project forbids it" in result.text


async def test_allowed_once_is_asked_again(project: Path) -> None:
    async with scripted(project) as harness:
        for _ in range(2):
            assert await does(harness, "read outside", project)
            assert await does(harness, "execute", project)
        assert len(harness.asked) == 4


async def test_allowed_command_does_not_allow_one_inside_it(project: Path) -> None:
    settings = Settings(mode="dontAsk")
    async with scripted(project, settings=settings) as harness:
        await harness.prompt("/permissions allow execute echo *")
        assert not (await harness.use("execute", command="echo hi")).failed
        for command in ("echo hi; echo ho", "echo `ls`", "echo hi > x", "A=1 echo", "echo\nls"):
            assert (await harness.use("execute", command=command)).failed, command
        for command in ("echo .env", "echo ../outside.txt", "echo /etc/passwd", "echo --x=/etc"):
            assert (await harness.use("execute", command=command)).failed, command
        assert (await harness.use("execute", command="echo hi", cwd="..")).failed
        assert not (project / "x").exists()


async def test_deny_rule_wins_in_every_mode(project: Path) -> None:
    settings = Settings(mode="bypassPermissions", bypass=True)
    async with scripted(project, settings=settings) as harness:
        await harness.prompt("/permissions allow edit **")
        await harness.prompt("/permissions reject edit *.txt")
        assert not await does(harness, "edit", project)
        assert not (project / "new.txt").exists()
        assert harness.asked == []


async def test_rules_in_a_project_allow_nothing(project: Path) -> None:
    (project / ".accord").mkdir()
    (project / RULES).write_text('[allow]\nexecute = ["*", "echo hi"]\nedit = ["**"]\n')
    settings = Settings(mode="dontAsk")
    async with scripted(project, settings=settings) as harness:
        assert not await does(harness, "execute", project)
        assert not await does(harness, "edit", project)
        assert "not accepted by you" in await harness.prompt("/permissions")
        await harness.prompt("/permissions trust")
        assert await does(harness, "execute", project)
        assert await does(harness, "edit", project)


async def test_secret_requires_permission_despite_allow_rules(project: Path) -> None:
    async with scripted(project, allow="reject") as harness:
        await harness.prompt("/permissions allow read **")
        assert not await does(harness, "read a secret", project)
        assert "allow_always" not in kinds(harness)
        await harness.prompt("/permissions allow execute cat *")
        assert (await harness.use("execute", command="cat .env")).failed
        assert len(harness.asked) == 2
        assert "allow_always" not in kinds(harness)


@BOTH
async def test_moving_or_deleting_a_directory_with_a_secret_requires_permission(
    version: int, project: Path
) -> None:
    (project / "app" / "deep").mkdir(parents=True)
    (project / "app" / "deep" / ".env").write_text("KEY=1\n")
    settings = Settings(mode="acceptEdits")
    async with scripted(project, version, settings=settings, allow="reject") as harness:
        await harness.prompt("/permissions allow edit **")
        await harness.prompt("/permissions allow delete **")
        assert (await harness.use("move", source="app", target="lib")).failed
        assert (await harness.use("delete", path="app/deep")).failed
        assert len(harness.asked) == 2
        assert "allow_always" not in kinds(harness)
        why = None if version == 1 else "deep contains .env."  # v1 does not have it
        assert harness.asked[-1].description == why
        assert (project / "app" / "deep" / ".env").exists()


@pytest.mark.parametrize(
    ("inside", "target"),
    [
        ("fish/config.fish", ".config"),
        ("config.toml", ".cargo"),
        ("workflows/ci.yml", ".github"),
        ("hosts.yml", ".config/gh"),
    ],
)
async def test_moving_a_directory_onto_guarded_paths_requires_permission(
    inside: str, target: str, project: Path
) -> None:
    file = project / "plain" / inside
    file.parent.mkdir(parents=True)
    file.write_text("x\n")
    settings = Settings(mode="acceptEdits")
    async with scripted(project, settings=settings, allow="reject") as harness:
        assert (await harness.use("move", source="plain", target=target)).failed
        assert len(harness.asked) == 1
        assert file.exists()


async def test_moving_a_directory_without_secrets_follows_the_mode(project: Path) -> None:
    (project / "app").mkdir()
    (project / "app" / "main.py").write_text("x\n")
    settings = Settings(mode="acceptEdits")
    async with scripted(project, settings=settings) as harness:
        assert not (await harness.use("move", source="app", target="lib")).failed
        assert harness.asked == []


@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
async def test_mode_rejects_before_a_file_is_read(mode: str, project: Path) -> None:
    async with scripted(project, settings=Settings(mode=mode)) as harness:
        for tool, arguments in (
            ("write", {"path": "notes.txt", "text": "x\n"}),  # not read yet
            ("edit", {"path": "none.txt", "edits": [{"old": "a", "new": "b"}]}),
            ("delete", {"path": "notes.txt"}),
        ):
            result = await harness.use(tool, **arguments)
            assert ("Plan mode" if mode == "plan" else "no rule allows this") in result.text
            assert harness.call.content == (result.text,)  # no change is shown
        assert harness.asked == []


@posix
async def test_link_is_moved_and_deleted_without_its_target(project: Path) -> None:
    for name in ("a", "b"):
        (project / name).symlink_to("../outside.txt")
    outside = project.parent / "outside.txt"
    async with scripted(project, allow=chosen("allow_always")) as harness:
        assert not (await harness.use("delete", path="a")).failed
        assert not (await harness.use("move", source="b", target="c")).failed
        deleting, moving = harness.asked
        assert deleting.options[1].name == "Always allow: delete a"
        assert moving.options[1].name == "Always allow: edit b, c"
        assert deleting.description is None
        assert moving.description is None
    assert str(outside) not in (project / RULES).read_text()
    assert (project / "c").is_symlink()
    assert outside.read_text() == "out\n"


@posix
async def test_path_through_a_link_to_a_directory_outside_is_outside(project: Path) -> None:
    (project / "there").symlink_to("..")
    settings = Settings(mode="acceptEdits")
    async with scripted(project, settings=settings, allow="reject") as harness:
        assert (await harness.use("delete", path="there/outside.txt")).failed
        assert (await harness.use("move", source="notes.txt", target="there/n.txt")).failed
        assert len(harness.asked) == 2


async def test_rules_and_guarded_files_always_require_permission(project: Path) -> None:
    settings = Settings(mode="acceptEdits")
    async with scripted(project, settings=settings, allow="reject") as harness:
        await harness.prompt("/permissions allow edit **")
        for path in (".accord/commands/x.md", ".git/hooks/pre-commit", ".vscode/tasks.json"):
            assert (await harness.use("write", path=path, text="x")).failed
        assert len(harness.asked) == 3
        assert "allow_always" not in kinds(harness)


@posix
async def test_links_are_resolved_before_the_decision(project: Path) -> None:
    (project / "plain.txt").symlink_to(".env")
    (project / "here.txt").symlink_to("../outside.txt")
    (project / "there").symlink_to("..")
    async with scripted(project, allow="reject") as harness:
        for path in ("plain.txt", "here.txt", "there/outside.txt"):
            assert (await harness.use("read", path=path)).failed
        assert len(harness.asked) == 3
        await harness.prompt("/permissions allow edit **")
        assert (await harness.use("write", path="there/new.txt", text="x")).failed
        assert len(harness.asked) == 4


async def test_outside_path_is_allowed_only_by_its_own_path(project: Path) -> None:
    async with scripted(project, allow=chosen("allow_always")) as harness:
        for _ in range(2):
            assert await does(harness, "read outside", project)
        assert len(harness.asked) == 1
        (project.parent / "other.txt").write_text("x")
        await harness.use("read", path="../other.txt")
        assert len(harness.asked) == 2


async def test_additional_directories_are_inside(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("x")
    async with coder_session(
        cwd=project, roots=[other], model=ScriptedModel(), allow="reject"
    ) as harness:
        assert not (await harness.use("read", path=str(other / "a.txt"))).failed
        assert harness.asked == []


async def test_unreadable_rules_make_edits_require_permission(project: Path) -> None:
    (project / ".accord").mkdir()
    (project / RULES).write_text("[reject\n")
    settings = Settings(mode="acceptEdits")
    async with scripted(project, settings=settings, allow="reject") as harness:
        assert not await does(harness, "edit", project)
        assert len(harness.asked) == 1
        assert "cannot be used" in await harness.prompt("/permissions")


@BOTH
async def test_plan_ends_with_a_question_and_a_new_mode(version: int, project: Path) -> None:
    settings = Settings(mode="plan")
    async with scripted(project, version, settings=settings) as harness:
        assert not await does(harness, "edit", project)
        assert not (await harness.use("exit_plan", plan="1. Write new.txt")).failed
        assert harness.state.mode != "plan"
        assert await does(harness, "edit", project)


async def test_always_for_a_command_excludes_options_that_write_or_run(project: Path) -> None:
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("")
    settings = Settings(mode="acceptEdits")
    answers = iter(["allow_always"])

    def once(request: PermissionRequest) -> Any:
        kind = next(answers, "reject_once")
        return next(option for option in request.options if option.kind == kind)

    async with scripted(project, settings=settings, allow=once) as harness:
        await harness.use("execute", command="git log")
        assert harness.asked[-1].options[1].name == "Always allow: execute git log *"
        await harness.use("execute", command="git log --oneline -3")
        assert len(harness.asked) == 1
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
            assert (await harness.use("execute", command=command)).failed
            assert len(harness.asked) == asked, command
        assert (project / ".git" / "config").read_text() == ""


async def test_file_that_a_program_runs_requires_permission_in_every_mode_but_one(
    project: Path,
) -> None:
    settings = Settings(mode="acceptEdits")
    async with scripted(project, settings=settings, allow="reject") as harness:
        paths = (".zed/tasks.json", ".github/workflows/ci.yml", "AGENTS.md", "sub/.envrc")
        for asked, path in enumerate(paths, 1):
            assert (await harness.use("write", path=path, text="x\n")).failed
            assert len(harness.asked) == asked
            assert not (project / path).exists()
