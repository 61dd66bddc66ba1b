"""Models that run, compiled once in a test run, and their logits by prefill, by decode, in batches, on any pages."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from circuit.emit.runtime import MAIN
from circuit.load.source import Plain
from circuit.lower.ir import Which
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.decode import decode
from circuit_exec.logits import all_logits
from circuit_exec.model import Model, load_model
from circuit_exec.step import Rows
from tests import models
from tests.checkpoint.blocks import HEAD, random_blocks
from tests.checkpoint.files import GGML
from tests.demo import DEMO, demo_file
from tests.shared import compiled_quickly

Logits = NDArray[np.float32]
Tables = NDArray[np.int32]

N_SEQUENCES = 8
N_TOKENS = 530
"""Two chunks of 256 positions and a tail; more than the rows of one step."""

SIZES: dict[str, Plain] = {
    "hidden_size": 288,  # a chunk of 256 columns and a tail
    "intermediate_size": 544,  # two chunks and a tail
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 24,
}


CODES, MIXED_CODES = "codes", "mixed_codes"
"""Models of block formats under the policy of integer activations."""
CODES_CONFIG = models.tiny_config("llama", hidden_size=320, intermediate_size=544, num_attention_heads=4)
"""A row is a chunk of 256 columns and a tail of two groups, or two chunks and a tail of one."""
CODES_OF = {
    CODES: {
        "token_embd.weight": "q8_0",
        "output.weight": "q8_0",
        **{f"blk.{layer}.{part}.weight": "q4_1" for layer in (0, 1) for part in ("attn_q", "attn_k", "attn_v")},
        **{f"blk.{layer}.{part}.weight": "q4_1" for layer in (0, 1) for part in ("ffn_gate", "ffn_up")},
        **{f"blk.{layer}.{part}.weight": "q8_0" for layer in (0, 1) for part in ("attn_output", "ffn_down")},
    },
    MIXED_CODES: {
        "token_embd.weight": "q8_0",
        "output.weight": "q4_1",
        "blk.0.attn_q.weight": "q4_0",
        "blk.0.attn_k.weight": "q4_0",
        "blk.0.attn_v.weight": "q4_0",
        "blk.0.attn_output.weight": "q8_0",
        "blk.0.ffn_gate.weight": "q4_1",
        "blk.0.ffn_up.weight": "q4_1",
        "blk.0.ffn_down.weight": "q4_0",
        "blk.1.attn_q.weight": "q5_0",
        "blk.1.attn_k.weight": "q8_0",
        "blk.1.attn_v.weight": "q8_0",
        "blk.1.attn_output.weight": "q5_1",
        "blk.1.ffn_gate.weight": "q5_0",
        "blk.1.ffn_up.weight": "iq4_nl",
        "blk.1.ffn_down.weight": "q8_0",
    },
}


def policy_of(name: str) -> tuple[str, ...]:
    """The policy that a model runs under."""
    return ("activations=int8/g32",) if name in CODES_OF else ()


class Running:
    """Models by name in one folder, which holds their checkpoints and `cache`, the cache of a user with this home.

    Single ops and class cpu, which others are compared with, are compiled quickly.
    """

    def __init__(self, folder: Path, cache: Cache) -> None:
        self.folder = folder
        self.cache = cache
        self._loaded: dict[tuple[str, int, Which, str, tuple[str, ...]], Model] = {}

    def path(self, name: str, dtype: str = "F32") -> Path:
        """The checkpoint: a random model of a model type, its values the same in every dtype, or the demo model."""
        if name == DEMO:
            return demo_file()
        if name in CODES_OF:
            at = self.folder / f"{name}.gguf"
            return at if at.exists() else models.write_gguf(at, CODES_CONFIG, blocks=stored_blocks(CODES_OF[name]))
        at = self.folder / f"{name}_{dtype}"
        if not at.exists():
            models.write_checkpoint(at, models.tiny_config(name, **SIZES), dtype=dtype)
        return at

    def model(
        self,
        name: str,
        n_threads: int = 2,
        rules: Which = "all",
        dtype: str = "F32",
        policy: tuple[str, ...] = (),
    ) -> Model:
        """The model, loaded once."""
        key = (name, n_threads, rules, dtype, policy)
        if key not in self._loaded:
            own = policy or policy_of(name)
            self._loaded[key] = self.fresh(self.path(name, dtype), n_threads, rules, policy=own)
        return self._loaded[key]

    def fresh(
        self,
        path: Path,
        n_threads: int = 2,
        rules: Which = "all",
        hardware: str | None = None,
        exact: bool = False,
        policy: tuple[str, ...] = (),
    ) -> Model:
        """The checkpoint at `path`, loaded anew; the caller closes it.

        Every value of these models is one of bf16. Without `exact`, f32 is baked as f32 all the same, so that the
        kernels of f32 are run too.
        """
        kept = (
            nullcontext()
            if exact
            else patch("circuit_exec.checkpoint.open.with_exact_bf16", lambda checkpoint, cache: checkpoint)
        )
        compared_with = rules == "reference" or hardware == "cpu"
        with kept, compiled_quickly() if compared_with else nullcontext():
            quiet = (lambda what, part: None, N_SEQUENCES, hardware)
            return load_model(str(path), self.cache, n_threads, rules, policy, *quiet)

    def close(self) -> None:
        """Ends all threads."""
        for model in self._loaded.values():
            model.close()


def stored_blocks(formats: dict[str, str]) -> dict[str, tuple[int, bytes]]:
    """Tensors of CODES_CONFIG by name, stored in block formats: random codes, values that keep logits apart."""
    shapes = {"token_embd": (290, 320), "output": (290, 320), "attn_q": (320, 320), "attn_output": (320, 320)}
    shapes |= {"ffn_gate": (544, 320), "ffn_up": (544, 320), "ffn_down": (320, 544)}
    shapes |= dict.fromkeys(("attn_k", "attn_v"), (160, 320))
    found = {}
    for name, format in formats.items():
        n, k = shapes[name.removesuffix(".weight").rpartition(".")[2]]
        stored = random_blocks(format, n * k // 32, len(name))
        at, heads = HEAD[format]
        stored[:, at : at + 2 * heads] = np.array([1.0] * heads, dtype="<f2").view(np.uint8)
        size = decode(stored.reshape(-1), format).std()
        scales = np.random.default_rng(1).uniform(0.02, 0.1, (len(stored), heads)) / size
        stored[:, at : at + 2 * heads] = scales.astype("<f2").view(np.uint8).reshape(len(stored), -1)
        found[name] = (GGML[format], stored.tobytes())
    return found


def tokens(model: Model, seed: int, n: int = N_TOKENS) -> list[int]:
    """Random token ids of the model's vocabulary."""
    vocab = next(out.columns for out in model.program.layout.steps[0].outputs if out.edge == "head.logits")
    return [int(id) for id in np.random.default_rng(seed).integers(0, vocab, n)]


def whole(model: Model) -> int:
    """The most rows of one prefill step."""
    return model.program.max_rows("prefill")


def prefilled(model: Model, ids: Sequence[int], chunk: int) -> Logits:
    """[positions, vocabulary] by prefill steps of `chunk` rows."""
    return all_logits(model.program, model.pages, ids, chunk)


def prefilled_on(model: Model, ids: Sequence[int], pages: Sequence[int], chunk: int) -> Logits:
    """[positions, vocabulary] with the KV cache on these pages of the pool, in this order."""
    table = np.zeros((1, model.program.layout.table_width), np.int32)
    table[0, : len(pages)] = pages
    parts = []
    for first in range(0, len(ids), chunk):
        part = ids[first : first + chunk]
        parts.append(step(model, "prefill", part, range(first, first + len(part)), [0] * len(part), table))
    return np.concatenate(parts)


def decoded(model: Model, sequences: Sequence[Sequence[int]], order: Sequence[int], n_steps: int) -> list[Logits]:
    """The logits of the last `n_steps` positions of each sequence, by decode steps with one row of each.

    The rows stand in `order`, turned by one place at each step. What comes before is prefilled, sequence by sequence.
    """
    firsts = [len(ids) - n_steps for ids in sequences]
    pages, width = model.pages, model.program.layout.table_width
    for place, ids in enumerate(sequences):
        pages.grow(place, len(ids))
    try:
        for place, first in enumerate(firsts):
            for at in range(0, first, whole(model)):
                part = sequences[place][at : min(at + whole(model), first)]
                table = pages.tables((place,), width)
                step(model, "prefill", part, range(at, at + len(part)), [0] * len(part), table)
        found: list[list[Logits]] = [[] for _ in sequences]
        tables = pages.tables(tuple(range(len(sequences))), width)
        for n in range(n_steps):
            rows = [*order[n % len(order) :], *order[: n % len(order)]]
            ids_now = [sequences[place][firsts[place] + n] for place in rows]
            logits = step(model, "decode", ids_now, [firsts[place] + n for place in rows], rows, tables)
            for row, place in enumerate(rows):
                found[place].append(logits[row])
    finally:
        for place in range(len(sequences)):
            pages.release(place)
    return [np.stack(rows) for rows in found]


def prefilled_together(model: Model, sequences: Sequence[Sequence[int]], rows: Sequence[tuple[int, int]]) -> Logits:
    """The logits of one prefill step with these rows, each a sequence's place and a position in it, in this order."""
    pages = model.pages
    for place, ids in enumerate(sequences):
        pages.grow(place, len(ids))
    try:
        tables = pages.tables(tuple(range(len(sequences))), model.program.layout.table_width)
        ids = [sequences[place][position] for place, position in rows]
        return step(model, "prefill", ids, [position for _, position in rows], [place for place, _ in rows], tables)
    finally:
        for place in range(len(sequences)):
            pages.release(place)


def step(
    model: Model,
    mode: str,
    ids: Sequence[int],
    positions: Sequence[int],
    sequences: Sequence[int],
    tables: Tables,
    logit_rows: Sequence[int] | None = None,
) -> Logits:
    """[logit rows, vocabulary] of one step; None gives every row logits."""
    rows = Rows(
        mode=mode,
        tokens=ids,
        positions=positions,
        sequences=sequences,
        page_tables=tables,
        logit_rows=range(len(ids)) if logit_rows is None else logit_rows,
        section=MAIN,
    )
    model.program.step(rows)
    return model.program.logits().copy()


def words(logits: Logits) -> NDArray[np.uint32]:
    """The bytes, as words in which every NaN is 7fc00000."""
    found = np.ascontiguousarray(logits).view(np.uint32).copy()
    found[np.isnan(logits)] = 0x7FC00000
    return found


def assert_equal_bytes(a: Logits, b: Logits) -> None:
    """Equal to the last bit, and logits that could differ: finite, and not all the same in any row."""
    assert a.shape == b.shape
    assert a.size > 0, "there is nothing to compare"
    for logits in (a, b):
        assert np.isfinite(logits).all(), "the model's logits are no numbers"
        assert (logits.max(axis=1) > logits.min(axis=1)).all(), "a row of logits is one constant"
    different = np.argwhere(words(a) != words(b))
    assert len(different) == 0, f"{len(different)} of {a.size} logits differ, the first at {different[0].tolist()}"
