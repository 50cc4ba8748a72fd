"""What this machine can run, what this run needs, and the next command to type."""
