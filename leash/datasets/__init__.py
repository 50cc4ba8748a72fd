"""Problems from any origin: benchmarks, files, generators, Reasoning Gym."""
