"""Traces of profilers: which kind a file is, and the kernels that it has."""

import gzip
import zlib
from pathlib import Path

from circuit.errors import LoadError, Problem
from circuit.report.trace import Trace
from circuit_exec.trace.chrome import chrome_launches
from circuit_exec.trace.nsight import SQLITE, nsight_launches

GZIP = b"\x1f\x8b"
KINDS = "give a Chrome trace as JSON (torch.profiler's export_chrome_trace), or `nsys export --type sqlite`'s file"


def read_trace(path: str) -> Trace:
    """The launches of a trace, in the order in which they began; a file that has none is a LoadError."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        message = f"the trace cannot be read: {(error.strerror or str(error)).lower()}"
        raise LoadError(Problem(message=message, fix=KINDS, file=path)) from error
    if not data.strip():
        raise LoadError(Problem(message="the trace is empty", fix=KINDS, file=path))
    if data.startswith(SQLITE):
        return Trace(kind="Nsight Systems export", launches=nsight_launches(path))
    return Trace(kind="Chrome trace", launches=chrome_launches(path, _text(path, data)))


def _text(path: str, data: bytes) -> str:
    """The JSON text, which may be packed."""
    if data.startswith(GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            message = "the packed trace is damaged or cut off"
            raise LoadError(Problem(message=message, fix="copy or record it again", file=path)) from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = "the file is no trace: neither JSON nor an SQLite database"
        raise LoadError(Problem(message=message, fix=KINDS, file=path)) from error
