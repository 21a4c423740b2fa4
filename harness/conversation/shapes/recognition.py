"""Recognition of the shape of a list of messages."""

from collections.abc import Mapping, Sequence

from harness.conversation.shapes.anthropic import Anthropic
from harness.conversation.shapes.gemini import Gemini
from harness.conversation.shapes.langchain import LangChain
from harness.conversation.shapes.openai_chat import OpenAIChat
from harness.conversation.shapes.openai_responses import OpenAIResponses
from harness.conversation.shapes.shape import Shape, refuse
from harness.conversation.shapes.smolagents import Smolagents
from harness.errors import UsageError

SHAPES: tuple[Shape, ...] = (
    Smolagents(),
    OpenAIChat(),
    OpenAIResponses(),
    Anthropic(),
    Gemini(),
    LangChain(),
    LangChain(is_nested=False),
)
"""Shapes of message lists that can be compacted; the first that owns all messages counts."""


def recognize_shape(raws: Sequence[object], first_number: int = 0, known: Shape | None = None) -> Shape | None:
    """Return the shape of raw messages; None if they are valid in several shapes, as `{"role": …, "content": "text"}` is.

    Args:
        raws: Raw messages.
        first_number: Number of the first raw message, for error messages.
        known: Shape of the messages before them; None if they could have several.

    Raises:
        UsageError: A raw message is no dict or has no known shape, or two raw messages have different shapes.
    """
    shapes, witness = [known] if known else [], "the messages before"
    for number, raw in enumerate(raws, first_number):
        if not isinstance(raw, Mapping):
            advice = "; convert objects with model_dump() or messages_to_dict()" if hasattr(raw, "__dict__") else ""
            raise refuse(number, f"a message must be a dict (got {type(raw).__name__}: {raw!r:.80}){advice}")
        owners = [candidate for candidate in SHAPES if candidate.owns(raw)]
        if not owners and "role" not in raw:
            names = ", ".join(candidate.name for candidate in SHAPES)
            raise refuse(number, f"no known shape ({names}) has a message with the keys {', '.join(map(repr, raw)) or '(none)'}")
        if not owners:
            continue
        if not shapes:
            shapes, witness = owners, f"messages[{number}]"
        elif not (common := [shape for shape in shapes if shape in owners]):
            raise UsageError(
                f"messages[{number}]: has the shape of {owners[0].name}, but {witness} that of {shapes[0].name}; use one shape"
            )
        else:
            shapes = common
    return shapes[0] if shapes else None
