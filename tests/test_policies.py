"""Tests of policies of other packages, and of values that are refused as policies."""

import inspect
import re
import sys
from dataclasses import fields, replace

import pytest

from harness import policies
from harness.compaction.origins import find_origin
from harness.compaction.pipeline import Preset
from harness.conversation import codec
from harness.errors import UnknownName, UsageError
from harness.experiment.plan import read_plan
from harness.experiment.trial import Trial, from_stored, to_plain
from harness.policies import (
    PRESETS,
    PUBLIC_NAMES,
    WRAPPERS,
    find_kind,
    find_public_name,
    list_policy_names,
    list_versions,
    load_policy_class,
    load_policy_classes,
    policy_from_plain,
    policy_from_stored,
)
from harness.revisions import FIRST_VERSIONS
from harness.session.spec import SessionSpec, decode_setup, encode_setup
from tests.compaction.plugin import install
from tests.house.source import CHECKOUT


@pytest.fixture(autouse=True)
def forget():
    yield
    sys.modules.pop("odd_policies_module", None)


@pytest.mark.parametrize("kind", PRESETS)
def test_a_field_of_another_type_is_refused_in_words_before_a_policy_looks_at_it(kind):
    for field in fields(PRESETS[kind]):
        for odd in (object(), ["x"], {}):
            with pytest.raises(UsageError, match=f"^{field.name}.*: must be "):
                PRESETS[kind](**{field.name: odd})


@pytest.mark.parametrize("kind", PRESETS)
def test_a_misspelt_field_is_refused_with_the_nearest_names(kind):
    for field in fields(PRESETS[kind]):
        misspelt = field.name[:-2] + field.name[-1]
        with pytest.raises(
            UnknownName, match=f"unknown field of {PRESETS[kind].__name__}: '{misspelt}'; did you mean .*'{field.name}'"
        ):
            PRESETS[kind](**{misspelt: field.default})
    with pytest.raises(UnknownName, match="'treshold'; did you mean 'threshold'"):
        replace(PRESETS["keep-last"](), treshold=0.5)


@pytest.mark.parametrize(("kind", "name"), PUBLIC_NAMES.items())
def test_a_policy_has_the_same_ids_under_its_public_name_and_its_kind(kind, name, tmp_path):
    (tmp_path / "plan.toml").write_text(f'[trial]\ntask = "flashcards"\npolicy = "{name}"\n')
    trials = [read_plan(tmp_path).base, *(Trial(task="flashcards", policy=text) for text in (kind, name))]
    assert len({trial.trial_id for trial in trials}) == 1
    policy = policy_from_plain({"kind": name, "clip_characters": 400})
    assert policy == policy_from_plain({"kind": kind, "clip_characters": 400}) == PRESETS[kind](clip_characters=400)
    assert codec.to_plain(policy)["kind"] == kind
    assert load_policy_class(name) is load_policy_class(kind) is load_policy_classes()[name]
    assert name in list_policy_names()
    assert kind not in list_policy_names()
    assert name not in PRESETS


@pytest.mark.parametrize("stored", FIRST_VERSIONS)
def test_the_plain_name_is_the_newest_version_and_a_stored_name_is_the_first(stored, tmp_path):
    newest, *_, first = list_versions(stored)
    assert first == FIRST_VERSIONS[stored]
    assert codec.to_plain(policy_from_plain({"kind": stored}))["kind"] == find_kind(stored) == newest
    policy = policy_from_stored({"kind": stored})
    assert codec.to_plain(policy)["kind"] == first
    assert policy_from_stored(codec.to_plain(policy)) == policy_from_plain(codec.to_plain(policy)) == policy
    setup = encode_setup(SessionSpec(request="", policy=stored))
    assert codec.to_plain(decode_setup(setup)["policy"])["kind"] == newest
    for text in (stored, first):
        (tmp_path / "plan.toml").write_text(f'[trial]\ntask = "flashcards"\npolicy = "{text}"\n')
        trial = read_plan(tmp_path).base
        assert from_stored(to_plain(trial)).trial_id == trial.trial_id


CODEX_VERSIONS = "did you mean 'codex@2026' or 'codex@2025'"


@pytest.mark.parametrize(
    ("name", "allowed"), [("codex@2019", CODEX_VERSIONS), ("codex@", CODEX_VERSIONS), ("pi@2026", "known: pi. 'pi' has only one")]
)
def test_an_unknown_version_is_refused_with_the_known_ones(name, allowed):
    with pytest.raises(UnknownName, match=f"unknown version of a policy '{name}'; {allowed}"):
        policy_from_plain({"kind": name})


def test_each_policy_has_an_origin_that_the_list_of_sources_names():
    sources = (CHECKOUT / "docs" / "sources.md").read_text()
    peers = "\n".join(path.read_text() for path in (CHECKOUT / "tests" / "peers").glob("test_*.py"))
    for kind, preset in PRESETS.items():
        origin = find_origin(kind)
        assert origin is not None, f"add {kind!r} to harness/compaction/origins.py"
        is_tested = re.search(rf"^from harness.compaction.*\b{preset.__name__}\b", peers, re.MULTILINE)
        assert (origin.evidence == "differential") == bool(is_tested)
        if origin.evidence == "own design":
            continue
        assert origin.version.split()[-1] in sources
        assert f"`{find_public_name(kind)}`" in sources
        assert re.fullmatch(r"(read )?2026-\d\d-\d\d", origin.date)


def test_text_is_no_number_and_a_number_no_switch():
    for wrong in ({"threshold": "0.5"}, {"threshold": True}, {"keep_last": 4.5}, {"keep_last": True}, {"context_window": "32k"}):
        with pytest.raises(UsageError, match=r"must be a (whole )?number"):
            PRESETS["keep-last"](**wrong)
    assert PRESETS["keep-last"](threshold=1).threshold == 1


ODD = """
from dataclasses import dataclass
from typing import Literal

from harness.compaction.presets.none import NoCompaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd(NoCompaction):
    every: int = 3
    kind: Literal["odd"] = "odd"
"""


def test_a_policy_of_another_package_is_loaded_by_its_entry_point(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, ODD)
    assert list_policy_names() == tuple(sorted({*map(find_public_name, PRESETS), "odd"}))
    assert load_policy_classes()["odd"] is load_policy_class("odd")
    assert policy_from_plain({"kind": "odd", "every": 4}) == load_policy_class("odd")(every=4)
    with pytest.raises(UnknownName, match="did you mean 'every'"):
        policy_from_plain({"kind": "odd", "evry": 4})
    with pytest.raises(UnknownName, match="did you mean 'odd'"):
        policy_from_plain({"kind": "od"})


@pytest.mark.parametrize(
    ("code", "explanation"),
    [
        ("Odd = 3\n", "it must be a dataclass"),
        ("class Odd:\n    kind = 'odd'\n", "it must be a dataclass"),
        (ODD.replace("frozen=True, slots=True, kw_only=True", "").replace("(NoCompaction)", ""), "it must be frozen"),
        (ODD.replace('"odd"', '"even"'), "its field `kind` must have the default 'odd'"),
        (ODD.replace("(NoCompaction)", ""), "it has no budget, no clip_characters, no counter, no plan"),
    ],
)
def test_a_plugin_class_that_is_no_policy_is_refused_with_its_defect(code, explanation, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, code)
    with pytest.raises(UsageError, match=r"policy 'odd' .* of package 'odd-policies' is not a policy: ") as refused:
        policy_from_plain({"kind": "odd"})
    assert explanation in str(refused.value)


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
def test_a_plugin_that_cannot_be_loaded_is_refused_with_its_entry_point_and_package(code, error, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, code)
    with pytest.raises(UsageError, match="policy 'odd' \\(odd_policies_module:Odd\\) of package 'odd-policies'") as refused:
        load_policy_classes()
    assert error in str(refused.value)


def test_our_own_policies_work_beside_a_broken_package(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "1 / 0\n")
    assert isinstance(policy_from_plain({"kind": "none"}), PRESETS["none"])


def test_every_public_name_is_exported_and_every_preset_is_one_of_them():
    own = {name for name, value in vars(policies).items() if getattr(value, "__module__", "") == policies.__name__}
    presets = {value.__name__ for value in vars(policies).values() if inspect.isclass(value) and issubclass(value, Preset)}
    constants = {name for name in vars(policies) if name.isupper()}
    wrappers = {wrapper.__name__ for wrapper in WRAPPERS.values()}
    assert set(policies.__all__) == {name for name in own | presets | wrappers | constants if not name.startswith("_")}
    assert {PRESETS[kind].__name__ for kind in PRESETS} == presets
    assert all(kind == preset().kind for kind, preset in PRESETS.items())
    assert policies.__all__ == sorted(policies.__all__, key=lambda name: (not name.isupper(), name.islower(), name))
