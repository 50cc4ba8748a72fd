"""Was the working right? Checkers of the steps that a completion shows, without a judge (see checkers.py)."""
