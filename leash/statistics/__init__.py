"""The statistics of a pair: pure functions of counts. No I/O, and no import from the rest of Leash.

Every rule stands here once; SQL counts, and tables, texts and the page show what these modules compute.

support            how many hits exceed epsilon, and the smallest mass that k samples detect
pass_at_k          the probability of hits among k samples: pass@k and everything built on it
categories         P, E, S, O of every problem, and its tested category
ratios             SRR, NDR, SDS and NSCR of Definition 2.3
decision           more, fewer, equivalent or undecided: what may be stated about a pair
analysis           everything about a group of problems, as one JSON-ready dictionary
net_change         are more problems gained than lost, and is the net change smaller than a margin?
luck               could the gains, or the losses, be luck alone?
change_tests       which single problems changed sides of epsilon
paired             tests and intervals of a paired difference over problems
intervals          exact intervals of a mass, and Wilson's of a ratio
testing            Fisher's exact test, Benjamini-Hochberg, McNemar's test
bootstrap_weights  bootstrap over problems, and over problems and samples
aggregate_columns  what each problem adds to every aggregate
problem_group      the aggregates of a group with their intervals
noise              P, E, S, O of a model against itself
band               a band over all k around the difference of two pass@k curves
crossing           where two pass@k curves cross
sharpening_test    whether one common odds ratio explains the change
extrapolation      pass@k beyond the drawn samples, with a check
majority           maj@k
rounding           nine digits of every number that is written
"""
