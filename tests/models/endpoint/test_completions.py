"""A client reads the same answer that the server encoded."""

import json

from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import Message, Reasoning, assistant
from harness.models.endpoint.completions import encode_chunks, encode_completion
from harness.models.openai_format import StreamedReply
from harness.protocols import Reply
from tests.models.test_openai_format import calls as whole_calls
from tests.models.test_openai_format import some_text, texts, usages


def reply_of(reasoning, text, calls, usage, ending):
    spoken = assistant(text, *calls)
    thought = (Reasoning(text=reasoning),) if reasoning else ()
    message = Message(role="assistant", parts=thought + spoken.parts)
    return Reply(message=message, usage=usage, seconds=0.0, cut_short=ending == "length", refused=ending == "content_filter")


several_calls = st.lists(whole_calls, max_size=3, unique_by=lambda call: call.call_id)
replies = st.builds(reply_of, texts, texts, several_calls, usages, st.sampled_from(["", "length", "content_filter"]))


@given(some_text, replies)
def test_a_streamed_reply_comes_back_whole(name, reply):
    read = StreamedReply()
    heard = [
        delta for chunk in encode_chunks(name, reply, include_usage=True) for delta in read.add(json.loads(json.dumps(chunk)))
    ]
    assert "".join(delta.text for delta in heard if delta.part == "text") == reply.message.text
    assert "".join(delta.text for delta in heard if delta.part == "reasoning") == reply.message.reasoning
    assert read.build_message(lambda given: given) == reply.message
    assert read.usage == (reply.usage if reply.usage.prompt_tokens else None)
    assert (read.finish_reason == "length") == reply.cut_short
    assert (read.finish_reason == "content_filter") == reply.refused


@given(some_text, replies)
def test_an_answer_at_once_says_the_same_as_the_stream(name, reply):
    [choice] = encode_completion(name, reply)["choices"]
    whole = StreamedReply()
    whole.add({"choices": [{"delta": choice["message"], "finish_reason": choice["finish_reason"]}]})
    streamed = StreamedReply()
    for chunk in encode_chunks(name, reply, include_usage=False):
        streamed.add(chunk)
    assert "".join(whole.texts) == "".join(streamed.texts)
    assert "".join(whole.reasonings) == "".join(streamed.reasonings)
    assert whole.finish_reason == streamed.finish_reason
    assert streamed.usage is None
    calls = [(call["id"], call["function"]["arguments"]) for call in choice["message"].get("tool_calls", [])]
    assert calls == [(call.call_id, call.arguments_json) for call in reply.message.calls]
