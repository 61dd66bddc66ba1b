// Sorts and filters the plan, and shows which point of the roofline a row is. It asks nobody for anything.

const plan = document.getElementById("plan");
const body = plan.tBodies[0];
const rows = [...body.rows];
const filter = document.getElementById("filter");
const part = document.getElementById("part");

function key(row, column) {
  const cell = row.cells[column];
  return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
}

function sort(column) {
  const heads = [...plan.tHead.rows[0].cells];
  const down = heads[column].ariaSort === "ascending";
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const sorted = [...rows].sort((a, b) => {
    const found = order(key(a, column), key(b, column));
    return (down ? -found : found) || key(a, 0) - key(b, 0);
  });
  body.append(...sorted);
}

function show() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    const wanted = !part.value || row.cells[1].textContent === part.value;
    row.hidden = !wanted || !words.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  document.getElementById("count").textContent = `${shown} of ${rows.length} launches`;
}

function point(number, on) {
  for (const each of document.querySelectorAll(`[data-spot="${number}"]`)) each.classList.toggle("on", on);
}

[...plan.tHead.rows[0].cells].forEach((head, column) => head.firstChild.addEventListener("click", () => sort(column)));
filter.addEventListener("input", show);
part.addEventListener("change", show);
for (const each of document.querySelectorAll("[data-spot]")) {
  each.addEventListener("pointerenter", () => point(each.dataset.spot, true));
  each.addEventListener("pointerleave", () => point(each.dataset.spot, false));
}
show();
