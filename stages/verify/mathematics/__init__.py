"""Mathematical answers: spelt one way (spelling), read as what they are (expression, reading), evaluated (values),
compared (identity, equivalence; fallback for what can't be read) and put into classes (classes)."""
