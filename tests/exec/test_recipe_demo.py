"""The recipe of the demo model, in a copy of the tree with a cache of its own: other threads, every class."""

import shutil
from pathlib import Path

import pytest

from circuit.load.hardware import against_host, load_hardware
from circuit_exec.cache import entry_path, user_cache
from circuit_exec.host import this_host
from circuit_exec.library import library
from tests.cli.harness import ROOT, met
from tests.demo import DEMO, demo_file

RECIPE = "recipes/llama/smollm2_135m_q4_1.toml"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "threads"), [("cpu", "1"), ("avx2", "3"), ("avx512", "2")])
def test_the_recipe_of_the_demo_model_verifies_in_a_fresh_place(name: str, threads: str, tmp_path: Path) -> None:
    host, hardware = this_host(), load_hardware(library(), name)
    against = against_host(hardware, host.machine, host.features)
    if against is not None:
        pytest.skip(f"this host does not run it: {against}")
    fetched = demo_file()
    shutil.copy(ROOT / RECIPE, tmp_path / "recipe.toml")
    own = tmp_path / "cache" / "met" / entry_path(user_cache(), "models", DEMO).relative_to(user_cache().root)
    own.mkdir(parents=True)
    (own / fetched.name).symlink_to(fetched)
    ran = met("recipe", "verify", "recipe.toml", "--class", name, "--threads", threads, home=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.splitlines()[-1] == "verified"
