"""Leash: did RLVR make new correct solutions reachable, or only sharpen what the base could already do?

This package is the library and the public Python API. It knows nothing of the DAG: `stages/` reads tables, calls the
functions here, and writes tables. Each subpackage is a subject: `engines` (sampling), `grading`, `scoring` (teacher
forcing), `statistics` (pure functions), `datasets`, `importing`, `report`, `doctor`.
"""

import os

# The linear-algebra threads under numpy and scipy wait for each other longer than our small matrices take. The
# libraries read this variable when they are loaded. torch has threads of its own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
