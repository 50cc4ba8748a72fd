"""Exact log-probabilities of the correct completions that were sampled."""
