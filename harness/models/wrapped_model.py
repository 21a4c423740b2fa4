"""Base class for models that wrap another model, use its name and limits, and change only how a request is answered."""

from dataclasses import dataclass

from harness.conversation.tokens import Window
from harness.protocols import LimitedInputModel, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedModel:
    """Base class of a model that wraps another model; name and limits are those of the wrapped model."""

    model: Model
    """Wrapped model, which answers the requests."""

    @property
    def name(self) -> str:
        """Name of the wrapped model."""
        return self.model.name

    @property
    def window(self) -> Window:
        """Context window of the wrapped model."""
        return self.model.window

    @property
    def max_input_tokens(self) -> int | None:
        """Maximum input in tokens when the model writes summaries; None means no limit besides the window."""
        model: object = self.model
        return model.max_input_tokens if isinstance(model, LimitedInputModel) else None
