"""P, E, S or O for every problem of every pair."""
