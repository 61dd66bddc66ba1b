"""What a run of the tests makes once, whichever of its tests and processes is first to ask; and which files go first.

Plan sets and programs are made once. The cache has both under keys of all that they are made of, so that nobody can
get what another test made otherwise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from circuit_exec import build, planned
from circuit_exec.cache import Cache

LONGEST = (
    "bytes/test_invariance.py",
    "bytes/test_relations.py",
    "bytes/test_kv_formats.py",
    "cli/test_emit.py",
    "oracle/test_models.py",
    "oracle/test_kv_models.py",
    "bytes/test_classes.py",
    "bytes/test_schemes.py",
    "bytes/test_block_formats.py",
    "mutation/test_keys.py",
    "diff/test_diff.py",
    "bytes/test_storage_choice.py",
    "lower/test_proofs.py",
    "packaging/test_wheel.py",
)
"""The files that take longest. They go first, so that no process is left with one of them when the others are done."""

KINDS = (build.KIND, planned.KIND)
QUICK = tuple("-O1" if flag == "-O3" else flag for flag in build.COMMON_FLAGS)


def shared(cache: Cache, folder: Path) -> Cache:
    """The new cache, with the plan sets and programs that are in `folder`; all else that it keeps is its own."""
    cache.root.mkdir(parents=True)
    for kind in KINDS:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        (cache.root / kind).symlink_to(folder / kind)
    return cache


@contextmanager
def compiled_quickly() -> Iterator[None]:
    """With -O1, in three fifths of the time: for programs that others are compared with to the byte, and for those of
    which only the meaning is asked. What is under test has -O3.
    """
    assert QUICK != build.COMMON_FLAGS
    with patch.object(build, "COMMON_FLAGS", QUICK):
        yield
