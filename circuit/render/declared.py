"""What a kernel declares before its first line: local storage, tables in memory, and tables in vectors."""

from collections.abc import Callable

from circuit.render.expr import c_type, literal, memory_type
from circuit.uop.node import Op, Param, Storage, UOp


class Declared:
    """The declarations, each made when its name is first asked for. `name` gives a new name with a prefix."""

    def __init__(self, name: Callable[[str], str]) -> None:
        self._name = name
        self._storage: dict[UOp, str] = {}
        self._vectors: dict[tuple[UOp, ...], str] = {}

    def lines(self) -> list[str]:
        """The declarations, in the order of their kinds and of the first use."""
        return [*self._storage.values(), *self._vectors.values()]

    def pointer(self, base: UOp) -> str:
        """The name of storage, or of a table of constants."""
        match base.op, base.arg:
            case Op.PARAM, Param(slot=slot):
                return f"p{slot}"
            case Op.ALLOC, Storage(slot=slot, size=size, dtype=dtype):
                declaration = f"{memory_type(dtype, 1)} l{slot}[{size}] __attribute__((aligned(64)));"
                self._storage.setdefault(base, declaration)
                return f"l{slot}"
            case Op.STACK, _:
                return self._table(base)
        raise AssertionError(f"no storage: {base}")

    def vector(self, table: tuple[UOp, ...]) -> str:
        """The name of a vector of constants."""
        if table not in self._vectors:
            kind, values = c_type(table[0].dtype, len(table)), ", ".join(literal(s, 1) for s in table)
            self._vectors[table] = f"const {kind} {self._name('t')} = {{{values}}};"
        return self._vectors[table].split(" = ")[0].split()[-1]

    def _table(self, node: UOp) -> str:
        if node not in self._storage:
            values = ", ".join(literal(s, 1) for s in node.src)
            name = self._name("t")
            self._storage[node] = f"const {memory_type(node.dtype, 1)} {name}[{len(node.src)}] = {{{values}}};"
        return self._storage[node].split("[")[0].split()[-1]
