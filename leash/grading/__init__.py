"""From a completion to a verdict: extraction, graders, mathematics, sandbox, worker pool."""
