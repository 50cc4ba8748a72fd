"""The benchmarks of the paper: one small module per family, whose docstring shows a real row."""
