"""Comparison of the results of two runs of one experiment."""

import pandas as pd

from harness.store.columns import TABLES, VOLATILE_COLUMNS


def read_tables(results):
    """Return the tables of results without their volatile columns, in an order that does not depend on the run."""
    tables = {}
    for name in TABLES:
        frame = getattr(results, name).drop(columns=list(VOLATILE_COLUMNS.get(name, ())))
        owner = frame["session_id" if "session_id" in frame else "trial_id"].astype(str)
        tables[name] = frame.assign(owner=owner).sort_values("owner", kind="stable", ignore_index=True).drop(columns="owner")
    return tables


def check_equal(results, local_results):
    ours, theirs = read_tables(results), read_tables(local_results)
    for name in TABLES:
        pd.testing.assert_frame_equal(ours[name], theirs[name])
