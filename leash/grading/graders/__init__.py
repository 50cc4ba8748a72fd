"""One module per grader, found by its name."""
