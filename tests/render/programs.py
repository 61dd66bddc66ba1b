"""Random kernels in loops form, and random schedules for them. A seed gives the same kernel in every run."""

import random

from msgspec import Struct, field

from circuit.uop.build import (
    after,
    alloc,
    bitcast,
    cast,
    end,
    f32,
    i32,
    index,
    load,
    loop,
    maximum,
    mulacc,
    param,
    reciprocal,
    reduce,
    shl,
    store,
    trunc,
    u32,
    where,
)
from circuit.uop.node import DType, UOp
from circuit.uop.schedule import Schedule, Split, Step, Thread, Upcast
from circuit.uop.simplify import simplify
from tests.render.data import integers, numbers
from tests.render.harness import Buffers, Effects, Scalars

MAX_ROWS = 6
X, W, C, Y, Z, N = range(6)  # slots: f32 rows, u32 words, i32 counts, f32 and u32 results, the number of rows


class Program(Struct, frozen=True):
    """A kernel, the data it runs on, and the schedules to try."""

    effects: Effects
    buffers: Buffers
    scalars: Scalars
    schedules: tuple[Schedule, ...]
    threads: int


class Maker(Struct):
    """Draws values of one kernel: r is the row, j the column."""

    draw: random.Random
    columns: int
    depth: int
    r: UOp
    j: UOp
    reduces: int = 0
    names: list[str] = field(default_factory=list)

    def f32(self, depth: int, *inner: UOp) -> UOp:
        """A random float value; `inner` are ranges of reduces around."""
        d, again = self.draw, depth - 1
        if depth <= 0:
            return self.f32_leaf(*inner)
        match d.randrange(13):
            case 0 | 1:
                return self.f32(again, *inner) + self.f32(again, *inner)
            case 2 | 3:
                return self.f32(again, *inner) * self.f32(again, *inner)
            case 4:
                return self.f32(again, *inner) - self.f32(again, *inner)
            case 5:
                return mulacc(self.f32(again, *inner), self.f32(again, *inner), self.f32(again, *inner))
            case 6:
                return maximum(self.f32(again, *inner), self.f32(again, *inner))
            case 7:
                return where(self.bool(again, *inner), self.f32(again, *inner), self.f32(again, *inner))
            case 8:
                return reciprocal(self.f32(again, *inner))
            case 9:
                return trunc(self.f32(again, *inner))
            case 10:
                return cast(self.whole(again, *inner), DType.F32)
            case 11:
                return bitcast(self.u32(again, *inner), DType.F32)
        return self.reduce(again) if self.reduces < 2 and not inner else self.f32_leaf(*inner)

    def f32_leaf(self, *inner: UOp) -> UOp:
        """A load in one of several strides, or a constant."""
        x = param(X, DType.F32, (MAX_ROWS * self.columns,))
        size, d = self.columns, self.draw
        k = inner[-1] if inner else self.j
        match d.randrange(6):
            case 0:
                return f32(d.choice((0.0, -0.0, 1.0, -1.0, 0.1, 3.0e38, 1e-40, float("inf"))))
            case 1:
                return load(index(x, self.r * size))
            case 2:
                return load(index(x, self.r * size + k))
            case 3:
                return load(index(x, k * (size * MAX_ROWS // size) % (size * MAX_ROWS)))
            case 4:
                return load(index(x, (self.r * size + k * 3) % size))
        return load(index(x, self.r * size + self.j))

    def reduce(self, depth: int) -> UOp:
        """A fold over k, in one of the orders."""
        self.reduces += 1
        d, name = self.draw, f"k{self.reduces}"
        count = param(C, DType.I32, (MAX_ROWS,), "count", 0, self.columns)
        size = d.choice((self.columns, min(3, self.columns), self.columns // 2 or 1))
        order = d.choice(("fold", "fold", "fold:256", "lanes:128"))
        dynamic = order != "lanes:128" and d.random() < 0.4
        k = loop(name, load(index(count, self.r)) if dynamic else i32(size))
        if not dynamic:
            self.names.append(name)
        op = d.choice(("add", "mulacc", "max"))
        values = [self.f32(min(depth, 2), k) for _ in range(2 if op == "mulacc" else 1)]
        return reduce(op, *values, k, order=order)

    def u32(self, depth: int, *inner: UOp) -> UOp:
        """A random word."""
        d, again = self.draw, depth - 1
        words = param(W, DType.U32, (MAX_ROWS * self.columns,))
        k = inner[-1] if inner else self.j
        if depth <= 0:
            return load(index(words, d.choice((self.r * self.columns + k, k, self.r))))
        match d.randrange(9):
            case 0:
                return self.u32(again, *inner) + self.u32(again, *inner)
            case 1:
                return self.u32(again, *inner) * self.u32(again, *inner)
            case 2:
                return self.u32(again, *inner) ^ self.u32(again, *inner)
            case 3:
                return self.u32(again, *inner) // d.choice((2, 16, 65536, 7))
            case 4:
                return self.u32(again, *inner) % d.choice((2, 16, 65536, 10))
            case 5:
                return shl(self.u32(again, *inner), d.randrange(32))
            case 6:
                return bitcast(self.f32(again, *inner), DType.U32)
            case 7:
                return shl(self.u32(again, *inner), self.u32(again, *inner) % 32)
        return where(self.bool(again, *inner), self.u32(again, *inner), u32(d.randrange(2**32)))

    def whole(self, depth: int, *inner: UOp) -> UOp:
        """A random i32 or u32."""
        d, again = self.draw, depth - 1
        if depth <= 0:
            return d.choice((self.j, self.r, self.j * 7 - 20))
        match d.randrange(8):
            case 0:
                return cast(self.f32(again, *inner), DType.I32)
            case 1:
                return cast(self.u32(again, *inner), DType.I32) + self.whole(0, *inner)
            case 2:
                return cast(self.u32(again, *inner), DType.I32) * self.whole(0, *inner)
            case 3:
                return cast(self.u32(again, *inner), DType.I32) // d.choice((4, -4, 9, 1024))
            case 4:
                return cast(self.u32(again, *inner), DType.I32) % d.choice((4, -4, 9, 1024))
            case 5:
                return maximum(self.whole(0, *inner), cast(self.u32(again, *inner), DType.I32))
            case 6:
                return cast(self.bool(again, *inner), DType.I32)
        return cast(self.f32(again, *inner), DType.U32)

    def bool(self, depth: int, *inner: UOp) -> UOp:
        """A random truth."""
        d, again = self.draw, depth - 1
        match d.randrange(6):
            case 0:
                return self.u32(again, *inner) < self.u32(again, *inner)
            case 1:
                return self.j < d.randrange(self.columns + 1)
            case 2 if depth > 0:
                return self.bool(again, *inner) ^ self.bool(again, *inner)
            case 3 if depth > 0:
                return self.bool(again, *inner) * self.bool(again, *inner)
            case 4 if depth > 0:
                return self.bool(again, *inner) + self.bool(again, *inner)
        return self.f32(again, *inner) < self.f32(again, *inner)


def program(seed: int) -> Program:
    """A kernel of one to three effects over rows and columns."""
    draw = random.Random(seed)
    columns = draw.choice((1, 5, 8, 13, 24, 37, 60, 130))
    dynamic = draw.random() < 0.5
    rows = param(N, DType.I32, (), "n", 0, MAX_ROWS) if dynamic else i32(draw.randint(1, MAX_ROWS))
    r, j = loop("r", rows), loop("j", columns)
    maker = Maker(draw, columns, 4, r, j)
    value = maker.f32(draw.randint(2, 4 if columns < 100 else 3))
    y = param(Y, DType.F32, (MAX_ROWS * columns,))
    effects = [end(store(index(y, r * columns + j), value), r, j)]
    if draw.random() < 0.3:
        effects = [_staged(maker, value, columns)]
    if draw.random() < 0.4:
        z = param(Z, DType.U32, (MAX_ROWS * columns,))
        r2, j2 = loop("r2", rows), loop("j2", columns)
        other = Maker(draw, columns, 3, r2, j2, reduces=9)
        effects.append(end(store(index(z, r2 * columns + j2), other.u32(3)), r2, j2))
    n = MAX_ROWS * columns
    buffers = {
        X: numbers(seed, n, 0.1),
        W: integers(seed + 1, n, 0, 2**32 - 1),
        C: integers(seed + 2, MAX_ROWS, 0, columns),
        Y: numbers(seed + 3, n),
        Z: integers(seed + 4, n, 0, 99),
    }
    scalars: Scalars = {N: draw.randint(0, MAX_ROWS)}
    schedules = tuple(_schedule(draw, columns, dynamic, maker.names) for _ in range(2))
    return Program(tuple(simplify(e) for e in effects), buffers, scalars, schedules, draw.choice((1, 2, 3)))


def _staged(maker: Maker, value: UOp, columns: int) -> UOp:
    """The same value, but through local storage that is filled row by row and read backwards."""
    y, room = param(Y, DType.F32, (MAX_ROWS * columns,)), alloc(0, columns, DType.F32, "room")
    full = after(room, end(store(index(room, maker.j), value), maker.j))
    i = loop("i", columns)
    moved = load(index(full, i * -1 + (columns - 1)))
    return end(store(index(y, maker.r * columns + i), moved), maker.r, i)


def _schedule(draw: random.Random, columns: int, dynamic: bool, reduces: list[str]) -> Schedule:
    steps: list[Step] = []
    if draw.random() < 0.8:
        steps.append(Split(range="j", factor=draw.choice((4, 8, 12, 24, 48)), inner="jl"))
        if draw.random() < 0.3:
            steps.append(Split(range="jl", factor=4, inner="jv"))
        steps.append(Upcast(range="jl"))
    elif columns < 64:
        steps.append(Upcast(range="j"))
    tile = draw.choice((2, 3, 4))
    if draw.random() < 0.6:
        steps.append(Split(range="r", factor=tile, inner="rl"))
        if draw.random() < 0.8:
            steps.append(Upcast(range="rl"))
    for name in reduces:
        if draw.random() < 0.7:
            steps.append(Split(range=name, factor=draw.choice((2, 4, 8)), inner=f"{name}u"))
            steps.append(Upcast(range=f"{name}u"))
    if draw.random() < 0.4:
        steps.append(Thread(range="r"))
    return tuple(steps)
