"""The tables of the report in reading order: the title of each, and a note on what its rows are.

tables.py fills them, cells.py formats them.
"""

from __future__ import annotations

FLOOR_NOTE = (
    "The floor is the value you would see if you compared the base with itself, at half of its samples; the pair's "
    "value at as many samples is beside it."
)
P_VALUE_NOTE = (
    "p is for as many E as S, corrected for the comparisons of the same kind: all pairs, or all pairs on all "
    "domains or data sets."
)
PAPER_NOTE = "If the models and the problems are the paper's, its row is below ours."
IDENTIFIED_NOTE = "Beyond k of the order of n², n being the samples, nothing is identified without assumptions."
TABLE_CAPTIONS: dict[str, tuple[str, str]] = {  # title, note
    "by_domain": (
        "What became of the problems, by domain",
        "One row per pair on all problems, and per domain if there are several. "
        f"{FLOOR_NOTE} {P_VALUE_NOTE} Tested: E and S that an exact test of the problem confirms, corrected for all "
        f"problems of the pair. {PAPER_NOTE}",
    ),
    "by_dataset": (
        "What became of the problems, by data set",
        f"One row per pair and data set, with pass@1 and pass@k of both models. {FLOOR_NOTE} {P_VALUE_NOTE} "
        f"{PAPER_NOTE}",
    ),
    "levels": (
        "What became of the problems, by level",
        "One row per pair, data set and level of its problems (how hard its data set says they are). The interval of "
        "the net change is over the problems of the level. Nothing is tested here.",
    ),
    "deconvolved": (
        "What became of the problems, freed of sampling noise",
        "One row per pair and ε that the samples identify, on all problems: what is counted, and the expected numbers "
        "by the masses themselves, with their intervals.",
    ),
    "pass_at_k": (
        "pass@k",
        "One row per model of a pair and k: the unbiased estimate with its interval over problems, the plain hit rate "
        "of the first k samples, and majority voting.",
    ),
    "certainty": (
        "How sure the categories are",
        "One row per pair and group of problems. Surely: both true masses are on their side of ε, by exact one-sided "
        "bounds; open: one of them may be on either side. At ε = 0 only P can be sure. Expected: the expected number "
        "of problems by their true masses, by the mass distribution that is fitted to each model. Possible share: the "
        "range over all distributions of masses that fit the counts, without a model.",
    ),
    "extrapolation": (
        "pass@k beyond the samples",
        "One row per pair, model and k, on all problems. Fitted: a zero-inflated beta-binomial with its interval over "
        "problems, if the fit to the first eighth of the samples predicts the rest; the interval does not cover that "
        f"the model may be wrong. Possible: the range over all masses that fit the counts. {IDENTIFIED_NOTE}",
    ),
    "statuses_by_category": (
        "How completions ended, by category",
        "One row per model of a pair and category. A model that was cut off may solve a problem with more tokens.",
    ),
    "statuses": (
        "How completions ended",
        "One row per model and data set: correct, wrong, no answer, cut off, not graded in time, grading failed.",
    ),
    "reach_proven": (
        "How many problems are proven to be within reach",
        "One row per pair, group of problems and category. S: within the trained model's reach (the target); E: within "
        "the base's. A certificate is a proven lower bound on the target's probability of a correct answer. Mass 1e-6: "
        "the number of problems whose mass is proven to be above it; all of them together hold with the stated "
        "confidence. No certificate is no proof of absence.",
    ),
    "reach": (
        "Lost, or below what k samples show?",
        "One row per new (E) and base-only (S) problem with few hits of the target, the model that does not solve it. "
        "The donor is the other model, whose correct completions say where to look. Pooled: the target's mass by the "
        "correct samples of both, too low if these miss ways to solve it. Certificate: a proven lower bound, from "
        "rollouts of the target that begin like a correct completion; rollouts and hits are those of its final round, "
        "prefixes what they began with, depth their mean tokens. Estimate: the same without the margin for luck, with "
        "the plain samples that begin in no such way. Upper: by the target's plain samples. Amplification: the "
        "trained model's mass as a multiple of the base's, in E as in S. Cut place: the token of the donor's likeliest "
        "completion at which the chance of a correct answer rises most. Unreachable: every known correct completion is "
        "impossible at this temperature and top_p, and no rollout that began like one was correct.",
    ),
    "reach_expected": (
        "What to expect with far more samples",
        "One row per pair, group of problems and k: the least and the most problems to expect in each category if both "
        "models had k samples and one hit counted (ε = 0), by certificates from below and plain samples from above. "
        "All bounds hold together with the confidence of the certificates.",
    ),
    "reach_hits": (
        "What the certificates count",
        "For E and S problems, those with the fewest correct rollouts first (hits): correct rollouts, the first from "
        "each of the likeliest prefixes, and the likeliest complete solutions, which count with their own probability "
        "(without a rollout). Share: how much of the mass that the certificate counts, as estimated, begins with the "
        "prefix of the rollout, or is the complete solution's own. If the grader is wrong about one of them, the "
        "certificate counts it all the same. The second check shares no code with the grader. Empty if "
        "the texts of rollouts (data/rollouts) are not on this machine.",
    ),
    "controls": (
        "What became of the problems if something else counts as a hit",
        "One row per pair, group of problems and view (control). Strict: the right answer in the form that was asked "
        "for. Lenient: in any form. Sound: a hit of the run's reading whose working was checked and has no visible "
        "error. Unrefuted: one in whose working none was found. Each row has its own test, with the same correction as "
        "the run's own decision. Uncategorized: problems whose sampling stopped early, by the run's reading, or "
        "that lack samples. The guess floor is the mean chance that a wrong answer to another problem is right here; "
        "views of the working have none. Over data sets that differ in k, pass@k is at the largest k that all have.",
    ),
    "changed_by_control": (
        "The problems whose category depends on the form of the answer, or on the working",
        "One row per problem and view that is an expansion or a shrinkage by the run's reading or in the view, and not "
        "in both, with the hits of both models. Above guessing: whether the hits of the view are shown to be more than "
        "a guesser's; a dash: no hits, no test, or a view of the working.",
    ),
    "working": (
        "The hits by reading, and by their working",
        "One row per model of a pair and group of problems: right answers by strict and by lenient reading, and the "
        "hits of the run's reading by their working: without a visible error, with one, none shown (direct), or not "
        "checkable. Unseen: the "
        "share of right answers by lenient reading that strict reading does not see.",
    ),
    "judged": (
        "What a judge says of the working",
        "One row per pair and group of problems whose hits a judge was asked about: the sound hits of both models and "
        "P, E, S, O and CoT-pass@k, corrected for the errors that the judge makes on planted ones.",
    ),
    "consolidation": (
        "How much of the base's reach one sample of the trained model has",
        "One row per pair and group of problems. Consolidation: the chance that the base reached a problem and one "
        "sample of the trained model solves it. The efficiency gap is what the base reaches with many samples (256, or "
        "as many as there are) and one sample of the trained model does not.",
    ),
    "g_pass_at_k": (
        "How reliably problems are solved (G-Pass@k)",
        "One row per pair, group of problems and k: the chance that at least a share τ of k samples is correct. "
        "A k is left out if a problem has fewer samples, or sampling stopped early.",
    ),
    "answers": (
        "Support of each distinct correct answer",
        "One row per pair, on the problems that have several correct answers. The counts are of answers.",
    ),
    "completions": (
        "Support of each distinct correct completion",
        "One row per pair, data set and ε. A completion's mass is its exact probability at the temperature and top_p "
        "of the run. Only completions that k samples of a model showed are known, so each is counted by the inverse of "
        "its chance of being seen: P, E and S are estimates for all correct completions with such a mass above ε, seen "
        "or not, with intervals over problems. A completion that top_p cuts off has a mass of 0. Seen: the distinct "
        "completions that were seen and have a mass above ε in a model. Effective: as many equally weighted ones. In "
        "neither (O) can't be estimated: most of these are never seen. An ε is left out if completions of that mass "
        "are seen with a chance below 5%. A dash: too few completions with a chance of 50% or more, or the chance of "
        "being seen is unknown, as after an early stop.",
    ),
    "masses": (
        "What the correct completions seen weigh together",
        "One row per model and data set, means over problems. Bound by its own: the exact mass of the distinct correct "
        "completions that the model wrote, a lower bound of its mass of correct completions. With partners': the same "
        "with those that the other models of its pairs wrote, so it depends on the pairs of the run. The share of "
        "correct samples varies by chance and may be below a bound. Barely covered: problems with hits on which the "
        "model's own completions cover less than 5% of its correct mass, judged by how often they repeat. There the "
        "bound says little.",
    ),
    "trainings": (
        "Different trainings of one base",
        f"One row per training: its last pair, at the k that all pairs have. {FLOOR_NOTE} Below ours is the paper's "
        "own training of that kind, if the base and the data set are the paper's.",
    ),
    "paired": (
        "Trained models of one base against each other",
        "One row per two trained models on the same problems: what both solve, or only one. p is for equal numbers "
        "of problems that only the first and only the second model solves, corrected for the number of rows.",
    ),
    "trajectory": (
        "Along the training",
        f"One row per pair at the k that all pairs have, by training and step. {FLOOR_NOTE} Below ours is the paper's "
        "own training at that step, if the base and the data set are the paper's.",
    ),
    "ever_reached": (
        "Ever reached along the training",
        "One row per checkpoint of a training with several, at the k that all pairs have: the problems that it "
        "reaches, that any checkpoint so far has reached, that one before it reached and it does not, and that none "
        "reached. Several checkpoints have more samples than one model, and more samples reach more. So beside them is "
        "what the base reaches with as many (a dash if it has too few), and the union if all checkpoints together had "
        "only k samples, a share each, with the base at as many. Numbers with decimals are expected ones.",
    ),
    "perplexity": (
        "Perplexity of solutions, by category",
        "One row per pair, source of solutions (traces) and category. A change of style moves all perplexities: "
        "the next table has what is more than that.",
    ),
    "style": (
        "How much log-perplexity grew, and how much of that is more than a change of style",
        "One row per pair, data set and source of traces. Beyond style: what is left, per token, of each token's "
        "change after what the base's surprise and entropy predict, fitted on problems of the same data set that both "
        "models solve, with masses that may differ by less than a factor of 2. Beside it are the same with the trace's "
        "length as a predictor, and the same minus what is left on its shuffled sentences. A change is claimed if all "
        "agree (an order that can't be tested does not count).",
    ),
    "entropy": (
        "Entropies, share of correct samples and response length",
        "One row per model and data set, in nats. Token entropy over steps, then samples, then problems (the paper's), "
        "pooled over tokens, and of completions of 16 tokens or more. Answer entropy: plug-in (the paper's), "
        "Miller–Madow, and Chao–Jost, which adjusts for unseen answers; on the paper's number of samples, and on all. "
        "If more than 20% of the answers are unseen, the samples don't identify it. The floor is the typical "
        "difference between two runs of half the samples (root mean square, from the two halves of the model's own "
        "samples). "
        f"{PAPER_NOTE}",
    ),
    "decoupling": (
        "How token and answer entropy changed",
        "One row per pair and data set: mean changes over problems, at the paper's number of samples and at all that "
        "both models have. The relation is by token entropy and by Chao–Jost's answer entropy at all samples, as far "
        "as unseen answers can't turn its direction. Of the change of token entropy, one part is from completions of "
        "other lengths, and the rest is at the same length, in first or second halves of completions. Spearman's "
        "correlation of the problems' changes takes token and answer entropies of different samples; it is not the "
        "paper's claim.",
    ),
    "profile": (
        "Token entropy along the completions",
        "One row per model and tenth of the length of its completions.",
    ),
}
