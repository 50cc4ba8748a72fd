// The method, as the pipeline has it: stages/categorize/statistics/{columns,chances,ratios,testing}.py and support.sql.
// Pure functions; tests/functional/test_page.py holds them against `leash compare` and `leash categorize`.

/** ln x!, by sums that keep the digits a plain sum would lose. */
const logFactorial = (() => {
  const table = [0];
  let lost = 0;
  return (x) => {
    while (table.length <= x) {
      const term = Math.log(table.length) - lost;
      const sum = table[table.length - 1] + term;
      lost = sum - table[table.length - 1] - term;
      table.push(sum);
    }
    return table[x];
  };
})();

const logChoose = (n, k) => logFactorial(n) - logFactorial(k) - logFactorial(n - k);

/** The chance of fewer than so many hits among k of n samples of which c are hits. */
function fewer(hits, k, n, c) {
  const all = logChoose(n, k);
  const mean = (k * c) / n;
  const far = 40 + 12 * Math.sqrt(mean); // what lies further from the mean adds nothing to a double
  let sum = 0;
  for (let j = Math.max(0, k - (n - c), Math.floor(mean - far)); j < hits && j <= Math.min(c, k, mean + far); j++) {
    sum += Math.exp(logChoose(c, j) + logChoose(n - c, k - j) - all);
  }
  return Math.min(sum, 1);
}

/** The chance of so many hits or more among k samples of a problem; NaN where there are too few to tell. */
function chance({ n, c, ended }, k, hits = 1) {
  const last = ended === "hit" ? 1 : 0; // a stop at a hit fixes that one
  if (k <= n - last) return 1 - fewer(hits, k, n - last, c - last);
  return (ended === "hit" || ended === "floor") && c >= hits ? 1 : NaN;
}

/** The fewest hits in k that are more than this share. */
function hitsAbove(epsilon, k) {
  const near = Math.max(Math.floor(epsilon * k), 1);
  for (let hits = near; hits < near + 3; hits++) if (hits / k > epsilon) return hits;
  return k + 1;
}

/** 1 where the mass of the first k samples exceeds epsilon, 0 where it does not; with more than k samples, and so no
 *  telling which were the first, the chance that it does; NaN where samples are missing or stopped too early. */
function support(counts, k, epsilon) {
  const { n, c, ended } = counts;
  if (n == null || ended == null) return NaN;
  if (n > k) return chance(counts, k, hitsAbove(epsilon, k));
  if (ended === "k") return n > 0 ? Number(c / n > epsilon) : NaN;
  return c / k > epsilon ? 1 : NaN;
}

/** How much of a problem is in P, E, S and O. */
const sort = (base, rlvr) => [base * rlvr, (1 - base) * rlvr, base * (1 - rlvr), (1 - base) * (1 - rlvr)];

/** SRR, NDR, SDS and NSCR; null for 0/0. */
function ratios([p, e, s]) {
  const share = (a, b) => (b > 0 ? a / b : null);
  const srr = share(p, p + s);
  const ndr = share(e, p + e);
  const sds = srr == null || ndr == null ? null : share(2 * srr * ndr, srr + ndr);
  return { SRR: srr, NDR: ndr, SDS: sds, NSCR: share(e - s, p + e + s) };
}

/** McNemar's exact p-value that as many problems come as go. */
function mcnemar(came, went) {
  const n = came + went;
  let tail = 0;
  for (let j = 0; j <= Math.min(came, went); j++) tail += Math.exp(logChoose(n, j) - n * Math.LN2);
  return Math.min(1, 2 * tail);
}

/** The smallest mass that k samples without a hit rule out. */
const detectable = (k, confidence) => -Math.log(1 - confidence) / k;

/** Uniform numbers in (0, 1), the same ones every time (Marsaglia's xorshift). */
function uniforms(seed) {
  let x = seed;
  return () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return ((x >>> 0) + 0.5) / 2 ** 32;
  };
}

/** A draw from the gamma distribution of this shape (Marsaglia and Tsang). */
function gamma(shape, uniform) {
  if (shape < 1) return gamma(shape + 1, uniform) * uniform() ** (1 / shape);
  const d = shape - 1 / 3;
  for (;;) {
    const normal = Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
    const v = (1 + normal / Math.sqrt(9 * d)) ** 3;
    if (v > 0 && Math.log(uniform()) < (normal * normal) / 2 + d - d * v + d * Math.log(v)) return d * v;
  }
}

/** The interval of each ratio over problems. The pipeline weighs problems at random (exponentially) beside half a
 *  made-up problem in each category: the sums of such weights are gamma distributed, and drawn here as such. */
function intervals(counted, confidence, draws = 2000) {
  const uniform = uniforms(0x9e3779b9);
  const values = ratios(counted);
  const drawn = Array.from({ length: draws }, () => ratios(counted.map((x) => gamma(x + 0.5, uniform))));
  const tail = (1 - confidence) / 2;
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      if (value == null) return [name, null];
      const sorted = Float64Array.from(drawn, (row) => row[name]).sort();
      const at = (share) => sorted[Math.round(share * (draws - 1))];
      return [name, { low: Math.min(at(tail), value), high: Math.max(at(1 - tail), value) }];
    }),
  );
}
