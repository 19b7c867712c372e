// The page: what the user sees and changes. All solving is in solve.js, all drawing in draw.js and sudoku.js.

const EXACT = 18;  // free bits up to which all states are tried
const LISTED = 12;  // states in the table

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const couplerAt = new Map(data.rows.map((row, e) => [row * data.n + data.columns[e], e]));
const state = { index: 0, clamp: [], held: new Map(), off: new Set(), Q: null, choices: [], states: [], exact: false, shown: 0, energies: [], cursor: null, seed: 1, impossible: false };
let running = 0, stopSolving = () => {}, showBits = () => {}, showBoard = null;

const instance = () => data.instances[state.index];
const couplings = () => instance().quadratic || data.quadratic;
const busy = new Set();
function setBusy(what, on) {
  on ? busy.add(what) : busy.delete(what);
  document.body.dataset.busy = busy.size > 0;
}

function wordsOf(x) {
  if (data.sudoku) return digitsOf(x, data.sudoku).join("");
  const parts = data.answers.length, length = data.n / parts;
  return data.answers.map((words, part) => {
    let value = 0;
    for (let k = 0; k < length; k++) value += x[part * length + k] << k;
    return words[value];
  }).join(" ");
}

function isRight(x) {
  if (data.sudoku) {
    const digits = digitsOf(x, data.sudoku), hints = digitsOf(state.clamp.map((bit) => (bit === 1 ? 1 : 0)), data.sudoku);
    const read = instance().linear.some((bias) => bias !== 0) && !instance().clamp.includes(1);  // pictures, not digits
    if (read) return instance().right.includes(x.join(""));
    return keepsRules(digits, data.sudoku) && hints.every((hint, cell) => !hint || hint === digits[cell]);
  }
  return instance().right.includes(x.join(""));
}

/** Updates everything after a change of bits, couplers or the instance. */
function update() {
  const { n, rows, columns } = data;
  state.Q = makeQubo(n, rows, columns, instance().linear, couplings(), state.off);
  state.choices = choicesOf(n, data.groups, state.clamp);
  state.shown = 0;
  state.energies = [];
  state.impossible = false;
  const possible = state.choices.every((options) => options.length > 0);
  state.exact = possible && freeBits(state.choices) <= EXACT;
  state.states = state.exact ? lowestStates(state.Q, state.choices, LISTED) : [];
  const found = Uint8Array.from(instance().found, Number);  // by the solver of the run, if it is still allowed
  if (possible && !state.exact && found.every((bit, i) => state.clamp[i] < 0 || state.clamp[i] === bit)) keep({ x: found, energy: energyOf(state.Q, found) });
  show();
  drawAll();
  if (data.sudoku) solveBoard();
  if (possible) annealReads(false);
  else {
    running++;
    setBusy("reads", false);
    drawHistogram($("histogram"), [], 0);
    $("anneal-note").textContent = "No state fits the clamped bits.";
  }
}

/** Adds a state to the lowest ones, unless it is one of them. */
function keep(read) {
  const { states } = state, bits = read.x.join("");
  if (states.length === LISTED && read.energy >= states[LISTED - 1].energy) return;
  if (states.some((other) => Math.abs(other.energy - read.energy) < 1e-6 && other.x.join("") === bits)) return;
  let at = states.length;
  while (at > 0 && states[at - 1].energy > read.energy) at--;
  states.splice(at, 0, read);
  states.length = Math.min(states.length, LISTED);
}

/** Shows the answer, in words and in the graph. */
function show() {
  const one = instance(), best = state.impossible ? undefined : state.states[0], touched = state.off.size > 0 || state.clamp.some((bit, i) => bit !== one.clamp[i]);
  const shown = state.states[state.shown];
  $("place").textContent = `instance ${state.index + 1} of ${data.instances.length}`;
  [...$("strip").children].forEach((mark, k) => k === state.index ? mark.setAttribute("aria-current", "true") : mark.removeAttribute("aria-current"));
  $("reset").disabled = !touched;
  const right = best && isRight(best.x);
  const wrong = best && !data.sudoku ? Math.min(...one.right.map((bits) => [...bits].filter((bit, i) => Number(bit) !== best.x[i]).length)) : 0;
  $("verdict").textContent = !best ? (data.sudoku ? "no grid" : "no state fits") : right ? "✓ right" : wrong ? `wrong in ${wrong} ${wrong === 1 ? "bit" : "bits"}` : "not right";
  const short = (text) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);
  const facts = !best ? [] : [
    ...(data.sudoku ? [] : [["lowest state", short(best.x.join(""))]]),
    ...(wordsOf(best.x) && !data.sudoku ? [["answer", short(wordsOf(best.x))]] : []),
    ["energy", said(best.energy, 5)],
    ...(data.sudoku ? [["hints", state.clamp.filter((bit) => bit === 1).length]] : []),
    ...(state.exact && state.states[1] ? [["gap to the next", said(state.states[1].energy - best.energy, 3)]] : []),
    ...(right || data.sudoku ? [] : [["right answer", short(wordsOf(Uint8Array.from(one.right[0], Number)) || one.right[0])]]),
  ];
  $("facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  fillSpectrum($("spectrum"), state.states, wordsOf, isRight, state.shown, (rank) => {
    state.shown = rank;
    show();
    $("spectrum").tBodies[0].rows[rank].querySelector("button").focus();
  });
  $("spectrum-how").textContent = state.exact ? "of all states" : "found by annealing";
  showBits(shown ? shown.x : null, state.clamp, couplings(), state.off);
  if (showBoard) showBoard(state.clamp, best ? digitsOf(best.x, data.sudoku) : null, clashesOf(state.Q, state.clamp, data.sudoku));
}

function drawAll() {
  if (!data.sudoku) drawView($("input-panel"), instance().view);
  drawMatrix($("matrix"), data, instance().linear, couplings(), state.off, state.clamp, document.activeElement === $("matrix") ? state.cursor : null);
}

/** Runs reads of the page's own annealing, some in every frame; live ones can be watched. */
function annealReads(live) {
  const mine = ++running, total = 10 * Number($("reads").value), { sweeps, cold, hot } = settings();
  const random = randomFrom(state.seed++), perFrame = live && !calm.matches ? Math.ceil(total / 45) : total;
  state.energies = [];
  setBusy("reads", true);
  const frame = () => {
    if (mine !== running) return;
    const until = performance.now() + 14;
    let last = null;
    for (let k = 0; k < perFrame && state.energies.length < total && (k === 0 || performance.now() < until); k++) {
      last = anneal(state.Q, state.choices, sweeps, hot, cold, random);
      state.energies.push(last.energy);
      if (!state.exact) keep(last);
    }
    const done = state.energies.length >= total;
    const lowest = state.states.length ? state.states[0].energy : state.energies.reduce((a, b) => Math.min(a, b));
    drawHistogram($("histogram"), state.energies, lowest);
    const hits = state.energies.filter((energy) => energy < lowest + 1e-6).length;
    $("anneal-note").textContent = `${hits} of ${state.energies.length} reads found the lowest energy ${said(lowest, 5)}.`;
    if (live && !done && !calm.matches) showBits(last.x, state.clamp, couplings(), state.off);
    else if (done) show();
    if (done) setBusy("reads", false);
    else setTimeout(frame, live ? 16 : 0);
  };
  frame();
}

/** Writes the values of the sliders next to them. */
function settings() {
  const sweeps = Math.round(10 ** (Number($("sweeps").value) / 25)), hot = hottest(state.Q);
  const cold = hot * 10 ** (-3 * (1 - Number($("temperature").value) / 100));
  $("sweeps-out").textContent = sweeps.toLocaleString("en");
  $("temperature-out").textContent = said(cold, 2);
  $("reads-out").textContent = (10 * Number($("reads").value)).toLocaleString("en");
  $("anneal-how").textContent = `down to T = ${said(cold, 2)}`;
  return { sweeps, cold, hot };
}

/** Solves the grid, at once if that is quick, otherwise in the background. */
function solveBoard() {
  stopSolving();
  setBusy("grid", true);
  $("board").classList.add("open");
  $("board-note").textContent = "Solving …";
  const began = performance.now();
  stopSolving = solveInFrames(state.Q, state.choices, (best, reads) => {
    const seconds = ((performance.now() - began) / 1000).toFixed(2);
    setBusy("grid", false);
    if (best) keep(best);
    const solved = best && (best.energy < 1e-9 || !isRules(state.Q));
    state.impossible = !best;
    $("board").classList.toggle("open", !solved);
    const clashes = clashesOf(state.Q, state.clamp, data.sudoku).size > 0;
    $("board-note").textContent = solved
      ? `${best.energy < 1e-9 ? "No learned rule is broken" : `Lowest energy ${said(best.energy)}`}: ${reads} ${reads === 1 ? "read" : "reads"}, ${seconds} s. Type hints of your own.`
      : clashes ? "Two of these hints break a learned rule (underlined)."
        : best ? `The best grid found breaks rules: energy ${said(best.energy)} after ${reads} reads.` : "No grid keeps the learned rules with these hints.";
    show();
  });
}

function leaf(to) {
  const count = data.instances.length;
  state.index = ((to % count) + count) % count;
  if (data.sudoku) state.held.clear();  // hints belong to their puzzle
  state.clamp = instance().clamp.map((own, bit) => state.held.get(bit) ?? own);
  update();
}

function reset() {
  state.held.clear();
  state.off.clear();
  leaf(state.index);
}

/** free -> 1 -> 0 -> free */
function cycle(bit) {
  state.held.set(bit, (state.clamp[bit] = { "-1": 1, 1: 0, 0: -1 }[state.clamp[bit]]));
  update();
}

function switchCoupler(e) {
  state.off.has(e) ? state.off.delete(e) : state.off.add(e);
  update();
}

/** Describes an entry of A in words. */
function entryNote(i, j) {
  if (i === j) return `Bit ${i}: bias ${said(instance().linear[i])}, ${state.clamp[i] < 0 ? "free" : `clamped to ${state.clamp[i]}`}.`;
  const e = couplerAt.get(Math.min(i, j) * data.n + Math.max(i, j));
  return e === undefined ? `Bits ${i} and ${j}: no coupler.` : `Coupler of bits ${i} and ${j}: ${said(couplings()[e])}, ${state.off.has(e) ? "off" : "on"}.`;
}

function useEntry(i, j) {
  const e = couplerAt.get(Math.min(i, j) * data.n + Math.max(i, j));
  if (i === j) cycle(i);
  else if (e !== undefined) switchCoupler(e);
  $("matrix-note").textContent = entryNote(i, j);
}

const MATRIX_NOTE = "Blue entries lower the energy, red ones raise it. Click an entry to switch it off, the diagonal to clamp.";
function wireMatrix() {
  const matrix = $("matrix"), { n } = data;
  const entry = (event) => {
    const box = matrix.getBoundingClientRect();
    const at = (from, size) => Math.max(0, Math.min(n - 1, Math.floor((from / size) * n)));
    return [at(event.clientY - box.top, box.height), at(event.clientX - box.left, box.width)];
  };
  $("matrix-note").textContent = MATRIX_NOTE;
  matrix.addEventListener("mousemove", (event) => ($("matrix-note").textContent = entryNote(...entry(event))));
  matrix.addEventListener("mouseleave", () => ($("matrix-note").textContent = MATRIX_NOTE));
  matrix.addEventListener("click", (event) => useEntry(...(state.cursor = entry(event))));
  matrix.addEventListener("focus", () => {
    state.cursor = state.cursor || [0, 0];
    drawAll();
  });
  matrix.addEventListener("blur", drawAll);
  matrix.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Enter" || event.key === " ") useEntry(...state.cursor);
    else if (step) state.cursor = state.cursor.map((at, k) => Math.max(0, Math.min(n - 1, at + step[k])));
    else return;
    event.preventDefault();
    event.stopPropagation();
    $("matrix-note").textContent = entryNote(...state.cursor);
    drawAll();
  });
}

function wireBoard() {
  const size = data.sudoku;
  $("board-panel").hidden = false;
  $("panels").classList.add("sudoku");
  document.querySelector("#spectrum th").textContent = "grid";
  $("input-panel").hidden = $("graph-panel").hidden = true;
  const coupled = (cell) => {
    const cells = new Set();
    for (let i = cell * size; i < (cell + 1) * size; i++) {
      for (let k = state.Q.start[i]; k < state.Q.start[i + 1]; k++) cells.add(Math.floor(state.Q.neighbor[k] / size));
    }
    return cells;
  };
  const setDigit = (cell, digit) => {
    for (let k = 0; k < size; k++) state.clamp[cell * size + k] = digit ? Number(k === digit - 1) : -1;
  };
  showBoard = makeBoard($("board"), size, coupled, (cell, digit) => {
    setDigit(cell, digit);
    update();
  });
  $("clear").addEventListener("click", () => {
    state.clamp.fill(-1);
    update();
  });
}

function start() {
  const { n, rows, instances } = data, [hits, scored] = data.scored;
  const couplers = data.dropped ? `the strongest ${rows.length} of ${rows.length + data.dropped} couplers` : `${rows.length} couplers`;
  $("about").textContent = `${data.head} · ${n} bits, ${couplers} · ${hits} of ${scored} unseen instances right${scored > instances.length ? `; ${instances.length} are shown` : ""}`;
  $("graph-kind").textContent = ["dense", "diagonal", "own"].includes(data.topology) ? (data.groups.length ? "in their groups" : "on a circle") : `on a ${data.topology} chip`;
  $("input-note").textContent = data.inputs > 4096 ? `The first 4096 of ${data.inputs} numbers.` : `${data.inputs} numbers.`;
  instances.forEach((one, k) => {
    const mark = make("button", { type: "button", class: one.hit ? "hit" : "miss", "aria-label": `Instance ${k + 1}, ${one.hit ? "right" : "wrong"}`, tabindex: -1 });
    mark.addEventListener("click", () => leaf(k));
    $("strip").append(mark);
  });
  if (n > 40) $("sweeps").value = 60;
  if (data.sudoku) wireBoard();
  else showBits = makeGraph($("graph"), data, cycle, switchCoupler);
  wireMatrix();
  $("previous").addEventListener("click", () => leaf(state.index - 1));
  $("next").addEventListener("click", () => leaf(state.index + 1));
  $("reset").addEventListener("click", reset);
  $("anneal").addEventListener("click", () => annealReads(true));
  for (const id of ["sweeps", "temperature", "reads"]) $(id).addEventListener("input", () => annealReads(false));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input")) return;
    if (event.key === "ArrowLeft") leaf(state.index - 1);
    if (event.key === "ArrowRight") leaf(state.index + 1);
  });
  addEventListener("resize", () => {
    drawAll();
    drawHistogram($("histogram"), state.energies, state.states.length ? state.states[0].energy : -Infinity);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  if (n > 40 || !wordsOf(new Uint8Array(n))) $("panels").classList.add("wordless");  // no separate column
  if (n > 200) $("graph").classList.add("many");
  leaf(0);
}

start();
