"""Predict several labels with QuboClassifier inside scikit-learn, next to a chain of logistic regressions."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qubolearn import QuboClassifier

rng = np.random.default_rng(0)
features = rng.normal(size=(900, 6))
scores = np.sin(2 * features) @ rng.normal(size=(6, 4))
labels = (scores > np.sort(scores, 1)[:, 1:2]).astype(
    int
)  # the two best of four: labels depend on each other
train, test = slice(600), slice(600, None)

for name, model in (
    ("chain of logistic regressions", ClassifierChain(LogisticRegression(max_iter=1000), random_state=0)),
    ("QuboClassifier", QuboClassifier(random_state=0)),
):
    fitted = make_pipeline(StandardScaler(), model).fit(features[train], labels[train])
    print(f"{name}:", {"accuracy": float(fitted.score(features[test], labels[test]))})  # all labels right
