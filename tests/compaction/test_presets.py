"""Policies of other packages."""

import sys

import pytest

from harness.compaction.presets import PRESETS, policy_from_plain, policy_kinds
from harness.errors import UsageError
from tests.compaction.plugin import install


@pytest.fixture(autouse=True)
def forget():
    yield
    sys.modules.pop("odd_policies_module", None)


def test_a_policy_of_another_package_is_found_by_its_entry_point(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "class Odd:\n    kind = 'odd'\n")
    assert policy_kinds()["odd"].kind == "odd"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import no_such_module_anywhere\n", "ModuleNotFoundError"),
        ("def broken(:\n", "SyntaxError"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("", "AttributeError"),
    ],
)
def test_one_that_cannot_be_loaded_is_refused_by_entry_point_and_package(code, error, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, code)
    with pytest.raises(UsageError, match="policy 'odd' \\(odd_policies_module:Odd\\) of package 'odd-policies'") as refused:
        policy_kinds()
    assert error in str(refused.value)


def test_our_own_policies_work_beside_a_broken_package(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "1 / 0\n")
    assert isinstance(policy_from_plain({"kind": "none"}), PRESETS["none"])
