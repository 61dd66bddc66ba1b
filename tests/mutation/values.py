"""Other values of a key that could be legal, made from what the config map says of it."""

from circuit.load.config_map import ConfigMap, FactSpec, KeySpec
from circuit.load.source import Plain


def other_values(found: ConfigMap, spec: KeySpec, value: Plain) -> list[Plain]:
    """Values that differ from `value` and are of the key's type; most are legal, some contradict another key."""
    fact = next(fact for fact in found.facts if fact.name in spec.facts)
    if spec.length:
        assert isinstance(value, list)
        return [value[:-1], [*value, "one more"]]
    return [other for other in _others(spec, fact, value) if other != value]


def _others(spec: KeySpec, fact: FactSpec, value: Plain) -> list[Plain]:
    match fact.type:
        case "switch":
            return [not value]
        case "int":
            assert isinstance(value, int), (spec.name, value)
            return [value * 2, value // 2]
        case "float":
            assert isinstance(value, int | float), (spec.name, value)
            return [value * 2, value / 2]
        case "str":
            return [*_names(spec), "another name"]
        case "strs":
            assert isinstance(value, list), (spec.name, value)
            longer: list[Plain] = [[*value, value[0]]]
            return (
                longer + [[*value[:-1], name] for name in _names(spec)] + [[name, *value[1:]] for name in _names(spec)]
            )
        case "ids":
            return [[*value, 99] if isinstance(value, list) else value + 5]  # type: ignore[operator]


def _names(spec: KeySpec) -> list[str]:
    return [name for name, _ in spec.values] + [name for name, _ in spec.refused_values]
