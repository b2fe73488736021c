"""A run opens as many slots of a cluster as there is room for, and a few that wait."""

from __future__ import annotations

import asyncio

from accord_fleet import Resources
from accord_fleet.engines.ray_slots import Room

NODE = {"CPU": 4.0, "memory": 8.0 * 2**30, "node:10.0.0.1": 1.0}


async def entered(room: Room) -> int:
    """Return how many slots enter at once."""
    number = 0
    while True:
        entering = asyncio.ensure_future(room.enter())
        await asyncio.sleep(0)
        if not entering.done():
            entering.cancel()
            return number
        number += 1


async def opened(room: Room) -> int:
    """Return how many slots a cluster opens that starts all that fit."""
    number = 0
    while more := await entered(room):
        number += more
        for _ in range(more):
            room.opened()
    return number


async def test_many_jobs_open_as_many_slots_as_fit_and_a_few_that_wait() -> None:
    room = Room(2000, [Resources()])
    room.update([NODE, NODE])
    assert await opened(room) == 2 * 4 + 8


async def test_no_more_slots_are_opened_than_jobs() -> None:
    room = Room(3, [Resources(cpus=0.0)])
    room.update([NODE])
    assert await opened(room) == 3


async def test_few_slots_start_at_the_same_time() -> None:
    room = Room(2000, [Resources(cpus=0.01)])
    room.update([NODE, NODE])
    assert await entered(room) == 8
    room.opened()
    assert await entered(room) == 1
    room = Room(2000, [Resources()])
    room.update([NODE] * 100)
    assert await entered(room) == 200


async def test_the_scarcest_resource_of_each_node_counts() -> None:
    room = Room(100, [Resources(cpus=3, memory_bytes=2**30), Resources(custom={"lane": 0.5})])
    room.update([NODE, NODE])
    assert room.limit == 2 + 8
    room.update([NODE, {**NODE, "lane": 2.0}])
    assert room.limit == 4 + 8
    room = Room(100, [Resources(memory_bytes=5 * 2**30)])
    room.update([NODE, NODE, {"CPU": 64.0}])
    assert room.limit == 2 + 8


async def test_new_nodes_let_more_slots_open() -> None:
    said: list[str | None] = []
    room = Room(20, [Resources()], said.append)
    room.update([NODE])
    assert await opened(room) == 4 + 8
    entering = asyncio.ensure_future(room.enter())
    room.update([NODE, NODE])
    async with asyncio.timeout(5):
        await entering
    room.update([NODE, NODE])
    room.update([NODE] * 5)
    assert said == [
        "1 node has room for 4 of 20 at the same time",
        "2 nodes have room for 8 of 20 at the same time",
        None,
    ]


async def test_lost_slots_are_replaced_where_there_is_room() -> None:
    room = Room(100, [Resources()])
    room.update([NODE, NODE])
    assert await opened(room) == 16
    room.update([NODE])
    for _ in range(4):
        room.leave(was_open=True)
    assert await entered(room) == 0
    room.leave(was_open=True)
    assert await entered(room) == 1
