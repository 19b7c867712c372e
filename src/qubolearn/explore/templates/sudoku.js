// Sudoku: a grid to type into, whose hints are clamped bits of the learned QUBO.

const LONGEST = 10000;  // milliseconds after which the search for a grid gives up

/** Returns the digits of a state, 0 if a cell has none. */
function digitsOf(x, size) {
  return Array.from({ length: size * size }, (_, cell) => Array.from(x.slice(cell * size, cell * size + size)).indexOf(1) + 1);
}

/** Returns true if digits keep the true rules: used to check answers, never to find them. */
function keepsRules(digits, size) {
  const box = Math.round(Math.sqrt(size)), seen = new Set();
  return digits.every((digit, cell) => {
    const row = Math.floor(cell / size), column = cell % size;
    const place = box * Math.floor(row / box) + Math.floor(column / box);
    const marks = [`r${row} ${digit}`, `c${column} ${digit}`, `b${place} ${digit}`];
    if (!digit || marks.some((mark) => seen.has(mark))) return false;
    marks.forEach((mark) => seen.add(mark));
    return true;
  });
}

/** Makes the inputs of the grid; onDigit(cell, digit) receives what is typed, 0 for nothing. */
function makeBoard(board, size, coupled, onDigit) {
  const box = Math.round(Math.sqrt(size));
  board.style.gridTemplate = `repeat(${size}, minmax(0, 1fr)) / repeat(${size}, minmax(0, 1fr))`;
  board.style.setProperty("--size", size);
  const inputs = Array.from({ length: size * size }, (_, cell) => {
    const row = Math.floor(cell / size), column = cell % size;
    const input = make("input", { inputmode: "numeric", autocomplete: "off", maxlength: 2, "data-cell": cell });
    if ((column + 1) % box === 0 && column + 1 < size) input.classList.add("right-edge");
    if ((row + 1) % box === 0 && row + 1 < size) input.classList.add("bottom-edge");
    input.addEventListener("input", () => {
      const typed = Number(input.value.replace(/\D/g, "").slice(-1));  // the newest digit wins
      onDigit(cell, typed >= 1 && typed <= size ? typed : 0);
    });
    input.addEventListener("focus", () => {
      input.select();
      const others = coupled(cell);
      inputs.forEach((other, k) => other.classList.toggle("coupled", others.has(k)));
    });
    input.addEventListener("blur", () => inputs.forEach((other) => other.classList.remove("coupled")));
    input.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -size, ArrowDown: size }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const to = cell + step;
      if (inputs[to] && (Math.abs(step) === size || Math.floor(to / size) === row)) inputs[to].focus();
    });
    board.append(input);
    return input;
  });
  return (clamp, answer, clashes) => {
    inputs.forEach((input, cell) => {
      const digit = digitsOf(clamp.slice(cell * size, cell * size + size).map((bit) => (bit === 1 ? 1 : 0)), size)[0];
      const value = digit ? String(digit) : "";
      if (input.value !== value) input.value = value;
      input.placeholder = !digit && answer && answer[cell] ? String(answer[cell]) : "";
      input.classList.toggle("clash", clashes.has(cell));
      const row = Math.floor(cell / size) + 1, column = (cell % size) + 1;
      const what = digit ? `hint ${digit}` : answer && answer[cell] ? `answer ${answer[cell]}` : "empty";
      input.setAttribute("aria-label", `row ${row}, column ${column}: ${what}`);
    });
  };
}

/** Returns the cells whose hints contradict each other by a coupling of the QUBO. */
function clashesOf(Q, clamp, size) {
  const cells = new Set();
  for (let i = 0; i < Q.n; i++) {
    if (clamp[i] !== 1) continue;
    for (let k = Q.start[i]; k < Q.start[i + 1]; k++) {
      if (clamp[Q.neighbor[k]] === 1 && Q.weight[k] > 0) cells.add(Math.floor(i / size));
    }
  }
  return cells;
}

/**
 * Searches for a state that breaks no rule, a little in every frame; onEnd receives {x, energy}, or null if none is
 * possible. With biases it is the best of some reads. Returns a function that stops the search.
 */
function solveInFrames(Q, choices, onEnd) {
  const rules = isRules(Q), left = rules ? probe(Q, choices) : choices;
  if (!left || left.some((options) => !options.length)) {
    onEnd(null, 0);
    return () => {};
  }
  const random = randomFrom(1), began = performance.now();
  const strongest = Q.weight.reduce((a, b) => Math.max(a, b), 1e-9);
  let best = null, reads = 0, stopped = false;
  const frame = () => {
    if (stopped) return;
    const until = performance.now() + 30;
    do {
      const read = rules
        ? anneal(Q, left, 3000, 0.7 * strongest, 0.2 * strongest, random, 0)
        : anneal(Q, left, 400, hottest(Q), 0.02 * strongest, random);
      reads++;
      if (!best || read.energy < best.energy) best = read;
    } while (performance.now() < until && !(rules && best.energy < 1e-9) && reads < 1e6);
    const now = performance.now();
    if (rules ? best.energy < 1e-9 || now - began > LONGEST : reads >= 20 || now - began > LONGEST) onEnd(best, reads);
    else setTimeout(frame, 0);
  };
  frame();
  return () => (stopped = true);
}
