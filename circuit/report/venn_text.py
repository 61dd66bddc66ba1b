"""The comparison of kernels as sections."""

from circuit.report.differences_text import difference_rows
from circuit.report.promotion_text import measure_notes, promotion_sections, share_text
from circuit.report.sections import Section, Table, not_rendered
from circuit.report.venn import STANDINGS, Venn, VennSite


def venn_sections(found: Venn) -> tuple[Section, ...]:
    """Models, classes, the sites of each mode, what differs, promotion, and what the others have alone."""
    modes = tuple(dict.fromkeys(site.mode for site in found.sites))
    return (
        _models(found),
        _standings(found, modes),
        *(_sites(found, mode) for mode in modes),
        *_differences(found),
        *_promotions(found),
        *(_novel(found, letter, sites) for letter, sites in found.others),
    )


def _models(found: Venn) -> Section:
    on = f"class {found.hardware_class}" if not found.device else f"{found.device}, class {found.hardware_class}"
    rows = tuple((f"{each.letter}: {each.model_type}", each.arch, " ".join(each.weights)) for each in found.models)
    notes = [f"{each.letter}: {' '.join(f'{name}={n}' for name, n in each.dims)}" for each in found.models]
    policies = [" ".join(f"{key}={value}" for key, value in each.policy) for each in found.models]
    if len(set(policies)) == 1:
        notes.append(f"policy: {policies[0]}")
    else:
        notes += [f"policy of {m.letter}: {text}" for m, text in zip(found.models, policies, strict=True)]
    return Section(
        title=f"kernels of A beside those of {_others(found)}, on {on}",
        table=Table(head=("model", "circuit", "weights"), rows=rows),
        notes=(*notes, *not_rendered(found.language, found.rendered)),
    )


def _others(found: Venn) -> str:
    return ", ".join(each.letter for each in found.models[1:])


def _standings(found: Venn, modes: tuple[str, ...]) -> Section:
    """How many sites, and what part of each work, stand in which class."""
    rows = []
    for standing in STANDINGS:
        own = [site for site in found.sites if site.standing == standing]
        cells = [
            cell
            for mode in modes
            for cell in (
                str(sum(site.mode == mode for site in own)),
                _part([site.share for site in own if site.mode == mode]),
            )
        ]
        rows.append((standing, *cells))
    works = dict(found.works)
    head = [name for mode in modes for name in (mode, works.get(mode, ""))]
    notes = [
        "shared: another model runs the same program, and its rule was measured on the class at such rows",
        "shared-unmeasured: the same program, without evidence",
        "policy variant: it differs in what the policy states alone, or is the policy's own op",
        "parameterization: the same ops in one launch of the family, at other values or rows",
        "novel: no other model has these ops in one launch of the family",
    ]
    if not found.device:
        notes.append("shares: give --hardware")
    return Section(
        title="sites of A by class", table=Table(head=("class", *head), rows=tuple(rows)), notes=tuple(notes)
    )


def _part(parts: list[float | None]) -> str:
    known = [part for part in parts if part is not None]
    return f"{sum(known):.1%}" if known else ""


def _sites(found: Venn, mode: str) -> Section:
    own = sorted(
        (site for site in found.sites if site.mode == mode),
        key=lambda site: (STANDINGS.index(site.standing), -(site.share or 0.0)),
    )
    rows = tuple(
        (site.kernel, _rows(site), str(site.launches), site.standing, site.beside, share_text(site.share))
        for site in own
    )
    notes = [f"novel in {site.kernel}: {', '.join(site.novel)}" for site in own if site.novel]
    machines = dict.fromkeys(machine for site in own if site.standing == "shared" for machine in site.measured)
    notes += [f"measured on: {machine}" for machine in machines]
    share = dict(found.works).get(mode, "share")
    return Section(
        title=f"{mode}: sites of A",
        table=Table(head=("site", "rows", "n", "class", "in", share), rows=rows),
        notes=tuple(dict.fromkeys(notes)),
    )


def _rows(site: VennSite) -> str:
    return ",".join(str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in site.rows)


def _differences(found: Venn) -> tuple[Section, ...]:
    """A block for each kernel of A: what it is made for, beside the nearest one."""
    rows: list[tuple[str, ...]] = []
    seen: set[object] = set()
    for site in found.sites:
        key = (site.rule, site.kernel, site.beside, site.differs)
        if site.differs and key not in seen:
            seen.add(key)
            rows += [(site.kernel, "", "", site.beside), *difference_rows(site.differs)]
    if not rows:
        return ()
    table = Table(head=("site, fact", "kind", "A", "there"), rows=tuple(rows))
    return (Section(title="what differs, in A and in the nearest kernel", table=table),)


def _promotions(found: Venn) -> tuple[Section, ...]:
    """Facts that would serve more models as parameters, and relations to be measured."""
    measure = measure_notes(found.unmeasured, found.hardware_class) if found.rendered else ()
    return promotion_sections(found.promotions, measure)


def _novel(found: Venn, letter: str, sites: tuple[VennSite, ...]) -> Section:
    """What one of the others has and none of the rest."""
    rest = ", ".join(each.letter for each in found.models if each.letter != letter)
    if not sites:
        return Section(title=f"only in {letter}, not in {rest}: no site")
    rows = tuple((site.kernel, site.mode, _rows(site), str(site.launches)) for site in sites)
    return Section(
        title=f"only in {letter}, not in {rest}: {len(sites)} sites",
        table=Table(head=("site", "mode", "rows", "n"), rows=rows),
        notes=tuple(dict.fromkeys(f"novel in {site.kernel}: {', '.join(site.novel)}" for site in sites)),
    )
