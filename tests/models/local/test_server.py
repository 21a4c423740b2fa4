"""Servers of local models: started on request, protected by a key, and stopped with the process that started them."""

import hashlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace

import psutil
import pytest

from harness.errors import ProviderFailed, UsageError
from harness.models.local.catalogue import look_up_weights
from harness.models.local.server import serve_model, serve_models
from harness.models.local.weights import locate_folder

NAME = "local/smollm2-135m"
REAL = pytest.mark.local_llm
PARENT = f"""
import time
from harness.models.local.server import serve_model, serve_models
with serve_models(["{NAME}"]) as endpoints:
    print(endpoints["{NAME}"].address, flush=True)
    time.sleep(600)
"""


def status(address, key=None):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    asked = urllib.request.Request(f"{address}/v1/chat/completions", data=b"{}", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=300) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except urllib.error.URLError:
        return None


def children(pid):
    return psutil.Process(pid).children()


def servers():
    return [one for one in children(os.getpid()) if "host.py" in " ".join(one.cmdline())]


def has_ended(process):
    gone, _ = psutil.wait_procs([process], timeout=300)
    return process in gone


def test_models_that_are_not_local_start_nothing():
    with serve_models(["scripted", "gpt-4.1-mini", "hosted_vllm/mine"]) as endpoints:
        assert endpoints == {}
    assert servers() == []


def test_missing_weights_are_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_MODELS", str(tmp_path))
    before = children(os.getpid())
    with pytest.raises(UsageError, match="cannot be used"), serve_models([NAME]):
        pass
    assert children(os.getpid()) == before


@REAL
def test_a_server_answers_only_to_its_key_and_ends_with_its_context():
    before = set(children(os.getpid()))
    with serve_models([NAME, NAME, "scripted"]) as endpoints:
        [endpoint] = endpoints.values()
        [host] = set(children(os.getpid())) - before
        assert endpoint.address.startswith("http://127.0.0.1:")
        assert endpoint.key not in repr(endpoint)
        assert endpoint.key not in " ".join(host.cmdline())
        assert status(endpoint.address) == status(endpoint.address, "sk-another") == 401
        assert status(endpoint.address, endpoint.key) == 400  # let in, and told that the request is empty
    assert has_ended(host)
    assert status(endpoint.address) is None


@REAL
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_does_not_outlive_a_killed_parent(number):
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        assert parent.stdout.readline().startswith("http://127.0.0.1:")
        [host] = children(parent.pid)
        parent.send_signal(number)
        parent.wait()
    assert has_ended(host)


@REAL
def made_up(folder_of_weights, monkeypatch):
    """Create weights that no server can load."""
    nonsense = b"GGUF, or so it says"
    sha256 = hashlib.sha256(nonsense).hexdigest()
    weights = replace(look_up_weights(NAME), name="local/made", size_bytes=len(nonsense), sha256=sha256)
    monkeypatch.setenv("HARNESS_MODELS", str(folder_of_weights))
    (locate_folder() / weights.file_name).write_bytes(nonsense)
    return weights


def test_a_server_that_nobody_waits_for_any_more_is_ended_while_it_loads(tmp_path, monkeypatch):
    def nobody_waits():
        raise InterruptedError

    weights = made_up(tmp_path, monkeypatch)
    with pytest.raises(InterruptedError), serve_model(weights, nobody_waits):
        pytest.fail("it was not to be waited for")
    assert servers() == []


def test_weights_that_cannot_be_loaded_are_an_error_with_the_reason(tmp_path, monkeypatch):
    weights = made_up(tmp_path, monkeypatch)
    with pytest.raises(ProviderFailed, match="its server ended with exit code"), serve_model(weights):
        pass
