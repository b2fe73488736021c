"""How this package was installed, for the advice to install more of it.

The name `accord` on an index may be that of another project: the advice names it only if an index
is where this package came from.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from accord.text.lenient_json import NotJson, is_object, loads

_NAME = "accord"
# The other packages that each extra brings. They come from where this package came from.
PACKAGES: dict[str, tuple[str, ...]] = {
    "all": ("trace", "terminal", "coder", "check", "chat", "inspector", "fleet", "bridges", "web"),
    "bridges": ("bridges",),
    "check": ("trace", "terminal", "check"),
    "cli": ("trace", "terminal", "coder", "check"),
    "coder": ("coder",),
    "fleet": ("trace", "terminal", "fleet", "bridges"),
    "gateway": ("trace", "terminal", "bridges"),
    "inspector": ("trace", "terminal", "check", "inspector"),
    "otlp": ("trace",),
    "tui": ("trace", "terminal", "chat"),
    "web": ("trace", "terminal", "web"),
    "zstd": ("trace",),
}


def install_command(extras: str) -> str:
    """Return the command that adds extras, such as `cli,otlp`, the way this was installed.

    It is that of pip, uv or pipx, quoted for the shell.
    """
    origin = _origin()
    first, *others = _requirements(origin, extras)
    constraints = _constraints(origin)
    if constraints is not None:  # bind the names of all packages to their wheels
        bound = f"-c {_quoted(str(constraints))}"
        first, others = f"{_NAME}[{extras}]", []
    else:
        bound = "-e" if _is_editable(origin) else ""
    more = [_quoted(other) for other in others]
    if _is_in_prefix("uv-receipt.toml"):
        option = "--with-editable" if bound == "-e" else "--with"
        words = ["uv tool install", bound, _quoted(first), *(f"{option} {name}" for name in more)]
    elif _is_in_prefix("pipx_metadata.json"):
        # It runs pip or uv.
        names = (f"--preinstall {name}" for name in more)
        words = ["pipx install --force", *names, bound if bound == "-e" else "", _quoted(first)]
        if constraints is not None:
            path = _quoted(str(constraints))
            words[:0] = [f"PIP_CONSTRAINT={path}", f"UV_CONSTRAINT={path}"]
    else:
        is_uv = (_metadata_text("INSTALLER") or "").strip() == "uv"
        editable = "-e " * (bound == "-e")
        names = (f"{editable}{name}" for name in more)
        words = ["uv pip install" if is_uv else "pip install", bound, _quoted(first), *names]
    return " ".join(filter(None, words))


def _constraints(origin: dict[str, Any] | None) -> Path | None:
    """Return the file beside a wheel that binds the names of the packages (`make wheels`)."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    url = str(origin["url"]) if origin else ""
    if not (url.startswith("file:") and url.endswith(".whl")):
        return None
    path = Path(url2pathname(urlsplit(url).path)).with_name("constraints.txt")
    is_usable = os.name != "nt" or not _is_in_prefix("pipx_metadata.json")  # sets variables
    return path if is_usable and path.exists() else None


def _requirements(origin: dict[str, Any] | None, extras: str) -> list[str]:
    """Return what to install for extras: this package first, as paths, URLs, or the name."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    names = list(dict.fromkeys(n for extra in extras.split(",") for n in PACKAGES.get(extra, ())))
    if origin is None:
        clone = _clone_above(Path(__file__).resolve().parents[2])
        if clone is None and _metadata_text("METADATA") is not None:
            return [f"{_NAME}[{extras}]"]  # from an index, which has the others
        return [f"{clone or '.'}[{extras}]"]
    url = str(origin["url"])
    if url.startswith("file:"):
        path = Path(url2pathname(urlsplit(url).path))
        clone = _clone_above(path)
        if clone is not None and not _is_editable(origin):
            return [f"{clone}[{extras}]"]
        others = (path.with_name(_sibling(path.name, name)) for name in names)
        return [f"{path}[{extras}]", *map(str, others)]
    vcs: dict[str, Any] = origin.get("vcs_info") or {}
    if vcs:
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        url = f"{vcs['vcs']}+{url}@{revision}" if revision else f"{vcs['vcs']}+{url}"
    folder = origin.get("subdirectory")
    place = f"{url}#subdirectory={folder}" if folder else url
    before, slash, last = place.rpartition("/")
    others = (f"{_NAME}-{name} @ {before}{slash}{_sibling(last, name)}" for name in names)
    return [f"{_NAME}[{extras}] @ {place}", *others]


def _sibling(file_name: str, name: str) -> str:
    """Return the name of a sibling's folder, wheel or sdist beside that of this package."""
    _, dash, rest = file_name.partition("-")
    return f"{_NAME}_{name}-{rest}" if dash else f"{_NAME}-{name}"


def _clone_above(package: Path) -> Path | None:
    """Return the clone that has a folder of this package, if there is one."""
    root = package.parent.parent
    is_clone = package.parent.name == "packages" and (root / "pyproject.toml").exists()
    return root if is_clone else None


def _origin() -> dict[str, Any] | None:
    """Return the record of an installation that is not from an index (PEP 610)."""
    try:
        origin = loads((_metadata_text("direct_url.json") or "null").encode())
    except NotJson:
        return None
    return origin if is_object(origin) and isinstance(origin.get("url"), str) else None


def _is_editable(origin: dict[str, Any] | None) -> bool:
    about = origin.get("dir_info") if origin else None
    return is_object(about) and about.get("editable") is True


def _metadata_text(file: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(_NAME).read_text(file)
    except PackageNotFoundError:
        return None


def _is_in_prefix(file: str) -> bool:
    return Path(sys.prefix, file).exists()


def _quoted(text: str) -> str:
    import shlex

    return f'"{text}"' if os.name == "nt" else shlex.quote(text)
