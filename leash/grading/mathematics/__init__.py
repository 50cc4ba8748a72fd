"""Mathematical answers: normalized (spelling), parsed (expression, answer_types), evaluated (values), compared
(identity, equivalence; math_verify_fallback for what the parser cannot read) and grouped (answer_class)."""
