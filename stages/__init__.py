"""The pipeline: one folder per stage of the DAG, and the command line.

A stage's name is its folder here, its group in params.yaml and its command of `leash`. Each `stage.py` reads tables,
calls the library in `leash/`, and writes tables. Stages never import each other.
"""

import leash  # noqa: F401  # sets the number of linear-algebra threads before numpy is loaded
