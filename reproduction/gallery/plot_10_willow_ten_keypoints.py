"""
Match ten keypoints of two images
=================================

Two images of motorbikes show the same ten keypoints; which is which? The appearance of a keypoint gives the linear
terms of a QUBO of 100 bits, its position relative to the others the couplings.

This example needs the Willow dataset in ``$QUBOLEARN_DATA`` and is skipped without it.
"""

# %%
# Twenty images for training, pairs of the others for testing. Features are those of a frozen VGG16 at the keypoints.
# The solver is given that a matching is one-to-one.
import matplotlib.pyplot as plt
import torch

from quant_reproduction.datasets.willow import CLASSES
from quant_reproduction.networks import PairMatching
from quant_reproduction.problems.willow_matching import KeypointPair, WillowMatching
from qubolearn import Adam, QubolearnError, fit
from qubolearn.evaluation import solve_instances
from qubolearn.losses import GroupPseudoLikelihood
from qubolearn.training.optimizers import Cosine

problem = WillowMatching()
bikes = slice(CLASSES.index("motorbike"), None, len(CLASSES))  # classes take turns
draw = torch.Generator().manual_seed(0)
try:
    train = problem.sample(1500, draw, "train").rows(bikes)
    test = problem.sample(150, draw, "test").rows(bikes)
except QubolearnError as missing:
    train = test = None
    print(f"Skipped: {missing}")

# %%
# 100 steps coupled and uncoupled. Each row of bits is one keypoint, of which exactly one bit is 1.
answers = {}
if train is not None:
    for name, couplings in (("coupled", True), ("uncoupled", False)):
        torch.manual_seed(0)
        network = PairMatching(problem.features, couplings)
        loss = GroupPseudoLikelihood(problem.groups, masking=1.0)
        how = {"optimizer": Adam(2e-3, Cosine()), "epochs": 10, "batch_size": 30}
        fit(network, (train.p, train.x_true), loss, **how)
        bits, _ = solve_instances(network, test.p, problem=problem)
        answers[name] = problem.decode(bits)
        accuracy = problem.score(answers[name], test)["accuracy"].mean()
        print(f"{name}: {100 * accuracy:.1f} % of keypoints correct")

# %%
# Keypoints of two unseen images; green lines are correct, red ones wrong. This is the test pair, of 30, for which
# couplings help most, and motorbikes are a class for which they help much; for ducks the gain is small.
figure, axes = plt.subplots(2, 1, figsize=(6, 4.4), layout="constrained")
for axis, name in zip(axes, ("coupled", "uncoupled"), strict=True):
    axis.set(title=name, xticks=[], yticks=[])
    if name not in answers:
        axis.text(0.5, 0.5, "needs the Willow dataset", ha="center", va="center")
        continue
    wrong = {key: (found != test.answer).sum(1) for key, found in answers.items()}
    shown = int((wrong["uncoupled"] - wrong["coupled"]).argmax())
    flip, shift = torch.tensor([1.0, -1.0]), torch.tensor([4.0, 0.0])
    pair = KeypointPair.from_flat(test.p[shown : shown + 1], problem.features)
    left, right = pair.points[0] * flip
    right = right + shift
    both = answers[name][shown], test.answer[shown]
    for point, found, true in zip(left, *both, strict=True):
        color = "green" if found == true else "red"
        axis.plot(*zip(point.tolist(), right[found].tolist(), strict=True), color=color)
    axis.scatter(*torch.cat([left, right]).T.tolist(), s=14, color="black", zorder=3)
    axis.set(title=f"{name}: {int(wrong[name][shown])} of 10 wrong", aspect="equal")
plt.show()
