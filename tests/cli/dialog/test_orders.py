from io import StringIO

import pytest

from harness.cli.dialog.orders import Terminal
from harness.cli.narrator import Narrator
from harness.experiment.live import LiveSession
from tests.experiment.test_interactive import session
from tests.experiment.test_live import REAL, SECONDS, asks
from tests.models.openai_stub import Say, serving

MESSAGES = ("add a test for the parser", "can you look at b.txt instead?", "show me first")


@pytest.mark.bubblewrap
@pytest.mark.slow  # the library of real models takes its time to load
@pytest.mark.parametrize("answer", ["c", "Continue"])
def test_only_an_answer_answers_the_question_and_all_else_is_a_message(tmp_path, monkeypatch, answer):
    replies = [*(asks(number) for number in range(3)), *[Say(pieces=("done",))] * (1 + len(MESSAGES))]
    with serving(*replies) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted-0123456789")
        live = LiveSession(session(journal=tmp_path / "j.sqlite", **REAL)).start()
        try:
            log = StringIO()
            terminal = Terminal(live=live, narrator=Narrator(words=StringIO(), log=log))
            assert live.wait(SECONDS) == "asking", live.failure
            for message in MESSAGES:
                terminal.obey(message)
            assert (live.state, live.queued) == ("asking", MESSAGES)
            terminal.obey(answer)
            assert live.wait(SECONDS) == "idle"
            assert live.view.messages[-1].text == "done"
        finally:
            live.close()
    assert "error" not in log.getvalue()
