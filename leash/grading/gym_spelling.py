r"""Write answers to Reasoning Gym the way its scorers expect: most of them compare letter by letter.

    normalize_answer(r"$\frac{7}{40}$", "dice", {…, "answer": "7/40"})                            ->  "7/40"
    normalize_answer(r"24 = 2^3 \cdot 3", "prime_factorization", {…, "answer": "2 × 2 × 2 × 3"})  ->  "2 × 2 × 2 × 3"

Decoration around an answer is removed, equal numbers become the gold's spelling, and each task of the paper has its own
normalizer. The paper did some of this for its base models only. Here every model gets it. Scores are not given here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from leash.grading.extraction import find_closing_brace
from leash.grading.mathematics.spelling import SUPERSCRIPTS

GymItem = Mapping[str, Any]

MAX_LATEX_CHARS = 200  # the paper's geometry needs about 60
MAX_WRAPPING_DEPTH = 8  # $\boxed{\text{…}}$ has 3
MAX_FACTOR_EXPONENT = 200  # no task factorizes a number above 2^200
BOOLEAN_GOLDS = {"True", "False", "Yes", "No"}

THOUSANDS_SEPARATOR = re.compile(r"(?<=\d)(?:,|\{,\}|,?\\[,!])(?=\d{3}(?!\d))")
NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
EQUATION_SIGN = re.compile(r"=|\\approx|≈")
WRAPPING_COMMAND = re.compile(r"\\(?:boxed|text|textbf|textit|texttt|mathrm|mathbf|mathtt)\{")
CODE_FENCE = re.compile(r"```\w*\s?(.*?)```", re.S)
WRAPPERS = (
    re.compile(r"\${1,2}([^$]*)\${1,2}"),
    re.compile(r"\\\((.*)\\\)", re.S),
    re.compile(r"\\\[(.*)\\\]", re.S),
    CODE_FENCE,
)
FACTOR_PATTERN = re.compile(r"(\d{1,100})(?:\^(\d{1,3}))?")
LATEX_DECORATION = re.compile(
    r"\\(?:left|right)(?![a-z])|\\[,;!]"
    r"|°|\\degree\b|\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\text\{\s*degrees?\s*\}|\bdegrees?\b"
)
POWER_OF_TEN = re.compile(r"(?:([+-]?\d+\.?\d*)(?:\\times|\\cdot|[×·⋅*xX]))?10(?:\^|\*\*)\(?\{?([+-]?\d+)\}?\)?")
COORDINATE_PATTERN = re.compile(r"\d+\.?\d*")
MOVE_PATTERN = re.compile(r"move\(\s*(\w+)\s*,\s*(.*?)\s*\)\s*")


def normalize_answer(answer: str, task: str, item: GymItem) -> str | None:
    """Return the answer in the spelling of the task's scorer, or None if it does not have the form of an answer."""
    plain, gold = unwrap_answer(answer), item["answer"]
    if gold is not None and _is_same_value(plain, gold):
        return str(gold)
    return TASK_NORMALIZERS[task](plain, item) if task in TASK_NORMALIZERS else plain


def _is_same_value(answer: str, gold: str) -> bool:
    """Return whether an answer is the gold in another spelling: 84.0 for 84, 1,024 for 1024, false for False."""
    plain = THOUSANDS_SEPARATOR.sub("", answer)
    if NUMBER_PATTERN.fullmatch(gold) and NUMBER_PATTERN.fullmatch(plain):
        return Decimal(plain) == Decimal(gold)
    return gold in BOOLEAN_GOLDS and answer.casefold() == gold.casefold()


def unwrap_answer(answer: str) -> str:
    """Remove what wraps the whole answer: math mode, a box, a text command, a code fence."""
    answer = answer.strip()
    for _ in range(MAX_WRAPPING_DEPTH):
        command = WRAPPING_COMMAND.match(answer)
        wrapped = (wrapper.fullmatch(answer) for wrapper in WRAPPERS)
        # Two fences in a row also match as one that spans both.
        contents = [whole[1] for whole in wrapped if whole and "```" not in whole[1]]
        if command and find_closing_brace(answer, command.end() - 1) == len(answer) - 1:
            answer = answer[command.end() : -1].strip()
        elif contents:
            answer = contents[0].strip()
        else:
            break
    return answer


def _normalize_fraction(text: str, item: GymItem) -> str:
    r"""Dice: \frac{7}{40} or 7 / 40 as 7/40. Fractions are not reduced, because the question asks the model to."""
    plain = THOUSANDS_SEPARATOR.sub("", text)
    flat = "".join(re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1/\2", plain).split())
    # Answers come as P = 7/40 ≈ 0.175.
    fractions = [side for side in EQUATION_SIGN.split(flat) if re.fullmatch(r"\d+/\d+", side)]
    return fractions[-1] if fractions else flat


def _normalize_factors(text: str, item: GymItem) -> str | None:
    r"""Prime factorization: 24 = 2^3 \cdot 3 as 2 × 2 × 2 × 3."""
    flat = re.sub(r"(?<=\d)[⁰¹²³⁴-⁹]+", lambda power: "^" + power.group().translate(SUPERSCRIPTS), text)
    flat = re.sub(
        r"(\\left|\\right)|\\times|\\cdot|[*·⋅xX]|\)\s*\(", lambda sign: "" if sign[1] else "×", flat.replace("**", "^")
    )
    flat = re.sub(r"(?<=\d)[\s(){}]+(?=\d)", "?", flat)  # 2 3 is not 23
    sides = EQUATION_SIGN.split(re.sub(r"[\s(){}$]|\\[,;!]", "", flat))
    products = [side for side in sides if "×" in side or "^" in side]
    factors: list[int] = []
    for part in (products or sides)[-1].split("×"):
        factor = FACTOR_PATTERN.fullmatch(part)
        if factor is None or int(factor[2] or 1) > MAX_FACTOR_EXPONENT:
            return None
        factors += [int(factor[1])] * int(factor[2] or 1)
    return " × ".join(map(str, sorted(factors)))


def _normalize_geometry(text: str, item: GymItem) -> str:
    """Advanced geometry: points, radii and angles in LaTeX, radicals or fractions as decimals."""
    flat, metadata = EQUATION_SIGN.split(LATEX_DECORATION.sub("", text))[-1], item["metadata"]
    kind = metadata["task_type"]
    if kind == "orthocenter":
        exact = [float(Fraction(coordinate)) for coordinate in metadata["ortho"]]
    else:
        exact = [metadata.get("angle_ABC_degrees", metadata.get("incircle_radius_approx"))]
    point = re.fullmatch(r"\s*\(([^,]*),([^,]*)\)\s*", flat)
    numbers = [_parse_number(part) for part in (point.groups() if point else (flat,))]
    if len(numbers) != len(exact) or None in numbers:
        return flat.strip()
    places = 2 if kind == "angle_measure" else 3
    snapped = [_snap(number, true, places) for number, true in zip(numbers, exact, strict=True) if number is not None]
    if kind == "orthocenter":
        return f"({snapped[0]!r}, {snapped[1]!r})"
    return str(item["answer"]) if snapped == exact else repr(snapped[0])


def _snap(number: float, exact: float, places: int) -> float:
    """Return the exact value if the number is a correct rounding of it, else the number."""
    # The question asks for three decimals, but the scorer rounds angles to two: on its own it rejects 45.635 for
    # 45.6349, because it compares 45.64 with 45.63.
    is_rounding = round(number, 3) == number and abs(number - exact) < 0.0005 + 1e-9
    return exact if is_rounding or round(number, places) == round(exact, places) else number


def _parse_number(text: str) -> float | None:
    r"""Read a decimal or a formula such as \frac{3\sqrt{5}}{2}, sqrt(5) or √5."""
    plain = THOUSANDS_SEPARATOR.sub("", text.strip()).replace("−", "-")
    try:
        return float(plain)
    except ValueError:
        if len(plain) > MAX_LATEX_CHARS or not re.search(r"\d", plain):
            return None
    from latex2sympy2_extended import latex2sympy

    roots = re.sub(r"(?:\\?\bsqrt|√)\s*\(([^()]*)\)|√\s*(\d+)", lambda root: rf"\sqrt{{{root[1] or root[2]}}}", plain)
    try:
        return float(latex2sympy(roots).evalf())
    except Exception:  # the parser raises errors of many kinds on text that is no formula
        return None


def _normalize_scientific(text: str, item: GymItem) -> str:
    r"""Power function: -1.5 \times 10^{-7} as -1.50e-7. The question asks for three significant figures."""
    flat = "".join(THOUSANDS_SEPARATOR.sub("", EQUATION_SIGN.split(text)[-1]).split())
    flat = flat.replace("−", "-").replace("\\,", "")
    flat = re.sub(r"(?<=10)[⁻⁺]?[⁰¹²³⁴-⁹]+", lambda power: "^" + power.group().translate(SUPERSCRIPTS), flat)
    if ten := POWER_OF_TEN.fullmatch(flat):
        flat = f"{ten[1] or 1}e{ten[2]}"
    try:
        return f"{Decimal(flat):.2e}"
    except (InvalidOperation, ValueError):
        return text


def _normalize_cells(text: str, item: GymItem) -> str:
    """Arc 1D: 0012, [0, 0, 1, 2] or a row of a LaTeX array as 0 0 1 2. Cells are single digits."""
    flat = re.sub(r"\\(?:begin|end)\{\w+\}(?:\{[^{}]*\})?|\\(?:quad|qquad)\b|\\[\\,;:! ]|[&~]", " ", text)
    arrays = re.findall(r"\[([\d\s,'\"]+)\]", flat)
    row = arrays[-1] if arrays else flat
    digits = re.findall(r"\d+", row)
    plain = re.fullmatch(r"[\d\s,'\"]*", row) and (len(digits) == 1 or max(map(len, digits), default=0) == 1)
    return " ".join("".join(digits)) if plain else text


def _parse_json(text: str) -> Any:
    """Return the JSON of the last code fence, else of the whole text, or None. TeX escapes braces and underscores."""
    fences = CODE_FENCE.findall(text)
    try:
        return json.loads(re.sub(r"\\([{}_])", r"\1", fences[-1] if fences else text))
    except (ValueError, RecursionError):
        return None


def _normalize_coloring(text: str, item: GymItem) -> str | None:
    """Graph coloring: a JSON map in the order of its vertices."""
    coloring = _parse_json(text)
    return json.dumps(dict(sorted(coloring.items()))) if isinstance(coloring, dict) else None


def _normalize_plan(text: str, item: GymItem) -> str | None:
    """Boxnet: a list of steps, each a map from agents to moves, from any nesting of lists and maps."""
    steps = _parse_steps(_parse_json(text), item["metadata"]["initial_state"])
    return json.dumps(steps) if steps else None


def _parse_steps(plan: Any, grid: Mapping[str, Any]) -> list[dict[str, str]]:
    if isinstance(plan, list):
        return [step for part in plan for step in _parse_steps(part, grid)]
    if not isinstance(plan, dict):
        return []
    step, groups = {}, []
    for key, part in plan.items():
        # A key with two coordinates names an agent. Other keys ("step 1") only group steps.
        if len(COORDINATE_PATTERN.findall(key)) != 2:
            groups.append(part)
        elif move := _parse_move(part, grid):
            step[key] = move
    return ([step] if step else []) + _parse_steps(groups, grid)


def _parse_move(command: Any, grid: Mapping[str, Any]) -> str | None:
    while isinstance(command, dict | list) and len(command) == 1:
        command = next(iter(command.values() if isinstance(command, dict) else command))
    move = MOVE_PATTERN.fullmatch(command) if isinstance(command, str) else None
    if move is None:
        return None
    # The scorer skips impossible moves, but raises on a move off the grid.
    off_grid = "square" in move[2] and "_".join(str(float(x)) for x in COORDINATE_PATTERN.findall(move[2])) not in grid
    return None if off_grid else f"move({move[1]}, {move[2]})"


TASK_NORMALIZERS: dict[str, Callable[[str, GymItem], str | None]] = {
    "advanced_geometry": _normalize_geometry,
    "arc_1d": _normalize_cells,
    "boxnet": _normalize_plan,
    "dice": _normalize_fraction,
    "graph_color": _normalize_coloring,
    "palindrome_generation": lambda text, item: "".join(text.split()),  # without spaces between the letters
    "power_function": _normalize_scientific,
    "prime_factorization": _normalize_factors,
}
