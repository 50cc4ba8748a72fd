"""Leash: did RLVR make new correct solutions reachable, or only sharpen what the base could already do?

One room per stage of the DAG (train, fetch, sample, verify, categorize, perplexity, entropy, report), each
named like its stage in dvc.yaml, its group in params.yaml and its command of `leash`; beside them what all
share: cli, params, tables, disk, seeds, work, progress.
"""

import os

# Threads of the linear algebra under numpy and scipy wait for each other longer than our small matrices take. Libraries
# read this when they are loaded; torch has threads of its own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
