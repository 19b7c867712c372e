"""
Several labels per sample, from two arrays
==========================================

Labels often exclude each other or occur together. A classifier that predicts each label separately cannot represent
that. A QUBO can: each label is a bit, and a coupling is the cost of two labels together. ``QuboClassifier`` learns such
QUBOs from two arrays and works wherever a scikit-learn classifier does.
"""

# %%
# The data are synthetic: six labels compete in two groups of three, and inputs only contain noisy evidence for each
# label. Use any two arrays of your own: numbers ``[samples, features]`` and labels of 0 and 1 ``[samples, labels]``.
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qubolearn import ExhaustiveSearch, plots, solve
from qubolearn.estimator import QuboClassifier

LABELS = ["beach", "mountain", "city", "sunny", "rain", "snow"]
rng = np.random.default_rng(0)
evidence = rng.normal(size=(1500, 6))
cost = np.zeros((6, 6))
for group in ((0, 1, 2), (3, 4, 5)):  # two labels of one group exclude each other
    for i in group:
        for j in group:
            cost[i, j] = 1.5 * (i < j)
cost[0, 5], cost[1, 5] = 1.5, -0.5  # no snow on the beach, often on mountains
true = torch.tensor(cost) + torch.diag_embed(torch.tensor(-evidence - 0.3))
y = solve(true, ExhaustiveSearch(), count=1).states[:, 0].numpy().astype(int)
X = np.hstack(
    [evidence @ rng.normal(size=(6, 20)), rng.normal(size=(1500, 4))]
) + 0.5 * rng.normal(size=(1500, 24))
X, X_test, y, y_test = train_test_split(X, y, test_size=500, random_state=0)

# %%
# The search compares uncoupled with coupled labels on three folds. The score of scikit-learn for several labels is
# strict: a sample counts if all six labels are correct.
model = make_pipeline(StandardScaler(), QuboClassifier(random_state=0))
search = GridSearchCV(model, {"quboclassifier__couplings": [False, True]}, cv=3)
search.fit(X, y)
scores = search.cv_results_["mean_test_score"]
print(f"uncoupled {scores[0]:.3f}, coupled {scores[1]:.3f}")
print(f"the better one, on unseen samples: {search.score(X_test, y_test):.3f}")

# %%
# Each sample has its own QUBO. The mean over unseen samples shows the cost of each pair of labels.
coupled = model.set_params(quboclassifier__couplings=True).fit(X, y)
A = coupled[-1].qubos(coupled[:-1].transform(X_test)).mean(0)
couplings = A + A.T
np.fill_diagonal(couplings, np.nan)

figure, axis = plt.subplots(figsize=(5, 4), layout="constrained")
limit = np.nanmax(abs(couplings))
image = axis.imshow(couplings, cmap=plots.SHADES, vmin=-limit, vmax=limit)
axis.set_xticks(range(6), LABELS, rotation=30, ha="right")
axis.set_yticks(range(6), LABELS)
axis.set_title("Labels that exclude each other cost energy together")
figure.colorbar(image, ax=axis, label="cost of both labels")
plt.show()

# %%
# With couplings, all six labels are correct more often.
figure, axis = plt.subplots(figsize=(4.4, 3.4), layout="constrained")
bars = axis.bar(["uncoupled", "coupled"], 100 * scores, color=["tab:gray", "tab:blue"])
axis.bar_label(bars, fmt="%.1f")
axis.set(ylabel="all six labels correct, %", ylim=(0, 115 * scores.max()))
axis.set_title(
    f"Couplings add {100 * (scores[1] - scores[0]):.1f} points in cross-validation"
)
plt.show()
