"""What is put into a workspace: copies of folders, files of archives, and the files of a task."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from accord.text.excerpt import one_line
from accord_fleet.storage import is_address, open_address
from accord_fleet.workspaces.git import WorkspaceError

# Folders; blocks are shared with the original where the file system can do so.

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def copy_folder(source: Path, root: Path) -> None:
    """Copy a folder into `root`, which exists and is empty. Symbolic links stay as they are.

    Raises `WorkspaceError` for a source that is missing, that contains `root`, or that has named
    pipes, sockets or devices.
    """
    if not source.is_dir():
        what = "is a file" if source.exists() else "does not exist"
        raise WorkspaceError(f"Expected the folder {source}; it {what}")
    if root.resolve().is_relative_to(source.resolve()):
        raise WorkspaceError(f"Expected a folder that does not contain the workspace {root}")
    for path, mode in _special_files(source):
        kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
        raise WorkspaceError(f"Expected files, folders and links; {path} is {kind}")
    command = _copy_command()
    if command is not None:
        done = subprocess.run(
            [*command, f"{source}/.", str(root)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            return
        why = one_line(done.stderr.decode("utf-8", "replace").strip(), 500)
        if "option" not in why:
            raise WorkspaceError(f"Copying {source}: {why}")
    try:
        shutil.copytree(source, root, symlinks=True, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise WorkspaceError(f"Copying {source}: {one_line(str(error), 500)}") from error


def _copy_command() -> tuple[str, ...] | None:
    program = shutil.which("cp")
    if program is None:
        return None
    if sys.platform == "linux":
        return (program, "--archive", "--reflink=auto", "--no-target-directory", "--")
    if sys.platform == "darwin":
        return (program, "-c", "-R", "-p")
    return None


def _special_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the entries that are neither files nor folders nor symbolic links."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink() or entry.is_file(follow_symlinks=False):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        yield entry.path, entry.stat(follow_symlinks=False).st_mode
        except OSError as error:
            raise WorkspaceError(f"Reading {folder}: {error.strerror or error}") from error


# Archives; nothing of them is written outside of the workspace.

MAX_ARCHIVE_BYTES = 16 * 2**30
MAX_ARCHIVE_FILES = 1_000_000
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")  # the second is that of an archive without files
_LONGEST_NAME = 4000
_DEEPEST = 100


class _Member(NamedTuple):
    name: str
    kind: str  # "file", "folder", "link", "hard link" or what it is instead
    size: int
    executable: bool
    target: str
    item: Any


def extract_archive(
    path: str,
    root: Path,
    *,
    max_bytes: int = MAX_ARCHIVE_BYTES,
    max_files: int = MAX_ARCHIVE_FILES,
) -> None:
    """Extract a tar or zip archive into `root`, which exists and is empty.

    Raises `WorkspaceError` for an archive that is missing, damaged or too large, and for members
    with absolute paths, with `..`, or that are devices, pipes or links to outside. Owners,
    set-user-id bits and times are not restored.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(_opened(path))
            is_zip = file.read(4) in _ZIP_STARTS
            file.seek(0)
            if is_zip:
                archive = stack.enter_context(zipfile.ZipFile(file))
                _extract(_zip_members(archive), archive.open, path, root, max_bytes, max_files)
            else:
                tar = stack.enter_context(tarfile.open(fileobj=file, mode="r:*"))
                members = _tar_members(tar)
                _extract(members, tar.extractfile, path, root, max_bytes, max_files)
    except tarfile.ReadError as error:
        raise WorkspaceError(f"Expected a tar or zip archive at {path}: {error}") from error
    except (OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise WorkspaceError(f"Reading the archive {path}: {why}") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or an unknown compression
        raise WorkspaceError(f"Reading the archive {path}: {error}") from error
    except Exception as error:
        if type(error).__module__ in ("zlib", "lzma", "_lzma"):
            raise WorkspaceError(f"The archive {path} is damaged: {error}") from error
        raise


def _opened(path: str) -> IO[bytes]:
    if is_address(path):
        return open_address(path)
    return Path(path).open("rb")


def _extract(
    members: Iterator[_Member],
    open_member: Any,
    path: str,
    root: Path,
    max_bytes: int,
    max_files: int,
) -> None:
    total = 0
    for count, member in enumerate(members, 1):
        if count > max_files:
            raise WorkspaceError(f"Expected at most {max_files} files in the archive {path}")
        total += max(member.size, 0)
        if total > max_bytes:
            raise WorkspaceError(f"Expected at most {max_bytes} bytes in the archive {path}")
        if (why := _why_refused(member)) is not None:
            raise WorkspaceError(f"The archive {path}, member {member.name!r}: {why}")
        parts = [part for part in PurePosixPath(member.name).parts if part != "."]
        if not parts:
            continue
        _check_parents(root, parts, member.name, path)
        place = root.joinpath(*parts)
        if member.kind == "folder":
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(place):
            place.unlink()
        if member.kind == "link":
            place.symlink_to(member.target)
        elif member.kind == "hard link":
            _copy_linked(root, member, place, path)
        else:
            with open_member(member.item) as data, place.open("xb") as out:
                shutil.copyfileobj(data, out)
            if member.executable:
                place.chmod(0o755)


def _copy_linked(root: Path, member: _Member, place: Path, path: str) -> None:
    """Copy the file that a hard link names: the copy cannot change the original later."""
    parts = [part for part in PurePosixPath(member.target).parts if part != "."]
    _check_parents(root, parts, member.name, path)
    original = root.joinpath(*parts)
    if original.is_symlink() or not original.is_file():
        raise WorkspaceError(
            f"The archive {path}, member {member.name!r}: expected a hard link to an earlier"
            f" file, got {member.target!r}"
        )
    shutil.copy2(original, place)


def _check_parents(root: Path, parts: list[str], name: str, path: str) -> None:
    place = root
    for part in parts[:-1]:
        place = place / part
        if place.is_symlink():
            raise WorkspaceError(
                f"The archive {path}, member {name!r}: expected a folder,"
                f" {part!r} is a symbolic link"
            )


def _why_refused(member: _Member) -> str | None:
    if why := _why_outside(member.name):
        return why
    match member.kind:
        case "file" | "folder":
            return None
        case "hard link":
            return _why_outside(member.target)
        case "link":
            return _why_link_outside(member.name, member.target)
        case _:
            return f"expected a file, folder or link, got {member.kind}"


def _why_outside(name: str) -> str | None:
    parts = PurePosixPath(name).parts
    if name.startswith(("/", "\\")) or (len(name) > 1 and name[1] == ":"):
        return "expected a relative path"
    if ".." in parts or "\\" in name or "\0" in name:
        return "expected a path inside the workspace"
    if len(name) > _LONGEST_NAME or len(parts) > _DEEPEST:
        return f"expected at most {_DEEPEST} folders and {_LONGEST_NAME} characters"
    return None


def _why_link_outside(name: str, target: str) -> str | None:
    """Return why a link may lead outside of the root.

    Members are never written through links, so the folders of a link are real ones, and `..` at
    the beginning of its target counts them. A later `..` could follow another link: it is refused.
    """
    if target.startswith("/") or "\\" in target or "\0" in target or not target:
        return f"expected a link to a relative path, got {target[:200]!r}"
    parts = [part for part in PurePosixPath(target).parts if part != "."]
    ups = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    depth = len([part for part in PurePosixPath(name).parts if part != "."]) - 1
    if ups > depth or ".." in parts[ups:] or len(target) > _LONGEST_NAME:
        return f"expected a link that stays inside the workspace, got {target[:200]!r}"
    return None


def _tar_members(tar: tarfile.TarFile) -> Iterator[_Member]:
    kept: Any = tar
    for item in tar:
        if item.isreg():
            kind = "file"
        elif item.isdir():
            kind = "folder"
        elif item.issym():
            kind = "link"
        elif item.islnk():
            kind = "hard link"
        else:
            kind = "a device" if item.isdev() else "a special file"
        size = item.size if item.isreg() else 0
        yield _Member(item.name, kind, size, bool(item.mode & 0o100), item.linkname, item)
        kept.members = []  # it keeps every member otherwise


def _zip_members(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for item in archive.infolist():
        mode = item.external_attr >> 16
        target = ""
        match stat.S_IFMT(mode):
            case stat.S_IFLNK:
                kind = "link"
                if item.file_size <= _LONGEST_NAME:
                    target = archive.read(item).decode("utf-8", "replace")
            case 0 | stat.S_IFREG | stat.S_IFDIR:
                kind = "folder" if item.is_dir() else "file"
            case _:
                kind = "a special file"
        yield _Member(item.filename, kind, item.file_size, bool(mode & 0o100), target, item)


_LONGEST = 4000


# The files of a task.


def why_not_relative(path: str) -> str | None:
    """Return why a path is not one of a file inside a workspace; None if it is one."""
    parts = PurePosixPath(path).parts
    if not path or path.endswith("/") or path in (".", "./"):
        return "expected the path of a file"
    if "\0" in path or len(path) > _LONGEST:
        return "expected a path without NUL characters, of at most 4000 characters"
    if path.startswith("/") or "\\" in path or (len(path) > 1 and path[1] == ":"):
        return "expected a relative path with slashes"
    if ".." in parts:
        return "expected a path inside the workspace, without '..'"
    if any(part.lower() == ".git" for part in parts):
        return "expected a path outside of .git"
    return None


def check_inside(root: Path, path: str) -> Path:
    """Return the place of a relative path; raise `WorkspaceError` if a link leads to it.

    No agent may be running in the workspace.
    """
    if why := why_not_relative(path):
        raise WorkspaceError(f"{path!r}: {why}")
    place = root
    for part in PurePosixPath(path).parts[:-1]:
        place = place / part
        if place.is_symlink():
            raise WorkspaceError(f"{path!r}: expected a folder, {part!r} is a symbolic link")
    return root / path


def write_files(root: Path, files: dict[str, str]) -> None:
    """Write the files of a task into its workspace; existing files are replaced, not followed."""
    for path, text in files.items():
        place = check_inside(root, path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(place):
                place.unlink()
            place.write_text(text, "utf-8", newline="")
        except OSError as error:
            why = error.strerror or str(error)
            raise WorkspaceError(f"The file {path!r} of the task: {why}") from error
