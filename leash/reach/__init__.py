"""Reachability: how probable is a correct completion that k samples of a model hardly ever showed?

tasks          the problems to examine, and which pairs cannot be
known          correct completions as token sequences
known_scores   their probabilities under the models, token by token
rollouts       rollouts from prefixes, kept in a ledger
hits           grades of rollouts
search         the rounds of rollouts of one problem
rows           what the table says about a problem
examine        all of it for all problems of a run
"""
