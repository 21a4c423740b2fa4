"""Package with a policy, installed for one test."""

import sys


def install(folder, monkeypatch, code):
    """Put the package `odd-policies` on the path; its entry point `odd` names the class `Odd` of a module with the given code."""
    (folder / "odd_policies_module.py").write_text(code)
    about = folder / "odd_policies-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-policies\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[harness.policies]\nodd = odd_policies_module:Odd\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "odd_policies_module", raising=False)
