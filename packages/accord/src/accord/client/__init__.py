"""The client's side of one API over both versions."""

__all__: tuple[str, ...] = ()
