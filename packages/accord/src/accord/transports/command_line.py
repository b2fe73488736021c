"""Turns the words of a command into what the operating system starts."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from accord.errors import StartError
from accord.text.excerpt import excerpt


def argv_of(command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the words of a command; a string is split by the rules of a shell."""
    match command:
        case str():
            if sys.platform == "win32":
                # On Windows, backslashes separate directories.
                words = [_unquoted(word) for word in shlex.split(command, posix=False)]
            else:
                words = shlex.split(command)
        case os.PathLike():
            words = [os.fspath(command)]
        case _:
            words = [os.fspath(word) for word in command]
    if not words or not words[0]:
        raise ValueError("The command must not be empty")
    return words


def _unquoted(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    return word


def environment(changes: Mapping[str, str | None] | None) -> dict[str, str] | None:
    """Return this process's environment with changes; the value None removes a variable."""
    if changes is None:
        return None
    env = dict(os.environ)
    for given, value in changes.items():
        name = given.upper() if sys.platform == "win32" else given
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def find_program(word: str, cwd: str | None, env: Mapping[str, str] | None) -> str:
    """Return the program's path; raise `StartError` if it does not exist or cannot be run."""
    try:
        return _find_program(word, cwd, env)
    except (OSError, ValueError) as exc:  # not a path: too long, or with a NUL
        why = getattr(exc, "strerror", None) or str(exc)
        raise StartError(f"Cannot start {excerpt(word)}: {why}") from exc


def _find_program(word: str, cwd: str | None, env: Mapping[str, str] | None) -> str:
    if cwd is not None and not Path(cwd).is_dir():
        reason = "is not a directory" if Path(cwd).exists() else "does not exist"
        raise StartError(f"Cannot start {word}: the working directory {cwd} {reason}")
    if os.path.dirname(word):  # noqa: PTH120  # "./x" has one, which a Path forgets
        # Relative to the working directory, as the system resolves it.
        path = Path(cwd or ".", word).absolute()
        found = shutil.which(str(path))
        if found is not None:
            return found
        raise StartError(f"Cannot start {word}: {_why_not(path)}")
    searched = (os.environ if env is None else env).get("PATH", os.defpath)
    found = shutil.which(word, path=searched)
    if found is not None:
        return str(Path(found).absolute())
    for folder in searched.split(os.pathsep):
        if (path := Path(folder, word)).is_file():
            raise StartError(f"Cannot start {word}: {_why_not(path)}")
    raise StartError(f"Cannot start {word}: not found in PATH", searched=searched)


def _why_not(path: Path) -> str:
    if path.is_dir():
        return f"{path} is a directory"
    if path.exists():
        start = f"; start it with Python: {sys.executable} {path}"
        return f"{path} is not executable{start if path.suffix == '.py' else ''}"
    return f"{path} does not exist"


def why_not_started(word: str, program: str, error: Exception) -> StartError:
    """Return the error for an existing program that the system did not start."""
    match error:
        case FileNotFoundError():
            reason = f"the interpreter in the first line of {program} does not exist"
        case OSError(strerror=str(text)):
            reason = f"{program}: {text}"
        case _:
            reason = str(error)
    return StartError(f"Cannot start {word}: {reason}")


def batch_line(interpreter: str, script: str, args: Sequence[str]) -> str:
    """Return the Windows command line that runs a `.cmd` or `.bat` file, as npm installs them.

    The system would run such a file with cmd.exe, but it quotes arguments for programs, not for
    cmd.exe, so an argument could start another command. Here every word is quoted: within quotes,
    cmd.exe interprets only quotes and percent signs, and with delayed expansion turned off no
    exclamation marks either.
    """
    for word in (script, *args):
        if bad := set(word) & set('"%\r\n\0'):
            signs = " ".join(sorted(map(repr, bad)))
            raise StartError(f"Cannot start {script}: a batch file cannot be given {signs}")
    words = " ".join(f'"{word}{_trailing_backslashes(word)}"' for word in (script, *args))
    return f'"{interpreter}" /e:ON /v:OFF /d /s /c "{words}"'


def _trailing_backslashes(word: str) -> str:
    """Return trailing backslashes, to be doubled: a single one would escape the quote."""
    return "\\" * (len(word) - len(word.rstrip("\\")))
