"""The running models that all tests of bytes share."""

from collections.abc import Callable, Iterator

import pytest

from circuit_exec.cache import Cache
from tests.bytes.running import Running


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, share: Callable[[Cache], Cache]) -> Iterator[Running]:
    """Tiny models, made when first asked for."""
    folder = tmp_path_factory.mktemp("models")
    made = Running(folder, share(Cache(root=folder / "cache" / "met")))
    yield made
    made.close()
