"""One zip with the report and everything its numbers are made of, for a paper's appendix."""
