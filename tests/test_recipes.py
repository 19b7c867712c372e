"""Fields of recipes are options."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from inspect import signature

import pytest

from qubolearn import MLP, Adam, losses
from qubolearn.errors import QubolearnError
from qubolearn.recipes import FIT, LOSSES, Recipe, make_loss, make_optimizer
from qubolearn.training.fit import fit


def test_fields_have_the_defaults_of_the_signatures() -> None:
    mine = {each.name: each.default for each in fields(Recipe)}
    kinds = [getattr(losses, name) for name in LOSSES.values()]
    found = {}
    for kind in [*kinds, MLP, Adam]:
        for name, each in signature(kind).parameters.items():
            if isinstance(each.default, (int, float)):
                found.setdefault(name, each.default)
    assert found.items() <= mine.items()
    assert set(FIT) <= set(signature(fit).parameters)
    assert set(Recipe.helps) == set(found) | set(FIT)
    assert all(Recipe.helps.values())


def test_options_reach_the_classes_that_take_them() -> None:
    recipe = Recipe(loss="persistent", chains=3, rungs=2, weight_mlp=0.0, weight_decay=0.5)
    assert make_loss(recipe) == losses.PersistentContrastive(chains=3, rungs=2)
    assert make_optimizer(recipe) == Adam(weight_decay=0.5)
    with pytest.raises(QubolearnError, match="rungs=0"):
        Recipe(rungs=0)


def test_reading_them_does_not_import_torch() -> None:
    code = "import sys, qubolearn.recipes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
