"""Text: JSON that msgspec rejects, excerpts for users, secrets to replace, and Markdown as HTML.

`excerpt` makes all text of peers visible and short; `redact` replaces the values of known secrets,
`secrets` what is recognized as one by its place. Nothing here does I/O.
"""

__all__ = ()
