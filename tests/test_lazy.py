"""Names that import lazily."""

from __future__ import annotations

import pytest

import qubolearn
from qubolearn import losses, networks, solvers


@pytest.mark.parametrize("package", [qubolearn, networks, solvers])
def test_every_name_is_there_and_listed(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is getattr(package, name)
        assert name in dir(package)
    with pytest.raises(AttributeError, match="nothing"):
        package.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_moved_names_work_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"qubolearn\.losses\.L1"):
        assert qubolearn.L1 is losses.L1  # type: ignore[attr-defined]
    assert "L1" not in qubolearn.__all__
    with pytest.raises(AttributeError, match="TensorBoard is removed"):
        qubolearn.TensorBoard  # type: ignore[attr-defined]  # noqa: B018
    assert len(qubolearn.__all__) <= 50
