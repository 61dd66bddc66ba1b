"""The table: a line for each format and kind of activations, a column for each work."""

from bench.paths import FORMATS
from bench.results import Cell, PeerRow, Row, peer_rows, rows
from bench.works import COMPARED

WIDTH = 22


def table(cells: list[Cell], isa: str) -> str:
    """Of one ISA: tokens a second, the ratio to llama.cpp, percent of the ceiling; then the peers' tokens a second."""
    works = [work.name for work in COMPARED if any(cell.work == work.name for cell in cells)]
    mine = [row for cell in cells for row in rows(cell) if row.isa == isa]
    peers = [row for cell in cells for row in peer_rows(cell) if row.isa == isa]
    lines = [f"{'met, ' + isa:<18}" + "".join(f"{work:>{WIDTH}}" for work in works)]
    for format in FORMATS:
        for activations in ("f32", "int8"):
            found = {r.work: r for r in mine if (r.format, r.activations) == (format, activations)}
            if found:
                lines.append(f"{format + ' ' + activations:<18}" + "".join(_cell(found.get(work)) for work in works))
    for engine in ("llama.cpp", "torch"):
        for format in FORMATS:
            done = {r.work: r for r in peers if (r.engine, r.format) == (engine, format)}
            if done:
                lines.append(f"{engine + ' ' + format:<18}" + "".join(_peer(done.get(work)) for work in works))
    lines.append("tok/s, ratio to llama.cpp compiled for the same, percent of the roofline; ~ an unsteady machine")
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return f"{'-':>{WIDTH}}"
    mark = "~" if row.unsteady else ""
    return f"{f'{mark}{row.tok_s:.0f} {row.ratio_to_llama_cpp:.2f}x {row.of_ceiling * 100:.0f}%':>{WIDTH}}"


def _peer(row: PeerRow | None) -> str:
    return f"{'-' if row is None else f'{row.tok_s:.0f}':>{WIDTH}}"
