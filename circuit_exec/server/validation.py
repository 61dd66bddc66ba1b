"""A body that does not fit its fields, as a refusal: every problem at once, the first one's field as `param`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from circuit_exec.server.errors import Refusal

SHOWN = 8
"""Problems that a message lists; a body can have thousands."""


class Detail(TypedDict, total=False):
    """What of pydantic's error details is used."""

    type: str
    loc: tuple[str | int, ...]
    msg: str
    ctx: Mapping[str, object]


def details_of(errors: Iterable[Mapping[str, Any]], outside: int) -> list[Detail]:
    """Of pydantic's `errors()`; so many parts of each place stand for what holds the body."""
    return [
        {
            "type": each["type"],
            "loc": tuple(each["loc"])[outside:],
            "msg": each["msg"],
            "ctx": each.get("ctx", {}),
        }
        for each in errors
    ]


def refusal_of(details: Sequence[Detail], body: object) -> Refusal:
    """One refusal for all of it. A field's alternatives (a text or a list) make one problem together; one of another
    type says nothing where something inside of the field is wrong.
    """
    placed = [(_place(detail, body), detail) for detail in details]
    inside = [place for place, _ in placed]
    placed = [
        (place, detail)
        for place, detail in placed
        if not (detail["type"].endswith("_type") and any(each.startswith(f"{place}.") for each in inside))
    ]
    found: dict[str, list[str]] = {}
    for place, detail in placed:
        said = found.setdefault(place, [])
        text = _text(detail)
        if text not in said:
            said.append(text)
    listed = [f"{_shown(place)}{', or '.join(said)}" for place, said in list(found.items())[:SHOWN]]
    if len(found) > SHOWN:
        listed.append(f"{len(found) - SHOWN} more")
    first = next(iter(found))
    return Refusal(
        status=400,
        code=_code(placed[0][1]["type"]),
        message="; ".join(listed),
        fix="GET /openapi.json describes every field",
        param=first or None,
    )


def _shown(place: str) -> str:
    return f"`{place}`: " if place else ""


def _text(detail: Detail) -> str:
    match detail["type"]:
        case "extra_forbidden":
            return "the field is unknown, remove it"
        case "missing":
            return "the field is missing, add it"
        case "unhonoured":
            return detail["msg"]
        case _:
            message = detail["msg"]
            return message[:1].lower() + message[1:]


def _code(kind: str) -> str:
    match kind:
        case "extra_forbidden":
            return "unknown_parameter"
        case "missing":
            return "missing_required_parameter"
        case "unhonoured":
            return "unsupported_parameter"
        case _ if kind.endswith(("_type", "_parsing")):
            return "invalid_type"
        case _:
            return "invalid_value"


def _place(detail: Detail, body: object) -> str:
    """The field, dotted: pydantic's place without the names of alternatives, which the body does not have."""
    parts: list[str] = []
    value = body
    loc = detail["loc"]
    for n, part in enumerate(loc):
        match value, part:
            case dict(fields), _ if part in fields:
                value = fields[part]
            case list(items), int(index):
                value = items[index]
            case _ if detail["type"] != "missing" or n < len(loc) - 1:
                continue
        parts.append(str(part)[:100])
    if detail["type"] == "unhonoured":
        parts.append(str(detail["ctx"]["field"]))
    return ".".join(parts)
