"""PyTorch, eager, as a contestant (see bench/worker.py). It runs in the peers' environment and imports nothing of met.

torch_worker.py MODEL THREADS prefill|decode SEQUENCES BEFORE TOKENS, where MODEL is a GGUF file in F32 or BF16, which
transformers reads into the same type.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers


def main(path: str, n_threads: str, mode: str, n_sequences: str, n_before: str, n_tokens: str) -> None:
    """One sequence alone: what eager PyTorch is for."""
    assert n_sequences == "1", "one sequence"
    torch.set_num_threads(int(n_threads))
    transformers.logging.set_verbosity_error()
    dtype = torch.bfloat16 if "BF16" in Path(path).name else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(Path(path).parent), gguf_file=Path(path).name, dtype=dtype
    ).eval()
    with torch.inference_mode():
        work = _prefill(model, int(n_tokens)) if mode == "prefill" else _decode(model, int(n_before), int(n_tokens))
        work()
        print("ready", f"torch {torch.__version__} {dtype}", flush=True)
        for _ in sys.stdin:
            started = time.perf_counter()
            work()
            print(f"{time.perf_counter() - started:.9f}", flush=True)


def _prefill(model: torch.nn.Module, n: int) -> Callable[[], object]:
    ids = _ids(model, 0, n)
    return lambda: model(ids, use_cache=True, logits_to_keep=1)


def _decode(model: torch.nn.Module, n_before: int, n: int) -> Callable[[], object]:
    cache = model(_ids(model, 0, n_before), use_cache=True, logits_to_keep=1).past_key_values

    def work() -> None:
        for position in range(n_before, n_before + n):
            model(_ids(model, position, 1), past_key_values=cache, use_cache=True)
        cache.crop(-n)

    return work


def _ids(model: torch.nn.Module, first: int, n: int) -> torch.Tensor:
    return torch.tensor([[(i * 7919 + 13) % model.config.vocab_size for i in range(first, first + n)]])


if __name__ == "__main__":
    main(*sys.argv[1:])
