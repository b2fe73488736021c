"""Processes of asyncio that are killed while their output is not read."""

from __future__ import annotations

import asyncio
import sys

from accord.local.run import kill_process


async def started(code: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, limit=1000
    )


async def test_process_whose_output_nobody_reads_is_killed() -> None:
    process = await started("while True: print('x' * 65536)")
    assert process.stdout is not None
    transport = process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
    while transport.is_reading():  # asyncio stops reading when its buffer is full
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await kill_process(process)
    assert process.returncode == -9


async def test_process_that_has_ended_is_left_alone() -> None:
    process = await started("print('done')")
    await process.communicate()
    await kill_process(process)
    assert process.returncode == 0
