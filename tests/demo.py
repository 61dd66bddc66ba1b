"""The demo model, for tests that need real weights. They are slow ones."""

from pathlib import Path

import pytest

from circuit_exec.cache import user_cache
from circuit_exec.fetch import find_model

DEMO = "smollm2"


def demo_file() -> Path:
    """The file of the demo model; the test is skipped where nobody has fetched it, which `make test-slow` does."""
    found = find_model(DEMO, user_cache())
    if found is None:
        pytest.skip(f"the demo model is not in the cache: met fetch {DEMO}")
    return found
