"""One cache folder for all tests of a module."""

from collections.abc import Callable

import pytest

from circuit_exec.cache import Cache


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, share: Callable[[Cache], Cache]) -> Cache:
    """A cache that is empty but for the plan sets and programs of the run."""
    return share(Cache(root=tmp_path_factory.mktemp("exec") / "cache"))
