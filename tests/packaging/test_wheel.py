"""The wheel carries all that `met` needs: installed into a clean venv, it plans a model from another folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.models import tiny_config, write_config

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean venv with the wheel installed."""
    folder = tmp_path_factory.mktemp("venv")
    run([sys.executable, "-m", "venv", str(folder)], folder)
    run([str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel)], folder)
    return folder / "bin"


def run(command: list[str], cwd: Path) -> str:
    """Runs it with no path into the checkout; gives its output."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def test_the_wheel_holds_the_packages_and_the_data_but_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"circuit", "circuit_exec", "cli", "met_circuit-0.1.0.dist-info"}
    data = {name.removeprefix("circuit_exec/data/") for name in names if name.startswith("circuit_exec/data/")}
    toml = {
        path.relative_to(ROOT).as_posix() for top in ("kernels", "recipes") for path in (ROOT / top).rglob("*.toml")
    }
    assert toml <= data
    assert {f"circuit_exec/server/page/{name}" for name in ("index.html", "page.css", "page.js")} <= set(names)
    shown = ("diagram.css", "page.css", "page.html", "page.js")
    assert {f"circuit_exec/display/{name}" for name in shown} <= set(names)
    assert "met_circuit-0.1.0.dist-info/licenses/LICENSE" in names


def test_an_installed_met_says_its_version(bin_folder: Path, tmp_path: Path) -> None:
    assert run([str(bin_folder / "met"), "--version"], tmp_path) == "met 0.1.0\n"


def test_an_installed_met_plans_a_model_from_another_folder(bin_folder: Path, tmp_path: Path) -> None:
    write_config(tmp_path, tiny_config("llama"))
    shown = run([str(bin_folder / "met"), "circuit", "show", "config.json"], tmp_path)
    here = run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {SHOW}"], tmp_path)
    assert shown == here != "", "the installed plan is the checkout's plan"


SHOW = "from cli.main import status; status(['circuit', 'show', 'config.json'])"
