"""`accord inspect`: a web page that shows the messages between a client and an agent.

A recording, a folder of recordings, or an agent that runs goes in; a page with its JSON API comes
out. Read `command` first: what the words of the command line mean, and the server. Then
`inspection`: what the page shows, what it is told when something changes. The three kinds are
`recording_inspection`, `live_inspection` (the page is the client) and `tap_inspection` (between an
editor and an agent). Each writes or reads a recording; `messages` reads it as it grows.

`app` is the ASGI application. The API, which is private, is next to what it shows: `list_api`,
`timeline` and `explain` (one message), `panels`, `forms` (messages sent by hand), and `talk` (the
conversation). `faults` acts in `inspected_transport` and in the tap. `judged` finds broken rules in
a process of its own.
"""

from __future__ import annotations

__all__ = ()
