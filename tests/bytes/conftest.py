"""The running models that all tests of bytes share."""

from collections.abc import Iterator

import pytest

from tests.bytes.running import Running


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Tiny models, made when first asked for."""
    made = Running(tmp_path_factory.mktemp("models"))
    yield made
    made.close()
