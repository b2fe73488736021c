"""Workspaces: prepared from folders, repositories and archives, and removed whatever is in them."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord_fleet.scratch import remove_tree
from accord_fleet.types import Archive, EmptyFolder, Folder, GitRepository, Task, Workspace
from accord_fleet.workspaces.contents import extract_archive
from accord_fleet.workspaces.git import WorkspaceError
from accord_fleet.workspaces.prepare import FolderWorkspaces, PreparedFolder


class Workspaces:
    """Prepares workspaces with names of their own, below a folder of the test."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "scratch" / "work"
        self._prepare = FolderWorkspaces(place / "scratch", place / "cache").prepare
        self._numbers: Iterator[int] = itertools.count()

    async def prepare(self, task: Task) -> PreparedFolder:
        return await self._prepare(task, self.folder / f"w{next(self._numbers)}")


GIT = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path)


def git(cwd: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=cwd, env=os.environ | GIT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("one\n")
    (root / ".gitignore").write_text("*.log\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    (root / "a.txt").write_text("two\n")
    git(root, "commit", "-q", "-a", "-m", "second")
    return root


def task(workspace: Workspace | None = None, files: dict[str, str] | None = None) -> Task:
    return Task(id="t1", prompts=("p",), workspace=workspace or EmptyFolder(), files=files or {})


async def test_empty_workspace_has_the_files_of_the_task(workspaces: Workspaces) -> None:
    work = await workspaces.prepare(task(files={"src/a.py": "1\r\n", "b": ""}))
    assert (work.path / "src" / "a.py").read_bytes() == b"1\r\n"
    assert stat.S_IMODE(work.path.stat().st_mode) == 0o700
    assert (await work.diff()).files == ()
    await work.remove()
    assert not any(workspaces.folder.iterdir())


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", ".git/hooks/pre-commit", "a\\b", ""])
async def test_files_of_a_task_stay_in_the_workspace(workspaces: Workspaces, path: str) -> None:
    with pytest.raises(WorkspaceError, match=r"task t1.*expected"):
        await workspaces.prepare(task(files={path: ""}))
    assert list(workspaces.folder.iterdir()) == []


async def test_files_of_a_task_are_not_written_through_links(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("mine")
    (source / "folder").symlink_to(outside)
    (source / "file").symlink_to(outside / "f")
    with pytest.raises(WorkspaceError, match="symbolic link"):
        await workspaces.prepare(task(Folder(str(source)), files={"folder/x": ""}))
    work = await workspaces.prepare(task(Folder(str(source)), files={"file": "new"}))
    assert (work.path / "file").read_text() == "new"
    assert (outside / "f").read_text() == "mine"
    assert [path.name for path in outside.iterdir()] == ["f"]


async def test_folder_is_copied_with_its_links(workspaces: Workspaces, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "run").write_text("#!/bin/sh\n")
    (source / "sub" / "run").chmod(0o755)
    (source / ".hidden").write_text("h")
    (source / "link").symlink_to("/etc")
    work = await workspaces.prepare(task(Folder(str(source))))
    assert (work.path / "link").readlink() == Path("/etc")
    assert os.access(work.path / "sub" / "run", os.X_OK)
    (work.path / ".hidden").write_text("changed")
    assert (source / ".hidden").read_text() == "h"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
async def test_folder_with_special_files_is_refused(workspaces: Workspaces, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "pipe")
    with pytest.raises(WorkspaceError, match="pipe is a named pipe"):
        await workspaces.prepare(task(Folder(str(source))))
    with pytest.raises(
        WorkspaceError, match=r"task t1: Expected the folder .*missing; it does not"
    ):
        await workspaces.prepare(task(Folder(str(tmp_path / "missing"))))
    with pytest.raises(WorkspaceError, match="does not contain the workspace"):
        await workspaces.prepare(task(Folder(str(tmp_path))))


async def test_git_workspace_is_a_repository_of_its_own(
    workspaces: Workspaces, repository: Path
) -> None:
    first = git(repository, "rev-parse", "HEAD~1")
    work = await workspaces.prepare(task(GitRepository(str(repository), first)))
    assert (work.path / "a.txt").read_text() == "one\n"
    assert git(work.path, "rev-parse", "HEAD") == first
    assert git(work.path, "status", "--porcelain") == ""
    git(work.path, "checkout", "-q", "-b", "fix")
    git(work.path, "config", "core.fsmonitor", "false")
    other = await workspaces.prepare(task(GitRepository(str(repository), "main")))
    assert (other.path / "a.txt").read_text() == "two\n"
    assert git(other.path, "branch", "--list") == "* (no branch)"
    assert git(other.path, "config", "--local", "--get-all", "core.bare") == "false"


async def test_commit_is_the_same_for_all_attempts(
    workspaces: Workspaces, repository: Path, tmp_path: Path
) -> None:
    before = await workspaces.prepare(task(GitRepository(str(repository))))
    git(repository, "commit", "-q", "--allow-empty", "-m", "third")
    after = await workspaces.prepare(task(GitRepository(str(repository))))
    assert git(before.path, "rev-parse", "HEAD") == git(after.path, "rev-parse", "HEAD")
    # Another run fetches again.
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "cache").symlink_to(tmp_path / "cache")
    later = await Workspaces(tmp_path / "later").prepare(task(GitRepository(str(repository))))
    assert git(later.path, "rev-parse", "HEAD") == git(repository, "rev-parse", "HEAD")


async def test_many_workspaces_of_one_repository_at_once(
    workspaces: Workspaces, repository: Path
) -> None:
    works = await asyncio.gather(
        *(workspaces.prepare(task(GitRepository(str(repository)))) for _ in range(6))
    )
    assert len({work.path for work in works}) == 6
    assert all((work.path / "a.txt").read_text() == "two\n" for work in works)


async def test_nothing_of_a_repository_is_executed(
    workspaces: Workspaces, repository: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "attributes")
    git(repository, "config", "filter.evil.smudge", f"touch {ran}; cat")
    work = await workspaces.prepare(task(GitRepository(str(repository))))
    # What the agent configures does not run either when the changes are looked for.
    git(work.path, "config", "filter.evil.clean", f"touch {ran}; cat")
    git(work.path, "config", "core.fsmonitor", f"touch {ran}")
    git(work.path, "config", "diff.external", f"touch {ran}")
    (work.path / "a.txt").write_text("three\n")
    assert (await work.diff()).files == ("a.txt",)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("url", "commit", "expected"),
    [
        ("{}", "0" * 40, "0000"),
        ("{}", "no-such-branch", "Expected the commit 'no-such-branch' in .*it does not exist"),
        ("{}", "--upload-pack=x", "Expected a commit"),
        ("--upload-pack=x", "HEAD", "Expected an address"),
        ("ext::sh -c touch% {}/ran", "HEAD", "not allowed"),
        ("{}/missing", "HEAD", "does not appear to be a git repository"),
    ],
)
async def test_bad_repositories_are_named(
    workspaces: Workspaces, repository: Path, url: str, commit: str, expected: str
) -> None:
    with pytest.raises(WorkspaceError, match=f"task t1: .*{expected}"):
        await workspaces.prepare(task(GitRepository(url.format(repository), commit)))
    assert not (repository / "ran").exists()
    assert list(workspaces.folder.iterdir()) == []


async def test_password_of_a_url_is_not_shown(workspaces: Workspaces) -> None:
    wanted = task(GitRepository("http://user:hunter2@127.0.0.1:9/r.git"))
    with pytest.raises(WorkspaceError) as error:
        await workspaces.prepare(wanted)
    assert "hunter2" not in str(error.value)
    assert "127.0.0.1:9/r.git" in str(error.value)


def tar(path: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tuple):
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
            else:
                archive.addfile(member)
    return path


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


async def test_archives_are_extracted(workspaces: Workspaces, tmp_path: Path) -> None:
    script = tarfile.TarInfo("bin/run")
    script.mode = 0o6755
    archive = tar(
        tmp_path / "a.tar.gz",
        ("./src/a.py", b"1"),
        script,
        member("src/link", tarfile.SYMTYPE, "../bin/run"),
        member("copy.py", tarfile.LNKTYPE, "src/a.py"),
    )
    work = await workspaces.prepare(task(Archive(str(archive))))
    assert (work.path / "copy.py").read_text() == "1"
    assert (work.path / "src" / "link").readlink() == Path("../bin/run")
    mode = (work.path / "bin" / "run").stat().st_mode
    assert mode & 0o100
    assert not mode & (stat.S_ISUID | stat.S_ISGID)

    zipped = tmp_path / "a.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("src/a.py", "2")
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        out.writestr(link, "src/a.py")
    work = await workspaces.prepare(task(Archive(str(zipped))))
    assert (work.path / "link").read_text() == "2"


@pytest.mark.parametrize(
    "members",
    [
        [("../x", b"")],
        [("/x", b"")],
        [("a/../../x", b"")],
        [("C:/x", b"")],
        [("a\\..\\x", b"")],
        [member("fifo", tarfile.FIFOTYPE)],
        [member("device", tarfile.CHRTYPE)],
        [member("link", tarfile.SYMTYPE, "/etc/passwd")],
        [member("link", tarfile.SYMTYPE, "../x")],
        [member("a/link", tarfile.SYMTYPE, "../../x")],
        [member("hard", tarfile.LNKTYPE, "../x")],
        [member("hard", tarfile.LNKTYPE, "missing")],
        # A link to a link: the second one would lead outside.
        [member("a/b/up", tarfile.SYMTYPE, "../.."), member("q", tarfile.SYMTYPE, "a/b/up/../x")],
        # A file through a link, and one in the place of a link.
        [member("here", tarfile.SYMTYPE, "."), ("here/x", b"")],
        [member("l", tarfile.SYMTYPE, "x"), member("h", tarfile.LNKTYPE, "l")],
        [("/".join("d" * 150), b"")],
    ],
)
def test_hostile_archives_write_nothing_outside(tmp_path: Path, members: list) -> None:
    root = tmp_path / "box" / "root"
    root.mkdir(parents=True)
    archive = tar(tmp_path / "a.tar", *members)
    with pytest.raises(WorkspaceError, match=r"a\.tar, member .*: expected"):
        extract_archive(str(archive), root)
    assert list((tmp_path / "box").iterdir()) == [root]
    assert not (tmp_path / "x").exists()


def test_file_replaces_a_link_of_the_archive(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "keep").write_text("mine")
    archive = tar(tmp_path / "a.tar", ("t", b"t"), member("l", tarfile.SYMTYPE, "t"), ("l", b"new"))
    extract_archive(str(archive), root)
    assert (root / "l").read_text() == "new"
    assert (root / "t").read_text() == "t"


def test_archives_are_limited(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("zeros", b"\0" * 2_000_000)
    with pytest.raises(WorkspaceError, match="at most 1000000 bytes"):
        extract_archive(str(bomb), root, max_bytes=1_000_000)
    many = tar(tmp_path / "many.tar", *((str(i), b"") for i in range(20)))
    with pytest.raises(WorkspaceError, match="at most 10 files"):
        extract_archive(str(many), root, max_files=10)


@pytest.mark.parametrize("damage", ["text", "cut tar", "cut zip", "empty"])
def test_damaged_archives_are_named(tmp_path: Path, damage: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    path = tmp_path / "a"
    if damage == "cut zip":
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("a", os.urandom(5000))
    else:
        tar(path, ("a", os.urandom(5000)), ("b", os.urandom(5000)))
    data = path.read_bytes()
    path.write_bytes({"text": b"no archive", "empty": b""}.get(damage, data[: len(data) // 2]))
    with pytest.raises(WorkspaceError, match="archive"):
        extract_archive(str(path), root)
    with pytest.raises(WorkspaceError, match=r"missing\.tar: No such file"):
        extract_archive(str(tmp_path / "missing.tar"), root)


def test_what_an_agent_made_read_only_is_removed(tmp_path: Path) -> None:
    # Root may remove everything: the mode bits are what this test can see.
    root = tmp_path / "root"
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "f").write_text("")
    (deep / "f").chmod(0o400)
    (root / "out").symlink_to(tmp_path / "keep")
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "f").write_text("")
    for folder in (deep, root / "a", root):
        folder.chmod(0)
    assert remove_tree(root) == ()
    assert not root.exists()
    assert (tmp_path / "keep" / "f").exists()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="changes the user, as root can")
def test_read_only_folders_are_removed_without_privileges() -> None:
    code = (
        "import os, tempfile\n"
        "from accord_fleet.scratch import remove_tree\n"
        "os.setgid(12345); os.setuid(12345)\n"
        "root = tempfile.mkdtemp(); os.chdir(root)\n"
        "os.makedirs('a/b/c'); open('a/b/c/f', 'w').close(); open('a/b/g', 'w').close()\n"
        "[os.chmod(p, 0) for p in ('a/b/c', 'a/b', 'a', '.')]\n"
        "print(remove_tree(root), os.path.lexists(root))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "() False", done.stderr


@pytest.mark.slow
def test_deeply_nested_folders_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d" * 10, dir_fd=here)
        below = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert remove_tree(root) == ()
    assert not root.exists()


async def changed(work: PreparedFolder) -> tuple[str, ...]:
    diff = await work.diff()
    assert diff.problem is None
    return diff.files


async def test_diff_of_an_empty_workspace(workspaces: Workspaces) -> None:
    work = await workspaces.prepare(task(files={"a/b.txt": "one\n", "keep": "k"}))
    (work.path / "a" / "b.txt").write_text("two\n")
    (work.path / "new.txt").write_text("new\n")
    (work.path / "keep").unlink()
    diff = await work.diff()
    assert diff.files == ("a/b.txt", "keep", "new.txt")
    assert "--- a/a/b.txt\n+++ b/a/b.txt\n@@ -1 +1 @@\n-one\n+two\n" in diff.text
    assert "deleted file mode" in diff.text


async def test_diff_of_a_folder_includes_ignored_files_and_repositories(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    vendored = source / "vendored"
    vendored.mkdir(parents=True)
    git(vendored, "init", "-q")
    (vendored / "v.txt").write_text("v\n")
    (source / ".gitignore").write_text("*.log\n")
    (source / "old name.txt").write_text("same\n" * 20)
    work = await workspaces.prepare(task(Folder(str(source))))
    assert (await work.diff()).files == ()
    (work.path / "x.log").write_text("ignored\n")
    (work.path / "vendored" / "v.txt").write_text("w\n")
    (work.path / "old name.txt").rename(work.path / "neuer Näme.txt")
    (work.path / "image").write_bytes(bytes(range(256)))
    made = work.path / "made"
    made.mkdir()
    git(made, "init", "-q")
    (made / "m.txt").write_text("m\n")
    assert await changed(work) == (
        "image",
        "made/m.txt",
        "old name.txt",
        "neuer Näme.txt",
        "vendored/v.txt",
        "x.log",
    )
    text = (await work.diff()).text
    assert "Binary files /dev/null and b/image differ" in text
    assert "rename to neuer Näme.txt" in text


async def test_diff_of_a_repository_is_against_the_first_commit(
    workspaces: Workspaces, repository: Path
) -> None:
    task_files = {"notes.log": "ignored, but of the task\n", "tests/t.py": "1\n"}
    work = await workspaces.prepare(task(GitRepository(str(repository)), files=task_files))
    assert await changed(work) == ()
    (work.path / "a.txt").write_text("three\n")
    git(work.path, "checkout", "-q", "-b", "fix")
    git(work.path, "add", "-A")
    git(work.path, "commit", "-q", "-m", "work of the agent")
    (work.path / "b.txt").write_text("untracked\n")
    (work.path / "c.log").write_text("ignored\n")
    (work.path / "notes.log").write_text("changed\n")
    assert await changed(work) == ("a.txt", "b.txt", "notes.log")
    git(work.path, "reset", "-q", "--hard", "HEAD~1")
    remove_tree(work.path / ".git")
    assert await changed(work) == ("b.txt", "notes.log", "tests/t.py")


async def test_diff_is_cut_at_its_limit(workspaces: Workspaces) -> None:
    work = await workspaces.prepare(task())
    (work.path / "long.txt").write_text("line\n" * 100_000)
    (work.path / "z.txt").write_text("z")
    diff = await work.diff(10_000)
    assert diff.cut
    assert 9_000 < len(diff.text) <= 10_000
    assert diff.text.endswith("\n")
    assert diff.files == ("long.txt", "z.txt")


async def test_workspace_that_the_agent_replaced_is_not_followed(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    work = await workspaces.prepare(task())
    work.path.rmdir()
    work.path.symlink_to(tmp_path)
    diff = await work.diff()
    assert diff.files == ()
    assert diff.problem is not None
    assert "replaced" in diff.problem
    await work.remove()
    assert (tmp_path / "secret").exists()


async def test_without_git_the_diff_says_so(
    workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = await workspaces.prepare(task())
    (work.path / "a").write_text("")
    monkeypatch.setenv("PATH", "")
    diff = await work.diff()
    assert diff.problem == "git is not installed: changes are not known"
