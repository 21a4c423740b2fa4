"""What the fields of presets may hold: checked when a policy is made, so that no session starts with nonsense."""

from harness.errors import UsageError


def check_at_least(policy: object, least: int, *names: str) -> None:
    """Refuse a number below `least`; None is always allowed.

    Raises:
        UsageError: names the field and what stood there.
    """
    for name in names:
        value = getattr(policy, name)
        if value is not None and value < least:
            wanted = "must not be negative" if least == 0 else f"must be at least {least}"
            raise UsageError(f"{name}={value!r} {wanted}")


def check_share(policy: object, *names: str) -> None:
    """Refuse what is no share above 0 and at most 1.

    Raises:
        UsageError: names the field and what stood there.
    """
    for name in names:
        value = getattr(policy, name)
        if not 0 < value <= 1:
            raise UsageError(f"{name}={value!r} must be above 0 and at most 1")
