"""JSON text to typed values and back, for both versions.

`base` has the marks that annotations of wire types use, `codec` decodes and encodes by them,
`describe` turns them into data, `protocol` describes a version, `shared` has types of both.
"""

__all__ = ()
