"""Installs packages of npm and PyPI into a folder of their own, with npm and uv."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from accord.text import lenient_json
from accord_terminal.agents.errors import InstallError
from accord_terminal.agents.index import Package
from accord_terminal.agents.progress import OnProgress, Progress
from accord_terminal.toolkit.safe_text import last_lines

TIME_LIMIT_S = 900.0
PROGRESS_S = 0.1  # between the reports of progress
_NPM_NAME = re.compile(r"(@[^/@]+/)?[^@]+")
_PYPI_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_npm(package: Package, folder: Path, on_progress: OnProgress) -> list[str]:
    """Install a package of npm; return the command without arguments. Raises `InstallError`."""
    npm, node = _tool("npm"), _tool("node")
    (folder / "package.json").write_text('{"private": true}\n', "utf-8")
    words = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    words += ["--prefix", str(folder), "--", package.package]
    _run([npm, *words], folder, {}, Progress(f"npm install {package.package}"), on_progress)
    found = _NPM_NAME.match(package.package)
    assert found is not None
    name = found[0]
    program = _npm_program(folder / "node_modules" / name, package.cmd or name.rpartition("/")[2])
    with program.open("rb") as file:
        first = file.readline(256)
    # Editors have no `PATH`, so that `#!/usr/bin/env node` would not find node.
    runs_in_node = program.suffix in {".js", ".mjs", ".cjs"} or (
        first.startswith(b"#!") and b"node" in first
    )
    return [node, str(program)] if runs_in_node else [str(program)]


def install_uv(package: Package, folder: Path, on_progress: OnProgress) -> list[str]:
    """Install a package of PyPI; return the command without arguments. Raises `InstallError`."""
    uv = _tool("uv")
    env = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    step = Progress(f"uv tool install {package.package}")
    _run([uv, "tool", "install", "--quiet", package.package], folder, env, step, on_progress)
    found = _PYPI_NAME.match(package.package)
    assert found is not None
    name = package.cmd or found[0]
    program = shutil.which(name, path=str(folder / "bin"))
    if program is None:
        programs = sorted(path.name for path in (folder / "bin").glob("*"))
        raise InstallError(
            f"{package.package} has no program {name}; it has {', '.join(programs) or 'none'}"
        )
    return [program]


def _npm_program(folder: Path, wanted: str) -> Path:
    """Return the program of an installed package, which npx would run."""
    try:
        given = lenient_json.loads((folder / "package.json").read_bytes())
    except (OSError, ValueError) as error:
        raise InstallError(f"The package has no package.json: {error}") from None
    programs = given.get("bin") if lenient_json.is_object(given) else None
    match programs:
        case str():
            path: object = programs
        case {**rows}:
            path = rows.get(wanted, next(iter(rows.values())) if len(rows) == 1 else None)
        case _:
            path = None
    program = (folder / path).resolve() if isinstance(path, str) else folder
    if not program.is_file() or not program.is_relative_to(folder.resolve()):
        raise InstallError(f"The package has no program {wanted}")
    return program


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise InstallError(f"{name} is not installed, or not in PATH")
    return str(Path(found).absolute())


def _run(
    words: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    step: Progress,
    on_progress: OnProgress,
) -> None:
    """Run an installer; its output is shown only if it fails. It ends if `on_progress` raises."""
    deadline = time.monotonic() + TIME_LIMIT_S
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children end with it
        )
    except OSError as error:
        raise InstallError(f"{words[0]}: {error.strerror or error}") from None
    try:
        while True:
            on_progress(step)
            try:
                output, _ = process.communicate(timeout=PROGRESS_S)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise InstallError(f"{words[0]} took more than {TIME_LIMIT_S:g} s") from None
    finally:
        if process.returncode is None:
            _kill(process)
    if process.returncode != 0:
        shown = "\n  ".join(last_lines(output, 6)[0])
        raise InstallError(f"{Path(words[0]).name} failed:\n  {shown}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End an installer and what it has started."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
