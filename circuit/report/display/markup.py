"""Elements of HTML and SVG as text. Whatever is no element is escaped here, and nowhere else."""

from msgspec import Struct

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}


class Markup(Struct, frozen=True, kw_only=True):
    """A text that is markup, made of elements."""

    text: str


Inside = Markup | str | int
Value = str | int | float | None


def escaped(text: str) -> str:
    """The text as markup shows it; control characters, which no document may have, as U+FFFD."""
    return "".join(_ESCAPES.get(c, c if c >= " " or c in "\n\t" else "\ufffd") for c in text)


def element(name: str, *inside: Inside, **attributes: Value) -> Markup:
    """`<name attributes>inside</name>`. `class_` is class, `_` in a name is `-`; an attribute of None is left out."""
    given = "".join(f' {_name(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None)
    body = "".join(each.text if isinstance(each, Markup) else escaped(str(each)) for each in inside)
    return Markup(text=f"<{name}{given}>{body}</{name}>" if body or name not in _VOID else f"<{name}{given}/>")


def joined(*parts: Inside) -> Markup:
    """Parts behind each other, a line each."""
    return Markup(text="\n".join(each.text if isinstance(each, Markup) else escaped(str(each)) for each in parts))


_VOID = ("circle", "line", "path", "rect")
_CAMEL = {"viewbox": "viewBox"}


def _name(key: str) -> str:
    return _CAMEL.get(key, key.rstrip("_").replace("_", "-"))


def _value(value: Value) -> str:
    """Coordinates with at most one digit behind the point, so that no two machines write them apart."""
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escaped(str(value))
