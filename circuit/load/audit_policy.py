"""`kernels/<class>/AUDIT.toml` -> where a class must multiply on which instructions, and where it need not, and why.

The nearest file on the way from a class to its base is its policy. An exemption that was measured speaks for the class
whose file states it, and for no other.
"""

from typing import Literal

from msgspec import Struct

from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, once
from circuit.load.ops import Mode

FILE = "AUDIT.toml"


OPS = ("linear", "attention")
"""Ops that multiply one value with another many times; sums of squares are of a row with itself."""


Kind = Literal["policy", "measured", "shape", "backlog"]
"""policy: other bytes were asked for; measured: the required one is slower; shape: it has no tile for it; backlog:
there is no kernel yet.
"""


class Sites(Struct, frozen=True, kw_only=True):
    """Which nodes an entry is about. `ops` are `linear`, `linear:q` or `attention`; `reads` the formats of their rows,
    `weights` of their weights, where None is any; `rows` inclusive.
    """

    ops: tuple[str, ...]
    modes: tuple[str, ...]
    rows: tuple[int, int]
    reads: tuple[str, ...] | None
    weights: tuple[str, ...] | None


class Require(Struct, frozen=True, kw_only=True):
    """Nodes that run on one of `instructions` where a plan has as many rows as `sites` begins with."""

    sites: Sites
    instructions: tuple[str, ...]
    why: str
    source: str
    file: str
    line: int | None


class Exempt(Struct, frozen=True, kw_only=True):
    """Nodes that need not. `policy`: under which choices, sorted by key; empty under all."""

    sites: Sites
    policy: tuple[tuple[str, str], ...]
    kind: Kind
    reason: str
    evidence: str
    file: str
    line: int | None


class AuditPolicy(Struct, frozen=True, kw_only=True):
    """Of a class. `stated_by` is the class whose file it is."""

    stated_by: str
    file: str
    require: tuple[Require, ...]
    exempt: tuple[Exempt, ...]


def load_audit_policy(library: Library, hardware: HardwareClass) -> AuditPolicy | None:
    """The policy of a class; None for one without matrix instructions that states none."""

    def read() -> AuditPolicy | None:
        from circuit.load.audit_policy_file import read_audit_policy  # kept records need no reader

        return read_audit_policy(library, hardware)

    return once(library, ("audit policy", hardware), read)


MODES: tuple[Mode, ...] = ("decode", "prefill")
"""What an entry is about that states none."""
