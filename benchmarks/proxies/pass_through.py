"""A proxy that changes nothing, for the rows `proxy-…`."""

from __future__ import annotations

from accord import Proxy


class PassThrough(Proxy):
    """Overrides nothing: every message passes as the bytes that were received."""


if __name__ == "__main__":
    PassThrough().run()
