"""What a run on a cluster ends with when the cluster is gone."""

from __future__ import annotations

from accord_fleet.errors import FleetError


class ClusterLost(FleetError):
    """The head of the cluster does not answer any more.

    Results that arrived before were yielded. The attempts that were running can be repeated on
    another cluster, or on this one when its head is back.
    """
