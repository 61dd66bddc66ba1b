"""`met circuit diff --against` with logits of transformers at long positions: many faults cannot be seen below them."""

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from circuit_exec.cache import user_cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.diff.run import Request, diff
from circuit_exec.diff.sides import Side, Sides
from circuit_exec.text.load import load_tokenizer
from circuit_exec.text.tokenizer import encode_prompt
from tests.cli.harness import met
from tests.demo import demo_file
from tests.oracle import torch_models
from tests.oracle.english import TEXT
from tests.oracle.test_smollm2 import dequantized
from tests.oracle.torch_models import CASES, Case

pytestmark = pytest.mark.slow
for _package in ("torch", "transformers", "gguf"):
    pytest.importorskip(_package, reason="the oracle is not installed: pip install -e '.[oracle]'")

CONTEXT = 8192
AT = (0, 63, 255, 256, 600, 1023, 1024, 2047, 4095, 4096, 6000, 8190, 8191)
"""Both ends, chunks and pages of the cache, powers of two."""
TOLERANCE = 2e-3
LONG = tuple(replace(case, changes={**case.changes, "max_position_embeddings": CONTEXT}) for case in CASES)


@pytest.mark.parametrize("case", LONG, ids=lambda case: case.name)
def test_tiny_models_agree_at_8192_positions_and_the_feature_of_each_is_seen(case: Case, tmp_path: Path) -> None:
    oracle = torch_models.oracle(case)
    torch_models.save(case, oracle, tmp_path / "model")
    tokens = np.random.default_rng(case.seed).integers(0, 500, CONTEXT).tolist()
    (tmp_path / "ids.txt").write_text(" ".join(map(str, tokens)))
    np.save(tmp_path / "logits.npy", torch_models.long_logits(oracle, tokens, AT))
    other = torch_models.without_feature(case, oracle)
    np.save(tmp_path / "without.npy", torch_models.long_logits(other, tokens, AT))
    common = (
        "circuit",
        "diff",
        "model",
        "--tokens",
        "ids.txt",
        "--positions",
        ",".join(map(str, AT)),
        "--threads",
        "2",
    )
    ran = met(*common, "--against", "logits.npy", "--tolerance", str(TOLERANCE), "--json", home=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    data = json.loads(ran.out)
    against = data["against"]
    assert (data["tokens"], data["positions"], against["positions"]) == (CONTEXT, list(AT), len(AT))
    assert (against["holds"], against["same_argmax"], against["outside"]) == (True, len(AT), 0)
    assert [(pair["name"], pair["holds"]) for pair in data["pairs"]] == [("repeat", True), ("control", True)]
    ran = met(*common, "--against", "without.npy", "--tolerance", str(TOLERANCE), home=tmp_path)
    assert ran.code == 1, ran.out + ran.err
    assert f"  FAILED: it must be within {TOLERANCE:g}; at " in ran.out
    assert "of 13 positions it is not, first at " in ran.out


class Demo(Struct, frozen=True, kw_only=True):
    """The demo model, tokens, and a file with the logits of transformers at the positions `asked`."""

    sides: Sides
    tokens: tuple[int, ...]
    asked: tuple[int, ...]
    logits: Path


@pytest.fixture(scope="module", params=[1024, CONTEXT])
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Tokens of repeated English, on the weights that the gguf package decodes."""
    n_tokens: int = request.param
    file = demo_file()
    checkpoint = open_checkpoint(str(file))
    asked = tuple(sorted({*range(0, n_tokens, n_tokens // 32 - 1), n_tokens - 1}))
    ids = encode_prompt(load_tokenizer(checkpoint), TEXT)
    tokens = tuple((ids * (n_tokens // len(ids) + 1))[:n_tokens])
    path = tmp_path_factory.mktemp("demo") / "logits.npy"
    np.save(path, torch_models.long_logits(dequantized(file), tokens, asked))
    sides = Sides(checkpoint=checkpoint, cache=user_cache(), progress=lambda what, part: None)
    return Demo(sides=sides, tokens=tokens, asked=asked, logits=path)


@pytest.mark.parametrize("n_steps", [0, 8])
def test_the_demo_model_agrees_at_1024_and_at_8192_positions(demo: Demo, n_steps: int) -> None:
    """Prefilled, and with its last tokens as decode steps."""
    side = Side(rules="all", policy=(), threads=2, chunk=None, steps=n_steps)
    report = diff(
        Request(tokens=demo.tokens, asked=demo.asked, sides=(side,), see="logits", against=demo.logits, tolerance=5e-3),
        demo.sides,
    )
    assert report.holds
    assert report.against is not None
    assert report.against.outside == 0
    assert report.against.argmax >= len(demo.asked) - 1
