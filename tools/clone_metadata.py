"""Makes `pip install '.[cli]'` in a clone install the packages of the extra from this folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PACKAGES = Path(__file__).resolve().parent.parent / "packages"


class CloneMetadata(MetadataHookInterface):
    """Requires the packages by their paths, so that none comes from an index."""

    def update(self, metadata: dict) -> None:
        """Set the dependencies and the extras."""
        projects = {path.parent.name: _project(path) for path in PACKAGES.glob("*/pyproject.toml")}
        metadata["dependencies"] = [_requirement("accord")]
        metadata["optional-dependencies"] = {
            extra: [_requirement("accord", extra), *map(_requirement, _siblings(needs, projects))]
            for extra, needs in projects["accord"]["optional-dependencies"].items()
        }


def _project(path: Path) -> dict:
    return tomllib.loads(path.read_text("utf-8"))["project"]


def _requirement(name: str, extra: str = "") -> str:
    return f"{name}{f'[{extra}]' if extra else ''} @ {(PACKAGES / name).as_uri()}"


def _siblings(needs: list[str], projects: dict[str, dict]) -> list[str]:
    """Return the names of the packages that requirements lead to, this one apart."""
    found: dict[str, None] = {}
    waiting = list(needs)
    while waiting:
        name, _, rest = waiting.pop().partition("~=")[0].partition("[")
        extras = rest.rstrip("]").split(",") if rest else []
        project = projects.get(name)
        if project is None:
            continue
        if name not in found:
            found[name] = None
            waiting += project.get("dependencies", [])
        for extra in extras:
            waiting += project["optional-dependencies"][extra]
    return sorted(found.keys() - {"accord"})
