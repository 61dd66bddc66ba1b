"""A contestant's process: it makes one work ready, says so, and then does it once for every line that it is sent.

The protocol is the same for all: the first line of its output is `ready` and what it wants to be known by; after that,
each line in gives one line out, the seconds that the work took. It ends when its input ends. Between two lines it waits
without using the processor, so that the others can be timed.
"""

import subprocess
import tempfile

from bench.errors import BenchError, ended


class Worker:
    """A process that is ready to be timed."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
        )
        try:
            self.info = self._line().removeprefix("ready").strip()
        except BaseException:
            self.close()
            raise

    def seconds(self) -> float:
        """Does the work once."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error
        return float(self._line())

    def close(self) -> None:
        """Ends the process. Closing twice is fine."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._said.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return line.strip()

    def _ended(self) -> BenchError:
        code = self._process.wait()
        self._said.seek(0)
        return ended(self.name, code, self._said.read())
