"""Import completions that other harnesses or trainers wrote, with one module per format."""
