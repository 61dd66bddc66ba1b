"""The launches of a plan by the names of their kernels: what a trace is compared with."""

from msgspec import Struct


class NamedLaunch(Struct, frozen=True, kw_only=True):
    """One launch: its kernel's name, the nodes it computes, and the section of the step that it is in."""

    kernel: str
    members: tuple[str, ...]
    section: str


class NamedPlan(Struct, frozen=True, kw_only=True):
    """A plan as far as names go."""

    arch: str
    hardware_class: str
    mode: str
    rows: tuple[int, int]
    launches: tuple[NamedLaunch, ...]
