"""Records of reports as JSON, and the JSON Schema that they follow."""

import json
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, to_builtins


def record_json(record: object) -> str:
    """A record as one JSON object, its fields in their order."""
    return json.dumps(to_builtins(record), indent=1, ensure_ascii=False) + "\n"


def record_schema(kind: type, title: str) -> str:
    """The JSON Schema of what `record_json` writes for a record of that type."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **_schema(kind)}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def _schema(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a type annotation has no type of its own
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = get_type_hints(kind)
        return {
            "type": "object",
            "properties": {name: _schema(hints[name]) for name in kind.__struct_fields__},
            "required": list(kind.__struct_fields__),
            "additionalProperties": False,
        }
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is Union or kind.__class__.__name__ == "UnionType":
        return {"anyOf": [_schema(each) for each in arguments]}
    assert origin is tuple, kind
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", "items": _schema(arguments[0])}
    items = [_schema(each) for each in arguments]
    return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
