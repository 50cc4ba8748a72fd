"""Bounds of masses far below 1/k, from prefixes of completions of the other model of a pair."""
