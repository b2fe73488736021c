"""Builds the wheel and the sdist of every package into `dist/`: `make wheels`.

`dist/constraints.txt` binds the names of the packages to these wheels, so that pip and uv take none
of the same name from an index: `pip install -c dist/constraints.txt 'accord[cli]'`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


def main() -> int:
    """Build everything; return the exit status."""
    shutil.rmtree(DIST, ignore_errors=True)
    for project in sorted(ROOT.glob("packages/*/pyproject.toml")):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST)]
        done = subprocess.run([*command, str(project.parent)], capture_output=True, text=True)
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
            return done.returncode
    wheels = sorted(DIST.glob("*.whl"))
    lines = (f"{_name(wheel)} @ {wheel.as_uri()}\n" for wheel in wheels)
    (DIST / "constraints.txt").write_text("".join(lines), "utf-8")
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size:>10,}  {path.relative_to(ROOT)}")
    seen: dict[str, str] = {}
    for wheel in wheels:
        for name in ZipFile(wheel).namelist():
            if name in seen:
                print(f"{name} is in {seen[name]} and in {wheel.name}", file=sys.stderr)
                return 1
            seen[name] = wheel.name
    return 0


def _name(wheel: Path) -> str:
    return wheel.name.partition("-")[0].replace("_", "-")


if __name__ == "__main__":
    sys.exit(main())
