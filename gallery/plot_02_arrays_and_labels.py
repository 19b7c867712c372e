"""
Several labels at once: arrays and a grid search
================================================

Most labels of a picture exclude each other, and some go together. A classifier that says each label by itself cannot
know that. A QUBO can: each label is a bit, and couplings are prices for having two labels at once. ``QuboClassifier``
learns such QUBOs from two arrays and works wherever a scikit-learn classifier does.
"""

# %%
# The data are features of pictures and six labels (Boutell's *scene*, where it lies in ``$QUBOLEARN_DATA``, and a small
# generated set of the same kind otherwise). Any two arrays of your own will do: numbers ``[samples, features]``, and
# labels of 0 and 1 ``[samples, labels]``.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qubolearn import QubolearnError
from qubolearn.estimator import QuboClassifier
from qubolearn.problems.scene import LABELS, Scene

scene = Scene()
try:
    train, test = scene.whole("train"), scene.whole("test")
except QubolearnError:  # no data folder
    scene = Scene(source="generated")
    train, test = scene.whole("train"), scene.whole("test")
X, y = train.p.numpy(), train.x_true.numpy().astype(int)
X_test, y_test = test.p.numpy(), test.x_true.numpy().astype(int)
print(f"source={scene.source}: {len(X)} pictures of {X.shape[1]} features to learn from, {len(X_test)} to be tested on")

# %%
# The search compares labels one by one with labels that are coupled, on three folds. The score of scikit-learn for
# several labels is strict: a picture counts when all six labels are right.
model = make_pipeline(StandardScaler(), QuboClassifier(epochs=15, hidden=64, layers=2, random_state=0))
search = GridSearchCV(model, {"quboclassifier__couplings": [False, True]}, cv=3)
search.fit(X, y)
scores = search.cv_results_["mean_test_score"]
print(f"one by one {scores[0]:.3f}, coupled {scores[1]:.3f}")
print(f"the better one, on unseen pictures: {search.score(X_test, y_test):.3f}")

# %%
# What was learned is there to be looked at: each picture has a QUBO of its own. The mean over unseen pictures shows the
# price of each pair of labels; those that go together cost less.
coupled = model.set_params(quboclassifier__couplings=True).fit(X, y)
A = coupled[-1].qubos(coupled[:-1].transform(X_test)).mean(0)
couplings = A + A.T
np.fill_diagonal(couplings, np.nan)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=[1, 1.5])
bars = left.bar(["one by one", "coupled"], 100 * scores, color=["tab:grey", "tab:blue"])
left.bar_label(bars, fmt="%.1f")
left.set(title="grid search", ylabel="all six labels right, % of pictures", ylim=(0, 115 * scores.max()))
image = right.imshow(couplings, cmap="Reds")
right.set_xticks(range(6), LABELS, rotation=30, ha="right")
right.set_yticks(range(6), LABELS)
right.set_title("learned couplings, mean over unseen pictures")
figure.colorbar(image, ax=right, label="price of both labels")
plt.show()
