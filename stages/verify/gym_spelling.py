r"""Answers to Reasoning Gym in the spelling that its scorers know, which compare most of them letter by letter.

    spelled(r"$\frac{7}{40}$", "dice", {…, "answer": "7/40"})                        ->  "7/40"
    spelled(r"24 = 2^3 \cdot 3", "prime_factorization", {…, "answer": "2 × 2 × 2 × 3"})  ->  "2 × 2 × 2 × 3"

What stands around an answer for looks is taken off, a number is its value, and the tasks of the paper have a spelling
of their own. The paper did some of this for its base models only; here it is done for whoever answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

Item = Mapping[str, Any]

LONGEST_FORMULA = 200  # characters that are read as LaTeX; the paper's geometry needs some 60
WRAPPINGS = 8  # one inside the other; nobody needs more than $\boxed{\text{…}}$
LARGEST_POWER = 200  # in a prime factorization: no task has numbers above 2^200
THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|,?\\[,!])(?=\d{3}(?!\d))")
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
TRUTHS = {"True", "False", "Yes", "No"}
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
COMMAND = re.compile(r"\\(?:boxed|text|textbf|textit|texttt|mathrm|mathbf|mathtt)\{")
AROUND = (re.compile(r"\${1,2}([^$]*)\${1,2}"), re.compile(r"\\\((.*)\\\)", re.S), re.compile(r"\\\[(.*)\\\]", re.S))
FENCE = re.compile(r"```\w*\s?(.*?)```", re.S)


def spelled(answer: str, task: str, item: Item) -> str | None:
    """The answer in the spelling that the task's scorer knows, or None where it has not even the form of one."""
    plain, gold = opened(answer), item["answer"]
    if gold is not None and _means(plain, gold):
        return str(gold)
    return SPELLINGS[task](plain, item) if task in SPELLINGS else plain


def _means(answer: str, gold: str) -> bool:
    """Whether an answer is the gold but for spelling: 84.0 or 1,024 for 84 and 1024, false for False."""
    plain = THOUSANDS.sub("", answer)
    if NUMBER.fullmatch(gold) and NUMBER.fullmatch(plain):
        return Decimal(plain) == Decimal(gold)
    return gold in TRUTHS and answer.casefold() == gold.casefold()


def opened(answer: str) -> str:
    """An answer without what wraps the whole of it: math mode, a box, a text command, a code fence."""
    answer = answer.strip()
    for _ in range(WRAPPINGS):
        inner = _inner(answer)
        if inner is None:
            break
        answer = inner
    return answer


def _inner(text: str) -> str | None:
    if (command := COMMAND.match(text)) and _closing(text, command.end()) == len(text) - 1:
        return text[command.end() : -1].strip()
    for around in (*AROUND, FENCE):
        if (whole := around.fullmatch(text)) and "```" not in whole.group(1):
            return whole.group(1).strip()
    return None


def _closing(text: str, begin: int) -> int | None:
    """Where the brace that was opened before `begin` is closed."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return begin + brace.start()
    return None


def _sides(text: str) -> list[str]:
    """The sides of an equation: answers come as P = 7/40 ≈ 0.175."""
    return re.split(r"=|\\approx|≈", text)


def _fraction(text: str, item: Item) -> str:
    """Dice: \\frac{7}{40} or 7 / 40 as 7/40. A fraction is not reduced here: the question asks for that."""
    whole = THOUSANDS.sub("", text)
    flat = "".join(re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1/\2", whole).split())
    fractions = [side for side in _sides(flat) if re.fullmatch(r"\d+/\d+", side)]
    return fractions[-1] if fractions else flat


FACTOR = re.compile(r"(\d{1,100})(?:\^(\d{1,3}))?")


def _factors(text: str, item: Item) -> str | None:
    """Prime factorization: 24 = 2^3 \\cdot 3 as 2 × 2 × 2 × 3."""
    flat = re.sub(r"(?<=\d)[⁰¹²³⁴-⁹]+", lambda power: "^" + power.group().translate(SUPERSCRIPTS), text)
    flat = re.sub(r"\\(?:times|cdot|left|right)|[*·⋅xX]|\)\s*\(", _sign, flat.replace("**", "^"))
    flat = re.sub(r"(?<=\d)[\s(){}]+(?=\d)", "?", flat)  # 2 3 is not 23
    sides = _sides(re.sub(r"[\s(){}$]|\\[,;!]", "", flat))
    products = [side for side in sides if "×" in side or "^" in side]
    factors: list[int] = []
    for part in (products or sides)[-1].split("×"):
        factor = FACTOR.fullmatch(part)
        if factor is None or int(factor[2] or 1) > LARGEST_POWER:
            return None
        factors += [int(factor[1])] * int(factor[2] or 1)
    return " × ".join(map(str, sorted(factors)))


def _sign(found: re.Match[str]) -> str:
    return "" if found.group() in ("\\left", "\\right") else "×"


def _letters(text: str, item: Item) -> str:
    """Palindromes: spaces between the letters are not part of it."""
    return "".join(text.split())


DECORATION = re.compile(
    r"\\(?:left|right)(?![a-z])|\\[,;!]"
    r"|°|\\degree\b|\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\text\{\s*degrees?\s*\}|\bdegrees?\b"
)


def _geometry(text: str, item: Item) -> str:
    """Advanced geometry: points, radii and angles as decimals, whether they came as LaTeX, radicals or fractions."""
    flat, kind = _sides(DECORATION.sub("", text))[-1], item["metadata"]["task_type"]
    inside = re.fullmatch(r"\s*\(([^,]*),([^,]*)\)\s*", flat)
    numbers = [_number(part) for part in (inside.groups() if inside else (flat,))]
    exact = _exact(item)
    if len(numbers) != len(exact) or None in numbers:
        return flat.strip()
    places = 2 if kind == "angle_measure" else 3
    settled = [
        _settled(number, true, places) for number, true in zip(numbers, exact, strict=True) if number is not None
    ]
    if kind == "orthocenter":
        return f"({settled[0]!r}, {settled[1]!r})"
    return str(item["answer"]) if settled == exact else repr(settled[0])


def _exact(item: Item) -> list[float]:
    metadata = item["metadata"]
    if metadata["task_type"] == "orthocenter":
        return [float(Fraction(coordinate)) for coordinate in metadata["ortho"]]
    return [metadata.get("angle_ABC_degrees", metadata.get("incircle_radius_approx"))]


def _settled(number: float, exact: float, places: int) -> float:
    """The exact number for one that is as near to it as rounding to the three decimals that are asked for may leave it,
    or that agrees with it in as many as are scored. The scorer rounds angles once more, to two: alone, it finds 45.635°
    wrong where the angle is 45.6349°."""
    asked = round(number, 3) == number and abs(number - exact) < 0.0005 + 1e-9
    return exact if asked or round(number, places) == round(exact, places) else number


def _number(text: str) -> float | None:
    plain = THOUSANDS.sub("", text.strip()).replace("−", "-")
    try:
        return float(plain)
    except ValueError:
        return _formula(plain)


def _formula(text: str) -> float | None:
    """The value of a formula in LaTeX, such as \\frac{3\\sqrt{5}}{2}; sqrt(5) and √5 are taken for it too."""
    from latex2sympy2_extended import latex2sympy

    if len(text) > LONGEST_FORMULA or not re.search(r"\d", text):
        return None
    roots = re.sub(r"(?:\\?\bsqrt|√)\s*\(([^()]*)\)|√\s*(\d+)", lambda root: rf"\sqrt{{{root[1] or root[2]}}}", text)
    try:
        return float(latex2sympy(roots).evalf())
    except Exception:  # whatever a parser says of a text that is no formula
        return None


TEN_POWER = re.compile(r"(?:([+-]?\d+\.?\d*)(?:\\times|\\cdot|[×·⋅*xX]))?10(?:\^|\*\*)\(?\{?([+-]?\d+)\}?\)?")


def _scientific(text: str, item: Item) -> str:
    """Power function: -1.5 \\times 10^{-7} as -1.50e-7, the three significant figures that were asked for."""
    flat = "".join(THOUSANDS.sub("", _sides(text)[-1]).split()).replace("−", "-").replace("\\,", "")
    flat = re.sub(r"(?<=10)[⁻⁺]?[⁰¹²³⁴-⁹]+", lambda power: "^" + power.group().translate(SUPERSCRIPTS), flat)
    if ten := TEN_POWER.fullmatch(flat):
        flat = f"{ten[1] or 1}e{ten[2]}"
    try:
        return f"{Decimal(flat):.2e}"
    except (InvalidOperation, ValueError):
        return text


def _cells(text: str, item: Item) -> str:
    """Arc 1D: 0012, [0, 0, 1, 2] or a row of a LaTeX array as 0 0 1 2. Cells are single digits."""
    flat = re.sub(r"\\(?:begin|end)\{\w+\}(?:\{[^{}]*\})?|\\(?:quad|qquad)\b|\\[\\,;:! ]|[&~]", " ", text)
    arrays = re.findall(r"\[([\d\s,'\"]+)\]", flat)
    row = arrays[-1] if arrays else flat
    digits = re.findall(r"\d+", row)
    plain = re.fullmatch(r"[\d\s,'\"]*", row) and (len(digits) == 1 or max(map(len, digits), default=0) == 1)
    return " ".join("".join(digits)) if plain else text


def _json(text: str) -> Any:
    """The JSON of the last code fence or of the whole, or None. TeX escapes braces and underscores."""
    fences = FENCE.findall(text)
    try:
        return json.loads(re.sub(r"\\([{}_])", r"\1", fences[-1] if fences else text))
    except (ValueError, RecursionError):
        return None


def _coloring(text: str, item: Item) -> str | None:
    """Graph coloring: a JSON map in the order of its vertices."""
    coloring = _json(text)
    return json.dumps(dict(sorted(coloring.items()))) if isinstance(coloring, dict) else None


MOVE = re.compile(r"move\(\s*(\w+)\s*,\s*(.*?)\s*\)\s*")


def _plan(text: str, item: Item) -> str | None:
    """Boxnet: a list of steps, each a map of agents to moves, whatever it was wrapped in. A number is no plan."""
    steps = _steps(_json(text), item["metadata"]["initial_state"])
    return json.dumps(steps) if steps else None


def _steps(plan: Any, grid: Mapping[str, Any]) -> list[dict[str, str]]:
    if isinstance(plan, list):
        return [step for part in plan for step in _steps(part, grid)]
    if not isinstance(plan, dict):
        return []
    named = {agent: _move(told, grid) for agent, told in plan.items() if len(_coordinates(agent)) == 2}
    step = {agent: move for agent, move in named.items() if move}
    nested = [told for agent, told in plan.items() if agent not in named]
    return ([step] if step else []) + _steps([part for part in nested if isinstance(part, dict | list)], grid)


def _move(told: Any, grid: Mapping[str, Any]) -> str | None:
    """The one move that an agent is told, or None. A move off the grid is no move: the scorer passes over those that
    can't be made, but fails on this one."""
    while isinstance(told, dict | list) and len(told) == 1:
        told = next(iter(told.values() if isinstance(told, dict) else told))
    move = MOVE.fullmatch(told) if isinstance(told, str) else None
    if move is None:
        return None
    off_grid = "square" in move[2] and "_".join(str(float(x)) for x in _coordinates(move[2])) not in grid
    return None if off_grid else f"move({move[1]}, {move[2]})"


def _coordinates(text: str) -> list[str]:
    return re.findall(r"\d+\.?\d*", text)


SPELLINGS: dict[str, Callable[[str, Item], str | None]] = {
    "advanced_geometry": _geometry,
    "arc_1d": _cells,
    "boxnet": _plan,
    "dice": _fraction,
    "graph_color": _coloring,
    "palindrome_generation": _letters,
    "power_function": _scientific,
    "prime_factorization": _factors,
}
