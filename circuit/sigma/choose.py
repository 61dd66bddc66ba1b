"""argmax, sample: from logits to a token id. log_sum_exp: what a logit must lack to be a log-probability.

sample draws from softmax(logits / temperature) cut to its nucleus, as one argmax: each token's log-probability plus
Gumbel noise that Philox gives for (seed, choice, position, token), so that no order, batch or thread can change it.
Sources: Gumbel-max, Maddison et al. 2014, arXiv:1411.0030; nucleus, Holtzman et al. 2019, arXiv:1904.09751;
Philox4x32-10, Salmon et al. 2011.

The nucleus is every token at least as likely as a threshold: the largest float32 t such that the tokens of probability
>= t hold top_p of the mass (equal probabilities are in or out together). It is found bit by bit; masses are lanes:128
sums of e = exp2((z - max) * log2 e), which lie in [0, 1], where the order of floats is the order of their bits.
"""

import math

from circuit.sigma.op import OpKind, Use, Values
from circuit.uop.build import (
    after,
    alloc,
    bitcast,
    cast,
    end,
    equal,
    f32,
    i32,
    index,
    loop,
    reciprocal,
    reduce,
    shl,
    stage,
    store,
    u32,
    where,
)
from circuit.uop.math import exp2, log2
from circuit.uop.node import DType, UOp
from circuit.uop.philox import philox4x32, uniform


def first_highest(values: UOp) -> UOp:
    """The lowest index of the largest of [n] values; a NaN never wins, of +0 and -0 the first counts; else 0.

    Both folds are lanes:128, so that vectors make them: the largest is the same number in any order, and a zero that is
    added to it takes the sign from a zero.
    """
    n = values.shape[0]
    i, k = loop("i", n), loop("i", n)
    highest = reduce("max", index(values, i), i, order="lanes:128")
    same = equal(_bits_of_number(index(values, k)), _bits_of_number(highest))
    lowest = reduce("max", where(same, k * -1, i32(-n)), k, order="lanes:128") * -1
    return where(lowest < n, lowest, i32(0))


def _bits_of_number(x: UOp) -> UOp:
    """The bits of a value; those of +0 for -0."""
    return bitcast(x + f32(0.0), DType.U32)


def _argmax(use: Use) -> Values:
    one = loop("one", 1)
    return (stage(first_highest(use.inputs[0]), one),)


def _sample(use: Use) -> Values:
    logits = use.inputs[0]
    n = logits.shape[0]
    z = logits * reciprocal(index(use.step["temperature"], use.row))
    i = loop("i_top", n)
    highest = reduce("max", index(z, i), i)
    i = loop("i_log", n)
    logs = stage((index(z, i) - highest) * f32(math.log2(math.e)), i, where="local")
    i = loop("i_mass", n)
    masses = stage(exp2(index(logs, i)), i, where="local")
    threshold = _nucleus(masses, index(use.step["top_p"], use.row), use.row)
    i = loop("i_noise", n)
    seed = index(use.step["seeds"], use.row, 0), index(use.step["seeds"], use.row, 1)
    position = cast(index(use.step["sample_positions"], use.row), DType.U32)
    choice = index(use.step["choices"], use.row)
    bits = philox4x32(seed, (cast(i, DType.U32), position, choice, u32(0)))[0]
    noise = log2(log2(uniform(bits)) * f32(-math.log(2.0))) * f32(-1.0)
    inside = bitcast(index(masses, i), DType.U32) < threshold
    scores = stage(where(inside, f32(-math.inf), index(logs, i) + noise), i, where="local")
    one = loop("one", 1)
    return (stage(first_highest(scores), one),)


def _nucleus(masses: UOp, top_p: UOp, row: UOp) -> UOp:
    """The threshold's float32 bits, highest first: a bit stays if what is as likely or more still holds the mass."""
    n = masses.shape[0]

    def mass_from(bits: UOp, name: str) -> UOp:
        i = loop(name, n)
        e = index(masses, i)
        return reduce("add", where(bitcast(e, DType.U32) < bits, f32(0.0), e), i, order="lanes:128")

    wanted = mass_from(u32(0), "i_all") * top_p
    room, step = alloc(0, 1, DType.U32, "threshold"), loop("bit", 30)
    start = store(index(after(room, row), 0), u32(0))
    known = index(after(room, start, step), 0)
    candidate = known + shl(u32(1), cast(step * -1 + 29, DType.U32))
    lost = mass_from(candidate, "i_bit") < wanted
    done = end(store(index(after(room, start, step), 0), where(lost, known, candidate)), step)
    return index(after(room, done), 0)


def _log_sum_exp(use: Use) -> Values:
    """y = (M, ln sum_i exp2((x_i - M) * log2 e)) with M the largest x: token i has the log-probability (x_i - M) - y1.

    The sum is lanes:128 over the terms of the sampler's masses, at least 1 (the term of M). Both parts are given, not
    their sum, because a likely token's log-probability is near 0 and M is not.
    """
    x = use.inputs[0]
    n = x.shape[0]
    i = loop("i_top", n)
    highest = reduce("max", index(x, i), i)
    i = loop("i_mass", n)
    masses = stage(exp2((index(x, i) - highest) * f32(math.log2(math.e))), i, where="local")
    i = loop("i_all", n)
    log_sum = log2(reduce("add", index(masses, i), i, order="lanes:128")) * f32(math.log(2.0))
    part = loop("part", 2)
    return (stage(where(part < 1, highest, log_sum), part),)


ARGMAX = OpKind(name="argmax", n_inputs=1, params=(), steps=("compare",), define=_argmax)
SAMPLE = OpKind(
    name="sample",
    n_inputs=1,
    params=(),
    step_inputs=("temperature", "top_p", "seeds", "choices", "sample_positions"),
    steps=("compute", "compare"),
    define=_sample,
)
LOG_SUM_EXP = OpKind(name="log_sum_exp", n_inputs=1, params=(), define=_log_sum_exp)
