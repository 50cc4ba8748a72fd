"""Run units of work on workers (processes, threads, a stepping engine, Ray actors). `run.run_units` is the entry point.

The grading pool (`leash.grading.worker_pool`) is separate: it kills graders that take too long.
"""
