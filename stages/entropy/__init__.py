"""Token and answer entropy of every model."""
