"""Whole models against transformers in float32: tiny random decoders of every type, from safetensors to tokens."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec import Struct

from circuit_exec.cache import Cache
from circuit_exec.generate import Sampling, generate
from circuit_exec.logits import all_logits
from circuit_exec.model import Model, load_model
from tests.oracle import torch_models
from tests.oracle.torch_models import CASES, F32, MORE_CASES, Case
from tests.shared import compiled_quickly

if TYPE_CHECKING:
    import torch

pytest.importorskip("torch", reason="the oracle is not installed: pip install -e '.[oracle]'")
pytest.importorskip("transformers", reason="the oracle is not installed: pip install -e '.[oracle]'")

BOUND = 2e-4
"""The largest difference of a logit, relative to the largest logit."""

N_POSITIONS = 600
N_PROMPT = 100
N_GREEDY = 64


class Pair(Struct, frozen=True, kw_only=True):
    """A case as the oracle and as a running model, and the oracle's logits of `tokens`."""

    case: Case
    oracle: "torch.nn.Module"
    tokens: list[int]
    expected: F32
    model: Model


PARAMS = [
    *(pytest.param(case, id=case.name) for case in CASES),
    *(pytest.param(case, id=case.name, marks=pytest.mark.slow) for case in MORE_CASES),
]


@pytest.fixture(scope="module", params=PARAMS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    case: Case = request.param
    oracle = torch_models.oracle(case)
    folder = tmp_path_factory.mktemp(case.name)
    saved = torch_models.save(case, oracle, folder / "model")
    tokens = np.random.default_rng(case.seed).integers(0, 500, N_POSITIONS).tolist()
    with compiled_quickly():
        model = load_model(str(saved), Cache(root=folder / "cache"), 2, "all", (), lambda what, part: None)
    yield Pair(case=case, oracle=oracle, tokens=tokens, expected=torch_models.logits(oracle, tokens), model=model)
    model.close()


def difference(found: F32, expected: F32) -> float:
    """The largest difference, relative to the largest logit."""
    assert found.shape == expected.shape
    assert np.isfinite(found).all()
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def test_logits_of_600_positions_are_those_of_transformers(pair: Pair) -> None:
    found = all_logits(pair.model.program, pair.model.pages, pair.tokens, 512)
    far = difference(found, pair.expected)
    assert far <= BOUND, f"{pair.case.name}: {far:.2e}"


def test_64_greedy_tokens_are_those_of_transformers(pair: Pair) -> None:
    prompt = pair.tokens[:N_PROMPT]
    expected, lead = torch_models.greedy(pair.oracle, prompt, N_GREEDY)
    assert lead > 5 * BOUND, f"two logits are too close to tell apart, {lead:.1e}: choose another seed"
    assert len(set(expected)) >= 5, "the oracle repeats itself: choose another seed"
    sampling = Sampling(temperature=0.0, top_p=1.0, seed=0)
    program, pages = pair.model.program, pair.model.pages
    assert list(generate(program, pages, prompt, N_GREEDY, sampling, 64, (), lambda token: None).ids) == expected


def test_the_bound_sees_the_feature_of_each_case(pair: Pair) -> None:
    other = torch_models.logits(torch_models.without_feature(pair.case, pair.oracle), pair.tokens)
    assert difference(other, pair.expected) > 100 * BOUND
