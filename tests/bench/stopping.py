"""Time from a request to stop until a session rests, while its provider is silent in the middle of an answer (S1.5).

The tests check only that the session does not wait for the provider, since a busy machine stretches any time.
"""

import os
import threading
import time
from collections.abc import Iterator
from statistics import median

from harness.conversation.events import TextDelta
from harness.session.live_session import LiveSession
from tests.bench.figure import Figure
from tests.models.openai_stub import Say, serving
from tests.session.test_execution import session

ROUNDS = 5
BAR_SECONDS = 1.0


def stopping() -> Iterator[Figure]:
    seconds = median(measure_stop() for _ in range(ROUNDS))
    yield Figure(name="stopping a session whose provider is silent", value=seconds, unit="s", bar=BAR_SECONDS)


def measure_stop() -> float:
    spoken = threading.Event()

    def listen(event: object) -> None:
        if isinstance(event, TextDelta):
            spoken.set()

    with serving(Say(pieces=("I was about", " to say"), stall_after=3)) as stub:
        os.environ |= {"HOSTED_VLLM_API_BASE": stub.base, "HOSTED_VLLM_API_KEY": "unused"}
        spec = session(journal=None, model="hosted_vllm/stub", window_tokens=50_000, task=None, request="do something")
        live = LiveSession(spec, on_event=listen)
        live.start()
        spoken.wait()
        began = time.perf_counter()
        live.stop()
        live.wait()
        seconds = time.perf_counter() - began
        live.close()
    return seconds
