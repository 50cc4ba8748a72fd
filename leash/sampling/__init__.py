"""What to sample, and the sampling loop.

budget              which samples to draw next, with a fixed or an adaptive budget
sampler             fingerprint, and the loop that draws samples into the ledger
cost_estimate       what a run costs before it starts
duplicate_samples   a warning if samples are not independent
metadata            how samples were drawn, kept beside the verdicts
"""
