"""The file of baked weights: a header, then the payload of the manifest.

    0    8 bytes    "metbake1"
    8    3 x u64    where the payload begins (a multiple of 4096), its bytes, the bytes of a piece
    32   32 bytes   digest of the manifest
    64   32 bytes   content hash of the checkpoint
    96   32 bytes   SHA-256 of the header up to the payload, these 32 bytes being zero
    128  u32 each   CRC-32 of each piece of the payload

All numbers are little-endian. The header is checked at every opening. So is every piece of a payload of at most
VERIFY_ALWAYS_BYTES (100 MB take a thread about 35 ms, and bring the pages in). A larger payload is checked once and
then again whenever its size, times or inode change, so that a warm start of a large model does not read it as a whole.
"""

import hashlib
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
from msgspec import Struct

from circuit.errors import LoadError, RunError
from circuit_exec.build import available_threads
from circuit_exec.cache import Cache, recall, remember
from circuit_exec.checkpoint.mapped import map_file
from circuit_exec.checkpoint.raw import Bytes, as_array
from circuit_exec.checkpoint.records import MappedFile
from circuit_exec.pack import Words

MAGIC = b"metbake1"
PIECE_BYTES = 1 << 20
PAGE_BYTES = 4096
VERIFY_ALWAYS_BYTES = 256 << 20
KIND = "verified"

_HEAD = struct.Struct("<8sQQQ32s32s32s")
_NO_CHECKSUM = bytes(32)


class Identification(Struct, frozen=True, kw_only=True):
    """What a baked file belongs to: the manifest's digest and the checkpoint's content hash, in hex."""

    manifest: str
    content: str


class PayloadWriter:
    """Writes the payload and then the header that its checksums make."""

    def __init__(self, file: BinaryIO, n_bytes: int) -> None:
        self.file = file
        self.n_bytes = n_bytes
        self.at = 0
        self.checksums: list[int] = []
        self.file.seek(_payload_at(n_bytes))

    def put(self, data: Bytes) -> int:
        """Writes the next bytes of the payload; gives their number."""
        start = 0
        while start < len(data):
            if self.at % PIECE_BYTES == 0:
                self.checksums.append(0)
            part = data[start : start + PIECE_BYTES - self.at % PIECE_BYTES].data
            self.checksums[-1] = zlib.crc32(part, self.checksums[-1])
            self.file.write(part)
            self.at += len(part)
            start += len(part)
        return start

    def pad_to(self, offset: int) -> int:
        """Writes zero bytes up to a place in the payload; gives their number."""
        return self.put(np.zeros(offset - self.at, dtype=np.uint8))

    def finish(self, belongs: Identification) -> None:
        """Writes the header."""
        assert self.at == self.n_bytes, f"{self.at} of {self.n_bytes} bytes were written"
        self.file.seek(0)
        self.file.write(_header(belongs, self.n_bytes, self.checksums))


def open_payload(path: Path, belongs: Identification, n_bytes: int, cache: Cache) -> Words | str:
    """The payload, mapped, or what is wrong with the file."""
    try:
        file = map_file(str(path))
    except LoadError as error:
        return error.problems[0].message
    payload_at = _payload_at(n_bytes)
    if len(file.data) != payload_at + n_bytes:
        return f"it has {len(file.data)} bytes, not {payload_at + n_bytes}"
    data = as_array(file)
    checksums = data[_HEAD.size : _HEAD.size + 4 * _n_pieces(n_bytes)].view("<u4").tolist()
    header = _header(belongs, n_bytes, checksums)
    if data[:payload_at].tobytes() != header:
        return "its header is damaged"
    payload = data[payload_at:]
    damaged = _verify(path, file, payload, checksums, header[96:128].hex(), cache)
    return payload.view("<u4") if damaged is None else f"piece {damaged} of {len(checksums)} is damaged"


def _verify(
    path: Path, file: MappedFile, payload: Bytes, checksums: list[int], checksum: str, cache: Cache
) -> int | None:
    """The first damaged piece, counted from 1; None where all are whole."""
    large = len(payload) > VERIFY_ALWAYS_BYTES
    if large and recall(cache, KIND, path, file.identity) == checksum:
        return None
    damaged = _first_damaged(payload, checksums)
    if damaged is not None:
        return damaged
    if large:
        with suppress(RunError):  # Where the cache can only be read, the next start checks the payload again.
            remember(cache, KIND, path, file.identity, checksum)
    return None


def _first_damaged(payload: Bytes, checksums: list[int]) -> int | None:
    """As `_verify`. Threads take a piece each: zlib computes without Python's lock."""

    def whole(place: int) -> bool:
        return zlib.crc32(payload[place * PIECE_BYTES : (place + 1) * PIECE_BYTES].data) == checksums[place]

    with ThreadPoolExecutor(available_threads()) as threads:
        for place, found in enumerate(threads.map(whole, range(len(checksums)))):
            if not found:
                return place + 1
    return None


def _header(belongs: Identification, n_bytes: int, checksums: list[int]) -> bytes:
    payload_at = _payload_at(n_bytes)
    manifest, content = bytes.fromhex(belongs.manifest), bytes.fromhex(belongs.content)
    tail = struct.pack(f"<{len(checksums)}I", *checksums)
    tail += bytes(payload_at - _HEAD.size - len(tail))
    unsigned = _HEAD.pack(MAGIC, payload_at, n_bytes, PIECE_BYTES, manifest, content, _NO_CHECKSUM)
    checksum = hashlib.sha256(unsigned + tail).digest()
    return _HEAD.pack(MAGIC, payload_at, n_bytes, PIECE_BYTES, manifest, content, checksum) + tail


def _payload_at(n_bytes: int) -> int:
    return -(-(_HEAD.size + 4 * _n_pieces(n_bytes)) // PAGE_BYTES) * PAGE_BYTES


def _n_pieces(n_bytes: int) -> int:
    return -(-n_bytes // PIECE_BYTES)
