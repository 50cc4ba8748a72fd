"""What `leash compare` prints for people: the sentence first, then short aligned tables. Other sentences and tables of
Leash are made of the same words (`count`, `number`, `table`), by the same rule on what few samples show
(`shows_reach`)."""

from __future__ import annotations

from typing import Any

from stages.categorize.statistics.ratios import RATIOS
from stages.params import detectable

Plain = dict[str, Any]
BLANK = "–"
MAX_HIDDEN_MASS = 0.1  # what no hit in k samples may leave possible, for a word on what a model can reach


def text(found: Plain) -> str:
    blocks = [headline(found), categories(found), ratios(found), curves(found), remarks(found)]
    return "\n\n".join(block for block in blocks if block)


def headline(found: Plain) -> str:
    """What happened, how sure that is, and what luck alone would have given."""
    test, floor = found["mcnemar"], found["noise_floor"]
    came, went = test["E"], test["S"]
    sure = test["p_value"] < 1 - found["confidence"]
    p_value = f"(exact McNemar p = {test['p_value']:.2g})"
    if shows_reach(found["k"], found["confidence"]):
        change = _change(came, went, sure)
        said = f"{change}: {count(came, 'problem')} came into support and {went} left it, of {found['problems']:,}"
    else:
        more = f"The second model solves {'more' if came > went else 'fewer'} problems than the base"
        claim = more if sure else "The data can't tell which model solves more problems"
        said = f"{claim} in {sample_budget(found['k'])}: of {found['problems']:,}, "
        said += f"{came:,} were solved by the second model alone and {went:,} by the base alone"
    said += f" {p_value}."
    if found["k"] == 1:
        said += " One sample per problem gives no noise floor."
    if floor["k"] is not None and floor["base"]["E"] is not None:
        at = f"at k = {number(floor['k'])}"
        said += f" Had nothing changed, {floor['base']['E']:.1f} would come and as many leave {at}, "
        said += f"where {floor['pair']['E']:.1f} come and {floor['pair']['S']:.1f} leave."
    return said


def _change(came: int, went: int, sure: bool) -> str:
    if not sure:
        return "No net change of support is to be seen" if came != went else "Support is balanced"
    return "The second model gained more than it lost" if came > went else "The second model lost more than it gained"


def categories(found: Plain) -> str:
    head = f"k = {number(found['k'])}, {count(found['problems'], 'problem')}"
    tested = found["tested"]
    rows = [
        [f"epsilon = {number(found['epsilon'])}", *(_counted(found["categories"][name]) for name in "PESO"), ""],
        ["epsilon = 0", *(_counted(found["any_hit"]["categories"][name]) for name in "PESO"), ""],
        ["tested", *(str(tested[name]) for name in "PESO"), f"{tested['undetermined']} undetermined"],
    ]
    if found["epsilon"] == 0:
        del rows[1]
    return table([head, *"PESO", ""], rows)


def ratios(found: Plain) -> str:
    half = found["noise_floor"]["k"]
    head = ["", "value", f"{found['confidence']:.0%} over problems", "and samples"]
    if half is not None:
        head += [f"pair (k = {number(half)})", f"no change (k = {number(half)})"]
    rows = []
    for name in RATIOS:
        one, base, pair = found[name], found["noise_floor"]["base"][name], found["noise_floor"]["pair"][name]
        samples = _between(one["low_samples"], one["high_samples"])
        middle = [_real(one["value"]), _between(one["low"], one["high"]), samples]
        floors = [] if half is None else [_real(pair["value"]), _real(base["value"])]
        rows.append([name, *middle, *floors])
    return table(head, rows)


def curves(found: Plain) -> str:
    rows = [
        [f"{k:,}", _spread(one), _spread(found["pass_at_k"]["rlvr"][k]), _spread(found["difference"][k], sign="+")]
        for k, one in found["pass_at_k"]["base"].items()
        if one["value"] is not None and found["pass_at_k"]["rlvr"][k]["value"] is not None
    ]
    return table(["pass@k", "base", "second model", "difference"], rows)


def remarks(found: Plain) -> str:
    crossed = [crossing(found)] if len(found["difference"]) > 1 else []  # one k makes no curve
    return "\n".join([*crossed, found["tilt"]["says"], *notes(found)])


def crossing(found: Plain) -> str:
    one = found["crossing"]
    who = "The base" if one["by"] == "base" else "The second model"
    if one["value"] is None:
        return "The pass@k curves don't cross within the samples at hand."
    low, high = one["low"], one["high"]
    until = f"{high:,.0f}" if high is not None else "beyond the samples at hand"
    since = f"{low:,.0f}" if low is not None else "beyond the samples at hand"
    crossed = f"{one['share']:.0%} of the resamples cross"
    return f"{who} overtakes at k* = {one['value']:,.0f} ({since} to {until}; {crossed})."


def notes(found: Plain) -> list[str]:
    said = []
    if found["counting"] == "expected":
        said.append(
            "Some problems have more than k samples, and counts don't tell which came first: P, E, S and O are those "
            "expected at k; the tests and the tilt are of all samples."
        )
    if found["uncategorized"]:
        which = count(found["uncategorized"], "problem")
        said.append(f"{which} with fewer than k samples of a model: not categorized, and pass@k is null beyond them.")
    return said


def shows_reach(k: int | list[int], confidence: float) -> bool:
    """Whether so many samples (the fewest of several data sets) say something about what a model can reach. No hit in k
    leaves any mass up to -ln(1 - confidence)/k possible, which must be small: k is 30 or more at 95%."""
    return detectable(min(k) if isinstance(k, list) else k, confidence) <= MAX_HIDDEN_MASS


def sample_budget(k: int | list[int]) -> str:
    """For instance: one sample each, 8 samples each."""
    return "one sample each" if k == 1 else f"{number(k)} samples each"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns of text, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in [head, *rows])
    ]
    return "\n".join(line.rstrip() for line in lines)


def _spread(one: Plain, sign: str = "") -> str:
    return f"{_real(one['value'], sign)} ({_between(one['low'], one['high'], sign)})"


def _between(low: float | None, high: float | None, sign: str = "") -> str:
    return BLANK if low is None or high is None else f"{low:{sign}.3f} to {high:{sign}.3f}"


def _real(value: float | None, sign: str = "") -> str:
    return BLANK if value is None else f"{value:{sign}.3f}"


def _counted(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.1f}"


def number(value: Any) -> str:
    """One k or epsilon, or the least and the most of several."""
    if value is None:
        return BLANK
    if isinstance(value, list):
        return " to ".join(number(end) for end in value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def count(number: int, of: str) -> str:
    """For instance: 1,024 problems."""
    return f"{number:,} {of}{'' if number == 1 else 's'}"
