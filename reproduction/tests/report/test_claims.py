"""Claims and comparisons on cells made by hand."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from quant_reproduction.grid.jobs import packed
from quant_reproduction.grid.paper import paper
from quant_reproduction.grid.views import Cell
from quant_reproduction.report.claims import Checked, check_claims
from quant_reproduction.report.compare import OVERLAPS, compare, count_controls, count_verdicts
from qubolearn.problems import make_problem

SIZES = ("L3 H32", "L3 H78", "L5 H32", "L5 H78")
FULL = "Rotations: a full QUBO"
Cells = dict[str, dict[tuple[str, str], Cell]]


def rotations(quant: list[float], diag: list[float], spread: float = 0.0) -> Cells:
    """Return four seeds each; quant and diag deviate oppositely."""
    records = tuple({"metrics": {"training_seconds": 36.0}, "job": {"seed": seed}} for seed in range(4))
    cells = {}
    for column, means, sign in (("quant", quant, 1), ("diag", diag, -1)):
        for size, mean in zip(SIZES, means, strict=False):
            seeds = tuple(mean + sign * spread * each for each in (-1, 1, -0.5, 0.5))
            for protocol in "ac":
                cells[size, f"({protocol}) {column}"] = Cell((seeds, (mean,) * 4), "degrees", records)
    return {"rotation": cells}


def checked(text: str, found: Cells) -> Checked:
    return next(each for each in check_claims(paper(), found) if each.claim.text.startswith(text))


def answer(text: str, found: Cells, source: Any = "a") -> str:
    return checked(text, found).answer(source)


@pytest.mark.parametrize("source", ["a", "c"])
@pytest.mark.parametrize(
    ("quant", "spread", "expected"),
    [
        ([1, 1, 1, 1], 0.0, "holds"),
        ([1, 1, 3, 1], 0.0, "does not hold"),
        ([1, 1, 2, 1], 0.0, "does not hold"),  # equal is not better
        ([1, 1, 1], 0.0, "not measured"),
        ([1, 1, 3], 0.0, "does not hold"),  # one counterexample is enough
        ([], 0.0, "not measured"),
        ([1, 1, 1, 1], 0.05, "holds"),
        ([1, 1, 1.9, 1], 0.5, "inconclusive"),
        ([1, 1, 1.9, 9], 0.5, "does not hold"),
        ([math.nan] * 4, 0.0, "inconclusive"),
    ],
)
def test_a_claim_about_all_sizes(quant: list[float], spread: float, expected: str, source: str) -> None:
    assert answer(FULL, rotations(quant, [2] * len(quant), spread), source) == expected


def test_seeds_are_paired_and_the_effect_has_an_interval() -> None:
    """Seeds differ by far more than methods do."""
    found = rotations([1] * 4, [1.1] * 4)
    for (_, column), cell in found["rotation"].items():
        shift = 0.1 if "diag" in column else 0.0
        values = tuple(seed + shift for seed in (3.0, 1.0, 9.0, 4.0))
        object.__setattr__(cell, "values", (values, cell.values[1]))
    made = checked(FULL, found)
    assert made.answer("a") == "holds"
    gains = [pair.gain("a") for pair in made.pairs]
    assert all(gain and gain == pytest.approx((0.1, 0.1, 0.1), abs=1e-6) for gain in gains)
    assert made.effect("a") == "4 of 4 agree, 0 disagree"


def test_one_seed_is_inconclusive_and_equal_accuracies_are_not_exact() -> None:
    def ordered(seeds: int) -> dict[str, bool | None]:
        records = tuple({"metrics": {}, "job": {"seed": seed}} for seed in range(seeds))
        cells = {}
        for column, value in (("full", 0.9), ("without unique", 0.89), ("without mlp", 0.5)):
            for size in SIZES:
                cells[size, column] = Cell(((value,) * seeds,), "%", records, (200,) * seeds)
        all_of_it = check_claims(paper(), {"ablation-randgraph": cells})
        pairs = next(each for each in all_of_it if "L_unique" in each.claim.text)
        return {pair.than[1]: pair.ordered("a") for pair in pairs.pairs}

    assert ordered(3) == {"w/o L_unique": None, "w/o L_mlp": True}  # 1 % are two of 200
    assert ordered(1) == {"w/o L_unique": None, "w/o L_mlp": None}  # another run may differ


def seeded(values: Sequence[float], unit: Any = "degrees", first: int = 0, **more: Any) -> Cell:
    records = tuple({"metrics": {}, "job": {"seed": first + place}} for place in range(len(values)))
    return Cell((tuple(values), tuple(values)), unit, records, **more)


def test_one_of_many_comparisons_refutes_a_claim_only_if_it_is_not_chance() -> None:
    """Quant is worse by 2.16 ± 1.4 at one of four sizes: 1 in 39."""
    off = (-0.4, 1.4, -1.6, 1.2, -0.6)

    def cells(worse: float, sizes: Sequence[str]) -> Cells:
        made = {(size, "(a) pure"): seeded([7.0] * 5) for size in sizes}
        for size in sizes:
            gap = [worse + each for each in off] if size == "L3 H78" else [-1.0] * 5
            made[size, "(a) quant"] = seeded([7 + each for each in gap])
        return {"pointset": made}

    text = "Point sets: better than Pure"
    pairs = checked(text, cells(2.16, SIZES)).pairs
    assert [pair.ordered("a") for pair in pairs] == [True, False, True, True]  # each separately
    assert answer(text, cells(2.16, SIZES)) == "inconclusive"
    assert answer(text, cells(4.0, SIZES)) == "does not hold"
    assert answer(text, cells(-4.0, SIZES)) == "holds"
    assert answer(text, cells(-4.0, SIZES[:3])) == "not measured"


def test_a_number_of_one_seed_is_paired_with_that_seed_alone() -> None:
    """Three seeds against one are one pair."""
    cells = {("L3 H32", "(a) quant"): seeded([1.0, 1.1, 0.9]), ("L3 H32", "(a) diag"): seeded([2.0])}
    pair = checked(FULL, {"rotation": cells}).pairs[0]
    assert pair.gains("a") == {0: 1.0}
    assert pair.ordered("a") is None
    cells["L3 H32", "(a) diag"] = seeded([2.0, 9.0], first=1)
    pair = checked(FULL, {"rotation": cells}).pairs[0]
    assert pair.gains("a") == pytest.approx({1: 0.9, 2: 8.1})


def test_a_factor_widens_the_interval_as_well() -> None:
    shown: dict[str, Any] = {"instances": (100,) * 3, "deviations": (0.1,) * 3}
    cells = {("k=5", "(a) ours"): seeded([0.4] * 3, "%", **shown)}
    for more, variance in (({}, 1.0), (shown, 101.0)):
        cells["k=5", "QGM inserted"] = seeded([0.03] * 3, "%", **more)
        pair = checked("One anneal finds", {"success": cells}).pairs[0]
        assert pair.min_variance("a") == pytest.approx(variance)


def test_a_spread_over_instances_is_not_one_over_runs() -> None:
    """Table 10: 86.0 ± 19 over 141 instances, a mean to ± 1.6."""
    cells = {("k=5, 450 epochs at 1e-5", "SA (neal), 10 sweeps"): seeded([0.92, 0.93, 0.94], "%")}
    made = [each for each in compare(paper(), {"second-best": cells}) if each.numbers["a"] is not None]
    assert [(each.column, each.verdict("a")) for each in made] == [("SA (neal), 10 sweeps", "reproduced")]
    low, high = stats.norm.interval(0.9999, 7.0, math.hypot(19 / math.sqrt(141), 1 / math.sqrt(3)))
    difference = made[0].difference("a")
    assert difference is not None
    assert low < difference.low < difference.high < high


def test_splits_that_share_training_shapes_are_not_independent() -> None:
    """1/5 + 1/10 of the variance, not 1/5 (Nadeau, Bengio)."""
    values = [5.0, 6.0, 7.0, 8.0, 9.0]
    asked = {"protocol": "paper", "problem": {"name": "pointset", "split_seed": 1}}

    def half(options: dict[str, Any]) -> float:
        records = tuple({"metrics": {}, "job": {"seed": seed, "options": options}} for seed in range(5))
        cells = {("L3 H32", "(a) quant"): Cell((tuple(values), tuple(values)), "degrees", records)}
        made = next(each for each in compare(paper(), {"pointset": cells}) if each.numbers["a"] is not None)
        found = replace(made, paper_spread=None).difference("a")
        assert found is not None
        return found.high - found.mean - 0.05  # its last digit

    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    # the paper's number without a spread is one run more
    assert half({}) == pytest.approx((high - low) / 2 * math.sqrt(1.2 / 0.2))
    assert half(asked) == pytest.approx((high - low) / 2 * math.sqrt(1.3 / 0.2))
    assert half({"problem": asked["problem"]}) == half({})  # AQM is not trained
    for name in ("pointset", "rotation"):
        problem: Any = make_problem(name)
        assert OVERLAPS[name] == problem.test_shapes / problem.train_shapes


def test_nan_is_not_better() -> None:
    made = [each for each in compare(paper(), rotations([math.nan] * 4, [])) if each.table.name == "Table 3"]
    assert {each.verdict("a") for each in made if each.column == "Ours"} == {"inconclusive"}


def test_the_paper_is_held_to_its_own_claims() -> None:
    assert answer(FULL, {}, "printed") == "does not hold"


@pytest.mark.parametrize(("ours", "expected"), [(0.3, "holds"), (0.02, "does not hold")])
def test_orders_of_magnitude(ours: float, expected: str) -> None:
    shares = {("k=5", "(a) ours"): ours, ("k=5", "QGM inserted"): 0.0022}
    cells = {place: Cell(((share, share),), "%") for place, share in shares.items()}
    assert answer("One anneal finds", {"success": cells}) == expected


def test_verdicts_need_more_than_the_spread_of_seeds_and_the_last_digit() -> None:

    def verdicts(*means: float, spread: float) -> list[str]:
        found = rotations(list(means), [], spread)
        made = [each for each in compare(paper(), found) if each.table.name == "Table 3"]
        ours = [replace(each, paper_spread=None) for each in made if each.column == "Ours"]
        return [each.verdict("a") for each in ours]

    assert verdicts(5.94, 4.0, 3.8, spread=0.0) == ["reproduced"] * 3 + ["not measured"]
    assert verdicts(5.94, 4.0, 3.8, spread=3.0) == ["inconclusive"] * 3 + ["not measured"]
    assert verdicts(1.0, 1.0, 9.0, spread=0.3) == ["better", "better", "worse", "not measured"]


def test_the_papers_own_spread_widens_the_interval() -> None:
    made = [each for each in compare(paper(), rotations([4.0], [])) if each.table.name == "Table 3"]
    first = next(each for each in made if each.column == "Ours")
    assert first.verdict("a") == "inconclusive"
    assert replace(first, paper_spread=None).verdict("a") == "better"


def test_diag_is_the_control_of_what_the_recipe_does() -> None:
    made = compare(paper(), rotations([1.0] * 4, [1.0, 1.0, 9.0]))
    only = [replace(each, paper_spread=None) for each in made if each.table.name == "Table 3"]
    assert count_controls(only, "a") == {"Diag": (2, 3), "Pure": (0, 0)}
    assert count_verdicts(only, "a")["better"] == 4


def test_instances_are_paired_if_records_store_their_scores() -> None:
    rng = np.random.default_rng(0)
    hard = torch.from_numpy(rng.gamma(1.0, 20.0, 200))
    records = tuple({"metrics": {}, "job": {"seed": seed}} for seed in range(3))

    cells = {}
    for column, shift in (("(a) quant", 0.0), ("(a) diag", 0.5)):
        values = ((float((hard + shift).mean()),) * 3, (1.0 + shift,) * 3)
        made = Cell(values, "degrees", records, (200,) * 3, (packed(hard + shift),) * 3)
        cells |= {(size, column): made for size in SIZES}
    paired = checked(FULL, {"rotation": cells})
    assert paired.answer("a") == "holds"
    first, second = paired.pairs[0].numbers["a"] or ()
    assert first.min_variance + second.min_variance > 1  # unpaired instances
    for place, cell in cells.items():
        scores = tuple(packed(hard[rng.permutation(200)]) for _ in range(3))
        cells[place] = replace(cell, scores=scores)
    assert answer(FULL, {"rotation": cells}) == "inconclusive"  # equal seeds, unequal instances
