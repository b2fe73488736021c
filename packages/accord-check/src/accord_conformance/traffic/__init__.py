"""Frames and messages (`message`), the state of a connection, and recordings.

`message` parses a frame and reads it strictly, `connection_state` follows what the messages of one
connection mean, and `recording` reads and writes files of frames. Nothing here judges.
"""

__all__ = ()
