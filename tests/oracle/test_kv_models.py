"""Whole models with rounded keys and values against transformers with a cache that rounds the same way."""

from functools import partial

import numpy as np
import pytest

from circuit.formats import STATE_FORMATS
from circuit_exec.cache import Cache
from circuit_exec.logits import all_logits
from circuit_exec.model import load_model
from tests.oracle import torch_models
from tests.oracle.rounded import rounded
from tests.oracle.torch_models import CASES, F32, Case
from tests.shared import compiled_quickly

pytest.importorskip("torch", reason="the oracle is not installed: pip install -e '.[oracle]'")
pytest.importorskip("transformers", reason="the oracle is not installed: pip install -e '.[oracle]'")

BOUNDS = {"f16": 1e-3, "bf16": 4e-3, "int8": 1e-2}
"""The largest difference of a logit, relative to the largest. What is rounded differs in its last bits, so a value near
a border may fall on the other side of it; a few do.
"""
PART = 0.25
"""Of what the format changes, in the mean of squares, the part that may be left."""

N_POSITIONS = 300
PACKED = tuple(format for format in STATE_FORMATS if format != "f32")
GIVEN = [
    *(pytest.param(CASES[0], format, id=f"{CASES[0].name}-{format}") for format in PACKED),
    *(pytest.param(CASES[1], f, id=f"{CASES[1].name}-{f}", marks=pytest.mark.slow) for f in PACKED),
]


def apart(found: F32, expected: F32) -> tuple[float, float]:
    """The largest difference, relative to the largest logit; and the root of the mean of the squares."""
    assert np.isfinite(found).all()
    difference = (found - expected).astype(np.float64) / np.abs(expected).max()
    return float(np.abs(difference).max()), float(np.sqrt((difference**2).mean()))


@pytest.mark.parametrize(("case", "format"), GIVEN)
def test_logits_are_those_of_a_cache_that_rounds(
    case: Case, format: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    oracle, folder = torch_models.oracle(case), tmp_path_factory.mktemp(case.name)
    saved = torch_models.save(case, oracle, folder / "model")
    tokens = np.random.default_rng(case.seed).integers(0, 500, N_POSITIONS).tolist()
    cache, policy = Cache(root=folder / "cache"), (f"kv={format}",)
    with compiled_quickly():
        model = load_model(str(saved), cache, 2, "all", policy, lambda what, part: None)
    found = all_logits(model.program, model.pages, tokens, 512)
    model.close()
    largest, typical = apart(found, torch_models.logits_with_cache(oracle, tokens, partial(rounded, format=format)))
    assert largest <= BOUNDS[format], f"{largest:.1e}"
    _, without = apart(found, torch_models.logits(oracle, tokens))
    assert typical <= PART * without, f"{typical:.1e} of {without:.1e}"
