"""
Willow: ten keypoints of two pictures
=====================================

Two pictures of motorbikes show the same ten keypoints; which is which? How a keypoint looks says something, and where
it lies from the others says the rest. The first are linear terms of a QUBO of 100 bits, the second are its couplings.

This example needs the Willow dataset in ``$QUBOLEARN_DATA``, and is skipped with one sentence where it is not there.
"""

# %%
# Twenty pictures to learn from, pairs of the others to be tested on. Features are those of a frozen VGG16 at the
# keypoints. That a matching is one-to-one is given to the solver; what to match is learned.
import matplotlib.pyplot as plt
import torch

from qubolearn import Adam, Cosine, GroupPseudoLikelihood, QubolearnError, fit
from qubolearn.evaluation import solve_instances
from qubolearn.networks.matching_pairs import PairMatching
from qubolearn.paper.datasets.willow import CLASSES
from qubolearn.paper.problems.willow_matching import WillowMatching

problem, bikes = WillowMatching(), slice(CLASSES.index("motorbike"), None, len(CLASSES))  # classes take turns
draw = torch.Generator().manual_seed(0)
try:
    train = problem.sample(1500, draw, "train").rows(bikes)
    test = problem.sample(150, draw, "test").rows(bikes)
except QubolearnError as missing:
    train = test = None
    print(f"Skipped, since the Willow dataset is not there: {missing}")

# %%
# 100 steps with couplings, and as many without: each row of bits is one keypoint, of which exactly one bit is 1.
answers = {}
if train is not None:
    for name, couplings in (("with couplings", True), ("bits alone", False)):
        torch.manual_seed(0)
        network = PairMatching(problem.features, couplings)
        loss = GroupPseudoLikelihood(problem.groups, masking=1.0)
        fit(network, (train.p, train.x_true), loss, optimizer=Adam(2e-3, Cosine()), epochs=10, batch_size=30)
        found = problem.decode(solve_instances(network, test.p, problem=problem)[0])
        answers[name] = found
        print(f"{name}: {100 * problem.score(found, test)['accuracy'].mean():.1f} % of keypoints right")

# %%
# Keypoints of two unseen pictures; green lines are right, red ones wrong. Of the 30 test pairs this is the one where
# couplings help most, and motorbikes are a class where they help much: with ducks the same training gained little.
figure, axes = plt.subplots(1, 2, figsize=(9, 2.2), layout="constrained")
for axis, name in zip(axes, ("with couplings", "bits alone"), strict=True):
    axis.set(title=name, xticks=[], yticks=[])
    if name not in answers:
        axis.text(0.5, 0.5, "needs the Willow dataset", ha="center", va="center")
        continue
    wrong = (answers["bits alone"] != test.answer).sum(1) - (answers["with couplings"] != test.answer).sum(1)
    shown = slice(int(wrong.argmax()), int(wrong.argmax()) + 1)
    problem.picture(axis, test.rows(shown), answers[name][shown])
plt.show()
