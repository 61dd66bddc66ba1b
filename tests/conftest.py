"""Options and fixtures that all tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from circuit_exec.cache import Cache
from tests.shared import LONGEST, shared

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what the tests got")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(scope="session")
def share(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Cache], Cache]:
    """Makes a new cache one that has the plan sets and programs of the whole run, in all its processes."""
    own = tmp_path_factory.getbasetemp()
    run = own.parent if hasattr(request.config, "workerinput") else own
    return lambda cache: shared(cache, run / "shared")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with tests/golden/<name>; under --update-golden it writes the file instead."""
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: run pytest --update-golden, read it, and commit it"
        assert text == path.read_text(encoding="utf-8"), (
            f"{path} differs: if the change is meant, pytest --update-golden"
        )

    return check
