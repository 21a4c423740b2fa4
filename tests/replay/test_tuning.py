"""The front of a policy's numbers is chosen on one half of the projects and measured on the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UnknownName, UsageError
from harness.policies import policy_from_plain, resolve_policy
from harness.replay.settings import AS_IT_WAS, ReplaySetting, list_settings
from harness.replay.tuning import describe_agent_setting, find_front, list_variations, tune_policy, write_plan_line
from tests.replay.recorded import write_recording

SMALL = st.integers(0, 6)


@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=12))
def test_the_front_is_what_no_other_setting_beats(points):
    costs, evicted = (np.array(values, float) for values in zip(*points, strict=True))
    on_front = {point for point, is_on in zip(points, find_front(costs, evicted), strict=True) if is_on}
    beaten = {point for point in points if any(one[0] <= point[0] and one[1] <= point[1] and one != point for one in points)}
    assert on_front == set(points) - beaten
    assert sum(find_front(costs, evicted)) == len(on_front), "of equal settings only the first"


def test_numbers_that_say_how_much_is_kept_and_thresholds_in_tokens_are_varied():
    assert list_variations("keep-last") == {"keep_last": (5, 10, 20)}
    assert list_variations("anthropic-clear-tool-uses", [50_000]) == {"trigger_tokens": (50_000,), "keep_results": (2, 3, 6)}
    assert list_variations("claude-code") == {}


def test_each_combination_of_values_is_a_setting_whose_policy_has_them():
    settings, _ = list_settings(["keep-last"], [50_000], {"keep_last": [5, 20]})
    assert [setting.name for setting in settings] == ["keep-last at 50K, keep_last 5", "keep-last at 50K, keep_last 20"]
    assert [getattr(setting.build_policy(), "keep_last", 0) for setting in settings] == [5, 20]
    with pytest.raises(UnknownName, match="keep_last"):
        list_settings(["keep-last"], [50_000], {"keep_lats": [5]})


def test_the_lines_of_a_plan_give_the_policy_its_numbers():
    (setting,), _ = list_settings(["keep-last"], [50_000], {"keep_last": [5]})
    policy_line, window_line = write_plan_line(setting).splitlines()
    assert policy_line == 'policy = { kind = "keep-last", keep_last = 5 }'
    assert window_line == f"window_tokens = {setting.window_tokens}"
    assert policy_from_plain({"kind": "keep-last", "keep_last": 5}) == setting.build_policy() != resolve_policy("keep-last")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("claude-code", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE=50 "),
        ("codex@2026", "model_auto_compact_token_limit = 100000 "),
        ("goose", "GOOSE_AUTO_COMPACT_THRESHOLD=0.50 "),
        ("keep-last", ""),
    ],
)
def test_the_setting_of_the_agent_itself_is_printed_where_one_is_documented(policy, expected):
    setting = ReplaySetting(policy=policy, threshold_tokens=100_000, window_tokens=200_000)
    assert describe_agent_setting(setting).startswith(expected)
    assert bool(describe_agent_setting(setting)) == bool(expected)


@pytest.mark.slow
def test_the_front_is_chosen_on_one_half_and_measured_on_the_other(tmp_path):
    for number in range(5):
        write_recording(tmp_path / "projects" / f"project-{number}" / f"session-{number}.jsonl", 20 + 4 * number, pauses=[8, 15])
    options = {"workers": 1, "cache_folder": tmp_path / "cache", "reread_tokens": (0, 2_500, 5_000)}
    tuning = tune_policy(tmp_path / "projects", "keep-last", [40_000, 80_000], **options)
    assert (tuning.groups, tuning.group_kind, len(tuning.settings)) == (5, "project", 6)
    front = tuning.front
    assert front["chosen_change"].is_monotonic_increasing
    assert front["evicted_tokens"].iloc[-1] == 0, "what was run evicts nothing"
    assert front["setting"].iloc[-1] == AS_IT_WAS
    costs = tuning.replay.costs.groupby("setting")["reread_2500_usd"].sum()
    assert set(front["setting"]) <= {AS_IT_WAS, *tuning.settings} <= set(costs.index)
    with pytest.raises(UsageError, match="a front needs at least 4"):
        tune_policy(tmp_path / "projects" / "project-0", "keep-last", [40_000], **options)
