"""Loading a model: what it takes from the cache, its fingerprint, and that the whole of it generates."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from circuit.errors import RunError
from circuit.lower.ir import Which
from circuit_exec import model as loading
from circuit_exec.cache import Cache
from circuit_exec.generate import Sampling, generate
from circuit_exec.logits import all_logits
from circuit_exec.model import Model, fingerprint, load_model
from tests import models

IDS = [(7 * i + 3) % 290 for i in range(20)]
CONFIG = models.tiny_config("llama")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in both forms."""
    made = models.write_checkpoint(tmp_path_factory.mktemp("model"), CONFIG)
    models.write_gguf(made.parent / "tiny.gguf", CONFIG)
    return made


@pytest.fixture(scope="module")
def model(folder: Path, cache: Cache) -> Iterator[Model]:
    made = load(folder, cache)
    yield made
    made.close()


def load(path: Path, cache: Cache, n_threads: int = 2, rules: Which = "all") -> Model:
    return load_model(str(path), cache, n_threads, rules, (), lambda what, part: None)


def answer(model: Model, n: int, sampling: Sampling) -> list[int]:
    return list(generate(model.program, model.pages, IDS, n, sampling, 7, (), lambda token: None).ids)


GREEDY = Sampling(temperature=0.0, top_p=1.0, seed=0)


def test_greedy_tokens_are_the_most_likely_ones(model: Model) -> None:
    ids = answer(model, 12, GREEDY)
    logits = all_logits(model.program, model.pages, IDS + ids, 64)
    assert ids == logits[len(IDS) - 1 : -1].argmax(axis=1).tolist()


def test_drawn_tokens_depend_on_seed_and_choice_alone(model: Model, folder: Path, cache: Cache) -> None:
    hot = Sampling(temperature=2.0, top_p=0.95, seed=2**40 + 1)
    ids = answer(model, 12, hot)
    assert answer(model, 12, hot) == ids
    other = load(folder, cache, n_threads=1)
    assert answer(other, 12, hot) == ids
    other.close()
    assert answer(model, 12, Sampling(temperature=2.0, top_p=0.95, seed=1)) != ids, "the high word of a seed counts"
    assert answer(model, 12, Sampling(temperature=2.0, top_p=0.95, seed=2**40 + 1, choice=1)) != ids


def test_a_nucleus_of_one_token_is_the_most_likely_one(model: Model) -> None:
    assert answer(model, 12, Sampling(temperature=2.0, top_p=1e-6, seed=3)) == answer(model, 12, GREEDY)


def test_a_gguf_file_and_a_safetensors_folder_give_equal_bytes(model: Model, folder: Path, cache: Cache) -> None:
    gguf = load(folder.parent / "tiny.gguf", cache)
    found, expected = (all_logits(m.program, m.pages, IDS, 64) for m in (gguf, model))
    gguf.close()
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_a_warm_start_plans_compiles_and_bakes_nothing(
    model: Model, folder: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object) -> None:
        raise AssertionError("the cache has it")

    done: list[str] = []
    monkeypatch.setattr(loading, "_plan", never)
    before = sorted(path for path in cache.root.rglob("*") if path.is_file())
    again = load_model(str(folder), cache, 1, "all", (), lambda what, part: done.append(what))
    again.close()
    assert done == []
    assert sorted(path for path in cache.root.rglob("*") if path.is_file()) == before


def test_damaged_weights_are_baked_again_and_the_user_is_told(folder: Path, model: Model, cache: Cache) -> None:
    file = model.weights.path
    whole = file.read_bytes()
    copy = Cache(root=cache.root.parent / "damaged")
    shutil.copytree(cache.root, copy.root, symlinks=True)
    damaged = copy.root / file.relative_to(cache.root)
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    again = load(folder, copy)
    again.close()
    assert [note.startswith(f"the baked weights in {damaged} were made again: ") for note in again.notes] == [True]
    assert damaged.read_bytes() == whole


def change_weights(folder: Path) -> None:
    models.write_safetensors(folder / "model.safetensors", models.random_tensors(CONFIG, seed=1))


def change_epsilon(folder: Path) -> None:
    models.write_config(folder, CONFIG | {"rms_norm_eps": 1e-6})


def change_template(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": "{{ messages }}"}))


def change_nothing(folder: Path) -> None:
    models.write_checkpoint(folder, CONFIG)


@pytest.mark.parametrize("change", [change_nothing, change_weights, change_epsilon, change_template])
def test_the_fingerprint_covers_weights_config_and_template(
    model: Model, cache: Cache, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = models.write_checkpoint(tmp_path / "other", CONFIG)
    change(folder)
    other = load(folder, cache)
    other.close()
    assert (fingerprint(other) == fingerprint(model)) == (change is change_nothing)


def test_the_fingerprint_does_not_depend_on_threads_or_rules(model: Model, folder: Path, cache: Cache) -> None:
    other = load(folder, cache, n_threads=1, rules="reference")
    other.close()
    assert other.planned.digests != model.planned.digests
    assert fingerprint(other) == fingerprint(model)


def test_a_model_without_threads_is_refused(folder: Path, cache: Cache) -> None:
    with pytest.raises(RunError) as caught:
        load(folder, cache, n_threads=0)
    assert str(caught.value) == "error: 0 threads are asked for\n  = fix: give --threads 1 or more"


def test_a_bare_config_is_refused(folder: Path, cache: Cache) -> None:
    with pytest.raises(RunError) as caught:
        load(folder / "config.json", cache)
    assert caught.value.problems[0].message == (
        "this checkpoint has a config.json but no weights, so it can be planned but not run"
    )


def test_more_sequences_than_a_pool_can_hold_are_refused(folder: Path, cache: Cache) -> None:
    with pytest.raises(RunError) as caught:
        load_model(str(folder), cache, 1, "all", (), lambda what, part: None, n_sequences=10**6)
    assert caught.value.problems[0].message == (
        "1000000 sequences of 1024 positions take 16000000 KV pages, a pool has at most 524287"
    )
    assert caught.value.problems[0].fix == "ask for fewer sequences"


def test_a_pool_of_no_pages_is_refused(folder: Path, cache: Cache) -> None:
    with pytest.raises(RunError) as caught:
        load_model(str(folder), cache, 1, "all", (), lambda what, part: None, n_pages=0)
    assert caught.value.problems[0].message == "0 KV pages are asked for, a pool has 1 to 524287"
    assert caught.value.problems[0].fix == "ask for as many"
