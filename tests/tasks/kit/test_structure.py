"""Structure is drawn by name, apart from values and from other draws."""

import pytest

from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.structure import Levels, StructureDraws, draw_work_order

ITEMS = tuple("abcdefgh")


def test_a_draw_depends_on_task_seed_and_name_and_on_no_other_draw() -> None:
    draws = StructureDraws("march", 3)
    alone = draws.draw_order("parts", ITEMS)
    draws.draw_subset("looks", ITEMS, 3)
    assert draws.draw_order("parts", ITEMS) == alone
    others = (StructureDraws("march", 4), StructureDraws("sweep", 3))
    assert alone not in [*(other.draw_order("parts", ITEMS) for other in others), draws.draw_order("papers", ITEMS)]


def test_structure_and_values_have_streams_of_their_own() -> None:
    assert StructureDraws("march", 3).make_rng("port").random() != make_rng("march", 3, "port").random()


def test_the_difficulty_selects_levels_and_leaves_the_streams_alone() -> None:
    counts = Levels(easy=range(1, 2), standard=range(5, 6), hard=range(9, 10))
    assert [StructureDraws("march", 1, level).draw_count("items", counts) for level in ("easy", "standard", "hard")] == [1, 5, 9]
    assert StructureDraws("march", 1, "easy").draw_order("x", ITEMS) == StructureDraws("march", 1, "hard").draw_order("x", ITEMS)


@pytest.mark.parametrize("count", [0, 3, 8, 20])
def test_a_subset_keeps_the_order_of_its_items(count: int) -> None:
    chosen = StructureDraws("march", 1).draw_subset("looks", ITEMS, count)
    assert list(chosen) == sorted(chosen)
    assert len(chosen) == min(count, len(ITEMS))


def test_a_share_lies_between_its_bounds() -> None:
    bounds = Levels(easy=(0.0, 0.1), standard=(0.4, 0.6), hard=(0.9, 1.0))
    assert all(0.4 <= StructureDraws("march", seed).draw_share("lines", bounds) <= 0.6 for seed in range(50))


def test_parts_come_in_random_order_but_after_those_they_need() -> None:
    orders = {
        draw_work_order(StructureDraws("march", seed), "parts", ITEMS, {"a": ("b", "c"), "b": ("h",)}) for seed in range(30)
    }
    assert len(orders) > 20
    for order in orders:
        assert sorted(order) == sorted(ITEMS)
        assert order.index("h") < order.index("b") < order.index("a") > order.index("c")
