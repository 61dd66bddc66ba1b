"""Records and programs as bytes, and back.

They are pickled, as Python keeps its own compiled modules, and read with care: nothing is called or imported but the
records of `circuit`, sets, and what makes a record of its fields. So a damaged or foreign entry runs nothing; whoever
may write the cache can replace the compiled programs in it as well. The nodes of programs are a table before the rest:
each is made of nodes above it, through the one door that all nodes come through, so it is typed and shared as any.
"""

import io
import pickle
from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from circuit.uop.node import UOp, toposort

_BUILT_IN = (("builtins", "frozenset"), ("builtins", "set"), ("msgspec._utils", "rebuild"))
"""What may stand in a pickle besides records; the last makes a record of its fields by name."""


def pickled(value: object) -> bytes:
    """A value of records, numbers, texts, collections and nodes as bytes."""
    roots: list[UOp] = []  # nodes that the value names, each once, in the order that it does

    def named(node: UOp) -> tuple[Callable[[int], UOp], tuple[int]]:
        roots.append(node)
        return _node, (len(roots) - 1,)

    rest = io.BytesIO()
    pickler = pickle.Pickler(rest, protocol=5)
    pickler.dispatch_table = {UOp: named}
    pickler.dump(value)
    order = toposort(*roots)
    place_of = {node: place for place, node in enumerate(order)}
    nodes = [(node.op, tuple([place_of[each] for each in node.src]), node.arg) for node in order]
    return pickle.dumps((nodes, [place_of[root] for root in roots]), protocol=5) + rest.getvalue()


def unpickled(data: bytes) -> object:
    """The value of such bytes; others are a ValueError, and nothing of them was run."""
    file = io.BytesIO(data)
    made: list[UOp] = []
    try:
        nodes, roots = _Reader(file, ()).load()
        for op, src, arg in nodes:
            made.append(UOp(op, tuple([made[place] for place in src]), arg))
        return _Reader(file, tuple(made[root] for root in roots)).load()
    except Exception as error:  # whatever a stream of pickled bytes, or a node of wrong parts, can come to
        raise ValueError("these bytes are no pickled value") from error


def _node(at: int) -> UOp:
    raise AssertionError(f"node {at} is read with the table before it")


class _Reader(pickle.Unpickler):
    """Reads records of `circuit`, of what Python has built in, the nodes that it is given, and nothing else."""

    def __init__(self, file: io.BytesIO, nodes: tuple[UOp, ...]) -> None:
        super().__init__(file)
        self._nodes = nodes

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == (__name__, _node.__name__):
            return self._nodes.__getitem__
        if (module, name) in _BUILT_IN:
            return super().find_class(module, name)
        if module.startswith("circuit."):
            found = super().find_class(module, name)
            if isinstance(found, type) and issubclass(found, Struct | Enum) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no record")
