"""An address of a cluster where nothing listens is refused at once."""

from __future__ import annotations

import asyncio

import pytest

from accord_fleet import FleetError
from accord_fleet.engines.ray_cluster import Cluster
from free_ports import free_ports


@pytest.mark.parametrize("prefix", ["", "ray://"])
async def test_a_cluster_that_does_not_run_is_named_at_once(prefix: str) -> None:
    pytest.importorskip("ray")
    address = f"{prefix}127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(FleetError, match=f"cluster {address}: no connection: .*--on ADDRESS"):
        async with asyncio.timeout(30), Cluster(address, 1):
            pass
