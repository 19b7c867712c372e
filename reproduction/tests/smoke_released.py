# ruff: noqa
"""Smoke run of protocol (r) on a GPU: captured steps against the CPU, then microseconds per step and projected totals."""

import sys, time, tempfile
from pathlib import Path
import torch
from quant_reproduction import released, stacks
from quant_reproduction.stacks import Instances, Net, Stack, Training, train_together

began = time.time()
say = lambda *words: print(f"[{time.time() - began:6.1f}]", *words, flush=True)
cuda = torch.cuda.is_available()
gpu = torch.device("cuda" if cuda else "cpu")
limit = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
folder = Path(tempfile.mkdtemp())
say(torch.__version__, torch.cuda.get_device_name() if cuda else "cpu")


def nets(kind, method, seeds, layers=3):
    return released.nets_of(kind, method, layers, range(seeds), (32, 78), (False, True))


# 1. the same steps on CPU and GPU, two stacks at a time
bad = 0
for kind in ("3d", "2d", "randgraph"):
    made = stacks.SETTINGS[kind]
    torch.manual_seed(0)
    _, expansion = stacks.classes_of(kind)
    n = made.batch * 100
    numbers = torch.randn(n, expansion.shape[0], dtype=made.dtype)
    labels = torch.randint(2**made.bits, (n,))
    found = {}
    for where in (torch.device("cpu"), gpu):
        trainings = []
        for method in ("quant", "diag", "pure"):
            for layers in (3, 5):
                stack = Stack(kind, method, layers, nets(kind, method, 1, layers), where)
                data = Instances(
                    (numbers @ expansion).to(where),
                    labels.to(where),
                    torch.zeros(len(stack.nets), dtype=torch.long, device=where),
                    n,
                )
                trainings.append(Training(stack, data, folder / f"{kind}{method}{layers}{where.type}", 1))
        # same order on both machines: no shuffle
        for each in trainings:
            each._shuffle = lambda: None
            each.order = torch.arange(n, device=where).expand(len(each.seeds), -1)
        train_together(trainings)
        found[where.type] = [[p.detach().cpu() for p in each.stack.parameters] for each in trainings]
    for name, a, b in zip([(m, l) for m in ("quant", "diag", "pure") for l in (3, 5)], found["cpu"], found[gpu.type]):
        moved = max((x - y).abs().max().item() for x, y in zip(a, b))
        step = made.rates[name[0]] * 100
        share = sum(((x - y).abs() > 0.05 * step).sum().item() for x, y in zip(a, b)) / sum(x.numel() for x in a)
        ok = share < 0.02
        bad += not ok
        say(
            kind,
            *name,
            f"largest difference {moved:.1e} of {step:.0e} that 100 steps can move; {share:.2%} differ by over 5 %",
            "ok" if ok else "WRONG",
        )

# 2. data
if cuda:
    for text, call in {
        "2d, 480,000 instances": lambda: released.planar_data(0, "train", 10, gpu),
        "3d, 499,000 instances, 10 % wrong": lambda: released.spatial_data(0, "train", 499, 0, 0.1, gpu),
        "willow": lambda: released.graph_data("willow", 0, "train", gpu),
    }.items():
        torch.cuda.synchronize()
        t = time.time()
        call()
        torch.cuda.synchronize()
        say("data", text, f"{time.time() - t:.2f} s")

# 3. speed
for kind, seeds in (("2d", 5), ("3d", 5), ("2d", 10), ("3d", 10), ("randgraph", 10), ("five", 5)):
    made = stacks.SETTINGS[kind]
    m = stacks.classes_of(kind)[1].shape[1]
    n = 480_000 if kind == "2d" else 499_000 if kind == "3d" else 5640
    n = n if cuda else 100 * made.batch
    inputs, labels = torch.randn(n, m, device=gpu, dtype=made.dtype), torch.randint(2**made.bits, (n,), device=gpu)
    trainings = []
    for method in ("quant",) if kind == "five" else ("quant", "diag", "pure"):
        for layers in (3,) if kind == "five" else (3, 5):
            every = (
                released.nets_of(kind, method, layers, range(seeds), (78,), (False,))
                if kind == "five"
                else nets(kind, method, seeds, layers)
            )
            stack = Stack(kind, method, layers, every, gpu)
            rows = n if kind != "3d" or method == "quant" or not cuda else 299_000
            data = Instances(inputs, labels, torch.zeros(len(every), dtype=torch.long, device=gpu), rows)
            trainings.append(
                Training(stack, data, folder / f"{kind}{method}{layers}-{seeds}", made.epochs if cuda else 1)
            )
    t = time.time()
    for each in trainings:
        each.advance()  # captures
    if cuda:
        torch.cuda.synchronize()
    captured = time.time() - t
    before, t = [each.step for each in trainings], time.time()
    train_together(trainings, limit)
    took = time.time() - t
    for each, old in zip(trainings, before):
        speed = (each.step - old) / took
        say(
            kind,
            each.stack.method,
            each.stack.layers,
            f"{len(each.stack.nets)} networks: {1e6 / max(speed, 1e-9):.0f} us a step beside the others, total {each.total} steps: {each.total / max(speed, 1e-9):.0f} s",
        )
    worst = max(each.total / max((each.step - old) / took, 1e-9) for each, old in zip(trainings, before))
    say(
        f"== {kind}, {seeds} seeds: capture {captured:.1f} s; all at once at most {worst:.0f} s; file {max(f.stat().st_size for f in folder.iterdir()) / 2**20:.1f} MiB; GPU memory {torch.cuda.max_memory_allocated() / 2**30 if cuda else 0:.1f} GiB"
    )
    if cuda and kind == "2d" and seeds == 5:  # alone
        one = trainings[0]
        old, t = one.step, time.time()
        train_together([one], 2.0)
        say("2d quant 3 alone:", f"{1e6 * (time.time() - t) / max(one.step - old, 1):.0f} us a step")
    del trainings, inputs, labels, stack, data
    if cuda:
        torch.cuda.empty_cache()
say("wrong:", bad)
sys.exit(bool(bad))
