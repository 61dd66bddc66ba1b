"""The log: one JSON object a line, for each request and for what goes wrong; prompts only where that is asked for."""

import json
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime


class Log:
    """Writes lines with `write`, which gets whole lines; any thread may call."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._lock = threading.Lock()

    def event(self, event: str, **fields: object) -> None:
        """One line."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, "event": event, **fields}, ensure_ascii=False, default=str)
        with self._lock:
            self._write(line + "\n")

    def failure(self, event: str, error: BaseException, **fields: object) -> None:
        """A line with where an error came from; clients are told none of it."""
        trace = "".join(traceback.format_exception(error))
        self.event(event, error=type(error).__name__, trace=trace, **fields)
