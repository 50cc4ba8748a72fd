"""The statistics of a pair: pure functions of counts. No I/O, and no import from the rest of Leash.

Every rule stands here once; SQL counts, and tables, texts and the page show what these modules compute.

support        how many hits exceed epsilon, and the smallest mass that k samples detect
pass_at_k      the probability of hits among k samples: pass@k and everything built on it
categories     P, E, S, O of every problem, and its tested category
ratios         SRR, NDR, SDS and NSCR of Definition 2.3
decision       more, fewer or undecided: what may be stated about a pair
analysis       everything about a group of problems, as one JSON-ready dictionary
intervals      exact intervals of a mass
testing        Fisher's exact test, Benjamini-Hochberg, McNemar's test
resampling     bootstrap over problems, and over problems and samples
contributions  what each problem adds to every aggregate
bootstrap      the aggregates of a group with their intervals
noise          P, E, S, O of a model against itself
crossing       where two pass@k curves cross
odds_ratio     whether one common odds ratio explains the change
extrapolation  pass@k beyond the drawn samples, with a check
majority       maj@k
"""
