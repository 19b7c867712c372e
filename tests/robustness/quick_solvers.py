"""Every solver in a quick form, and in one so weak that its seed shows.

``dwave`` needs a token; but for the chip, it is ``dwave-mock``.
"""

from __future__ import annotations

QUICK = {
    "auto": "auto",
    "exhaustive": "exhaustive",
    "annealing": "annealing:reads=4,sweeps=10,seed={seed}",
    "tempering": "tempering:sweeps=20,seed={seed}",
    "population": "population:sweeps=20,seed={seed}",
    "quantum": "quantum:reads=40,steps=20,seed={seed}",
    "neal": "neal:reads=4,sweeps=10,seed={seed}",
    "tabu": "tabu:reads=1,restarts=1,updates=20,seed={seed}",
    "path-integral": "path-integral:reads=4,sweeps=10,seed={seed}",
    "dwave-mock": "dwave-mock:reads=4,sweeps=5,size=4,seed={seed}",
}
WEAK = {
    "annealing": "annealing:reads=1,sweeps=1,seed={seed}",
    "quantum": "quantum:reads=1,steps=2,seed={seed}",
    "neal": "neal:reads=1,sweeps=1,seed={seed}",
    "tabu": "tabu:reads=1,restarts=0,updates=1,seed={seed}",
    "path-integral": "path-integral:reads=1,sweeps=1,seed={seed}",
    "dwave-mock": "dwave-mock:reads=1,sweeps=1,size=4,seed={seed}",
}
