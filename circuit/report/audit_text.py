"""The audit as sections."""

from circuit.report.audit import Audit, AuditSite
from circuit.report.sections import Section, Table, not_rendered


def audit_sections(found: Audit) -> tuple[Section, ...]:
    """A summary, then every site of every plan."""
    plans: dict[tuple[str, tuple[int, int]], list[AuditSite]] = {}
    for site in found.sites:
        plans.setdefault((site.mode, site.rows), []).append(site)
    return (audit_summary(found), *(_plan(mode, rows, sites) for (mode, rows), sites in plans.items()))


def audit_summary(found: Audit) -> Section:
    """How many ops, one for each launch, run on what the class requires, and why the others need not."""
    rows = tuple(
        (f"{mode} {lo}-{hi}", *(str(_count(found, mode, (lo, hi), verdict)) for verdict in _VERDICTS))
        for mode, (lo, hi) in dict.fromkeys((site.mode, site.rows) for site in found.sites)
    )
    notes = list(not_rendered(found.language, found.rendered))
    if not found.matrix:
        notes.append(f"class {found.hardware_class} has no matrix instructions, and requires none")
    else:
        notes.append(f"matrix instructions of class {found.hardware_class}: {', '.join(found.matrix)}")
        notes.append(f"policy: {found.file}, of class {found.stated_by}")
    notes += dict.fromkeys(f"exempt ({site.kind}): {site.reason}" for site in found.sites if site.verdict == "exempt")
    return Section(
        title="audit: ops that multiply and accumulate, by what the class requires of them",
        table=Table(head=("plan", *_VERDICTS), rows=rows),
        notes=tuple(notes),
    )


_VERDICTS = ("runs", "exempt", "violation", "not required")


def _count(found: Audit, mode: str, rows: tuple[int, int], verdict: str) -> int:
    return sum(site.launches for site in found.sites if (site.mode, site.rows, site.verdict) == (mode, rows, verdict))


def _plan(mode: str, rows: tuple[int, int], sites: list[AuditSite]) -> Section:
    cells = tuple((site.kernel, str(site.launches), _products(site), site.runs_on, _verdict(site)) for site in sites)
    return Section(
        title=f"{mode}, rows {rows[0]}-{rows[1]}",
        table=Table(head=("site", "n", "rows x weights", "runs on", "verdict"), rows=cells),
    )


def _products(site: AuditSite) -> str:
    op = site.op.partition(":")[0]
    return f"{op} {site.reads} x {site.reads if op == 'rms_norm' else site.weight or site.reads}"


def _verdict(site: AuditSite) -> str:
    if site.verdict in ("exempt", "violation"):
        return f"{site.verdict} :{site.line}" + (f" {site.kind}" if site.kind else "")
    return site.verdict
