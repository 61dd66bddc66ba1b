"""A model that runs: checkpoint -> plan set -> compiled program and baked weights -> memory and threads.

What is slow to import or to make is imported and made only where the cache does not have it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from circuit.bake.layout import PANEL
from circuit.bake.manifest import build_manifest
from circuit.errors import Problem, RunError
from circuit.load.inputs import Library
from circuit_exec.bake import BakedWeights, bake
from circuit_exec.build import Progress, build
from circuit_exec.cache import Cache, key_of
from circuit_exec.checkpoint.open import opened, text
from circuit_exec.checkpoint.records import Checkpoint, require_weights
from circuit_exec.cpu import Program
from circuit_exec.host import Host, arch_of, class_to_run, described, this_host
from circuit_exec.kv import Pages, pages_for
from circuit_exec.library import library
from circuit_exec.memory import Move
from circuit_exec.planned import Planned, planned, planning_key

if TYPE_CHECKING:
    from circuit.lower.ir import Which

TOKENIZER_TEXTS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
)


class Model(Struct, frozen=True, kw_only=True, eq=False):
    """A loaded model. `notes` are things worth telling the user, such as a damaged cache that was made again."""

    checkpoint: Checkpoint
    planned: Planned
    weights: BakedWeights
    program: Program
    pages: Pages
    move: Move
    notes: tuple[str, ...]

    def settle(self) -> None:
        """Waits until the weights are where they stay: for who measures speed. A first token need not wait."""
        self.move.wait()

    def close(self) -> None:
        """Ends its threads."""
        self.move.end()
        self.program.close()


class Loading(Struct, frozen=True, kw_only=True, eq=False):
    """A model whose weights are on their way: what it still needs to run is a pool for keys and values, and threads."""

    checkpoint: Checkpoint
    planned: Planned
    compiled: Path
    weights: BakedWeights
    n_threads: int
    move: Move

    def ready(self, n_pages: int | None = None, n_sequences: int = 1) -> Model:
        """The model. Its KV pool has `n_pages`, or room for `n_sequences` of full length."""
        pages = _pool_pages(self.planned, n_sequences, n_pages)
        words = self.weights.words.view(np.uint8)
        return Model(
            checkpoint=self.checkpoint,
            planned=self.planned,
            weights=self.weights,
            program=Program(self.compiled, self.planned.layout, words, self.n_threads, pages),
            pages=Pages(pages),
            move=self.move,
            notes=() if self.weights.note is None else (self.weights.note,),
        )


def load_model(
    path: str,
    cache: Cache,
    n_threads: int,
    rules: "Which",
    policy: tuple[str, ...],
    progress: Progress,
    n_sequences: int = 1,
    hardware_class: str | None = None,
    n_pages: int | None = None,
) -> Model:
    """The model at `path`, ready to run: see `begin_loading` and `Loading.ready`."""
    loading = begin_loading(path, cache, n_threads, rules, policy, progress, hardware_class)
    try:
        return loading.ready(n_pages, n_sequences)
    except BaseException:
        loading.move.end()
        raise


def begin_loading(
    path: str,
    cache: Cache,
    n_threads: int,
    rules: "Which",
    policy: tuple[str, ...],
    progress: Progress,
    hardware_class: str | None = None,
) -> Loading:
    """The model at `path`, planned, compiled and baked. `policy` are KEY=VALUE.

    Without `hardware_class` it is the one that this host runs.
    """
    if n_threads < 1:
        raise RunError(Problem(message=f"{n_threads} threads are asked for", fix="give --threads 1 or more"))
    checkpoint = opened(path, cache)
    require_weights(checkpoint)
    made = plan_set(checkpoint, cache, rules, policy, hardware_class)
    compiled = build(made.sources, cache, progress, made.arch)
    weights = bake(made.manifest, checkpoint, cache, lambda done, total: progress("baking the weights", done / total))
    return Loading(
        checkpoint=checkpoint,
        planned=made,
        compiled=compiled,
        weights=weights,
        n_threads=n_threads,
        move=Move(weights.words.view(np.uint8)),
    )


def plan_set(
    checkpoint: Checkpoint, cache: Cache, rules: "Which", policy: tuple[str, ...], hardware_class: str | None = None
) -> Planned:
    """The plan set of the checkpoint on a class, from the cache or freshly planned."""
    texts, host = library(), this_host()
    key = planning_key(checkpoint, texts, policy, rules, f"{hardware_class or ''} on {described(host)}")
    return planned(key, cache, lambda: _plan(checkpoint, texts, rules, policy, host, hardware_class))


def fingerprint(model: Model) -> str:
    """Of all that the output depends on: the digest `bytes` of the plan, the weights, tokenizer, template and sampler.

    A GGUF file's content hash covers its tokenizer and template. The sampler is a node of the plan, in `bytes`.
    """
    checkpoint = model.checkpoint
    texts = [] if checkpoint.kind == "gguf" else [text(checkpoint, name) for name in TOKENIZER_TEXTS]
    parts = [part for found in texts for part in (("absent", "") if found is None else ("text", found.text))]
    return key_of("fingerprint", model.planned.bytes_digest, model.weights.content_hash, *parts)


def _pool_pages(made: Planned, n_sequences: int, n_pages: int | None) -> int:
    wanted = n_sequences * pages_for(made.layout.context) if n_pages is None else n_pages
    most = min((room.max_pages for room in made.layout.states), default=wanted)
    if n_pages is not None and not 1 <= n_pages <= most:
        raise RunError(
            Problem(message=f"{n_pages} KV pages are asked for, a pool has 1 to {most}", fix="ask for as many")
        )
    if wanted > most:
        raise RunError(
            Problem(
                message=f"{n_sequences} sequences of {made.layout.context} positions take {wanted} KV pages, "
                f"a pool has at most {most}",
                fix="ask for fewer sequences",
            )
        )
    return wanted


def _plan(
    checkpoint: Checkpoint, texts: Library, rules: "Which", policy: tuple[str, ...], host: Host, name: str | None
) -> Planned:
    from circuit.compiled import Goal
    from circuit.emit.derive import layout
    from circuit.emit.program import emit_program
    from circuit.pipeline import compiled
    from circuit_exec.checkpoint.texts import checkpoint_texts

    hardware = class_to_run(texts, host, name)
    goal = Goal(hardware_class=hardware.name, choices=policy, rules=rules)
    made = compiled(checkpoint_texts(checkpoint), texts, goal)
    plans = made.plans
    (bytes_digest,) = {dict(plan.parts)["bytes"] for plan in plans}
    return Planned(
        hardware_class=hardware.name,
        arch=arch_of(hardware, host),
        sources=emit_program(plans),
        layout=layout(plans),
        manifest=build_manifest(plans[0].weights, PANEL, made.bound.equal),
        bytes_digest=bytes_digest,
        digests=tuple((f"{plan.mode}:{plan.rows[0]}-{plan.rows[1]}", plan.digest) for plan in plans),
        launches=tuple(sum(launch.section == "main" for launch in plan.launches) for plan in plans),
        certificate=tuple((axis.axis, axis.holds, axis.evidence) for axis in plans[0].certificate),
    )
