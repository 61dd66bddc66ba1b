"""What can go wrong in a comparison, and what to do about it."""

import signal


class BenchError(Exception):
    """One message and its fix."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"error: {message}\n  = fix: {fix}")


def ended(name: str, code: int, said: str) -> BenchError:
    """A process that was to go on: by itself, with what it said last, or by a signal, as one that crashes."""
    said = "\n".join(said.splitlines()[-12:])
    if code >= 0:
        return BenchError(f"{name} ended with code {code}:\n{said}", "see its message above")
    message = f"{name} was ended by {signal.Signals(-code).name}" + (f":\n{said}" if said else "")
    return BenchError(message, "leave out what crashes, such as a build by --isas, or see why by a debugger")
