// The page of a server: chat as a stream, and what runs meanwhile. It asks this server only.

const find = (id) => document.getElementById(id);
const messages = [];
const rates = [];
const SAMPLES = 60;
let running = null;
let before = null;
let model = null;

function headers() {
  const key = find("key").value.trim();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function get(path) {
  const answer = await fetch(path, { headers: headers() });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error.message);
  return body;
}

function say(problem) {
  find("problem").textContent = problem ?? "";
  find("problem").hidden = !problem;
}

function line(role, text) {
  const item = document.createElement("li");
  item.className = role;
  item.textContent = text;
  find("log").append(item);
  item.scrollIntoView({ block: "end" });
  return item;
}

// The objects of a stream of server-sent events, as they come.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    for (let end = held.indexOf("\n\n"); end >= 0; end = held.indexOf("\n\n")) {
      const data = held.slice(0, end).replace(/^data: /, "");
      held = held.slice(end + 2);
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      yield event;
    }
  }
}

async function answer() {
  const item = line("assistant", "");
  running = new AbortController();
  find("stop").hidden = false;
  find("send").hidden = true;
  let text = "";
  try {
    const request = {
      model,
      messages,
      stream: true,
      temperature: Number(find("temperature").value),
      seed: Number(find("seed").value),
      max_tokens: Number(find("tokens").value),
    };
    const sent = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers() },
      body: JSON.stringify(request),
      signal: running.signal,
    });
    if (!sent.ok) throw new Error((await sent.json()).error.message);
    for await (const event of events(sent.body)) {
      text += event.choices[0]?.delta.content ?? "";
      item.textContent = text;
      item.scrollIntoView({ block: "end" });
    }
  } catch (error) {
    if (error.name === "AbortError") item.classList.add("cut");
    else say(error.message);
  } finally {
    running = null;
    find("stop").hidden = true;
    find("send").hidden = false;
    if (text && messages.length) messages.push({ role: "assistant", content: text });
    else messages.pop();
    find("prompt").focus();
  }
}

function send(event) {
  event.preventDefault();
  const text = find("prompt").value.trim();
  if (!text || running) return;
  say(null);
  find("prompt").value = "";
  messages.push({ role: "user", content: text });
  line("user", text);
  answer();
}

function clear() {
  running?.abort();
  messages.length = 0;
  find("log").replaceChildren();
  say(null);
}

function path(values, height, most) {
  return values
    .map((value, at) => `${at === 0 ? "M" : "L"}${(at / (SAMPLES - 1)) * 600} ${height - (value / most) * (height - 6)}`)
    .join(" ");
}

function plot(rate) {
  rates.push(rate);
  if (rates.length > SAMPLES) rates.shift();
  const padded = [...Array(SAMPLES - rates.length).fill(0), ...rates];
  const most = Math.max(1, ...padded);
  find("line").setAttribute("d", path(padded, 120, most));
  find("area").setAttribute("d", `${path(padded, 120, most)} L600 120 L0 120 Z`);
  find("peak").textContent = `peak ${most.toFixed(0)}`;
}

function share(bar, place, part, whole) {
  find(bar).children[place].style.width = `${whole ? (100 * part) / whole : 0}%`;
}

function cells(row, ...texts) {
  for (const text of texts) {
    const cell = document.createElement("td");
    cell.textContent = text;
    row.append(cell);
  }
  return row;
}

function table(id, rows) {
  const body = find(id).tBodies[0];
  body.replaceChildren(...rows.map((texts) => cells(document.createElement("tr"), ...texts)));
}

function show(forward) {
  const now = forward.now;
  const at = performance.now();
  const rate = before ? ((now.made_tokens - before.made) * 1000) / (at - before.at) : 0;
  before = { made: now.made_tokens, at };
  plot(rate);
  find("rate").textContent = `${rate.toFixed(1)} /s`;
  find("rows").textContent = `${now.step_rows} in ${(now.step_s * 1000).toFixed(1)} ms`;
  find("choices").textContent = `${now.running}, ${now.queued}`;
  find("hits").textContent = `${now.hit_tokens} of ${now.prompt_tokens}`;
  find("pages").textContent = `${now.pages_used} held, ${now.pages_cached} cached, of ${now.pages_total}`;
  share("kv", 0, now.pages_used, now.pages_total);
  share("kv", 1, now.pages_cached, now.pages_total);
  find("batch").textContent = `${now.running} of ${forward.max_seqs} choices`;
  share("batchbar", 0, now.running, forward.max_seqs);
  find("strip").classList.toggle("busy", now.running > 0);
}

function describe(forward) {
  model = forward.model;
  find("model").textContent = model;
  document.title = `met: ${model}`;
  const parts = [`class ${forward.hardware_class}`, `${forward.threads} threads`, `context ${forward.context}`];
  find("about").textContent = `${parts.join(", ")}, fingerprint ${forward.fingerprint.slice(0, 16)}`;
  table("plans", forward.plans.map((plan) => [plan.name, plan.launches, plan.digest.slice(0, 16)]));
  table("certificate", forward.certificate.map((axis) => [axis.axis, axis.holds]));
}

// One column a layer, what stands before and behind the layers in columns of their own; one colour a kernel.
function strip(launches) {
  const kernels = [...new Set(launches.map((each) => each.kernel))];
  const colour = (each) => `g${kernels.indexOf(each.kernel) % 9}`;
  const columns = [];
  for (const each of launches) {
    const last = columns.at(-1);
    if (last && last.layer === each.layer) last.launches.push(each);
    else columns.push({ layer: each.layer, launches: [each] });
  }
  find("strip").replaceChildren(
    ...columns.map((column) => {
      const made = document.createElement("div");
      made.className = "layer";
      for (const each of column.launches) {
        const cell = document.createElement("div");
        cell.className = `launch ${colour(each)}`;
        cell.addEventListener("pointerenter", () => {
          const where = each.layer === null ? "outside the layers" : `layer ${each.layer}`;
          find("picked").textContent = `${where}: ${each.rule}, by ${each.point}, ${each.numerics}`;
        });
        made.append(cell);
      }
      return made;
    }),
  );
  find("launches").textContent = `${launches.length} launches`;
  const rows = kernels.map((kernel) => {
    const all = launches.filter((each) => each.kernel === kernel);
    const row = cells(document.createElement("tr"), all[0].rule, all[0].point, all.length);
    const mark = document.createElement("i");
    mark.className = colour(all[0]);
    row.firstChild.prepend(mark);
    return row;
  });
  find("groups").tBodies[0].replaceChildren(...rows);
}

let described = false;
async function poll() {
  try {
    const forward = await get("/forward");
    if (!described) {
      describe(forward);
      strip((await get("/forward/launches")).launches);
      described = true;
      say(null);
    }
    show(forward);
  } catch (error) {
    if (!running) say(error.message);
    before = null;
  }
}

find("form").addEventListener("submit", send);
find("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
});
find("stop").addEventListener("click", () => running?.abort());
find("clear").addEventListener("click", clear);
find("key").addEventListener("change", poll);
setInterval(poll, 1000);
poll();
