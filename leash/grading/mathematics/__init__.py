"""Mathematical answers: normalized (spelling), parsed (expression, answer_parsing), evaluated (values) and compared
(identity, equivalence; math_verify_fallback for what the parser cannot read)."""
