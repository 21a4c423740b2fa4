"""Stores for tests: a folder, and S3 on the loopback interface."""

import logging
from contextlib import contextmanager
from uuid import uuid4

import pytest

STORES = ("folder", pytest.param("s3", marks=pytest.mark.slow))  # client and server take seconds to import


@contextmanager
def open_store_url(kind, folder, monkeypatch):
    """Yield the URL of an empty folder in a store of a kind; the environment has what clients of S3 need."""
    if kind == "folder":
        yield f"file://{folder}/store"
        return
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket-{uuid4().hex[:8]}"
    try:
        boto3.client("s3").create_bucket(Bucket=bucket)
        s3fs.S3FileSystem.clear_instance_cache()  # its clients are those of an earlier server
        yield f"s3://{bucket}/store"
    finally:
        server.stop()
