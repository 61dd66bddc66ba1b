"""Whose each key is: the policy's, which a recipe must state, or the compiler's, which a recipe must not.

It is computed from the rules and never stated. A key that gates a rule of another meaning (`reference`, `differs`), or
that a stage before the rules reads, is the policy's. A key that gates relations alone chooses among equal bytes, so it
is the compiler's, as every setting `fuse.RULE` is.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from circuit.load.inputs import Library, once
from circuit.load.policy import KEYS, Key, Policy
from circuit.load.rules import Gate, load_gates
from circuit.text import listed


class Owned(Struct, frozen=True, kw_only=True):
    """A key, whose it is, and why. `nobody`: it gates no rule and no stage reads it, so it says nothing."""

    key: Key
    owner: Literal["policy", "compiler", "nobody"]
    why: str


def owners(keys: Iterable[Key], gates: Iterable[Gate]) -> tuple[Owned, ...]:
    """Whose each key is, in the order of the keys."""
    gated = tuple(gates)
    return tuple(_owned(key, tuple(gate for gate in gated if gate.key == key.name)) for key in keys)


def load_owners(library: Library) -> tuple[Owned, ...]:
    """Whose each key is by the rules of all classes."""
    return once(library, "owners", lambda: owners(KEYS, load_gates(library)))


def policy_keys(owned: Iterable[Owned]) -> tuple[Key, ...]:
    """The keys that a recipe states."""
    return tuple(each.key for each in owned if each.owner == "policy")


def parted(policy: Policy, owned: Iterable[Owned]) -> tuple[Policy, tuple[str, ...]]:
    """The policy without the compiler's keys, and these as KEY=VALUE: they count as settings do, never in `bytes`."""
    compilers = {each.key.name for each in owned if each.owner == "compiler"}
    entries = tuple(entry for entry in policy.entries if entry[0] not in compilers)
    return Policy(entries=entries), tuple(f"{k}={v}" for k, v in policy.entries if k in compilers)


def _owned(key: Key, gates: tuple[Gate, ...]) -> Owned:
    if key.read_by is not None:
        return Owned(key=key, owner="policy", why=f"read by {key.read_by}")
    if not gates:
        return Owned(key=key, owner="nobody", why="it gates no rule, and no stage reads it")
    others = [f"{gate.rule} ({gate.numerics})" for gate in gates if gate.numerics != "bit_identical"]
    if others:
        return Owned(key=key, owner="policy", why=f"it chooses rules of another meaning: {listed(others)}")
    relations = listed(dict.fromkeys(gate.rule for gate in gates))
    return Owned(key=key, owner="compiler", why=f"it chooses among relations only: {relations}")
