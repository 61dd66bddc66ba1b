"""The whole compiler on one screen: texts in, each stage's result out. The caller stops when it has what it wants."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from circuit.compiled import Compiled, Goal, Grouped, GroupedSet, Mapped, PlanSet, Stage, policy_of
from circuit.errors import PlanError, PolicyError, Problem
from circuit.front.bir import Bir
from circuit.front.blocks import blocks
from circuit.load.audit_policy import AuditPolicy, load_audit_policy
from circuit.load.circuits import load_circuit
from circuit.load.config import map_config
from circuit.load.families import Family, load_families
from circuit.load.hardware import HardwareClass, is_rendered, load_hardware, rows_of
from circuit.load.inputs import CheckpointTexts, Library, once
from circuit.load.owners import Owned, load_owners, parted
from circuit.load.policy import Policy, policy_value
from circuit.load.proofs import Proof, load_proofs, proving_class
from circuit.load.rules import Rule, load_rules
from circuit.load.settings import changed, is_setting, with_settings
from circuit.lower.fuse import fuse
from circuit.lower.ir import Group, Which
from circuit.lower.kernels import defined
from circuit.lower.match import applying, nodes_of
from circuit.lower.proven import current, proven
from circuit.plan.build import Request, plan
from circuit.plan.digest import Run
from circuit.plan.ir import Plan
from circuit.plan.kernels import shared_by_plans
from circuit.plan.ranges import alike, row_ranges
from circuit.plan.shared import Shared
from circuit.tir.activations import with_activations
from circuit.tir.bind import bind
from circuit.tir.instantiate import instantiate
from circuit.tir.ir import Bound, Tir
from circuit.tir.quantize import as_declared
from circuit.tir.states import check_stored, stored_as

if TYPE_CHECKING:
    from circuit.report.audit import Audit
    from circuit.report.why import Why


def stages(checkpoint: CheckpointTexts, library: Library, goal: Goal) -> Iterator[tuple[str, Stage]]:
    """Stage after stage: map, bir, tir, groups, plan."""
    facts, ledger = map_config(checkpoint, library)
    yield "map", Mapped(facts=facts, ledger=ledger)
    yield "bir", (bir := blocks(load_circuit(library, facts.arch), facts))
    tir = stored_as(instantiate(bir), _kv_format(policy_of(library, goal)))
    if checkpoint.tensors is None:
        bound = Bound(tir=as_declared(tir, facts.quantization), equal=(), ignored=())
    else:
        bound = bind(tir, checkpoint.tensors, ledger, facts.quantization)
    bound = replace(bound, tir=with_activations(bound.tir, policy_of(library, goal)))
    yield "tir", bound
    yield from lowered(bound.tir, library, goal, facts.run)


def lowered(
    tir: Tir, library: Library, goal: Goal, run: Run, shared: Shared | None = None
) -> Iterator[tuple[str, GroupedSet | PlanSet]]:
    """The stages after `.tir`: groups, plan. `run` is what only the executor reads; `shared` is of other plans of the
    same instance on the same class."""
    given = _given(library, goal)
    check_stored(tir, _kv_format(given.policy))
    sets = _grouped(tir, given, goal.rules)
    used = {group.rule for each in sets for group in each.groups}
    current(tuple(rule for rule in given.rules if rule.id in used), given.proofs, given.hardware, library)
    yield "groups", (grouped := GroupedSet(tir=tir, sets=sets))
    if given.stated is not None:
        from circuit.report.audit import audit_of_groups, violations

        if broken := violations(audit_of_groups(grouped, library, goal)):
            raise PolicyError(broken)
    if scheduled := goal.scheduled and is_rendered(given.hardware):
        from circuit.lower.scheduled import realize as made
    else:
        made = defined
    policy, compilers = parted(given.policy, given.owned)
    shared = shared or shared_by_plans(tir)
    requests = (
        Request(
            hardware=given.hardware,
            families=given.families,
            policy=policy,
            settings=(*compilers, *changed(given.rules)),
            mode=each.mode,
            rows=each.rows,
            run=run,
            realize=made,
            scheduled=scheduled,
            shared=shared,
        )
        for each in sets
    )
    plans = tuple(plan(tir, each.groups, request) for each, request in zip(sets, requests, strict=True))
    yield "plan", PlanSet(plans=plans, shared=shared)


class _Given(Struct, frozen=True, kw_only=True):
    """What the library has for a goal; `parts` are the mode and rows of each plan. `stated`: what the class requires
    of them, where it requires anything."""

    hardware: HardwareClass
    stated: AuditPolicy | None
    families: tuple[Family, ...]
    rules: tuple[Rule, ...]
    proofs: tuple[Proof, ...]
    policy: Policy
    owned: tuple[Owned, ...]
    parts: tuple[tuple[str, tuple[int, int]], ...]


def _grouped(tir: Tir, given: _Given, which: Which) -> tuple[Grouped, ...]:
    """The groups of each plan. Parts of the rows that a model has the same kernels for are one plan."""
    sets: list[Grouped] = []
    nodes = nodes_of(tir)
    found: dict[tuple[str, ...], tuple[Group, ...]] = {}  # by the rules that apply
    for mode, rows in given.parts:
        rules = tuple(rule.id for rule in applying(given.rules, given.policy, mode, rows, which))
        if rules not in found:
            found[rules] = fuse(tir, given.rules, given.policy, mode, rows, which, nodes)
        groups = found[rules]
        last = sets[-1] if sets else None
        if last and last.mode == mode and alike(given.families, mode, (last.rows, last.groups), (rows, groups)):
            sets[-1] = replace(last, rows=(last.rows[0], rows[1]))
        else:
            sets.append(Grouped(mode=mode, rows=rows, groups=groups))
    return tuple(sets)


def _kv_format(policy: Policy) -> str:
    format = policy_value(policy, "kv")
    assert format is not None, "a policy states every key"
    return format


def _given(library: Library, goal: Goal) -> _Given:
    hardware = load_hardware(library, goal.hardware_class)
    families = load_families(library, hardware)
    # A report runs nothing: a class that no host has proven is planned as the nearest that one has.
    proven_by = hardware.proven_by if goal.scheduled else proving_class(library, hardware)
    proofs = load_proofs(library, replace(hardware, proven_by=proven_by))
    rules = _checked_rules(library, hardware, proven_by, goal.rules)
    settings = [choice for choice in goal.choices if is_setting(choice)]
    if settings and goal.rules == "reference":
        message = f"policy {settings[0]} has no effect with --rules reference"
        raise PlanError(Problem(message=message, fix="leave out one of them"))
    rules = with_settings(rules, settings)
    used = tuple(rule for rule in rules if rule.used)
    steps = [(mode, rows or rows_of(hardware, mode)) for mode, rows in goal.steps]
    return _Given(
        hardware=hardware,
        stated=load_audit_policy(library, hardware),
        families=families,
        rules=rules,
        proofs=proofs,
        policy=policy_of(library, goal),
        owned=load_owners(library),
        parts=tuple((mode, part) for mode, rows in steps for part in row_ranges(used, families, mode, rows)),
    )


def _checked_rules(library: Library, hardware: HardwareClass, proven_by: str, which: Which) -> tuple[Rule, ...]:
    """The rules of the class, without a contradiction; where relations are to be used, each has its proof."""

    def make() -> tuple[Rule, ...]:
        from circuit.lower.lint import linted

        rules = linted(load_rules(library, hardware, load_families(library, hardware)))
        proofs = load_proofs(library, replace(hardware, proven_by=proven_by))
        return proven(rules, proofs, hardware) if which == "all" else rules

    return once(library, ("checked rules", hardware, proven_by, which), make)


def audited(checkpoint: CheckpointTexts, library: Library, goal: Goal) -> "Audit":
    """What every site of a model's plans multiplies on, and what the class requires; a plan that is refused too."""
    from circuit.report.audit import audit_of_groups

    groups = next(result for _, result in stages(checkpoint, library, goal) if isinstance(result, GroupedSet))
    return audit_of_groups(groups, library, goal)


def explained(tir: Tir, library: Library, goal: Goal, node: str) -> "tuple[Why, ...]":
    """For each plan of the goal, why the node is computed as it is."""
    from circuit.report.why import Asked, why

    given = _given(library, goal)
    return tuple(
        why(
            tir,
            node,
            Asked(
                rules=given.rules,
                families=given.families,
                policy=given.policy,
                mode=each.mode,
                rows=each.rows,
                which=goal.rules,
            ),
        )
        for each in _grouped(tir, given, goal.rules)
    )


def compiled(checkpoint: CheckpointTexts, library: Library, goal: Goal) -> Compiled:
    """Every stage at once: what an executor needs."""
    for _, result in stages(checkpoint, library, goal):
        match result:
            case Mapped():
                mapped = result
            case Bir():
                bir = result
            case Bound():
                bound = result
            case GroupedSet():
                groups = result
            case PlanSet():
                planned = result
    return Compiled(mapped=mapped, bir=bir, bound=bound, groups=groups, plans=planned.plans, shared=planned.shared)


def planned_by(made: Compiled, library: Library, goal: Goal) -> tuple[Plan, ...]:
    """The plans of an instance that is compiled already by other rules, on the same class and under the same policy."""
    found = lowered(made.bound.tir, library, goal, made.mapped.facts.run, made.shared)
    return next(result.plans for _, result in found if isinstance(result, PlanSet))
