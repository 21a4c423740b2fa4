"""Tests of the thresholds of presets and of refused values."""

import pytest

from harness.compaction.presets.crush import Crush
from harness.compaction.presets.dexto import Dexto
from harness.compaction.presets.goose import Goose
from harness.compaction.presets.letta import Letta
from harness.conversation.messages import assistant, user
from harness.errors import UsageError
from harness.protocols import Policy
from tests.compaction.conversations import planned, report, view_of, work

LETTA, GOOSE, CRUSH_POLICY = Letta(), Goose(), Crush()

ADAPTED = Goose(adapted=True)


@pytest.mark.parametrize(
    ("policy", "size", "last_quiet"),
    [
        (LETTA, 128_000, 115_200),
        (ADAPTED, 128_000, 102_400),
        (CRUSH_POLICY, 128_000, 102_399),
        (CRUSH_POLICY, 200_000, 159_999),
        (CRUSH_POLICY, 400_000, 379_999),
        (Dexto(), 128_000, 115_200),
        (Dexto(window_cap_tokens=50_000), 128_000, 45_000),
        (Dexto(window_cap_tokens=200_000), 128_000, 115_200),
    ],
)
def test_presets_are_not_triggered_at_their_limit_but_one_token_above_it(policy: Policy, size: int, last_quiet: int) -> None:
    view = view_of(user("request"), *work(0, 9), assistant("done"), policy=policy)
    assert planned(policy, view, size, report(last_quiet)) is None
    assert planned(policy, view, size, report(last_quiet + 1)) is not None


def test_values_that_no_session_could_be_run_with_are_refused() -> None:
    for preset, field in ((Letta, "step_share"), (Goose, "threshold"), (Crush, "left_share"), (Dexto, "keep_share")):
        with pytest.raises(UsageError, match=field):
            preset(**{field: 0})  # type: ignore[arg-type]
