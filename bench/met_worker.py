"""`met` as a contestant (see bench/worker.py).

python -m bench.met_worker MODEL THREADS CLASS WORK TOKENS [POLICY...]
"""

import sys

from msgspec.structs import replace

from bench.works import work_named
from circuit_exec.bench import prepared
from circuit_exec.cache import user_cache
from circuit_exec.model import load_model


def main(path: str, n_threads: str, hardware_class: str, work: str, n_tokens: str, *policy: str) -> None:
    """Loads the model as every command of met does."""
    chosen = replace(work_named(work), n_tokens=int(n_tokens))
    model = load_model(
        path, user_cache(), int(n_threads), "all", policy, lambda what, part: None, hardware_class=hardware_class
    )
    try:
        model.settle()
        with prepared(model.program, model.pages, chosen) as run:
            run()
            print("ready", " ".join(digest[:12] for _, digest in model.planned.digests), flush=True)
            for _ in sys.stdin:
                print(f"{run():.9f}", flush=True)
    finally:
        model.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
