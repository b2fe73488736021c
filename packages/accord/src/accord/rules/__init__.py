"""Rules of the protocol as tables, without I/O: `negotiation` of versions and the lifecycle,
`gates` of capabilities, and `quirks`, the deviations of real programs that are tolerated.
"""

__all__ = ()
