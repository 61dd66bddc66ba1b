"""A tiny model that the tests of the engine share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from circuit_exec.cache import Cache
from circuit_exec.model import Model, load_model
from tests import models
from tests.engine.asking import OPENED

Load = Callable[..., Model]


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory, share: Callable[[Cache], Cache]) -> Iterator[Load]:
    """Loads the tiny model with so many threads and pages; all that were loaded are closed at the end."""
    root: Path = tmp_path_factory.mktemp("engine")
    folder = models.write_checkpoint(root / "model", models.tiny_config("llama"))
    cache = share(Cache(root=root / "cache"))
    loaded: list[Model] = []

    def make(n_threads: int = 2, n_pages: int = 40) -> Model:
        made = load_model(str(folder), cache, n_threads, "all", (), lambda what, part: None, n_pages=n_pages)
        loaded.append(made)
        return made

    yield make
    for model in loaded:
        model.close()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture(scope="module")
def model(load: Load) -> Model:
    """The model with two threads and 40 pages."""
    return load()
