"""Serve a saved network: ``MODEL=mine.safetensors uvicorn serving:app --app-dir examples``.

Requests that arrive within two milliseconds are solved as one batch. ``pip install fastapi uvicorn``.
"""

import asyncio
import os
from contextlib import asynccontextmanager

import numpy as np
from fastapi import FastAPI, HTTPException

from qubolearn import QubolearnError
from qubolearn.networks import load

WAIT, LARGEST = 0.002, 256
network = load(os.environ["MODEL"])
waiting: asyncio.Queue[tuple[list[float], asyncio.Future[list[int]]]] = asyncio.Queue()


async def work() -> None:
    """Solve what waits, forever."""
    while True:
        batch = [await waiting.get()]
        await asyncio.sleep(WAIT)
        while not waiting.empty() and len(batch) < LARGEST:
            batch.append(waiting.get_nowait())
        try:
            bits = await asyncio.to_thread(network.predict, np.array([p for p, _ in batch], np.float32))
            for (_, answer), x in zip(batch, bits.tolist(), strict=True):
                answer.set_result(x)
        except (QubolearnError, ValueError) as error:
            for _, answer in batch:
                answer.set_exception(HTTPException(422, str(error)))


@asynccontextmanager
async def lifespan(app: FastAPI):
    task = asyncio.create_task(work())
    yield
    task.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/solve")
async def solve(p: list[float]) -> list[int]:
    """Return the bits of one instance."""
    width = network.body[0].in_features if hasattr(network.body, "__getitem__") else len(p)
    if len(p) != width or not np.isfinite(p).all():
        raise HTTPException(422, f"p has {len(p)} numbers; expected {width} finite ones")
    answer: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
    await waiting.put((p, answer))
    return await answer
