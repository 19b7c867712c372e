// Drawing: heat maps on canvas, the graph of bits and the histogram as SVG, the lowest states as a table.

const SVG = "http://www.w3.org/2000/svg";
const MAX_DRAWN = 3000;  // couplers in the graph, the strongest; all of them are in the matrix

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function makeSvg(tag, attributes = {}) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** A number as people read it, with a true minus sign. */
function said(value, digits = 4) {
  return Number(value.toPrecision(digits)).toString().replace("-", "−");
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The color of a number between -1 and 1: the accent below 0, red above, the background at 0. */
function shades() {
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const [zero, low, high] = ["--faint", "--accent", "--positive"].map((name) => parts(color(name)));
  return (value) => {
    const end = value < 0 ? low : high, share = Math.min(1, Math.abs(value));
    return `rgb(${zero.map((from, k) => Math.round(from + (end[k] - from) * share)).join(" ")})`;
  };
}

/** A canvas of rows x columns cells in the pixels of the screen: {context, x(column), y(row), width, height}. */
function gridOn(canvas, rows, columns) {
  canvas.style.aspectRatio = `${columns} / ${rows}`;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  canvas.height = Math.max(1, Math.round((canvas.clientWidth * ratio * rows) / columns));
  const context = canvas.getContext("2d"), wide = canvas.width / columns, high = canvas.height / rows;
  const gap = Math.min(wide, high) > 9 ? Math.max(1, Math.round(Math.min(wide, high) * 0.05)) : 0;
  const cell = (row, column, fill) => {
    const x = Math.floor(column * wide), y = Math.floor(row * high);
    context.fillStyle = fill;
    context.fillRect(x, y, Math.max(1, Math.floor((column + 1) * wide) - x - gap), Math.max(1, Math.floor((row + 1) * high) - y - gap));
  };
  return { context, cell, wide, high };
}

/** Draws p as an image, a table or a graph. */
function drawView(panel, view) {
  const image = panel.querySelector("canvas"), table = panel.querySelector("table"), graph = panel.querySelector("svg");
  image.hidden = view.kind !== "image";
  image.nextElementSibling.hidden = image.hidden || view.rgb;
  table.parentElement.hidden = view.kind !== "table";
  graph.style.display = view.kind === "graph" ? "" : "none";
  if (view.kind === "image") drawImage(image, view);
  else if (view.kind === "graph") drawNodes(graph, view);
  else table.replaceChildren(...view.rows.map((row, k) => make("tr", {}, ...row.map((cell) => make(k ? "td" : "th", {}, cell)))));
}

/** Draws numbers in shades, or rows of red, green and blue between 0 and 1, or 0 and 255. */
function drawImage(canvas, { pixels, columns, rgb }) {
  const known = pixels.filter((value) => value !== null), most = known.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
  const low = Math.min(0, ...known), sign = low < 0 ? 1 : -1, shade = shades();  // all of one sign: the accent alone
  const count = pixels.length / (rgb ? 3 : 1), { cell } = gridOn(canvas, Math.ceil(count / columns), columns);
  const scale = canvas.nextElementSibling;
  Object.assign(scale.dataset, { low: low < 0 ? said(-most, 2) : "0", high: said(most, 2) });
  scale.classList.toggle("unsigned", low >= 0);
  for (let k = 0; k < count; k++) {
    const light = (part) => Math.round((pixels[3 * k + part] * 255) / (most > 1 ? 255 : 1));
    if (rgb) cell(Math.floor(k / columns), k % columns, `rgb(${light(0)} ${light(1)} ${light(2)})`);
    else if (pixels[k] !== null) cell(Math.floor(k / columns), k % columns, shade((sign * pixels[k]) / most));
  }
}

/** Draws named nodes on a circle; the width of an edge is its weight, and negative ones are blue. */
function drawNodes(svg, { names, edges }) {
  const at = names.map((_, k) => [Math.sin((2 * Math.PI * k) / names.length), -Math.cos((2 * Math.PI * k) / names.length)]);
  const most = edges.reduce((a, [, , weight]) => Math.max(a, Math.abs(weight)), 1e-9), radius = Math.min(0.2, 2 / names.length);
  svg.setAttribute("viewBox", "-1.25 -1.25 2.5 2.5");
  svg.replaceChildren(...edges.map(([i, j, weight]) => {
    const line = makeSvg("line", { class: `edge${weight < 0 ? " negative" : ""}`, x1: at[i][0], y1: at[i][1], x2: at[j][0], y2: at[j][1] });
    line.style.strokeWidth = 0.6 + (2 * Math.abs(weight)) / most;
    return line;
  }), ...at.map(([x, y], k) => {
    const node = makeSvg("g", { class: "node" }), label = makeSvg("text", { x, y });
    label.style.fontSize = `${(radius * 1.6) / Math.max(2, names[k].length)}px`;
    label.textContent = names[k];
    node.append(makeSvg("circle", { cx: x, cy: y, r: radius }), label);
    return node;
  }));
}

/** Draws A, symmetric: biases on the diagonal, couplings off it; crossed out if switched off. */
function drawMatrix(canvas, data, linear, quadratic, off, clamp, cursor) {
  const { context, cell, wide, high } = gridOn(canvas, data.n, data.n), shade = shades();
  const most = Math.max(...linear.map(Math.abs), quadratic.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9));
  Object.assign(canvas.nextElementSibling.dataset, { low: said(-most, 2), high: said(most, 2) });
  context.fillStyle = color("--faint");
  if (data.n > 64) context.fillRect(0, 0, canvas.width, canvas.height);
  else for (let i = 0; i < data.n; i++) for (let j = 0; j < data.n; j++) cell(i, j, color("--faint"));
  const cross = (i, j) => {
    context.beginPath();
    context.moveTo((j + 0.25) * wide, (i + 0.25) * high);
    context.lineTo((j + 0.75) * wide, (i + 0.75) * high);
    context.moveTo((j + 0.75) * wide, (i + 0.25) * high);
    context.lineTo((j + 0.25) * wide, (i + 0.75) * high);
    context.stroke();
  };
  context.strokeStyle = color("--muted");
  context.lineWidth = Math.max(1, wide / 20);
  for (let e = 0; e < data.rows.length; e++) {
    for (const [i, j] of [[data.rows[e], data.columns[e]], [data.columns[e], data.rows[e]]]) {
      if (off.has(e)) cross(i, j);
      else if (quadratic[e] !== 0) cell(i, j, shade(quadratic[e] / most));
    }
  }
  for (let i = 0; i < data.n; i++) {
    cell(i, i, shade(linear[i] / most));
    if (clamp[i] < 0 || wide < 9) continue;
    context.strokeStyle = color("--ink");
    context.strokeRect((i + 0.15) * wide, (i + 0.15) * high, 0.65 * wide, 0.65 * high);
  }
  if (!cursor) return;
  context.strokeStyle = color("--accent");
  context.lineWidth = Math.max(2, wide / 14);
  context.strokeRect(cursor[1] * wide, cursor[0] * high, Math.max(wide, 4), Math.max(high, 4));
}

/** Draws the graph of bits once; returns a function that shows a state in it. */
function makeGraph(svg, data, onBit, onCoupler) {
  const xs = data.positions.map((at) => at[0]), ys = data.positions.map((at) => at[1]);
  const left = Math.min(...xs), top = Math.min(...ys);
  const side = Math.max(Math.max(...xs) - left, Math.max(...ys) - top, 0.5);
  let nearest = side;
  for (let i = 1; i < data.n; i++) {
    for (let j = Math.max(0, i - 8); j < i; j++) nearest = Math.min(nearest, Math.hypot(xs[i] - xs[j], ys[i] - ys[j]));
  }
  const radius = Math.min(0.36 * nearest, 0.11 * side), margin = 1.6 * radius;
  const middle = [(Math.max(...xs) + left) / 2, (Math.max(...ys) + top) / 2], half = side / 2 + margin;
  svg.setAttribute("viewBox", `${middle[0] - half} ${middle[1] - half} ${2 * half} ${2 * half}`);
  svg.replaceChildren();
  const order = data.rows.map((_, e) => e);
  if (order.length > MAX_DRAWN) {
    const strength = data.quadratic || data.instances[0].quadratic;
    order.sort((a, b) => Math.abs(strength[b]) - Math.abs(strength[a])).length = MAX_DRAWN;
  }
  const lines = order.map((e) => {
    const ends = { x1: xs[data.rows[e]], y1: ys[data.rows[e]], x2: xs[data.columns[e]], y2: ys[data.columns[e]] };
    const line = makeSvg("line", { class: "coupler", "data-coupler": e, ...ends });
    svg.append(line);
    return [e, line, ends];
  });
  for (const [e, , ends] of lines) {
    const reach = makeSvg("line", { class: "reach", "data-coupler": e, ...ends });
    reach.append(makeSvg("title"));
    reach.addEventListener("click", () => onCoupler(e));
    svg.append(reach);
  }
  const reaches = new Map([...svg.querySelectorAll(".reach")].map((line) => [Number(line.dataset.coupler), line.firstChild]));
  const nodes = data.positions.map(([x, y], bit) => {
    const node = makeSvg("g", { class: "bit", role: "button", "data-bit": bit, tabindex: data.n <= 64 ? 0 : -1 });
    node.append(makeSvg("circle", { cx: x, cy: y, r: radius }), makeSvg("circle", { class: "held", cx: x, cy: y, r: 1.3 * radius }));
    if (data.n <= 64) {
      const label = makeSvg("text", { x, y });
      label.style.fontSize = `${radius * 0.95}px`;
      label.textContent = bit;
      node.append(label);
    }
    node.addEventListener("click", () => onBit(bit));
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onBit(bit);
    });
    svg.append(node);
    return node;
  });
  return (x, clamp, quadratic, off) => {
    const most = quadratic.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
    const thin = Math.max(0.2, Math.min(1, Math.sqrt(120 / lines.length)));  // many lines must not hide each other
    for (const [e, line] of lines) {
      const share = Math.abs(quadratic[e]) / most;
      line.setAttribute("class", `coupler${quadratic[e] < 0 ? " negative" : ""}${off.has(e) ? " off" : ""}`);
      line.style.strokeWidth = 0.6 + 3.6 * share * thin;
      line.style.strokeOpacity = off.has(e) ? 1 : (0.15 + 0.8 * share) * thin;
      reaches.get(e).textContent = `coupler of bits ${data.rows[e]} and ${data.columns[e]}: ${said(quadratic[e])}${off.has(e) ? ", off" : ""}`;
    }
    nodes.forEach((node, bit) => {
      const held = clamp[bit] >= 0;
      node.setAttribute("class", `bit${x && x[bit] ? " one" : ""}${held ? " clamped" : ""}`);
      node.setAttribute("aria-label", `bit ${bit}: ${x ? x[bit] : "?"}, ${held ? `clamped to ${clamp[bit]}` : "free"}`);
    });
  };
}

/** Draws how many reads ended at which energy: 32 bins, the first in the accent color if it has the lowest energy. */
function drawHistogram(svg, energies, lowest) {
  svg.replaceChildren();
  const wide = svg.clientWidth || 300, high = svg.clientHeight || 150, floor = high - 18;
  svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  svg.append(makeSvg("line", { x1: 0, x2: wide, y1: floor, y2: floor }));
  if (!energies.length) return;
  const low = energies.reduce((a, b) => Math.min(a, b)), top = energies.reduce((a, b) => Math.max(a, b));
  const span = Math.max(top - low, 1e-9), bins = 32, counts = new Array(bins).fill(0);
  for (const energy of energies) counts[Math.min(bins - 1, Math.floor(((energy - low) / span) * bins))]++;
  const most = Math.max(...counts), step = wide / bins;
  counts.forEach((count, bin) => {
    if (!count) return;
    const tall = Math.max(1.5, (count / most) * (floor - 16));
    const bar = makeSvg("rect", { x: bin * step, y: floor - tall, width: Math.max(1, step - 2), height: tall, rx: 1 });
    if (bin === 0 && low < lowest + 1e-6) bar.setAttribute("class", "lowest");
    svg.append(bar);
  });
  const label = (x, y, anchor, text) => {
    const made = makeSvg("text", { x, y, "text-anchor": anchor });
    made.textContent = text;
    svg.append(made);
  };
  label(0, high - 4, "start", said(low));
  if (top > low) label(wide, high - 4, "end", said(top));
  label(0, 10, "start", `${most} reads`);
}

/** The lowest states, one row each, with a button that shows it in the graph. */
function fillSpectrum(table, states, wordsOf, isRight, shown, onShow) {
  const long = states.length && states[0].x.length > 40;  // then words replace the bits, if there are any
  const lowest = states.length ? states[0].energy : 0;
  const span = states.length ? Math.max(states[states.length - 1].energy - lowest, 1e-9) : 1;
  const largest = states.reduce((most, { energy }) => Math.max(most, Math.abs(energy)), 1e-3);
  const decimals = Math.max(0, 4 - Math.ceil(Math.log10(largest)));  // the same for all, so that points are aligned
  const rows = states.map(({ x, energy }, rank) => {
    const bits = x.join(""), words = wordsOf(x), right = isRight(x);
    const label = long ? words || bits : bits;
    const show = make("button", { type: "button", "aria-pressed": rank === shown, title: label }, label);
    show.addEventListener("click", () => onShow(rank));
    const bar = make("span", { class: "bar" });
    bar.style.width = `${(100 * (energy - lowest)) / span}%`;
    const tick = right ? [make("span", { class: "tick" }, " ✓")] : [];
    const answer = make("td", { class: "answer" }, long ? "" : words, ...(long || !words ? [] : tick));
    const number = make("td", { class: "number" }, energy.toFixed(decimals).replace("-", "−"));
    return make("tr", { class: `${right ? "right" : ""}${rank === shown ? " shown" : ""}` }, make("td", {}, show, ...(long || !words ? tick : [])), answer, number, make("td", {}, bar));
  });
  table.tBodies[0].replaceChildren(...rows);
}
