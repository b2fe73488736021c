"""The model gateway: holds the keys of providers, counts tokens, honours rate limits."""

__all__ = ()
