"""The conformance kit: what the protocol asks of agents and clients, and who keeps it.

`manifest` has the rules, read from `requirements/`. An `Observer` takes the frames of one
connection and fills a `Report`: it does no I/O, so that it judges a recording, a connection that
passes through a program, or one that a program of the kit plays itself. `Talk` is what it knows of
the connection; its judges, in `observe/`, look at one area each.

A judge for another rule takes these steps:

1. Find the rule in `requirements/`. It says in which versions and of whom it is asked:
   `Judge.judge` tells nothing in other versions, and blames that side.
2. If a field has a wrong type or value, a row in `observe/fields.py` is all there is to do: every
   message is read strictly already. Otherwise override `called`, `answered`, `noted`, … in the
   judge of the area, and name the rule in its `rules`. What has to be known of the connection
   belongs in `Talk` or `Session` when others need it too, else in the judge.
3. Call `judge` with True where the rule came into play and was kept, with False and the messages
   that show it where it was broken. Where the two sides may have crossed, or the recording may
   have begun later than the connection, say nothing: a false alarm costs more than a finding.
4. Set `how = "observed"` in the rule's entry, and write a double in `tests/conformance/doubles/`:
   a clean conversation with one change that breaks this rule and no other.

A program that plays one side feeds what passes to an `Observer` and adds findings of its own to
the same `Report` with `Report.add`: these are the rules that are `checked`. Two connections make
two observers, whose reports are joined by `Report.merge`.

A scenario for clients stands in `pose/scenes/`: it sends something and judges what comes of it,
on a `Scene`. Its double in `tests/conformance/pose/` is our own client with one thing changed on
the way. Clients may leave at any time: that they hang up is a finding only while
they wait for the end of a turn, or for the answer to `initialize`.
"""

from __future__ import annotations

__all__ = ()
