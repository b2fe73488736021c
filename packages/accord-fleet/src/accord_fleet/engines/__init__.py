"""Engines: they run attempts on this machine or on a cluster; see `accord_fleet.run.Engine`.

`local` is the engine of this machine, and chooses the engine of a plan. `ray` is the driver of a
run on Ray, with `ray_slots` (which attempts wait, how many slots are opened), `ray_cluster` (the
connection, and Accord on nodes that have none), `ray_files` (what is sent to nodes) and
`ray_actors` (what runs on nodes: slots, and the limiter of model requests).

Ray is imported when a run connects. Classes of `ray_actors` are pickled by their module's name.
"""

__all__ = ()
