"""Where a class's policy asks for which instructions, and what each multiply-accumulate site of a plan runs on.

It reads groups, not kernels: what a node multiplies is in its formats, and a plan that breaks the policy is refused
before its kernels are made.
"""

from collections import Counter
from collections.abc import Container, Iterable
from typing import Literal

from msgspec import Struct

from circuit.compiled import Goal, GroupedSet, policy_of
from circuit.errors import Problem
from circuit.load.audit_policy import AuditPolicy, Exempt, Kind, Require, Sites, load_audit_policy
from circuit.load.hardware import HardwareClass, is_rendered, load_hardware
from circuit.load.inputs import Library, once
from circuit.load.policy import Policy, policy_value
from circuit.lower.ir import Group
from circuit.lower.kernels import kernel_name
from circuit.lower.meaning import meaning_of, reads_codes
from circuit.report.cost import multiplies
from circuit.report.roofline import DOTS, PORTABLE
from circuit.tir.ir import Node, Tir
from circuit.uop.node import toposort

INTEGER = "integer products"
"""What codes are multiplied by on a class without an instruction for four of them."""

Verdict = Literal["runs", "exempt", "violation", "not required"]


class AuditSite(Struct, frozen=True, kw_only=True):
    """Nodes of one kind in the groups of one rule: `ops` are names, with roles; `launches` of the whole step.

    `runs_on`: the instruction; `required`: those that the policy asks for, none where it asks for none. `kind` and
    `reason` are of the exemption. `line` is that of the entry that decided.
    """

    mode: str
    rows: tuple[int, int]
    rule: str
    kernel: str
    op: str
    reads: str
    weight: str
    launches: int
    runs_on: str
    required: tuple[str, ...]
    verdict: Verdict
    kind: Kind | None
    reason: str
    line: int | None


class Audit(Struct, frozen=True, kw_only=True):
    """Of all plans of one instance on a class. `file` is the policy's, "" where the class states none; `stated_by` the
    class whose it is. `rendered`: whether the class's language is; else no site has run.
    """

    hardware_class: str
    language: str
    rendered: bool
    matrix: tuple[str, ...]
    file: str
    stated_by: str
    policy: tuple[tuple[str, str], ...]
    sites: tuple[AuditSite, ...]


Step = tuple[str, tuple[int, int], tuple[Group, ...]]
"""Mode, rows and groups of one plan."""


def audit(
    tir: Tir,
    multiplying: Container[str],
    steps: Iterable[Step],
    hardware: HardwareClass,
    policy: Policy,
    stated: AuditPolicy | None,
) -> Audit:
    """Every node that multiplies and accumulates, those of one kind together; `multiplying` are the ops that do."""
    sites: list[AuditSite] = []
    named: dict[tuple[Group, ...], list[str]] = {}
    for mode, rows, groups in steps:
        found: dict[tuple[str, str, str, str, str], list[str]] = {}
        if groups not in named:
            named[groups] = [kernel_name(tir, group) for group in groups]
        names = named[groups]
        for group, name in zip(groups, names, strict=True):
            for node in (tir.nodes[place] for place in group.nodes):
                if node.op in multiplying:
                    key = (group.rule, name, node.op, reads_of(tir, node), weight_of(tir, node))
                    found.setdefault(key, []).append(node.role or "")
        counts = Counter(names)
        for (rule, kernel, op, reads, weight), roles in found.items():
            site = _Site(mode=mode, rows=rows, op=op, roles=tuple(dict.fromkeys(roles)), reads=reads, weight=weight)
            sites.append(_judged(site, rule, kernel, counts[kernel], hardware, policy, stated))
    return Audit(
        hardware_class=hardware.name,
        language=hardware.language,
        rendered=is_rendered(hardware),
        matrix=tuple(name for name in hardware.instructions if name.startswith("mma.")),
        file="" if stated is None else stated.file,
        stated_by="" if stated is None else stated.stated_by,
        policy=policy.entries,
        sites=tuple(sites),
    )


def violations(found: Audit) -> tuple[Problem, ...]:
    """One problem for each site that breaks the policy."""
    return tuple(
        Problem(
            message=(
                f"{site.kernel}: {site.op} of {site.reads} rows{_and(site.weight)} runs on {site.runs_on} in "
                f"{site.mode} of {site.rows[0]}-{site.rows[1]} rows; class {found.hardware_class} requires "
                f"{' or '.join(site.required)}"
            ),
            fix=f"use a kernel that does, or say in {found.file} why not, with an [[exempt]] entry",
            file=found.file,
            line=site.line,
        )
        for site in found.sites
        if site.verdict == "violation"
    )


def runs_on(codes: bool, hardware: HardwareClass) -> str:
    """The instruction of the products of a node: of codes with codes, or of f32."""
    if not codes:
        return PORTABLE
    return DOTS if DOTS in hardware.instructions else INTEGER


def reads_of(tir: Tir, node: Node) -> str:
    """The format of the rows that a node reads."""
    return tir.edges[node.inputs[0]].format


def weight_of(tir: Tir, node: Node) -> str:
    """The format of what the rows are multiplied with: a weight, or a state; "" where it is neither."""
    if node.states:
        return tir.states[node.states[0]].format
    return tir.weights[node.weights[0]].format if node.weights else ""


class _Site(Struct, frozen=True, kw_only=True):
    mode: str
    rows: tuple[int, int]
    op: str
    roles: tuple[str, ...]
    reads: str
    weight: str


def _judged(
    site: _Site,
    rule: str,
    kernel: str,
    launches: int,
    hardware: HardwareClass,
    policy: Policy,
    stated: AuditPolicy | None,
) -> AuditSite:
    codes = site.op == "linear" and site.reads != "f32"
    own = runs_on(codes, hardware)
    asked = [] if stated is None else [each for each in stated.require if _is_at(each, site)]
    verdict, kind, reason, line = _verdict(site, own, asked, policy, stated)
    named = [f"{site.op}:{role}" for role in site.roles if role] or [site.op]
    return AuditSite(
        mode=site.mode,
        rows=site.rows,
        rule=rule,
        kernel=kernel,
        op=" ".join(named),
        reads=site.reads,
        weight=site.weight,
        launches=launches,
        runs_on=own,
        required=tuple(dict.fromkeys(name for each in asked for name in each.instructions)),
        verdict=verdict,
        kind=kind,
        reason=reason,
        line=line,
    )


def _verdict(
    site: _Site, own: str, asked: list[Require], policy: Policy, stated: AuditPolicy | None
) -> tuple[Verdict, Kind | None, str, int | None]:
    """What becomes of a site, with the entry that decides: the first that is broken, or the first exemption."""
    if stated is None or not asked:
        return "not required", None, "", None
    exempt: Exempt | None = None
    for each in asked:
        if own in each.instructions:
            continue
        span = (max(site.rows[0], each.sites.rows[0]), site.rows[1])
        found = next((entry for entry in stated.exempt if _exempts(entry, site, span, policy)), None)
        if found is None:
            return "violation", None, each.why, each.line
        exempt = exempt or found
    if exempt is None:
        return "runs", None, asked[0].why, asked[0].line
    return "exempt", exempt.kind, exempt.reason, exempt.line


def _is_at(each: Require, site: _Site) -> bool:
    """Whether the entry is about a node of the site, in some of its rows."""
    return any(_of_op(each.sites, site)) and _fits(each.sites, site) and site.rows[1] >= each.sites.rows[0]


def _exempts(each: Exempt, site: _Site, span: tuple[int, int], policy: Policy) -> bool:
    """Whether the entry covers all nodes of the site, in all rows that something is required of."""
    inside = each.sites.rows[0] <= span[0] and span[1] <= each.sites.rows[1]
    chosen = all(policy_value(policy, key) == value for key, value in each.policy)
    return inside and chosen and all(_of_op(each.sites, site)) and _fits(each.sites, site)


def _of_op(sites: Sites, site: _Site) -> tuple[bool, ...]:
    """For each role of the site, whether the entry names it or its op."""
    return tuple(site.op in sites.ops or f"{site.op}:{role}" in sites.ops for role in site.roles)


def _fits(sites: Sites, site: _Site) -> bool:
    reads = sites.reads is None or site.reads in sites.reads
    return site.mode in sites.modes and reads and (sites.weights is None or site.weight in sites.weights)


def audit_of_groups(groups: GroupedSet, library: Library, goal: Goal) -> Audit:
    """What every site of grouped plans multiplies on, and what the class requires."""
    hardware = load_hardware(library, goal.hardware_class)
    steps = ((each.mode, each.rows, each.groups) for each in groups.sets)
    multiplying = multiplying_ops(groups.tir, library)
    return audit(
        groups.tir, multiplying, steps, hardware, policy_of(library, goal), load_audit_policy(library, hardware)
    )


def multiplying_ops(tir: Tir, library: Library) -> frozenset[str]:
    """The ops of an instance whose definitions add up products, whatever the sizes are."""
    one_of: dict[tuple[str, bool], Node] = {}
    for node in tir.nodes:
        one_of.setdefault((node.op, reads_codes(tir, node)), node)
    kinds = tuple(sorted(one_of))
    made = ("ops that multiply", kinds)
    return once(library, made, lambda: frozenset(kind[0] for kind in kinds if _accumulates(tir, one_of[kind])))


def _accumulates(tir: Tir, node: Node) -> bool:
    """Whether the definition of the node adds up products."""
    return any(map(multiplies, toposort(*meaning_of(tir, node))))


def _and(weight: str) -> str:
    return f" and {weight} weights" if weight else ""
