"""The comparison with other agent programs: every driver runs the same session, and the page shows what was measured."""

import json
from contextlib import closing

import pytest

from tests.bench.peers.page import PAGE, RESULTS, build_page, list_violations
from tests.bench.peers.systems import FLOOR, OURS, SYSTEMS

STEPS = 6


def results_of(cpu_seconds):
    """Return results in which each system takes the same CPU time in each session of 50 and of 200 steps."""
    sessions = {
        key: {steps: [{"cpu_seconds": seconds, "memory_bytes": 1, "disk_bytes": 1}] for steps in ("50", "200")}
        for key, seconds in cpu_seconds.items()
    }
    return {"sessions": sessions}


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=[one.key for one in SYSTEMS])
def test_every_driver_makes_all_steps_and_its_log_has_all_outputs(system, tmp_path):
    if system.environment is not None and not system.environment.is_installed:
        pytest.skip("`make bench-peers` creates its environment")
    with closing(system.start(str(tmp_path))) as driver:
        measured = driver.ask("measure", steps=STEPS, session=3, folder=str(tmp_path / "one"))  # checks the number of results
        assert measured["cpu_seconds"] > 0
        assert (measured["disk_bytes"] > STEPS * 400) == (system.log != "none")
        if system.log != "none":
            logs = {"sessions": 2, "steps": STEPS, "folder": str(tmp_path / "logs")}
            driver.ask("record", **logs)
            assert driver.ask("read", rows="messages", **logs)["rows"] >= 2 * (2 * STEPS - 1)  # checks that all outputs are there
            with pytest.raises(AssertionError, match="missing in the frame"):
                driver.ask("read", rows="messages", **logs | {"sessions": 3})


def test_being_slower_than_a_required_system_is_a_violation():
    ahead = {one.key: 2.0 for one in SYSTEMS} | {OURS.key: 1.0}
    assert list_violations(results_of(ahead)) == []
    assert list_violations(results_of(ahead | {FLOOR.key: 0.1})) == []
    assert len(list_violations(results_of(ahead | {"langgraph": 0.5}))) == 2
    (only,) = list_violations(results_of(ahead | {"langgraph without log": 0.5}))
    assert "200 steps" in only


def test_the_page_shows_the_stored_results():
    results = json.loads(RESULTS.read_text("utf-8"))
    assert PAGE.read_text("utf-8") == build_page(results)
    assert list_violations(results) == []
