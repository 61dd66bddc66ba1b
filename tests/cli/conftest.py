"""One tiny model, compiled once, for all commands that run it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

from circuit_exec.cache import Cache
from tests.cli.harness import Ran, met
from tests.models import tiny_config, write_checkpoint


class Home(Struct, frozen=True, kw_only=True):
    """A folder with `model` and `cache`."""

    folder: Path

    def met(self, *arguments: str | Path, **environment: str) -> Ran:
        """Runs a command there."""
        return met(*arguments, home=self.folder, **environment)

    def new_cache(self, name: str) -> dict[str, str]:
        """The environment of a command that shall have another cache folder."""
        return {"XDG_CACHE_HOME": str(self.folder / name)}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, share: Callable[[Cache], Cache]) -> Home:
    folder = tmp_path_factory.mktemp("home")
    share(Cache(root=folder / "cache" / "met"))
    write_checkpoint(folder / "model", tiny_config("llama"))
    return Home(folder=folder)
