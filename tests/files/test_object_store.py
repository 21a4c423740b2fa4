"""Stores given by a URL: a folder, memory, and S3, whose server runs on the loopback interface."""

import pytest

from harness.errors import StoreError, UsageError
from harness.files.object_store import ObjectStore
from tests.stores import STORES, open_store_url


@pytest.fixture(params=STORES)
def store(request, tmp_path, monkeypatch):
    with open_store_url(request.param, tmp_path, monkeypatch) as url:
        yield ObjectStore(url)


@pytest.mark.slow
def test_a_written_object_can_be_read_and_replaced(store, tmp_path):
    assert store.read("journals/a", 1_000) is None
    assert store.list_names("journals") == []
    store.write("journals/a", b"first")
    store.write("journals/a", b"second")
    large = bytes(range(256)) * 10_000
    (tmp_path / "large").write_bytes(large)
    store.write_file("journals/b.zst", tmp_path / "large")
    assert store.read("journals/a", 1_000) == b"second"
    assert b"".join(store.read_chunks("journals/b.zst")) == large
    assert max(map(len, store.read_chunks("journals/b.zst"))) < len(large)
    assert store.list_names("journals") == ["a", "b.zst"]
    with store.open("journals/a") as file:
        assert file.read() == b"second"


def test_a_missing_object_is_an_error_that_names_the_store(store):
    with pytest.raises(StoreError, match="cannot read 'none' from the store"):
        list(store.read_chunks("none"))


def test_another_client_sees_new_objects(store):
    other = ObjectStore(store.url)
    assert other.list_names("journals") == []
    store.write("journals/a", b"1")
    assert other.list_names("journals") == ["a"]


@pytest.mark.parametrize("url", ["nowhere://x/y", "s9://bucket"])
def test_an_unknown_scheme_is_refused(url):
    with pytest.raises(UsageError, match="is no URL of a store"):
        ObjectStore(url)


def test_credentials_in_a_url_are_refused_and_not_repeated():
    with pytest.raises(UsageError, match="credentials") as caught:
        ObjectStore("sftp://ann:s3cret-word@host/folder")
    assert "s3cret" not in str(caught.value)


@pytest.mark.slow
def test_a_store_that_cannot_be_reached_is_a_store_error(monkeypatch):
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StoreError, match="cannot write 'a' to the store 's3://bucket/x'"):
        ObjectStore("s3://bucket/x").write("a", b"")
