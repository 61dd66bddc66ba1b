"""The demo model under 64 requests, and thousands of short ones on a tiny model: equal bytes, no growth. Slow."""

import gc
import random
import resource
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from circuit_exec.cache import user_cache
from circuit_exec.engine.engine import Engine
from circuit_exec.engine.interface import Limits
from circuit_exec.engine.open import open_engine
from circuit_exec.engine.request import Request
from circuit_exec.model import Model, load_model
from tests.demo import demo_file
from tests.engine.asking import ASKED, Asked, engine_of

DEMO_LIMITS = Limits(max_seqs=16, step_rows=128, prompt_rows=256, n_pages=120, max_queue=200, prefix_cache=True)


def demo(n_threads: int) -> Model:
    found = demo_file()
    return load_model(
        str(found), user_cache(), n_threads, "all", (), lambda what, part: None, n_pages=DEMO_LIMITS.n_pages
    )


def requests() -> list[Request]:
    draw = random.Random(6)
    system = tuple(draw.randrange(40000) for _ in range(70))
    found = []
    for seed in range(64):
        own = tuple(draw.randrange(40000) for _ in range(draw.choice((2, 9, 33, 120))))
        request = replace(ASKED, prompt=system + own if seed % 2 else own, seed=seed, max_tokens=draw.choice((4, 12)))
        if seed % 4 == 0:
            request = replace(request, temperature=0.0)
        if seed % 8 == 3:
            request = replace(request, top_k=50, min_p=0.05, repetition_penalty=1.1)
        found.append(replace(request, n_logprobs=5))
    return found


def crowd(engine: Engine, seed: int) -> list[tuple[object, ...]]:
    """All at once in random order, with others among them that leave."""
    draw, asked = random.Random(seed), requests()
    order = list(range(len(asked)))
    draw.shuffle(order)
    running, others = {}, []
    for place in order:
        running[place] = Asked(engine, asked[place])
        if draw.random() < 0.2:
            others.append(Asked(engine, replace(asked[place], seed=1000 + place, max_tokens=100)))
            others[draw.randrange(len(others))].ticket.cancel()
    found = [running[place].wait()[0].bytes() for place in range(len(asked))]
    for each in others:
        each.ticket.cancel()
        each.wait()
    return found


@pytest.mark.slow
def test_64_requests_of_the_demo_model_have_equal_bytes_alone_in_a_crowd_and_after_a_restart() -> None:
    model = demo(2)
    engine = open_engine(model, DEMO_LIMITS)
    alone = [Asked(engine, request).wait()[0].bytes() for request in requests()]
    engine.close()
    engine = open_engine(model, DEMO_LIMITS)
    assert crowd(engine, 1) == alone
    assert engine.stats().hit_tokens > 0
    engine.close()
    model.close()
    model = demo(1)
    engine = open_engine(model, replace(DEMO_LIMITS, prefix_cache=False, step_rows=31, max_seqs=20, n_pages=30))
    assert crowd(engine, 2) == alone
    engine.close()
    model.close()


@pytest.mark.slow
def test_thousands_of_short_requests_take_no_more_memory(model: Model) -> None:
    engine = engine_of(model, max_queue=2000)
    draw = random.Random(9)

    def ask(n: int) -> None:
        asked = []
        for _ in range(n):
            prompt = tuple(draw.randrange(290) for _ in range(draw.choice((1, 5, 70, 140))))
            asked.append(Asked(engine, replace(ASKED, prompt=prompt, max_tokens=3, seed=draw.randrange(2**32))))
            if draw.random() < 0.1:
                asked[-1].ticket.cancel()
        for each in asked:
            each.wait()

    sizes = []
    for _ in range(16):
        ask(500)
        gc.collect()
        sizes.append(resident_bytes())
    assert engine.stats().ended == 8000
    grown = sorted(more - fewer for fewer, more in pairwise(sizes[7:]))
    # The system gives room in jumps (a huge page is 2 MiB); what requests leave behind would add up in every round.
    assert grown[len(grown) // 2] < 500 * 128, sizes
    assert sum(grown) < 4 << 20, sizes
    engine.close()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
