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

__all__ = ("install_command", "required")

_NAME = "accord"


def install_command(extras: str) -> str:
    """Return the command that adds extras, such as `cli,otlp`, the way this was installed.

    It is that of pip, uv or pipx, quoted for the shell.
    """
    installer = (_metadata_text("INSTALLER") or "").strip()
    editable = ["-e"] if _is_editable(_origin()) else []
    if _is_in_prefix("uv-receipt.toml"):
        words = ["uv", "tool", "install", *editable]
    elif _is_in_prefix("pipx_metadata.json"):
        words = ["pipx", "install", "--force", *editable]
    elif installer == "uv":
        words = ["uv", "pip", "install", *editable]
    else:
        words = ["pip", "install", *editable]
    return " ".join((*words, required(extras)))


def required(extras: str) -> str:
    """Return what to install for extras, quoted for the shell: a path, a URL, or the name."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    origin = _origin()
    if origin is None:
        root = _source_tree()
        if root is None and _metadata_text("METADATA") is not None:
            return _quoted(f"{_NAME}[{extras}]")  # from an index
        return _quoted(f"{root or '.'}[{extras}]")
    url = str(origin["url"])
    if url.startswith("file:"):
        return _quoted(f"{url2pathname(urlsplit(url).path)}[{extras}]")
    vcs: dict[str, Any] = origin.get("vcs_info") or {}
    if vcs:
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        url = f"{vcs['vcs']}+{url}@{revision}" if revision else f"{vcs['vcs']}+{url}"
    folder = origin.get("subdirectory")
    return _quoted(f"{_NAME}[{extras}] @ {url}" + (f"#subdirectory={folder}" if folder else ""))


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


def _source_tree() -> Path | None:
    """Return the clone that this package is run from without having been installed."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").exists() else None


def _quoted(text: str) -> str:
    import shlex

    return f'"{text}"' if os.name == "nt" else shlex.quote(text)
