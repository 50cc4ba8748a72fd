"""The sample stage: completions of a model on a data set."""
