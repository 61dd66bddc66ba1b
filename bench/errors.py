"""What can go wrong in a comparison, and what to do about it."""


class BenchError(Exception):
    """One message and its fix."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"error: {message}\n  = fix: {fix}")
