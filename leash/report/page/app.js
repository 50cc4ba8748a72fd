// The page: sliders, the map, the list of problems, and one problem at a time.
//
// In: the JSON elements `content` and `examples` (leash/report/page/content.py and html.py). support.js counts P, E, S and
// O and their ratios live; intervals, decisions and the headline are those that Python computed. Texts of models and data
// sets enter the document as `textContent`, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);
const carried = (id) => JSON.parse($(id).textContent);
const content = carried("content");
const LETTERS = ["P", "E", "S", "O"];
const NAMES = { P: "preservation", E: "expansion", S: "shrinkage", O: "out of support" };
const SHAPES = { P: "circle", E: "triangle-up", S: "triangle-down", O: "cross" };
const FIRST_PAGE = 15; // problems listed at first
const PER_PAGE = 50; // problems that "Show more" adds
const IN_ORDER = "ESPO"; // what changed is listed first
const size = content.problems.id.length;

/* ---- the state: kept in the address after #, so that a link shows the same view ---- */

const state = { pair: 0, epsilon: content.epsilon, k: content.ks.length - 1, control: "", dataset: "", category: "", search: "" };
let listed = FIRST_PAGE;
let found = []; // one entry per problem of the chosen data set: see `evaluate`

const pair = () => content.pairs[state.pair];
const k = () => content.ks[state.k];

function remember() {
  const { epsilon, control, dataset, category } = state;
  const shown = { pair: pair().name, epsilon, k: k(), control, dataset, category };
  const address = new URLSearchParams(Object.entries(shown).filter(([, value]) => value !== ""));
  history.replaceState(null, "", `#${address}`);
}

function recall() {
  const address = new URLSearchParams(location.hash.slice(1));
  const named = content.pairs.findIndex((entry) => entry.name === address.get("pair"));
  if (named >= 0) state.pair = named;
  if (address.has("epsilon")) state.epsilon = epsilonFrom(address.get("epsilon")) ?? state.epsilon;
  const at = content.ks.indexOf(Number(address.get("k")));
  if (at >= 0) state.k = at;
  if (Object.hasOwn(content.controls, address.get("control"))) state.control = address.get("control");
  if (content.datasets.includes(address.get("dataset"))) state.dataset = address.get("dataset");
  if (address.get("category") in NAMES) state.category = address.get("category");
}

function epsilonFrom(text) {
  if (text === "auto") return "auto";
  const value = Number(text);
  return text !== "" && value >= 0 && value <= 1 ? value : null;
}

/* ---- counts ---- */

const place = Object.fromEntries(content.ks.map((value, i) => [value, i]));

/** n, c and ending of a model on a problem in its first k samples. A column is one value if all problems share it. A
 *  control counts other hits; where it has no columns of its own, it counts the same. "" is the run's own count. */
function counted(model, problem, budget, control = state.control) {
  const own = content.models[model][place[budget]];
  const { n, c, ended } = (control && content.controls[control].models[model][place[budget]]) || own;
  const at = (column) => (Array.isArray(column) ? column[problem] : column);
  return c[problem] == null ? { n: null, c: null, ended: null } : { n: at(n), c: c[problem], ended: at(ended) };
}

const most = (problem) => pair().k[content.problems.dataset[problem]]; // the k at which the run compares the pair
const budget = (problem) => Math.min(k(), most(problem));
const cutAt = (samples) => (state.epsilon === "auto" ? detectable(samples, content.confidence) : state.epsilon);

/** Every problem of the chosen data set with its counts at k and the letter of its category. */
function evaluate() {
  const { base, rlvr } = pair();
  const entries = [];
  for (let i = 0; i < size; i++) {
    if (state.dataset && content.problems.dataset[i] !== state.dataset) continue;
    const samples = budget(i);
    const both = [counted(base, i, samples), counted(rlvr, i, samples)];
    const letter = category(...both.map((counts) => support(counts, samples, cutAt(samples))));
    entries.push({ i, samples, base: both[0], rlvr: both[1], letter });
  }
  return entries;
}

const tally = (entries) => LETTERS.map((letter) => entries.filter((entry) => entry.letter === letter).length);

/** The intervals of the ratios that Python computed for this pair, data set, k and ε. Null at an ε that is not on its
 *  grid. There is no decision here: it is made at the run's own k and ε, since over all settings some would be wrong. */
function intervals() {
  if (state.control) return asSet() ? content.controls[state.control].intervals[pair().name][state.dataset] : null;
  const { rows, at } = content.intervals[pair().name][state.dataset];
  const place = state.epsilon === "auto" ? content.epsilons.length : content.epsilons.indexOf(state.epsilon);
  return place < 0 ? null : rows[at[state.k][place]];
}

/** Whether the sliders are where the run was set. */
const asSet = () => state.epsilon === content.epsilon && k() >= Math.max(...Object.values(pair().k));

/** Expected P, E, S and O over all choices of k samples, as `leash compare --k` counts. Python computed them for ε = 0. */
const expected = () => (state.epsilon === 0 && !state.control ? content.expected[pair().name][state.dataset]?.[k()] : null);

/* ---- text ---- */

/** An element with attributes and children; a string is text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** A long name without its middle, because names often differ at the end. Callers put the whole name in a title. */
const short = (name, longest) => {
  const end = Math.floor(longest / 2);
  return name.length <= longest ? name : `${name.slice(0, longest - end - 1)}…${name.slice(-end)}`;
};

const fill = (element, ...children) => element.replaceChildren(...children);

function shown(value) {
  if (value == null || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 0.001 ? value.toFixed(3) : value.toPrecision(3);
}

function real(value) {
  if (value == null || Number.isNaN(value)) return "–";
  return value.toFixed(3);
}

const between = (range) => (range ? ` (${real(range.low)} to ${real(range.high)})` : "");
const epsilonText = () => (state.epsilon === "auto" ? `auto (${shown(cutAt(k()))} at k)` : String(state.epsilon));
const viewText = () => (state.control ? ` (view: ${state.control})` : "");
const problems = (count) => `${count.toLocaleString("en")} problem${count === 1 ? "" : "s"}`;

/** The report's own headline, if the sliders are where the run was set. */
function runHeadline() {
  const { headlines } = state.control ? content.controls[state.control] : content;
  return asSet() ? headlines[pair().name][state.dataset] : undefined;
}

function sentence([, gained, lost]) {
  const { base, rlvr } = pair();
  const at = `At ε = ${epsilonText()} and k = ${k().toLocaleString("en")}${state.dataset ? ` on ${state.dataset}` : ""}${viewText()}`;
  // Few samples don't show what a model can reach.
  const counts =
    k() < content.reach_from
      ? `${rlvr} alone solves ${gained || "none"}, ${base} alone ${lost || "none"}`
      : `${rlvr} reaches ${gained || "none"} that ${base} does not, ${base} ${lost || "none"} that ${rlvr} does not`;
  return `${at}: ${counts}. (Exploring: the report decides at its own ε and k.)`;
}

/* ---- the panel ---- */

function row(name, counts, intervals, title) {
  const values = Object.entries(ratios(counts)).map(([key, x]) => real(x) + between(intervals?.[key]));
  const cells = [...counts.map(shown), ...values];
  return make("tr", {}, make("th", { scope: "row", title }, name), ...cells.map((cell) => make("td", {}, cell)));
}

function panel() {
  const counts = tally(found);
  const lacking = found.length - counts.reduce((a, b) => a + b);
  const headline = runHeadline() ?? sentence(counts);
  fill($("headline"), headline + (lacking ? ` ${problems(lacking)} can’t be categorized here.` : ""));
  const rows = [row("seen", counts, intervals(), "In the first k samples, as `leash categorize`")];
  if (expected()) rows.push(row("expected", expected(), null, "Over all choices of k samples, as `leash compare --k`"));
  fill($("counts"), ...rows);
  const settings = [`categorize.epsilon=${state.epsilon}`];
  if (k() < Math.max(...Object.values(pair().k))) settings.push(`categorize.k=${k()}`);
  // `++` sets a key whether or not params.yaml spells it out.
  fill($("command"), `dvc exp run ${settings.map((setting) => `-S ++${setting}`).join(" ")}`);
}

/* ---- the map ---- */

let view = null;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The position of a problem on an axis: its mass, or `floor` without a hit. */
function mass({ n, c, ended }, samples) {
  const out = ended === "k" ? n : ended == null ? 0 : samples;
  return out ? Math.max(c / out, floor) : null;
}

/** Move equal points apart a little: each always in the same direction, and never across the line at ε. */
function apart(counts, { i, samples }, step) {
  const [at, cut] = [mass(counts, samples), Math.max(cutAt(samples), floor * 1.41)];
  const moved = Math.min(at * Math.exp(0.24 * ((((i + 1) * step) % 1) - 0.5)), 1);
  return at > cut ? Math.max(moved, cut * 1.02) : Math.min(moved, cut / 1.02);
}

function points() {
  return visible().filter(({ base, rlvr }) => base.ended != null && rlvr.ended != null).map((entry) => ({
    i: entry.i,
    category: entry.letter,
    x: apart(entry.base, entry, 0.618034),
    y: apart(entry.rlvr, entry, 0.754878),
  }));
}

/** The tooltip of a problem. Vega inserts it as HTML, so every line goes through its `safe`. */
function hint(i, safe) {
  const { base, rlvr, letter } = found.find((entry) => entry.i === i);
  const lines = [
    `${content.problems.id[i]}: ${NAMES[letter] ?? "not categorized"}`,
    `${pair().base} ${base.c}/${base.n}, ${pair().rlvr} ${rlvr.c}/${rlvr.n}`,
    content.problems.question[i].slice(0, 160),
  ];
  return lines.map(safe).join("<br>");
}

const legendNames = `${JSON.stringify(NAMES)}[datum.label]`;
const floor = 0.5 / Math.max(...content.ks); // where problems without a hit are drawn
const cuts = () => [{ cut: Math.max(cutAt(k()), floor * 1.41) }];

/** The line at epsilon, across or up. */
const rule = (channel) => ({
  data: { name: "cuts" },
  mark: { type: "rule", color: css("--ink"), strokeDash: [5, 3] },
  encoding: { [channel]: { field: "cut", type: "quantitative" } },
});

function mapSpec() {
  const decades = Array.from({ length: Math.max(1, Math.ceil(-Math.log10(2 * floor))) }, (_, i) => 10 ** -i);
  const axis = (name) => ({
    title: `${short(name, 24)}: share of correct samples`,
    values: [floor, ...decades],
    labelExpr: `datum.value < ${floor * 1.2} ? 'none' : datum.label`,
    format: "~g",
  });
  const scale = { type: "log", domain: [floor / 1.4, 1.2], nice: false };
  const styled = (range) => ({ domain: LETTERS, range: LETTERS.map(range) });
  return {
    width: "container",
    height: Math.min(560, Math.max(320, $("map").clientWidth * 0.9)),
    autosize: { type: "fit", contains: "padding" },
    datasets: { points: points(), cuts: cuts() },
    layer: [
      rule("x"),
      rule("y"),
      {
        data: { name: "points" },
        mark: { type: "point", filled: true, size: 46, opacity: 0.8, cursor: "pointer" },
        encoding: {
          x: { field: "x", type: "quantitative", scale, axis: axis(pair().base) },
          y: { field: "y", type: "quantitative", scale, axis: axis(pair().rlvr) },
          color: {
            field: "category",
            scale: styled((letter) => css(`--${letter}`)),
            legend: { orient: "bottom", columns: 2, title: null, labelExpr: legendNames },
          },
          shape: { field: "category", scale: styled((letter) => SHAPES[letter]) },
          tooltip: { field: "i" },
        },
      },
    ],
    config: theme(),
  };
}

/** The page's colours for a chart. */
function theme() {
  const [ink, faint] = [css("--ink"), css("--line")];
  return {
    background: null,
    font: "system-ui, sans-serif",
    view: { stroke: faint },
    axis: { labelColor: ink, titleColor: ink, gridColor: faint, domainColor: faint, tickColor: faint, titleFontWeight: 500 },
    legend: { labelColor: ink, titleColor: ink },
    title: { color: ink },
  };
}

const darkness = matchMedia("(prefers-color-scheme: dark)");

function embed(target, spec) {
  const tooltip = { theme: darkness.matches ? "dark" : "light", formatTooltip: hint };
  return vegaEmbed(target, spec, { actions: false, renderer: "canvas", tooltip });
}

async function drawMap() {
  const drawn = await embed("#map", mapSpec());
  view?.finalize();
  view = drawn.view;
  view.addEventListener("click", (_, item) => item?.datum?.i !== undefined && open(item.datum.i));
}

const moveMap = () => view.data("points", points()).data("cuts", cuts()).run();

/* ---- the list ---- */

function visible() {
  const text = state.search.toLowerCase();
  const has = (i) => content.problems.id[i].toLowerCase().includes(text) || content.problems.question[i].toLowerCase().includes(text);
  return found
    .filter((entry) => (!state.category || entry.letter === state.category) && (!text || has(entry.i)))
    .sort((a, b) => IN_ORDER.indexOf(a.letter) - IN_ORDER.indexOf(b.letter) || a.i - b.i);
}

function list() {
  const entries = visible();
  const rows = entries.slice(0, listed).map(({ i, base, rlvr, letter }) =>
    make(
      "tr",
      {},
      make("td", {}, make("button", { type: "button", class: "open", title: content.problems.id[i], onclick: () => open(i) }, short(content.problems.id[i], 40))),
      make("td", { title: content.problems.dataset[i] }, short(content.problems.dataset[i], 24)),
      make("td", {}, make("span", { class: `letter ${letter}`, title: NAMES[letter] ?? "not categorized" }, letter || "–")),
      make("td", {}, base.n == null ? "–" : `${base.c}/${base.n}`),
      make("td", {}, rlvr.n == null ? "–" : `${rlvr.c}/${rlvr.n}`),
    ),
  );
  fill($("problems"), ...rows);
  fill($("how-many"), `${problems(entries.length)}, ${Math.min(entries.length, listed)} listed`);
  $("more").hidden = entries.length <= listed;
  for (const role of ["base", "rlvr"]) {
    fill($(`of-${role}`), `${short(pair()[role], 24)} hits`);
    $(`of-${role}`).title = pair()[role];
  }
}

/* ---- one problem ---- */

const statistic = (name, i) => content.tests[pair().name][name][i];

function countsTable(i, entry) {
  const others = Object.keys(content.controls);
  const views = { strict: "as asked for", lenient: "in any form", sound: "with sound working" };
  const head = ["", "samples", "correct", "share, with its exact interval", ...others.map((name) => views[name]), `at k = ${entry.samples}${viewText()}`];
  const rows = ["base", "rlvr"].map((role) => {
    const whole = counted(pair()[role], i, most(i), "");
    const inViews = others.map((name) => counted(pair()[role], i, most(i), name).c);
    const share = whole.n ? real(whole.c / whole.n) : "–";
    const range = between({ low: statistic(`low_${role}`, i), high: statistic(`high_${role}`, i) });
    const cells = [whole.n, whole.c, share + range, ...inViews, `${shown(entry[role].c)} of ${shown(entry[role].n)}`];
    return make("tr", {}, make("th", { scope: "row", title: pair()[role] }, short(pair()[role], 24)), ...cells.map((x) => make("td", {}, typeof x === "string" ? x : shown(x))));
  });
  return make(
    "div",
    { class: "wide" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head.map((x) => make("th", {}, x)))), make("tbody", {}, ...rows)),
  );
}

function curveSpec(i) {
  const rows = ["base", "rlvr"].flatMap((role) => {
    const whole = counted(pair()[role], i, most(i));
    return content.ks
      .filter((samples) => samples <= most(i))
      .map((samples) => ({ k: samples, model: pair()[role], "pass@k": whole.n == null ? null : passAtK(whole, samples) }))
      .filter((point) => !Number.isNaN(point["pass@k"]));
  });
  return {
    width: "container",
    height: 200,
    autosize: { type: "fit", contains: "padding" },
    data: { values: rows },
    mark: { type: "line", point: { size: 40 } },
    encoding: {
      x: { field: "k", type: "quantitative", scale: { type: "log", base: 2 }, title: "k (samples)" },
      y: { field: "pass@k", type: "quantitative", scale: { domain: [0, 1] }, title: "pass@k (chance of a hit)" },
      ...byModel(),
    },
    config: theme(),
  };
}

function byModel() {
  const scale = { domain: [pair().base, pair().rlvr], range: [css("--base"), css("--rlvr")] };
  return {
    color: { field: "model", scale, legend: { orient: "top", title: null, columns: scale.domain.join("").length > 40 ? 1 : 2, labelLimit: 240 } },
    shape: { field: "model", scale: { domain: scale.domain, range: ["circle", "square"] } },
  };
}

function answersSpec(i) {
  const rows = ["base", "rlvr"].flatMap((role) =>
    (content.answers[pair()[role]]?.[i] ?? []).map(([answer, correct, count]) => ({
      answer: (correct ? "✓ " : "") + (answer ?? "any other"),
      model: pair()[role],
      count,
      last: answer === null ? 1 : 0,
    })),
  );
  if (!rows.length) return null;
  return {
    width: "container",
    height: 60 + 28 * new Set(rows.map(({ answer }) => answer)).size,
    autosize: { type: "fit", contains: "padding" },
    data: { values: rows },
    mark: { type: "bar" },
    encoding: {
      y: { field: "answer", type: "nominal", title: null, sort: [{ field: "last" }, { field: "count", op: "max", order: "descending" }], axis: { labelLimit: 180 } },
      yOffset: { field: "model", sort: [pair().base, pair().rlvr] },
      x: { field: "count", type: "quantitative", title: "samples with this answer (✓ correct)" },
      color: byModel().color,
    },
    config: theme(),
  };
}

const PROCESSES = {
  sound: "Its working was checked and has no visible error.",
  unsound: "Its working has an error",
  direct: "It shows no working.",
  unchecked: "Its working can’t be checked.",
};

/** What is known about the working of a completion, and the answer if lenient reading alone finds it. */
function workingNotes(working) {
  const { process, flaw, candidate, right } = working ?? {};
  const notes = [];
  if (candidate != null) {
    const verdict = right ? "right" : right === false ? "wrong" : "not scored";
    notes.push(make("p", { class: "note" }, "Only lenient reading finds an answer: ", make("code", {}, candidate), ` (${verdict}).`));
  }
  if (process in PROCESSES) {
    const reason = process === "unsound" ? (flaw == null ? ["."] : [": ", make("code", {}, flaw)]) : [];
    notes.push(make("p", { class: `note ${process}` }, PROCESSES[process], ...reason));
  }
  return notes;
}

function example([model, , sample, correct, status, text, working]) {
  const kind = correct ? "right" : correct === false ? "wrong" : "not scored";
  const how = status === "ok" ? kind : `${kind}: ${status.replace("_", " ")}`;
  return make(
    "article",
    { class: `completion ${kind.split(" ")[0]}` },
    make("h4", {}, `${correct ? "✓" : "✗"} ${model}, sample ${sample}, ${how}`),
    ...workingNotes(working),
    make("pre", { tabindex: "0" }, text),
  );
}

function decisiveHit(hit) {
  const check = { agrees: "the second check agrees", disagrees: "the second check disagrees" }[hit.second_check] ?? "the second check can’t tell";
  return make(
    "article",
    { class: "completion decisive" },
    make("h4", {}, `${hit.model}, sample ${hit.sample}: ${hit.why}; ${check}`),
    ...workingNotes(hit.working),
    make("pre", { tabindex: "0" }, hit.text ?? `answer: ${hit.answer ?? "none"} (the text is not in this report)`),
  );
}

/** What is proven of a model's mass on a problem, and the chance of a correct answer along a trace. */
function reachParts(i) {
  const entries = content.reach[pair().name]?.[i] ?? [];
  if (!entries.length) return [];
  const told = entries.flatMap(({ target, sentences, profile }) => [
    ...sentences.map((text) => make("p", {}, text)),
    ...(profile.length ? [profileTable(target, profile)] : []),
  ]);
  return [make("h3", {}, "Below what k samples show"), ...told];
}

/** A row per measured beginning of the trace. The token where the leash was cut is marked. */
function profileTable(target, profile) {
  const head = ["the trace, piece by piece", "tokens", `chance that ${short(target, 24)} begins so`, "rollouts", "correct", ""];
  const rows = profile.map(([depth, before, cut, after, mass, trials, hits]) => {
    const text = make("code", {}, before, ...(cut ? [make("mark", { title: "Here the leash was cut" }, cut)] : []), after);
    const share = trials ? hits / trials : null;
    const bar = share == null ? "" : make("meter", { min: 0, max: 1, value: share, "aria-label": `share correct ${real(share)}` });
    const cells = [depth, mass, trials, share == null ? "–" : `${hits.toLocaleString("en")} (${real(share)})`];
    return make("tr", {}, make("td", {}, text), ...cells.map((x) => make("td", {}, typeof x === "string" ? x : shown(x))), make("td", {}, bar));
  });
  const header = make("thead", {}, make("tr", {}, ...head.map((x) => make("th", {}, x))));
  return make("div", { class: "wide" }, make("table", { class: "profile" }, header, make("tbody", {}, ...rows)));
}

let examples = null; // parsed when a problem is first opened: they are most of the file

function sections(i) {
  examples ??= carried("examples");
  const ofProblem = examples.filter(([, problem]) => problem === i);
  const decisive = content.decisive.filter((hit) => hit.problem === i && hit.pair === pair().name);
  const parts = [];
  if (decisive.length) {
    parts.push(make("h3", {}, "Hits that decide its category at the run’s own ε and k"), ...decisive.map(decisiveHit));
  }
  for (const model of [pair().base, pair().rlvr]) {
    const completions = ofProblem.filter(([name]) => name === model);
    parts.push(make("h3", {}, `Completions of ${model}`), ...completions.map(example));
    if (!completions.length) parts.push(make("p", { class: "quiet" }, "This page carries no completion of this problem."));
  }
  return parts;
}

async function open(i) {
  const entry = found.find((candidate) => candidate.i === i);
  const { id, dataset, question, gold, images } = content.problems;
  const name = (entry.letter ? `${entry.letter}, ${NAMES[entry.letter]}` : "not categorized") + viewText();
  const pictures = images[i] ? [make("p", { class: "quiet" }, `The problem has ${images[i]} image(s), which this page does not carry.`)] : [];
  fill($("problem-title"), `${id[i]} (${dataset[i]}): ${name}`);
  fill(
    $("problem-body"),
    make("h3", {}, "Question"),
    make("pre", { class: "question", tabindex: "0" }, question[i]),
    ...pictures,
    make("p", {}, make("strong", {}, "Gold: "), make("code", {}, gold[i])),
    countsTable(i, entry),
    ...reachParts(i),
    ...(most(i) > 1 ? [make("div", { id: "problem-curve", class: "chart" })] : []), // one sample makes no curve
    make("div", { id: "problem-answers", class: "chart" }),
    ...sections(i),
  );
  if (!$("problem").open) $("problem").showModal();
  $("problem").scrollTop = 0;
  if (most(i) > 1) await embed("#problem-curve", curveSpec(i));
  const answers = answersSpec(i);
  if (answers) await embed("#problem-answers", answers);
}

/* ---- controls ---- */

/** The slider's values: the ε for which Python computed intervals and decisions. */
const EPSILONS = content.epsilons;

const nearest = (value) => EPSILONS.reduce((best, x, i) => (Math.abs(x - value) < Math.abs(EPSILONS[best] - value) ? i : best), 0);

function controls() {
  const value = cutAt(k());
  $("epsilon").value = nearest(value);
  $("epsilon").setAttribute("aria-valuetext", epsilonText());
  if (document.activeElement !== $("epsilon-exact")) $("epsilon-exact").value = Number(value.toPrecision(6));
  $("auto").checked = state.epsilon === "auto";
  $("k").value = state.k;
  $("k").setAttribute("aria-valuetext", String(k()));
  fill($("k-value"), k().toLocaleString("en"));
}

/** Redraw everything that depends on the state. tests/benchmarks/page_slider.py reads the measured time. */
function update() {
  const begun = performance.now();
  found = evaluate();
  controls();
  panel();
  list();
  moveMap();
  performance.measure("update", { start: begun, end: performance.now() });
  remember();
}

function set(changes) {
  Object.assign(state, changes);
  listed = FIRST_PAGE;
  update();
}

function options(element, entries) {
  fill(element, ...entries.map(([value, text]) => make("option", { value }, text)));
}

/** Fill the controls with their choices. */
function fillControls() {
  options($("pair"), content.pairs.map(({ name, base, rlvr }, i) => [i, `${name}: ${base} → ${rlvr}`]));
  options($("dataset"), [["", "all"], ...content.datasets.map((name) => [name, name])]);
  options($("control"), [["", `${content.reading}, this run`], ...Object.entries(content.controls).map(([name, { label }]) => [name, label])]);
  options($("category"), [["", "all"], ...LETTERS.map((letter) => [letter, `${letter}, ${NAMES[letter]}`])]);
  $("epsilon").max = EPSILONS.length - 1;
  $("k").max = content.ks.length - 1;
  $("epsilon").disabled = EPSILONS.length === 1;
  $("k").disabled = content.ks.length === 1;
  // No share exceeds the ε of `auto` at k = 1 or 2. If the run uses it, the user may still switch it off.
  $("auto").disabled = detectable(Math.max(...content.ks), content.confidence) >= 1 && content.epsilon !== "auto";
  for (const name of ["pair", "control", "dataset", "category"]) $(name).value = state[name];
}

function listen() {
  $("epsilon").addEventListener("input", (event) => set({ epsilon: EPSILONS[event.target.value] }));
  $("epsilon-exact").addEventListener("input", (event) => {
    const value = epsilonFrom(event.target.value);
    event.target.setCustomValidity(value === null ? "A share from 0 to 1" : "");
    if (value !== null) set({ epsilon: value });
  });
  $("auto").addEventListener("change", (event) => set({ epsilon: event.target.checked ? "auto" : Number($("epsilon-exact").value) }));
  $("k").addEventListener("input", (event) => set({ k: Number(event.target.value) }));
  $("pair").addEventListener("change", async (event) => {
    state.pair = Number(event.target.value);
    found = evaluate();
    await drawMap();
    set({});
  });
  for (const name of ["control", "dataset", "category", "search"]) {
    $(name).addEventListener("input", (event) => set({ [name]: event.target.value }));
  }
  $("reset").addEventListener("click", () => {
    for (const name of ["control", "dataset", "category", "search"]) $(name).value = "";
    set({ epsilon: content.epsilon, k: content.ks.length - 1, control: "", dataset: "", category: "", search: "" });
  });
  $("more").addEventListener("click", () => ((listed += PER_PAGE), list()));
  $("close").addEventListener("click", () => $("problem").close());
  $("problem").addEventListener("click", (event) => event.target === $("problem") && $("problem").close());
}

/** Redraw the map when the colour scheme or the width of the window changes. */
function follow() {
  darkness.addEventListener("change", () => drawMap().then(update));
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width === innerWidth) return;
    width = innerWidth;
    drawMap();
  });
}

async function start() {
  recall();
  fillControls();
  listen();
  found = evaluate();
  await drawMap();
  update();
  follow();
  document.body.dataset.ready = "true";
}

start();
