"""Run units of work on workers: processes, threads, a stepping engine, or Ray actors.

    units          what there is to do and who does it: the worker plan, the queue of units, the start of processes
    run            `run_units`, the entry point, and the three executors of this machine
    ray_cluster    the executor that uses a Ray cluster
    parent_death   worker processes that end with their parent

The grading pool (`leash.grading.worker_pool`) is separate: it kills graders that take too long.
"""
