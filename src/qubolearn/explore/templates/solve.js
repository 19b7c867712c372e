// Solve QUBOs: plain numbers in, states out. Nothing here depends on the page.
"use strict";

/** Random numbers in [0, 1) that depend on the seed alone (mulberry32). */
function randomFrom(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** E(x) = sum of linear_i x_i + sum of quadratic_e x_i x_j over the couplers e = (i, j) that are not off. */
function makeQubo(n, rows, columns, linear, quadratic, off) {
  const degree = new Int32Array(n + 1);
  const live = [];
  for (let e = 0; e < rows.length; e++) {
    if (off.has(e) || quadratic[e] === 0) continue;
    live.push(e);
    degree[rows[e] + 1]++;
    degree[columns[e] + 1]++;
  }
  for (let i = 0; i < n; i++) degree[i + 1] += degree[i];
  const start = Int32Array.from(degree), next = Int32Array.from(degree);
  const neighbor = new Int32Array(2 * live.length), weight = new Float64Array(2 * live.length);
  for (const e of live) {
    for (const [i, j] of [[rows[e], columns[e]], [columns[e], rows[e]]]) {
      neighbor[next[i]] = j;
      weight[next[i]++] = quadratic[e];
    }
  }
  return { n, linear: Float64Array.from(linear), start, neighbor, weight };
}

function energyOf(Q, x) {
  let twice = 0, single = 0;
  for (let i = 0; i < Q.n; i++) {
    if (!x[i]) continue;
    single += Q.linear[i];
    for (let k = Q.start[i]; k < Q.start[i + 1]; k++) if (x[Q.neighbor[k]]) twice += Q.weight[k];
  }
  return single + twice / 2;
}

/**
 * The choices: for each group the bits of which one is 1, for each other bit the bit itself or none (-1).
 * Clamped bits (0 or 1; -1 is free) leave fewer choices, and none if they contradict a group.
 */
function choicesOf(n, groups, clamp) {
  const grouped = new Uint8Array(n), choices = [];
  for (const group of groups) {
    for (const bit of group) grouped[bit] = 1;
    const ones = group.filter((bit) => clamp[bit] === 1);
    choices.push(ones.length > 1 ? [] : ones.length ? ones : group.filter((bit) => clamp[bit] !== 0));
  }
  for (let bit = 0; bit < n; bit++) {
    if (!grouped[bit]) choices.push(clamp[bit] === 1 ? [bit] : clamp[bit] === 0 ? [-1] : [-1, bit]);
  }
  return choices;
}

/** Returns the log2 of the number of states. */
function freeBits(choices) {
  return choices.reduce((sum, options) => sum + Math.log2(options.length), 0);
}

/** Adds step times bit i's couplings to the fields, which are what each bit would cost if it became 1. */
function addFields(Q, field, i, step) {
  for (let k = Q.start[i]; k < Q.start[i + 1]; k++) field[Q.neighbor[k]] += step * Q.weight[k];
}

/** The lowest states of all, by trying each: [{x, energy}], best first. */
function lowestStates(Q, choices, count) {
  const field = Float64Array.from(Q.linear), x = new Uint8Array(Q.n), best = [];
  const visit = (depth, energy) => {
    if (depth === choices.length) {
      if (best.length === count && energy >= best[count - 1].energy) return;
      let at = best.length;
      while (at > 0 && best[at - 1].energy > energy) at--;
      best.splice(at, 0, { x: x.slice(), energy });
      if (best.length > count) best.pop();
      return;
    }
    for (const bit of choices[depth]) {
      if (bit < 0) {
        visit(depth + 1, energy);
        continue;
      }
      x[bit] = 1;
      const more = field[bit];
      addFields(Q, field, bit, 1);
      visit(depth + 1, energy + more);
      addFields(Q, field, bit, -1);
      x[bit] = 0;
    }
  };
  visit(0, 0);
  for (const state of best) state.energy = energyOf(Q, state.x);  // without the rounding of many sums
  return best;
}

/** The largest change of energy that one bit can make: hot enough to forget everything. */
function hottest(Q) {
  let most = 1e-9;
  for (let i = 0; i < Q.n; i++) {
    let sum = Math.abs(Q.linear[i]);
    for (let k = Q.start[i]; k < Q.start[i + 1]; k++) sum += Math.abs(Q.weight[k]);
    most = Math.max(most, sum);
  }
  return most;
}

/**
 * One read of simulated annealing: the temperature falls from hot to cold, geometrically, over ``sweeps`` sweeps, and ends
 * early at the energy target. A move chooses another bit of a group, or flips a bit that is in none.
 */
function anneal(Q, choices, sweeps, hot, cold, random, target = -Infinity) {
  const x = new Uint8Array(Q.n), field = Float64Array.from(Q.linear);
  const chosen = choices.map((options) => options[Math.floor(random() * options.length)]);
  let energy = 0;
  for (const bit of chosen) {
    if (bit < 0) continue;
    energy += field[bit];
    x[bit] = 1;
    addFields(Q, field, bit, 1);
  }
  const movable = choices.map((_, unit) => unit).filter((unit) => choices[unit].length > 1);
  const cooling = sweeps > 1 ? Math.pow(cold / hot, 1 / (sweeps - 1)) : 1;
  let temperature = sweeps > 1 ? hot : cold;
  for (let sweep = 0; sweep < sweeps && energy > target + 1e-9; sweep++, temperature *= cooling) {
    for (const unit of movable) {
      const options = choices[unit], old = chosen[unit];
      let bit = options[Math.floor(random() * (options.length - 1))];
      if (bit === old) bit = options[options.length - 1];
      let change = (bit < 0 ? 0 : field[bit]) - (old < 0 ? 0 : field[old]);
      if (bit >= 0 && old >= 0) {
        for (let k = Q.start[bit]; k < Q.start[bit + 1]; k++) if (Q.neighbor[k] === old) change -= Q.weight[k];
      }
      if (change > 0 && random() >= Math.exp(-change / temperature)) continue;
      if (old >= 0) {
        x[old] = 0;
        addFields(Q, field, old, -1);
      }
      if (bit >= 0) {
        x[bit] = 1;
        addFields(Q, field, bit, 1);
      }
      chosen[unit] = bit;
      energy += change;
    }
  }
  return { x, energy: energyOf(Q, x) };
}

/** Returns true if energies cannot fall below 0, so that a state of energy 0 breaks no rule and is among the lowest. */
function isRules(Q) {
  return Q.linear.every((value) => value === 0) && Q.weight.every((value) => value > 0);
}

/**
 * For rules: removes the choices that a bit with value 1 excludes, until nothing changes.
 * Returns null if a group has no choice left: no state keeps all rules.
 */
function propagate(Q, choices) {
  const left = choices.map((options) => options.slice()), unitOf = new Int32Array(Q.n).fill(-1);
  left.forEach((options, unit) => options.forEach((bit) => bit >= 0 && (unitOf[bit] = unit)));
  const queue = left.flatMap((options, unit) => (options.length === 1 ? [unit] : []));
  if (left.some((options) => options.length === 0)) return null;
  while (queue.length) {
    const bit = left[queue.pop()][0];
    if (bit < 0) continue;
    for (let k = Q.start[bit]; k < Q.start[bit + 1]; k++) {
      const other = Q.neighbor[k], unit = unitOf[other];
      if (unit < 0 || !left[unit].includes(other)) continue;
      left[unit] = left[unit].filter((option) => option !== other);
      if (left[unit].length === 0) return null;
      if (left[unit].length === 1) queue.push(unit);
    }
  }
  return left;
}

/** For rules: removes, one by one, the choices that would leave a group without any; or returns null. */
function probe(Q, choices) {
  let left = propagate(Q, choices), changed = true;
  while (left && changed) {
    changed = false;
    for (let unit = 0; left && unit < left.length; unit++) {
      for (const bit of left[unit].length > 1 ? left[unit] : []) {
        if (propagate(Q, left.map((options, other) => (other === unit ? [bit] : options)))) continue;
        left = propagate(Q, left.map((options, other) => (other === unit ? options.filter((option) => option !== bit) : options)));
        changed = true;
        break;
      }
    }
  }
  return left;
}
