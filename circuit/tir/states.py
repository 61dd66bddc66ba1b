"""The storage format of states, as the policy says: what nodes write is rounded to it once, and read decoded."""

from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.tir.ir import Tir
from circuit.tir.verify import verify_states


def stored_as(tir: Tir, format: str) -> Tir:
    """The instance with every state in a format of `STATE_FORMATS`."""
    return verify_states(replace(tir, states=tuple(replace(state, format=format) for state in tir.states)))


def check_stored(tir: Tir, format: str) -> None:
    """Refuses an instance with a state in another format than the policy's: it was made under another policy."""
    other = next((state for state in tir.states if state.format != format), None)
    if other is not None:
        message = f"state {other.name} is stored in {other.format}, policy kv = {format}"
        raise PlanError(
            Problem(message=message, fix=f"plan with --policy kv={other.format}, or make the instance anew")
        )
