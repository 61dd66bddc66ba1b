"""Records and programs read back as they were; what is no record is neither called nor imported."""

import pickle

import pytest

from circuit.lower.ir import Kernel, Slot
from circuit.uop.build import f32, index, loop, param, stage
from circuit.uop.node import DType, Op, UOp
from circuit_exec.pickled import pickled, unpickled


class _Trap:
    """Ends the test where it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("it was run",)


def chain(length: int) -> UOp:
    """A value of as many additions, each of the one before."""
    i = loop("i", 4)
    value = index(param(0, DType.F32, (4,)), i)
    for place in range(length):
        value = value + f32(float(place))
    return stage(value, i)


@pytest.mark.parametrize("length", [0, 1, 5000], ids=["small", "one step", "deeper than Python recurses"])
def test_a_program_reads_back_as_the_same_nodes(length: int) -> None:
    made = chain(length)
    assert unpickled(pickled(made)) is made


def test_records_and_programs_read_back_equal_and_share_what_they_shared() -> None:
    effects, slots = (chain(3), chain(5)), (Slot(slot=0, kind="step", name="n"),)
    kernel = Kernel(name="k", family="f", point="p", definition=effects, effects=effects, slots=slots)
    value = {("a", 1.5): (kernel, frozenset({3}), None), "b": [kernel]}
    again = unpickled(pickled(value))
    assert again == value
    assert isinstance(again, dict)
    assert again["b"][0] is again["a", 1.5][0]


NODES = pickle.dumps(([], []))


def named(module: str, name: str) -> bytes:
    """A pickle that is what a module has under a name, wherever that was defined."""
    return f"c{module}\n{name}\n.".encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        pickled("a")[:-1],
        pickle.dumps(_Trap()),
        pickle.dumps(([_Trap()], [])),
        NODES + pickle.dumps(_Trap()),
        NODES + pickle.dumps(pytest.fail),
        NODES + pickle.dumps(pickled),
        NODES + named("circuit.uop.node", "StrEnum"),
        NODES + named("circuit.uop.node", "Struct"),
        NODES + named("circuit.uop.node", "toposort"),
        pickle.dumps(([(Op.ADD, (), None)], [0])) + pickle.dumps(0),
        pickle.dumps(([], [0])) + pickle.dumps(0),
    ],
    ids=[
        "empty",
        "garbage",
        "cut",
        "a call",
        "a call among nodes",
        "a call after them",
        "a function",
        "a function of met",
        "the base of enums",
        "the base of records",
        "a function of circuit",
        "a node of no sources",
        "a node that is not there",
    ],
)
def test_what_somebody_else_wrote_is_refused_and_runs_nothing(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^these bytes are no pickled value$"):
        unpickled(data)
