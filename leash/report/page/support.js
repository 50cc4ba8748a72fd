// The rules that the sliders need live: support of the samples that were seen, categories, ratios and pass@k. Python has
// the same rules in leash/statistics (categories.py, ratios.py, pass_at_k.py, support.py), and computes everything else
// that the page shows. tests/functional/test_page_numbers.py compares the two on a grid.

/** 1 if the share of hits in the first k samples exceeds epsilon, 0 if it does not; NaN if samples are missing or if
 *  sampling stopped before that was settled. n is at most k: the page carries the counts at every k of its slider. */
function support({ n, c, ended }, k, epsilon) {
  if (n == null || ended == null) return NaN;
  if (ended === "k") return n > 0 ? Number(c / n > epsilon) : NaN;
  return c / k > epsilon ? 1 : NaN;
}

/** The category of a problem from the support of both models: P, E, S, O, or "" if one is unknown. */
function category(base, rlvr) {
  if (Number.isNaN(base) || Number.isNaN(rlvr)) return "";
  return base ? (rlvr ? "P" : "S") : rlvr ? "E" : "O";
}

/** SRR, NDR, SDS and NSCR from the numbers of problems in P, E and S; null for 0/0. */
function ratios([p, e, s]) {
  const share = (a, b) => (b > 0 ? a / b : null);
  const srr = share(p, p + s);
  const ndr = share(e, p + e);
  const sds = srr == null || ndr == null ? null : share(2 * srr * ndr, srr + ndr);
  return { SRR: srr, NDR: ndr, SDS: sds, NSCR: share(e - s, p + e + s) };
}

/** pass@k of one problem, 1 - C(n-c, k)/C(n, k) as a product; NaN if there are too few samples. A hit that ended
 *  sampling has a fixed place, so the estimate is of the samples before it; beyond an early stop a hit is certain. */
function passAtK({ n, c, ended }, k) {
  const last = ended === "hit" ? 1 : 0;
  const [free, hits] = [n - last, c - last];
  if (k > free) return (ended === "hit" || ended === "floor") && c > 0 ? 1 : NaN;
  let missed = 1;
  for (let i = 0; i < hits; i++) missed *= Math.max(0, 1 - k / (free - i));
  return 1 - missed;
}

/** The smallest mass that k samples without a hit rule out. */
const detectable = (k, confidence) => -Math.log(1 - confidence) / k;
