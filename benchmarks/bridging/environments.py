"""The environments of the bridges and of their rivals, made by the benchmark itself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = ROOT / "packages"
_VENVS = HERE.parent / ".venvs"
_BRIDGES = ("accord[mcp]", "accord-bridges")


class Unavailable(Exception):
    """What is needed cannot be installed, or does not exist here."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and what of others is in it by name and version."""

    folder: Path
    versions: dict[str, str]

    def program(self, name: str) -> str:
        """Return the path of a program in it."""
        return str(self.folder / "bin" / name)

    def version(self, name: str) -> str:
        """Return a package with its version."""
        return f"{name} {self.versions.get(name, '?')}"


def environment(name: str, *requirements: str, bridges: bool = False) -> Environment:
    """Return an environment with these packages, and with ours as they are if it has `bridges`."""
    folder = _VENVS / f"bridges-{name}"
    ready = folder / "ready.txt"
    wanted = "\n".join(requirements)
    if not ready.exists() or ready.read_text() != wanted:
        print(f"setting up {folder.relative_to(ROOT)}: {' '.join(requirements)}", file=sys.stderr)
        words = list(requirements)
        for one in _BRIDGES if bridges else ():
            words += ["-e", str(PACKAGES / one)]
        _install(folder, words)
        ready.write_text(wanted)
    list_all = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in"
    found = subprocess.check_output(
        [str(folder / "bin" / "python"), "-c", f"{list_all} m.distributions()}}))"], text=True
    )
    return Environment(folder, json.loads(found))


def _install(folder: Path, words: list[str]) -> None:
    uv = shutil.which("uv")
    python = str(folder / "bin" / "python")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    if uv is not None:
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", python]
    else:
        venv.create(folder, with_pip=True, symlinks=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*install, *words], check=False).returncode:
        raise Unavailable(f"could not install {' '.join(words)}")


def variables(**more: str) -> dict[str, str]:
    """Return the environment of a process: ours without what changes Python, and `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **more}
