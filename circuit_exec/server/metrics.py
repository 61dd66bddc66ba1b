"""What /metrics shows, in the text form of Prometheus: counts of what ended, times, and what the engine does now."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from circuit_exec.engine.interface import Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

GAUGES = {
    "queued": ("met_queue_choices", "Choices that wait."),
    "running": ("met_running_choices", "Choices that run."),
    "step_rows": ("met_last_step_rows", "Rows of the last step."),
    "pages_used": ("met_kv_pages_used", "KV pages that running choices hold."),
    "pages_cached": ("met_kv_pages_cached", "KV pages that the prefix cache alone holds."),
    "pages_total": ("met_kv_pages", "KV pages of the pool."),
}
COUNTERS = {
    "prompt_tokens": ("met_prompt_tokens", "Tokens of prompts."),
    "hit_tokens": ("met_prefix_cache_hit_tokens", "Tokens of prompts that the prefix cache had."),
    "made_tokens": ("met_made_tokens", "Tokens that were made."),
    "steps": ("met_steps", "Steps."),
    "preempted": ("met_preempted_choices", "Choices that gave their pages up and were computed again."),
    "busy_s": ("met_busy_seconds", "Time in which steps ran."),
    "host_s": ("met_host_seconds", "Part of it that was spent between steps."),
}


class Metrics:
    """An `Observer` of the engine, and the page."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._first = Histogram(
            "met_time_to_first_token_seconds",
            "From a request's arrival at the engine to a choice's first token.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._next = Histogram(
            "met_inter_token_seconds",
            "From one token of a choice to the next.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._rows = Histogram("met_step_rows", "Rows of a step.", buckets=ROWS, registry=self.registry)
        self._step = Histogram("met_step_seconds", "Time of a step.", buckets=SECONDS, registry=self.registry)
        self._ended = Counter("met_ended_choices", "Choices that ended, and how.", ("reason",), registry=self.registry)
        self._answered = Counter(
            "met_http_responses", "Responses by route and status.", ("route", "status"), registry=self.registry
        )

    def first_token(self, seconds: float) -> None:
        """A choice has its first token."""
        self._first.observe(seconds)

    def next_tokens(self, seconds: list[float]) -> None:
        """Tokens that follow another."""
        for each in seconds:
            self._next.observe(each)

    def step(self, rows: int, seconds: float) -> None:
        """A step has run."""
        self._rows.observe(rows)
        self._step.observe(seconds)

    def ended(self, reason: str) -> None:
        """A choice has ended."""
        self._ended.labels(reason).inc()

    def answered(self, route: str, status: int) -> None:
        """A response has begun; `route` is one of the server's own."""
        self._answered.labels(route, str(status)).inc()

    def watch(self, stats: Callable[[], Stats]) -> None:
        """Shows what the engine does now."""
        self.registry.register(_Now(stats))

    def page(self) -> bytes:
        """The page."""
        return generate_latest(self.registry)


class _Now(Collector):
    def __init__(self, stats: Callable[[], Stats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        """The engine's figures when the page is asked for."""
        stats = self._stats()
        for field, (name, text) in GAUGES.items():
            yield GaugeMetricFamily(name, text, value=getattr(stats, field))
        for field, (name, text) in COUNTERS.items():
            yield CounterMetricFamily(name, text, value=getattr(stats, field))
