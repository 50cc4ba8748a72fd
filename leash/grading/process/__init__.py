"""Whether the visible working of a completion is right."""
