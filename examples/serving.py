"""Serve a saved network: ``MODEL=mine.safetensors uvicorn serving:app --app-dir examples``.

Requests that arrive within two milliseconds are solved as one batch. ``pip install fastapi uvicorn``
"""

import asyncio
import os
from contextlib import asynccontextmanager

import numpy as np
from fastapi import FastAPI, HTTPException

from qubolearn import QubolearnError
from qubolearn.networks import load

WAIT, LARGEST = 0.002, 256
network, waiting = load(os.environ["MODEL"]), asyncio.Queue()


def answers(rows):
    try:
        return network.predict(np.array(rows, np.float32)).tolist()
    except (QubolearnError, ValueError) as error:  # one bad row must not fail the others
        return [HTTPException(422, str(error))] if len(rows) == 1 else [answers([row])[0] for row in rows]


async def work():
    while True:
        batch = [await waiting.get()]
        await asyncio.sleep(WAIT)
        batch += [waiting.get_nowait() for _ in range(min(waiting.qsize(), LARGEST - 1))]
        found = await asyncio.to_thread(answers, [p for p, _ in batch])
        for (_, future), answer in zip(batch, found, strict=True):
            if not future.done():  # the client may have left
                future.set_result(answer)


@asynccontextmanager
async def lifespan(app):
    task = asyncio.create_task(work())
    yield
    task.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/solve")
async def solve(p: list[float]) -> list[int]:
    """Return the bits of one instance."""
    future = asyncio.get_running_loop().create_future()
    await waiting.put((p, future))
    if isinstance(answer := await future, HTTPException):
        raise answer
    return answer
