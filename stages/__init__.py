"""Leash: did RLVR make new correct solutions reachable, or only sharpen what the base could already do?

One room per stage of the DAG (train, fetch, sample, verify, categorize, perplexity, entropy, report), each
named like its stage in dvc.yaml, its group in params.yaml and its command of `leash`; beside them what all
share: cli, params, tables, disk, seeds, work, progress.
"""
