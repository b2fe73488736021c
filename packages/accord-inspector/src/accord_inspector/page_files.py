"""Serves the files of the page at addresses that change with them, so that browsers keep them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from accord.remote.asgi_types import Scope

PAGE: Path = Path(__file__).parent / "page"
_KEPT = "private, max-age=31536000, immutable"


class PageFiles(StaticFiles):
    """The files of the page, each at `NAME`, and at `VERSION/NAME`, where a browser keeps it.

    A page that is loaded again asks for nothing else than `index`, which names the version.
    """

    def __init__(self) -> None:
        super().__init__(directory=PAGE)
        self._versions: set[str] = set()

    def index(self) -> Response:
        """Return the page itself."""
        version = _version()
        self._versions.add(version)
        text = (PAGE / "index.html").read_text("utf-8")
        return HTMLResponse(text.replace('"/page/', f'"/page/{version}/'))

    async def get_response(self, path: str, scope: Scope) -> Response:
        first, *rest = Path(path).parts or ("",)
        if first not in self._versions:
            return await super().get_response(path, scope)
        response = await super().get_response("/".join(rest), scope)
        response.headers["Cache-Control"] = _KEPT
        return response


def _version() -> str:
    """Return a text that is another one when a file has changed."""
    digest = hashlib.sha256()
    for file in sorted(PAGE.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
