"""The forms of a report: text for a terminal, JSON, Markdown, and the JSON Schema of the JSON."""

from typing import TYPE_CHECKING

from circuit.errors import PlanError, Problem

if TYPE_CHECKING:
    from circuit.report.sections import Section


def check_forms(as_json: bool, markdown: bool, schema: bool) -> None:
    """Refuses two forms at once."""
    if as_json + markdown + schema > 1:
        message = "--json, --markdown and --schema are three forms of one report"
        raise PlanError(Problem(message=message, fix="give one of them"))


def print_schema(kind: type, command: str) -> None:
    """The schema of what a command prints with --json."""
    from circuit.report.as_json import record_schema

    print(record_schema(kind, f"met circuit {command}"), end="")


def form_of(as_json: bool, markdown: bool) -> str:
    """The name of the form that was asked for."""
    return "json" if as_json else "markdown" if markdown else "text"


def report_text(record: object, sections: "tuple[Section, ...]", form: str) -> str:
    """The report in a form."""
    from circuit.report.as_json import record_json
    from circuit.report.sections import sections_markdown, sections_text

    if form == "json":
        return record_json(record)
    return (sections_markdown if form == "markdown" else sections_text)(sections)
