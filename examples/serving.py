"""Serve a saved network: ``MODEL=mine.safetensors uvicorn serving:app --app-dir examples``.

Requests that arrive within two milliseconds, or while another batch is solved, become one batch.
``pip install fastapi uvicorn``
"""

import asyncio
import os

import numpy as np
from fastapi import FastAPI, HTTPException

from qubolearn import QubolearnError
from qubolearn.networks import load

app, network = FastAPI(), load(os.environ["MODEL"])
turn, batches = asyncio.Lock(), []  # one batch is solved at a time, one is open for requests


def answers(rows):
    try:
        return network.predict(np.array(rows, np.float32)).tolist()
    except (QubolearnError, ValueError) as error:  # one bad row must not fail the others
        return [HTTPException(422, str(error))] if len(rows) == 1 else [answers([row])[0] for row in rows]


async def work(rows):
    async with turn:
        await asyncio.sleep(0.002)
        batches.clear()
        return await asyncio.to_thread(answers, rows)


@app.post("/solve")
async def solve(p: list[float]) -> list[int]:
    if not batches:
        rows = []
        batches.append((rows, asyncio.create_task(work(rows))))
    rows, task = batches[0]
    at = len(rows)
    rows.append(p)
    answer = (await asyncio.shield(task))[at]  # a client that leaves ends only its own request
    if isinstance(answer, HTTPException):
        raise answer
    return answer
