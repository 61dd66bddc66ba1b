"""The answer of GET /forward."""

from msgspec.structs import asdict
from pydantic import BaseModel, ConfigDict

from circuit_exec.server.served import Served


class PlanItem(BaseModel):
    """One plan of the set, such as decode:1-2; `launches` are those of one step."""

    name: str
    digest: str
    launches: int


class AxisItem(BaseModel):
    """A line of the certificate."""

    axis: str
    holds: str
    evidence: str


class LaunchItem(BaseModel):
    """One launch of the plan for single rows. `layer` is null outside of the layers; `rule` names what it computes."""

    layer: int | None
    rule: str
    kernel: str
    point: str
    numerics: str


class LaunchesAnswer(BaseModel):
    """A response of /forward/launches: what makes the logits of one token, in order."""

    launches: list[LaunchItem]


class StatsItem(BaseModel):
    """Now, and totals since the start.

    `step_rows`, `step_s`: of the last step. `pages_used` are held by running choices, `pages_cached` by nobody but
    the prefix cache. `hit_tokens` of `prompt_tokens` were not computed again. `preempted`: choices that had to give
    their pages up and were computed again. `host_s` of `busy_s` were spent between steps.
    """

    model_config = ConfigDict(extra="forbid")

    queued: int
    running: int
    step_rows: int
    step_s: float
    pages_used: int
    pages_cached: int
    pages_total: int
    steps: int
    prompt_tokens: int
    hit_tokens: int
    made_tokens: int
    ended: int
    preempted: int
    busy_s: float
    host_s: float


class ForwardAnswer(BaseModel):
    """What runs. `max_seqs` choices run together; `kv_pages` is the pool."""

    model: str
    hardware_class: str
    fingerprint: str
    context: int
    vocabulary: int
    threads: int
    max_seqs: int
    step_rows: int
    prompt_rows: int
    prefix_cache: bool
    plans: list[PlanItem]
    certificate: list[AxisItem]
    now: StatsItem


def launches_of(served: Served) -> LaunchesAnswer:
    """The launches of the plan for single rows."""
    return LaunchesAnswer(launches=[LaunchItem(**asdict(each)) for each in served.launches])


def forward_of(served: Served) -> ForwardAnswer:
    """The engine's description and its figures."""
    runs, limits = served.description, served.description.limits
    return ForwardAnswer(
        model=served.options.name,
        hardware_class=runs.hardware_class,
        fingerprint=runs.fingerprint,
        context=served.options.context,
        vocabulary=runs.vocabulary,
        threads=runs.n_threads,
        max_seqs=limits.max_seqs,
        step_rows=limits.step_rows,
        prompt_rows=limits.prompt_rows,
        prefix_cache=limits.prefix_cache,
        plans=[PlanItem(name=plan.name, digest=plan.digest, launches=plan.launches) for plan in runs.plans],
        certificate=[AxisItem(axis=a, holds=h, evidence=e) for a, h, e in runs.certificate],
        now=StatsItem(**asdict(served.engine.stats())),
    )
