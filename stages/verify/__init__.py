"""The verify stage: a verdict for every completion."""
