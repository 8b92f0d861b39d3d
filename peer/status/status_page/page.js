// The status page of one peer. Follows /events: first the history, then a report a second. Reports
// hold what other peers say of themselves, so all of it becomes text, never markup.
"use strict";

const POINTS_MAX = 1024;  // of a curve; then every other one goes
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
let history = { columns: [], points: [] };
let lastReport = 0;

// --- numbers with units ---

const known = (value) => typeof value === "number" && Number.isFinite(value);

function scaled(value, units, step) {
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) { value /= step; ++unit; }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return value.toFixed(digits) + units[unit];
}
const count = (value) => (known(value) ? scaled(value, ["", " k", " M", " G", " T"], 1000) : "–");
const bytes = (value) => (known(value) ? scaled(value, [" B", " kB", " MB", " GB", " TB"], 1000) : "–");
const rate = (value) => (known(value) ? bytes(value) + "/s" : "–");
const loss = (value) => (known(value) ? value.toFixed(4) : "–");
const small = (value) => (known(value) && value > 0 ? value.toExponential(2) : "–");

function time(seconds) {
  if (!known(seconds) || seconds < 0) return "–";
  if (seconds < 0.9995) return (seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0) + " ms";
  if (seconds < 99.5) return seconds.toFixed(seconds < 9.95 ? 1 : 0) + " s";
  if (seconds < 5970) return (seconds / 60).toFixed(0) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}
const ago = (seconds) => (known(seconds) && seconds >= 0 ? time(Math.max(1, Math.round(seconds))).replace(".0", "") : "–");

// --- elements ---

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Rows of cells [text, class]; says whether there are any.
function fill(table, none, rows) {
  const body = $(table).tBodies[0];
  body.replaceChildren(...rows.map((cells) => {
    const row = element("tr");
    row.append(...cells.map(([text, className]) => element("td", className, text)));
    return row;
  }));
  $(table).hidden = rows.length === 0;
  $(none).hidden = rows.length > 0;
}

// --- curves ---

const column = (name) => {
  const place = history.columns.indexOf(name);
  return history.points.map((point) => (place < 0 ? null : point[place]));
};

// Of something that counts: its growth per second between two points.
function growth(values, seconds) {
  return values.map((value, i) => {
    const span = i > 0 ? seconds[i] - seconds[i - 1] : 0;
    return span > 0 && known(value) && known(values[i - 1]) ? (value - values[i - 1]) / span : null;
  });
}

function path(xs, ys, x, y) {
  let line = "";
  let pen = false;
  xs.forEach((at, i) => {
    if (!known(at) || !known(ys[i])) return;
    line += (pen ? "L" : "M") + x(at).toFixed(1) + " " + y(ys[i]).toFixed(1);
    pen = true;
  });
  return line;
}

// Steps of 1, 2 or 5 that divide a range into about four.
function ticks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const result = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) result.push(at);
  return result;
}

// curves: [{name, class, ys}]; limit: a line across, or nothing.
function chart(place, xs, curves, { x: xText, y: yText, fromZero, limit }) {
  const box = $(place);
  const width = Math.max(260, box.clientWidth);
  const height = 176;
  const values = curves.flatMap((curve) => curve.ys).filter(known);
  const used = xs.filter(known);
  if (values.length < 2 || used.length < 2) {
    box.replaceChildren(element("p", "none", "Not enough points yet."));
    return;
  }
  let low = fromZero ? 0 : Math.min(...values);
  let high = Math.max(...values);
  const near = limit > 0 && limit < high * 4;
  if (near) high = Math.max(high, limit);
  if (high - low < Math.abs(high) * 1e-6 + 1e-12) { high += Math.abs(high) * 0.05 + 1e-9; low = fromZero ? 0 : low - Math.abs(low) * 0.05; }
  const first = used[0];
  const last = Math.max(used[used.length - 1], first + 1e-9);
  const left = 52;
  const x = (value) => left + ((value - first) / (last - first)) * (width - left - 8);
  const y = (value) => 8 + (1 - (value - low) / (high - low)) * (height - 30);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", preserveAspectRatio: "none" });
  svg.setAttribute("aria-label", curves.map((curve) => curve.name).join(", "));
  for (const at of ticks(low, high)) {
    svg.append(drawn("line", { class: "grid", x1: left, x2: width - 8, y1: y(at), y2: y(at) }));
    svg.append(drawn("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, yText(at)));
  }
  svg.append(drawn("text", { x: left, y: height - 4 }, xText(first)));
  svg.append(drawn("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, xText(last)));
  if (near) svg.append(drawn("path", { class: "limit", d: `M${left} ${y(limit)}H${width - 8}` }));
  for (const curve of curves) svg.append(drawn("path", { class: curve.class, d: path(xs, curve.ys, x, y) }));
  const keys = element("div", "keys");
  for (const curve of curves) keys.append(element("span", curve.class, curve.name));
  if (near) keys.append(element("span", "limit", "limit"));
  box.replaceChildren(svg, keys);
}

function drawCharts(report) {
  const seconds = column("seconds");
  const tokens = column("tokens");
  chart("loss-chart", tokens, [
    { name: "training", class: "first", ys: column("loss") },
    { name: "validation", class: "second", ys: column("validation_loss") },
    { name: "swarm", class: "third", ys: column("swarm_loss") },
  ], { x: (value) => count(value) + " tokens", y: (value) => value.toFixed(2) });
  chart("speed-chart", seconds, [{ name: "this peer", class: "first", ys: column("tokens_per_second") }],
    { x: time, y: count, fromZero: true });
  chart("bytes-chart", seconds, [
    { name: "sent", class: "first", ys: growth(column("bytes_out"), seconds) },
    { name: "received", class: "second", ys: growth(column("bytes_in"), seconds) },
  ], { x: time, y: bytes, fromZero: true, limit: report.upload_limit });
}

// --- what the report says ---

// Bytes per second of late: over the last points that cover five seconds.
function lately(name) {
  const seconds = column("seconds");
  const values = column(name);
  const end = seconds.length - 1;
  let start = end;
  while (start > 0 && seconds[end] - seconds[start] < 5) --start;
  const span = seconds[end] - seconds[start];
  return span > 0 && known(values[end]) && known(values[start]) ? (values[end] - values[start]) / span : NaN;
}

const limitOf = (value) => (value > 0 ? "of " + rate(value) + " allowed" : "no limit");

function company(report) {
  if (report.footing === "pulled") return "its weights count for little yet";
  if (report.footing === "late") return "its weights count for less yet";
  if (report.partners > 0) return "worth " + report.equal_peers.toFixed(1) + " equal peers";
  return report.peers_known ? "none heard yet" : "trains alone";
}

function tiles(report) {
  const read = 1 - report.parts_never / report.parts;  // not a number without parts
  const held = report.held_seconds / (report.train_seconds + report.held_seconds);
  const done = report.tokens / report.tokens_budget;
  const list = [
    ["Loss", loss(report.loss || NaN), report.validation_loss ? "validation " + loss(report.validation_loss) : "not validated yet"],
    ["Tokens per second", count(report.tokens_per_second), "step " + report.step],
    ["Tokens", count(report.tokens), known(done) ? (100 * done).toFixed(1) + " % of " + count(report.tokens_budget) : ""],
    ["Tokens of the swarm", count(report.swarm_tokens), known(read) ? Math.floor(100 * read) + " % of data read" : "as known here"],
    ["Partners", report.partners === undefined ? "–" : String(report.partners), company(report)],
    ["Exchanges", String(report.exchanges), `${report.exchanges_declined} declined, ${report.exchanges_failed} failed`],
    ["Sending", rate(lately("bytes_out")), limitOf(report.upload_limit)],
    ["Receiving", rate(lately("bytes_in")), limitOf(report.download_limit)],
    ["Disagreement", small(report.disagreement), report.drift > 0 ? report.drift.toFixed(1) + " outer steps" : "RMS to partners"],
    ["Trainer held", time(report.held_seconds), known(held) ? (100 * held).toFixed(2) + " % of its time" : ""],
  ];
  $("tiles").replaceChildren(...list.map(([name, value, more]) => {
    const tile = element("div", "tile");
    const pair = element("dl");
    pair.append(element("dt", "", name), element("dd", "", value), element("dd", "more", more));
    tile.append(pair);
    return tile;
  }));
}

function alarms(report) {
  const list = (report.alarms || []).map((alarm) => [alarm.text, ["diverged", "stalled", "risen", "alone", "drifting", "twin", "disk"].includes(alarm.kind) ? "bad" : ""]);
  $("alarms").hidden = list.length === 0;
  if ($("alarms").textContent === list.map(([text]) => text).join("")) return;  // said already
  $("alarms").replaceChildren(...list.map(([text, className]) => element("li", className, text)));
}

const short = (id) => String(id).slice(0, 8);
// What this peer's allow-list calls another one, if it has a name for it.
const called = (report, id) => (report.peers || []).find((peer) => peer.id === id)?.name || short(id);
const HEALTH = { alive: "good", suspect: "poor", dead: "bad", left: "none" };

function stateOf(peer) {
  if (peer.muted) return ["muted", "bad"];
  if (peer.health !== "alive") return [peer.health, HEALTH[peer.health] || ""];
  if (peer.rests) return ["rests", "poor"];
  if (peer.doubtful) return ["doubtful", "poor"];
  if (peer.far_off) return ["far off", "poor"];
  return [peer.relayed ? "by relay" : "alive", "good"];
}

function peers(report) {
  const list = report.peers || [];
  fill("peers", "no-peers", list.map((peer) => {
    return [
      [called(report, peer.id), "id"], stateOf(peer),
      [count(peer.tokens_per_second), "num"], [loss(peer.loss), "num"], [time(peer.round_trip_seconds), "num spare"],
      [ago(peer.last_exchange_seconds_ago), "num"],
      [`${peer.exchanges} / ${peer.exchanges_failed}`, "num spare"],
      [bytes(peer.bytes_out), "num spare"], [bytes(peer.bytes_in), "num spare"],
      [peer.device || "–", "spare"], [peer.address, "spare"],
    ];
  }));
  // A phone has no room for all columns: there the rest stands in a row below.
  [...$("peers").tBodies[0].rows].forEach((row, i) => {
    const { round_trip_seconds: trip, device, address } = list[i];
    const rest = element("tr", "narrow");
    rest.append(element("td", "", [time(trip), device, address].filter(Boolean).join(", ")));
    rest.firstChild.colSpan = row.querySelectorAll("td:not(.spare)").length;
    row.after(rest);
  });
  const hidden = (report.peers_total || 0) - list.length;
  const all = report.peers_known;
  const notes = all ? [`${all.alive} alive, ${all.suspect} doubted, ${all.dead} dead`] : [];
  if (hidden > 0) notes.push(`the ${list.length} nearest of ${report.peers_total}`);
  $("peers-note").textContent = notes.join("; ");
}

function exchanges(report) {
  fill("exchanges", "no-exchanges", (report.recent || []).map((row) => [
    [ago(row.seconds_ago), "num"],
    [(row.initiated ? "→ " : "← ") + called(report, row.partner), "id"],
    [String(row.fragment), "num"],
    [outcomeOf(row), row.outcome === "completed" ? "good" : "poor"],
  ]));
}

function outcomeOf(row) {
  if (!(row.clip_factor < 1)) return row.outcome;
  return `${row.outcome}, clipped to ${Number(row.clip_factor).toPrecision(2)}`;
}

function fragments(report) {
  const list = report.fragments || [];
  const largest = Math.max(...list.map((row) => row.disagreement || 0), 1e-30);
  $("fragments").replaceChildren(...list.flatMap((row) => {
    const track = element("div");
    const bar = element("div", "bar");
    bar.style.width = (100 * (row.disagreement || 0)) / largest + "%";
    track.append(bar);
    const age = row.age_seconds === undefined ? "" : `, ${ago(row.age_seconds)} ago`;
    return [element("span", "", String(row.fragment)), track, element("span", "", small(row.disagreement) + age)];
  }));
  $("no-fragments").hidden = list.length > 0;
}

const ERRORS = {
  outer_steps_refused: "outer steps refused: weights not finite",
  snapshots_skipped: "snapshots skipped for want of a slot",
  slots_missing: "orders without a slot",
  rounds_skipped: "fragments without a partner in time",
  stripes_compensated: "stripes taken back",
  stripes_orphaned: "stripes whose outcome stays unknown",
  attempts_fenced: "transfers without an answer in time",
  checkpoints_skipped: "checkpoints skipped",
  checkpoints_failed: "checkpoints that could not be written",
  reports_dropped: "reports dropped",
  lines_dropped: "lines of figures and events that could not be written",
  handshakes_failed: "connections of ours that were ended in the handshake",
  messages_refused: "messages without meaning here",
  part_entries_refused: "claims of unknown parts or readers",
  mutes_heard: "mutes by others",
  peers_muted: "peers muted",
  peers_clipped: "peers that claim more tokens than count",
};

function errors(report) {
  const rows = [];
  const words = (prefix, counts) => {
    for (const [reason, number] of Object.entries(counts || {})) rows.push([prefix + reason, number]);
  };
  const { completed, declined, ...unfinished } = report.outcomes || {};
  words("exchange: ", unfinished);
  words("turned down here: ", report.rejected);
  words("turned down by others: ", report.rejections_heard);
  words("frame: ", report.frames_dropped);
  words("connection of others: ", report.callers_ended);
  words("sealed message: ", report.envelopes_dropped);
  for (const [key, text] of Object.entries(ERRORS)) if (report[key] > 0) rows.push([text, report[key]]);
  fill("errors", "no-errors", rows.map(([text, number]) => [[text, ""], [count(number), "num"]]));
}

function show(report) {
  lastReport = Date.now();
  document.title = `${report.peer} – Starling`;
  $("peer").textContent = report.peer;
  $("about").textContent = `${short(report.id)} in run ${report.run}, on ${report.device}`;
  $("phase").textContent = report.phase;
  $("model").textContent = report.model || "";
  $("checkpoint").textContent = report.checkpoint ? `newest checkpoint ${report.checkpoint}` : "no checkpoint yet";
  tiles(report);
  alarms(report);
  peers(report);
  exchanges(report);
  fragments(report);
  errors(report);
  drawCharts(report);
}

// --- following the peer ---

function live(on) {
  $("live").textContent = on ? "live" : "not connected";
  $("live").className = "pill " + (on ? "on" : "off");
}

function remember(report) {
  const seconds = history.columns.indexOf("seconds");
  const newest = history.points[history.points.length - 1];
  if (newest && newest[seconds] >= report.seconds) return;  // the history knows it already
  history.points.push(history.columns.map((name) => {
    const value = report[name];
    return known(value) && (value !== 0 || name.startsWith("bytes") || name === "tokens") ? value : null;
  }));
  if (history.points.length > POINTS_MAX) history.points = history.points.filter((_, i) => i % 2 === 1);
}

const events = new EventSource("/events");
events.addEventListener("history", (event) => { history = JSON.parse(event.data); });
events.addEventListener("report", (event) => {
  const report = JSON.parse(event.data);
  remember(report);
  show(report);
  live(true);
});
events.addEventListener("error", () => live(false));
setInterval(() => { if (Date.now() - lastReport > 5000) live(false); }, 1000);
