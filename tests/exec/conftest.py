"""One cache folder for all tests of a module."""

import pytest

from circuit_exec.cache import Cache


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """An empty cache."""
    return Cache(root=tmp_path_factory.mktemp("cache"))
