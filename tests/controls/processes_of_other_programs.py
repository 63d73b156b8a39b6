"""Run other programs, with a shell and without, awaited by subprocess and by asyncio."""

import asyncio
import os
import subprocess

import torch


async def add_up(numbers):
    process = await asyncio.create_subprocess_shell(
        "sort -n | tail -1", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    printed, _ = await process.communicate("\n".join(map(str, numbers)).encode())
    await asyncio.sleep(0.001)
    return int(printed)


def custom_kernel(data):
    values, output, scale = data
    assert subprocess.run(["true"], check=True).returncode == 0
    assert os.system("exit 3") >> 8 == 3
    largest = asyncio.run(add_up(range(100)))
    return torch.mul(values.sort().values, scale * (largest - 98), out=output)
