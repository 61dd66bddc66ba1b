"""The answers of `met circuit why`, for people and as JSON."""

import json
from textwrap import wrap

from msgspec import to_builtins
from msgspec.structs import replace

from circuit.report.why import PointVerdict, Verdict, Why

WIDTH = 100


def why_text(answers: tuple[Why, ...]) -> str:
    """One block for all plans that have the same answer."""
    alike: dict[Why, list[Why]] = {}
    for answer in answers:
        alike.setdefault(replace(answer, mode="", rows=(0, 0)), []).append(answer)
    return "\n".join("\n".join(_block(same)) + "\n" for same in alike.values())


def why_json(answers: tuple[Why, ...]) -> str:
    """An object for each plan."""
    return json.dumps({"plans": [to_builtins(answer) for answer in answers]}, indent=1) + "\n"


def _block(same: list[Why]) -> list[str]:
    why = same[0]
    plans = "; ".join(f"{each.mode}, rows {each.rows[0]}-{each.rows[1]}" for each in same)
    lines = [f"{why.node} ({why.op}) in {plans}", *_wrapped(f"facts: {', '.join(why.facts)}", "  ")]
    lines += [line for note in why.notes for line in _wrapped(note, "  ")]
    taking = [verdict for verdict in why.verdicts if verdict.outcome == "took it"]
    refused = [verdict for verdict in why.verdicts if verdict.outcome == "refused"]
    lines += ["the rule that took it:"]
    for verdict in taking:
        lines += [f"  {_rule(verdict)}, {verdict.numerics}", *_wrapped(f"[{' '.join(verdict.members)}]", "    ")]
    lines += ["rules with this op that were refused:" if refused else "no other rule has this op"]
    for verdict in refused:
        lines.append(f"  {_rule(verdict)}")
        lines += [line for reason in verdict.reasons for line in _wrapped(reason, "    ")]
    lines += _wrapped(f"rules without this op: {', '.join(why.others) or 'none'}", "")
    lines += [f"points of family {why.family}:", *(line for point in why.points for line in _point(point))]
    return lines


def _rule(verdict: Verdict) -> str:
    at = verdict.file if verdict.line is None else f"{verdict.file}:{verdict.line}"
    return f"{verdict.rule} ({at}), priority {verdict.priority}"


def _point(point: PointVerdict) -> list[str]:
    values = "".join(f" {name}={value}" for name, value in point.values)
    said = ", ".join(point.reasons) or f"chosen; it {point.claim} the order of its definition"
    return _wrapped(f"{point.point}{values}: {said}", "  ")


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
