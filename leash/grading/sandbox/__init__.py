"""Run programs that a model wrote, isolated by bubblewrap, resource limits and a filter of system calls."""
