"""Rope frequencies, exact to 60 digits and rounded once to float32; positions turn by position * inv_freq[i].

Source: transformers 5.24.0, modeling_rope_utils.py (default, linear, llama3, yarn), with exact numbers in place of its
float32 steps. The attention factor of yarn multiplies cos and sin and nothing else.
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext

from msgspec import Struct

from circuit.text import round_f32

_DIGITS = 60
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")


class Rope(Struct, frozen=True, kw_only=True):
    """What turns a head: `inv_freq` has rotary_dim/2 values, `scale` multiplies cos and sin.

    `unused` are given facts that this kind of rope does not read beside the others.
    """

    inv_freq: tuple[float, ...]
    scale: float
    unused: tuple[str, ...]


def frequencies(kind: str, rotary_dim: int, numbers: Mapping[str, float], factors: tuple[float, ...] | None) -> Rope:
    """`numbers` are those of base, factor, original, low, high, beta_fast, beta_slow, truncate (0 or 1),
    attention_factor, mscale and mscale_all_dim that the kind has.

    `factors` divide the frequencies one by one, as a GGUF file may store them.
    """
    with localcontext(Context(prec=_DIGITS)):
        exact = {name: Decimal(value) for name, value in numbers.items()}
        ln_base = exact["base"].ln()
        plain = [(-ln_base * (2 * i) / rotary_dim).exp() for i in range(rotary_dim // 2)]
        scale = Decimal(1)
        unused: tuple[str, ...] = ()
        match kind:
            case "default":
                turned = plain
            case "linear":
                turned = [value / exact["factor"] for value in plain]
            case "llama3":
                turned = [_llama3(value, exact) for value in plain]
            case "yarn":
                turned = _yarn(plain, exact, rotary_dim, ln_base)
                scale, unused = _yarn_scale(exact)
            case _:
                raise AssertionError(f"rope kind {kind}")
        if factors is not None:
            turned = [value / Decimal(factor) for value, factor in zip(turned, factors, strict=True)]
        return Rope(inv_freq=tuple(round_f32(value) for value in turned), scale=round_f32(scale), unused=unused)


def attention_scale(head_dim: int) -> float:
    """1/sqrt(head_dim), rounded once to float32."""
    with localcontext(Context(prec=_DIGITS)):
        return round_f32(1 / Decimal(head_dim).sqrt())


def _llama3(value: Decimal, n: Mapping[str, Decimal]) -> Decimal:
    """Long wavelengths are divided by the factor, short ones are kept, those between are blended."""
    wavelength = 2 * _PI / value
    if wavelength < n["original"] / n["high"]:
        return value
    if wavelength > n["original"] / n["low"]:
        return value / n["factor"]
    smooth = (n["original"] / wavelength - n["low"]) / (n["high"] - n["low"])
    return (1 - smooth) * value / n["factor"] + smooth * value


def _yarn(plain: list[Decimal], n: Mapping[str, Decimal], rotary_dim: int, ln_base: Decimal) -> list[Decimal]:
    """Pairs below `low` are kept, above `high` divided by the factor, between them on a straight ramp."""

    def pair_of(rotations: Decimal) -> Decimal:
        return rotary_dim * (n["original"] / (rotations * 2 * _PI)).ln() / (2 * ln_base)

    low, high = pair_of(n["beta_fast"]), pair_of(n["beta_slow"])
    if n["truncate"]:
        low, high = low.to_integral_value(ROUND_FLOOR), high.to_integral_value(ROUND_CEILING)
    low, high = max(low, Decimal(0)), min(high, Decimal(rotary_dim - 1))
    if low == high:
        high += Decimal("0.001")  # transformers' guard against a division by zero
    turned = []
    for i, value in enumerate(plain):
        ramp = min(max((i - low) / (high - low), Decimal(0)), Decimal(1))
        turned.append(value / n["factor"] * ramp + value * (1 - ramp))
    return turned


def _yarn_scale(n: Mapping[str, Decimal]) -> tuple[Decimal, tuple[str, ...]]:
    def mscale(weight: Decimal) -> Decimal:
        return Decimal(1) if n["factor"] <= 1 else Decimal("0.1") * weight * n["factor"].ln() + 1

    both = "mscale" in n and "mscale_all_dim" in n
    if "attention_factor" in n:
        return n["attention_factor"], tuple(name for name in ("mscale", "mscale_all_dim") if name in n)
    if both:
        return mscale(n["mscale"]) / mscale(n["mscale_all_dim"]), ()
    return mscale(Decimal(1)), tuple(name for name in ("mscale", "mscale_all_dim") if name in n)
