"""Teacher forcing: the probability that a model gives to a text that already exists.

`traces` has the types, `torch_scorer` and `vllm_scorer` compute scores, `score_tables` keeps tables of them up to date
on disk, `selection` decides what a run can score, and `references` collects the solutions of `perplexity`.
"""
