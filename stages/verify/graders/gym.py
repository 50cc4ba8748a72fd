r"""`gym`: Reasoning Gym's own scores, behind one way of reading answers and of spelling them for all models.

    grade(r"\frac{7}{40}", ["7/40"], {"task": "dice", "config": {}, "item": {…, "answer": "7/40"}})  ->  1.0

Answers are read from the last answer tags, else from the last box, else from what follows the closing think tag. What
stands around an answer for looks is taken off, a number is its value, and the tasks of the paper have a spelling of
their own, below. The paper did some of this for its base models only; here it is done for whoever answers.

Some scorers of Reasoning Gym hand the answer to `eval`. A model's text is not run here: see `_runs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any

from stages.errors import LeashError

Item = Mapping[str, Any]

LONGEST = 50_000  # characters: a tower of Hanoi of ten disks takes 33,000
LONGEST_FORMULA = 200  # characters that are read as LaTeX; the paper's geometry needs some 60
WRAPPINGS = 8  # one inside the other; nobody needs more than $\boxed{\text{…}}$
LARGEST_POWER = 200  # in a prime factorization: no task has numbers above 2^200
THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|,?\\[,!])(?=\d{3}(?!\d))")
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
TRUTHS = {"True", "False", "Yes", "No"}
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")


def extract(text: str) -> str | None:
    """White space inside an answer is kept: some answers are grids."""
    found = _tagged(text)
    if found is None:
        found = _boxed(text)
    if found is None and "</think>" in text:
        found = re.sub(r"</?answer>", "", text.rpartition("</think>")[2])
    return (found or "").strip() or None


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    """The task's own score of the answer. What is no answer in form is wrong, though some scorers would fail on it."""
    task, item = meta["task"], unpacked(meta["item"])
    if len(answer) > LONGEST:
        return 0.0
    spelled = _spelled(answer, task, item)
    if spelled is None or _runs(spelled, task):
        return 0.0
    return float(scorer(task, json.dumps(meta["config"])).score_answer(spelled, item))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    if len(answer) > LONGEST:
        return answer
    spelled = _spelled(answer, meta["task"], unpacked(meta["item"]))
    lines = (spelled if spelled is not None else _opened(answer)).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    if "item" not in meta or "task" not in meta:
        return "it has no Reasoning Gym item in its meta, which `family: reasoning_gym` gives"
    if meta["task"] not in library().factory.DATASETS:
        return f"Reasoning Gym has no task {meta['task']}"
    wrong = [answer for answer in gold if grade(answer, gold, meta) < (meta.get("threshold") or 1)]
    return f"the gold {wrong[0]!r} is not right to its own scorer" if wrong else None


def library() -> Any:
    try:
        import reasoning_gym
    except ImportError:
        raise LeashError("Reasoning Gym is not installed; install it with `pip install 'leash[gym]'`.") from None
    return reasoning_gym


@lru_cache(maxsize=64)
def scorer(task: str, config: str) -> Any:
    """The data set of a task, by the JSON of its config. Scores may depend on it: puzzle24's on its largest value."""
    return library().create_dataset(task, **unpacked(json.loads(config)))


MARKS: dict[str, Callable[[Any], Any]] = {
    "__tuple__": tuple,
    "__pairs__": dict,
    "__date__": date.fromisoformat,
    "__fraction__": Fraction,
}


def packed(value: Any) -> Any:
    """A value as JSON can carry it, what JSON does not know being marked. It matters: arc_agi's scorer tells a tuple
    from a list, and so finds no answer right on an item that has been through plain JSON."""
    if isinstance(value, tuple):
        return {"__tuple__": [packed(one) for one in value]}
    if isinstance(value, list):
        return [packed(one) for one in value]
    if type(value) in (date, Fraction):
        return {f"__{type(value).__name__.lower()}__": str(value)}
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: packed(one) for key, one in value.items()}
    return {"__pairs__": [[packed(key), packed(one)] for key, one in value.items()]}


def unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    whole = {key: unpacked(one) for key, one in value.items()}
    mark = next(iter(whole)) if len(whole) == 1 else None
    return MARKS[mark](whole[mark]) if mark in MARKS else whole


# Where answers stand


def _tagged(text: str) -> str | None:
    """What the last answer tag that is ever closed holds. Models close more tags than they open."""
    begin = text.rfind("<answer>", 0, max(text.rfind("</answer>"), 0))
    return text[begin + len("<answer>") : text.find("</answer>", begin)] if begin >= 0 else None


def _boxed(text: str) -> str | None:
    """The content of the last box whose braces are balanced, in one pass: texts may hold thousands that never close."""
    opened: list[int] = []
    boxes = []
    for brace in re.finditer(r"[{}]", text):
        if brace.group() == "{":
            opened.append(brace.end())
        elif opened and text.endswith("\\boxed{", 0, begin := opened.pop()):
            boxes.append((begin, brace.start()))
    return text[slice(*max(boxes))] if boxes else None


def _closing(text: str, begin: int) -> int | None:
    """Where the brace that was opened before `begin` is closed."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return begin + brace.start()
    return None


# How answers are spelled

COMMAND = re.compile(r"\\(?:boxed|text|textbf|textit|texttt|mathrm|mathbf|mathtt)\{")
AROUND = (re.compile(r"\${1,2}([^$]*)\${1,2}"), re.compile(r"\\\((.*)\\\)", re.S), re.compile(r"\\\[(.*)\\\]", re.S))
FENCE = re.compile(r"```\w*\s?(.*?)```", re.S)


def _spelled(answer: str, task: str, item: Item) -> str | None:
    """The answer in the spelling that the task's scorer knows, or None where it has not even the form of one."""
    opened, gold = _opened(answer), item["answer"]
    if gold is not None and _means(opened, gold):
        return str(gold)
    return SPELLINGS[task](opened, item) if task in SPELLINGS else opened


def _means(answer: str, gold: str) -> bool:
    """Whether an answer is the gold but for spelling: 84.0 or 1,024 for 84 and 1024, false for False. Most scorers
    compare letter by letter."""
    plain = THOUSANDS.sub("", answer)
    if NUMBER.fullmatch(gold) and NUMBER.fullmatch(plain):
        return Decimal(plain) == Decimal(gold)
    return gold in TRUTHS and answer.casefold() == gold.casefold()


def _opened(answer: str) -> str:
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

# Scorers that call eval on the answer, and those that call sympy's parse_expr, which is eval by another name
EVALUATED = {"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"}
PARSED = {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
FORMULA = re.compile(r"[\w\s+\-*/^().,]*", re.A)
FUNCTIONS = re.compile(r"a?(sin|cos|tan)h?|sec|csc|cot|exp|log|ln|sqrt|Abs|pi|Integral")


def _runs(answer: str, task: str) -> bool:
    """Whether a scorer would run an answer that is more than a value: nothing is called without a parenthesis, and a
    formula needs no names but those of functions and variables, and nothing of an object by a dot."""
    if task in EVALUATED:
        return "(" in answer
    if task not in PARSED:
        return False
    words = set(re.findall(r"[^\W\d]\w*", answer))
    known = all(len(word) == 1 or FUNCTIONS.fullmatch(word) for word in words)
    return not (known and FORMULA.fullmatch(answer)) or bool(re.search(r"_|\.\s*[A-Za-z]", answer))
