"""Write a table of the report: as CSV for programs and as Markdown for people, with headings in words and an estimate
with its interval in one cell.

    SRR, SRR_low, SRR_high     ->  a column "retained (SRR)" with 0.843 (0.763 to 0.901)
    k, k_most                  ->  a column "k" with 2048 to 8192, or 8192 if both are equal
    SRR_floor                  ->  a column "SRR floor"

The CSV files keep every number in a column of its own, under its own name.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from leash import atomic_io
from leash.formatting import format_markdown_table, format_value

# How spreadsheets know a formula, and the texts of this kind that are only numbers.
FORMULA_PATTERN = r"^[=+\-@\t\r]"
NUMBER_PATTERN = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?$"
G_PASS_TAUS = ("0.25", "0.5", "0.75", "1")
HEADINGS = {
    "dataset": "data set",
    "rlvr": "trained model",
    "epsilon": "ε",
    "half_k": "half of k",
    "P": "preserved (P)",
    "E": "new (E)",
    "S": "base only (S)",
    "O": "in neither (O)",
    "SRR": "retained (SRR)",
    "NDR": "new among solved (NDR)",
    "SDS": "both (SDS)",
    "NSCR": "net (NSCR)",
    "p_value": "p (corrected)",
    "E_tested": "new, tested",
    "S_tested": "base only, tested",
    "short": "too few samples",
    "rlvr_pass@1": "trained pass@1",
    "rlvr_pass@k": "trained pass@k",
    "pass_at_k": "pass@k",
    "first_k": "hit rate of the first k",
    "maj_at_k": "maj@k",
    "base_pass@gap_k": "base pass@k of the gap",
    "gap_k": "k of the gap",
    **{f"base_g_pass_{tau}": f"base, τ = {tau}" for tau in G_PASS_TAUS},
    **{f"rlvr_g_pass_{tau}": f"trained, τ = {tau}" for tau in G_PASS_TAUS},
    "category_by_control": "category in this view",
    "hits_base_by_control": "hits base, in this view",
    "hits_rlvr": "hits trained",
    "hits_rlvr_by_control": "hits trained, in this view",
    "above_guessing_base": "base above guessing",
    "above_guessing_rlvr": "trained above guessing",
    "base_guess_floor": "guess floor, base",
    "rlvr_guess_floor": "guess floor, trained",
    "base_sound_hits": "sound hits, base",
    "rlvr_sound_hits": "sound hits, trained",
    **{f"base_cot_pass@{k}": f"base CoT-pass@{k}" for k in "1k"},
    **{f"rlvr_cot_pass@{k}": f"trained CoT-pass@{k}" for k in "1k"},
    "unseen_share": "unseen by strict reading",
    "ever_reached": "reached by any so far",
    "only_before": "reached before only",
    "never_reached": "by none so far",
    "total_k": "samples in all",
    "base_at_total_k": "base with as many",
    "share_k": "samples of each if k in all",
    "ever_at_share_k": "reached by any if k in all",
    "base_at_shares": "base with k in all",
    "trace": "traces of",
    "length": "tokens or bytes",
    "per": "perplexity per",
    "perplexity_rlvr": "perplexity trained",
    "mean_perplexity_base": "mean of the traces' perplexities, base",
    "mean_perplexity_rlvr": "mean of the traces' perplexities, trained",
    "c_target": "hits of the target",
    "n_target": "samples of the target",
    "c_donor": "hits of the donor",
    "n_donor": "samples of the donor",
    "pilot": "pilot rollouts",
    **{f"mass_1e-{power}": f"mass 1e-{power} or more" for power in range(3, 7)},
    "control": "change on preserved problems (floor)",
    "average": "share correct",
    "tokens": "tokens per completion",
    "decoding_entropy": "token entropy as sampled",
    "forks": "share of forks",
    "all_samples": "all samples",
    "common_samples": "samples of both",
    "long_problems": "problems with 16 tokens or more",
    "long_share": "completions of 16 tokens or more",
    "token_entropy_pooled": "token entropy, pooled over tokens",
    "token_entropy_long": "token entropy of completions of 16 tokens or more",
    "answer_entropy_mm": "answer entropy (Miller–Madow)",
    "answer_entropy_adjusted": "answer entropy (Chao–Jost)",
    "unidentified_at": "answer entropy is not identified at (samples)",
    "length_part": "token entropy, part from other lengths",
    "rest_part": "rest at the same length",
    "first_half_rest": "rest in first halves",
    "second_half_rest": "rest in second halves",
    "uncovered": "lengths that the base lacks",
    "spearman": "Spearman, cross-fitted",
    "base_unseen": "mass of unseen answers, base",
    "rlvr_unseen": "mass of unseen answers, trained",
    "fitted": "pass@k, fitted",
    "possible": "pass@k, possible",
    "unseen": "mass of unseen answers",
    "effective": "effective completions",
    "bound": "bound by its own",
    "completions_with_partners": "completions with partners'",
    "bound_with_partners": "bound with partners'",
    "sampled": "share of correct samples",
}
HEADING_SUFFIXES = {
    "_floor": "floor",
    "_true": "freed of noise",
    "_half": "at half of k",
    "_sure": "surely",
    "_posterior": "expected",
    "_share": "possible share",
    "_all": "at all samples",
}
# Shown only if a row comes from the paper: ours have the same value in all rows.
PAPER_COLUMNS = ("source", "note")


@dataclass(frozen=True)
class DisplayColumn:
    """One shown column. `names` are the columns it combines: a value, a value with low and high, or least and most."""

    heading: str
    names: tuple[str, ...]
    number: bool

    def cell(self, row: dict[str, Any]) -> str:
        values = [row[name] for name in self.names]
        if len(values) == 3 and None not in values:
            return "{} ({} to {})".format(*map(format_value, values))
        if self.names[0] == "amplification" and values[1] is not None:  # without a limit, or a value
            end = f"at least {format_value(values[1])}" if values[2] is None else f"at most {format_value(values[2])}"
            return f"{format_value(values[0])} ({end})"
        if len(values) == 2 and values[1] is not None and values[0] != values[1]:
            return "{} to {}".format(*map(format_value, values))
        return format_value(values[0])


def write_table(path: Path, content: pa.Table) -> None:
    """Write one table as .csv and .md."""
    write_csv(path.with_suffix(".csv"), content)
    atomic_io.write(path.with_suffix(".md"), format_markdown(content))


def write_csv(path: Path, content: pa.Table) -> None:
    atomic_io.write(path, encode_csv(content))


def encode_csv(content: pa.Table) -> bytes:
    """A table as CSV. Its texts come from models and data sets, and a spreadsheet runs one that begins like a formula:
    these get an apostrophe in front. Numbers stay numbers."""
    for index, field in enumerate(content.schema):
        if pa.types.is_string(field.type):
            column = content.column(index)
            is_formula = pc.and_not(
                pc.match_substring_regex(column, FORMULA_PATTERN), pc.match_substring_regex(column, NUMBER_PATTERN)
            )
            escaped = pc.if_else(is_formula, pc.binary_join_element_wise("'", column, ""), column)
            content = content.set_column(index, field, escaped)
    written = BytesIO()
    pyarrow.csv.write_csv(content, written)
    return written.getvalue()


def format_markdown(content: pa.Table) -> str:
    align = ["right" if column.number else "left" for column in display_columns(content)]
    return format_markdown_table(*format_cells(content), align)


def format_cells(content: pa.Table) -> tuple[list[str], list[list[str]]]:
    """The headings of a table, and its rows."""
    columns = display_columns(content)
    rows = [[column.cell(row) for column in columns] for row in content.to_pylist()]
    return [column.heading for column in columns], rows


def display_columns(content: pa.Table) -> list[DisplayColumn]:
    names = content.column_names
    merged: dict[str, tuple[str, ...]] = {}
    for name in names:
        candidates = ((f"{name}_low", f"{name}_high"), (f"{name}_most",))
        merged[name] = next((parts for parts in candidates if set(parts) <= set(names)), ())
    hidden = {part for parts in merged.values() for part in parts}
    if "note" in names and "paper" not in content["source"].to_pylist():
        hidden |= set(PAPER_COLUMNS)
    shown = {name: content[name].type for name in names if name not in hidden}
    numeric = {name: pa.types.is_integer(kind) or pa.types.is_floating(kind) for name, kind in shown.items()}
    return [DisplayColumn(format_heading(name), (name, *merged[name]), numeric[name]) for name in shown]


def format_heading(name: str) -> str:
    """A column's name in words. Ratios keep their letters in front of a suffix: "SRR floor"."""
    for suffix, words in HEADING_SUFFIXES.items():
        if name.endswith(suffix) and name not in HEADINGS:
            stem = name.removesuffix(suffix)
            return f"{stem if stem.isupper() else format_heading(stem)} {words}"
    return HEADINGS.get(name, name.replace("_", " "))
