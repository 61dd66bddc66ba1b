"""The cache of plan sets: what is kept, when it is made again, and what its key depends on."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from circuit.bake.layout import PANEL
from circuit.bake.manifest import build_manifest
from circuit.emit.derive import layout
from circuit.load.inputs import Library
from circuit.text import Source
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.planned import Planned, planned, planning_key
from tests import models
from tests.exec import small

LIBRARY = Library(files=tuple(Source(path=f"kernels/{name}.toml", text=f"{name} = 1\n") for name in "ab"))


def a_plan_set() -> Planned:
    return Planned(
        hardware_class="cpu",
        arch="x86-64-v3",
        sources=(Source(path="x.c", text="int x;\n"),),
        layout=layout(small.PLANS),
        manifest=build_manifest(small.PLANS[0].weights, PANEL, equal=(("a", "b"),)),
        bytes_digest="12ab",
        digests=(("decode", "34cd"), ("prefill", "56ef")),
        launches=(3, 4),
        certificate=(("threads", "yes", "tests/a.py::test_b"), ("restart", "no", "it is not")),
    )


def never() -> Planned:
    raise AssertionError("the cache has it")


def test_a_plan_set_reads_back_from_the_cache(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path)
    assert planned("key", cache, a_plan_set) == a_plan_set()
    assert planned("key", cache, never) == a_plan_set()


@pytest.mark.parametrize("damage", [b"", b"not what was written"])
def test_a_damaged_entry_is_planned_again(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(root=tmp_path)
    planned("key", cache, a_plan_set)
    (entry,) = (tmp_path / "planned").iterdir()
    entry.write_bytes(damage)
    other = replace(a_plan_set(), sources=())
    assert planned("key", cache, lambda: other) == other
    assert planned("key", cache, never) == other


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "planned").write_text("a file where the folder should be")
    assert planned("key", Cache(root=tmp_path), a_plan_set) == a_plan_set()


@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
def test_the_key_depends_on_everything_that_planning_reads(tmp_path: Path, kind: str) -> None:
    def key(name: str, theta: float, vocab: int, library: Library = LIBRARY, rules: str = "all") -> str:
        folder = tmp_path / name
        config = models.tiny_config("llama", rope_theta=theta, vocab_size=vocab)
        if not folder.exists():
            models.write_checkpoint(folder, config)
            models.write_gguf(folder / "model.gguf", config)
        at = folder / "model.gguf" if kind == "gguf" else folder
        return planning_key(open_checkpoint(str(at)), library, ("parity=portable",), rules, "cpu")

    first = key("a", 1e4, 290)
    assert key("a", 1e4, 290) == first
    changed = Library(files=(LIBRARY.files[0], replace(LIBRARY.files[1], text="b = 2\n")))
    others = [
        key("b", 2e4, 290),
        key("c", 1e4, 300),
        key("a", 1e4, 290, changed),
        key("a", 1e4, 290, rules="reference"),
    ]
    assert len({first, *others}) == 5
