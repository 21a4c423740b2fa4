"""A model around another model: everything but the reply is passed on."""

from dataclasses import dataclass

from harness.protocols import LimitedInputModel, Model
from harness.tokens import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedModel:
    """A model that passes requests on to another one, under its name and with its limits."""

    model: Model
    """The model that requests are passed on to."""

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
        """Input limit of the wrapped model as a summarizer; None = no limit of its own."""
        model: object = self.model
        return model.max_input_tokens if isinstance(model, LimitedInputModel) else None
