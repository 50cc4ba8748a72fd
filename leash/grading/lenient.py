r"""Lenient reading: the last candidate answer of a reply in which strict reading finds none.

    find_candidate("The grooming costs 70 dollars.", "math")                          ->  "70"
    find_candidate(r"so the area is $\frac{3}{4}$ square units", "math")              ->  r"\frac{3}{4}"
    find_candidate("it must be option (B)", "choice")                                 ->  "B"
    find_candidate("8 - 1 = 7 , 7 * 3 = 21 , ( 8 - 1 ) * 3", "make")                  ->  "( 8 - 1 ) * 3"

A careful reader looks at the last sentence, and at the one before if the last names no value. Of several values, the
answer is what follows the verb ("the total is", "there are"), and not a number behind a preposition ("for 30 days").
Of a formula, it is the right side of the last equals sign. No candidates are: numbers of steps, cases, equations,
figures and citations, dates, exponents, the name of a variable alone. A reply that ends with a denial ("is not a
solution"), a plan ("let's try n = 7"), a question or a formula that is cut off gives no answer.

Call it only for a text that finished and has no strict answer: the last number of a truncated text is not an answer.
Thinking holds no candidate. Graders whose strict reading already takes the whole reply (livebench, judge), or that
need a program (code), have no lenient reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from leash.grading.extraction import strip_thinking
from leash.grading.run_on import cut_run_on

TAIL_CHARS = 1500  # of the reply, where the last sentences are
MAX_SENTENCES = 2
MAX_CANDIDATE_CHARS = 300
MAX_BARE_WORDS = 6  # a reply of so few words is an answer by itself

_FORMULA = re.compile(
    r"\$\$(?P<a>.+?)\$\$|\\\[(?P<b>.+?)\\\]|\\\((?P<c>.+?)\\\)|\\begin\{(?P<env>[a-z]+\*?)\}(?P<d>.+?)\\end\{(?P=env)\}"
    # Not a price: "$5 and $10" is no formula.
    r"|(?<![\\\w])\$(?!\s?\d[\d,.]*\s+(?:and|or|to|from|for|per|each|in|on|at|of|is|was|as|more|less|\(|[a-z]{4,})\b)"
    r"(?P<e>[^$\n]+?)(?<!\\)\$(?!\d)",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"(?<![\w.,^_\\/])(?P<minus>[-−](?=[$€£\d.]))?[$€£]?\s?"
    r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s?/\s?\d+|:\d+)?|\.\d+)(?![\w^_]*\d)(?P<unit>\s?\\?%|[a-zA-Z°]*)"
)
_SENTENCE_END = re.compile(r"[.!?](?=[\s*)\"']+|$)[\s*)\"']*|\n+|;\s")
_PLAIN_EQUATION = re.compile(r"[^=<>!:]=\s*([^=<>]+)$")
_PLAIN_FORMULA = re.compile(r"(?:[\d\s.,+\-*/^()\[\]{}%√π]|\b(?:sqrt|pi|sin|cos|tan|log|ln|exp|[a-zA-Z])\b|\d[a-z]\b)+")
_LABEL_BEFORE = re.compile(
    r"(?:\b(?:steps?|cases?|equations?|eqs?\.?|figures?|fig\.?|tables?|parts?|sections?|examples?|problems?|questions?|"
    r"methods?|theorems?|lemmas?|chapters?|pages?|notes?|exercises?|rounds?|no\.|version|base|mod|modulo)\s*[(#]?|"
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\s+(?:\d+,?\s*)?)$",
    re.IGNORECASE,
)
_ENUMERATION = re.compile(r"^\s*(?:[-*•]\s+|[(]?\d{1,2}[.)]\s+)+")
_VERB = re.compile(
    r"(?:\b(?:is|are|was|were|be|equals?|becomes?|gives?|gets?|yields?|obtain|costs?|totals?|totaling|answer|result|"
    r"leaving|leaves|remain(?:s|ing)?)\b|[=≈:])(?:\s*(?:exactly|about|approximately|equal to|thus|therefore|then|us|"
    r"only|at (?:most|least)|:|\*+))*",
    re.IGNORECASE,
)
_PREPOSITION_BEFORE = re.compile(
    r"\b(?:for|in|after|from|of|per|every|each|on|at|over|within|between|with|than|during|through|among|by|into|"
    r"(?:one|each|all|both) of the|first|last|next|other|these|those|all|when|if|since|because)\s*(?:the\s+|all\s+)?$",
    re.IGNORECASE,
)
_YEAR_BEFORE = re.compile(r"\b(?:in|of|since|by|year|until)\s*$", re.IGNORECASE)
_POLITE = re.compile(
    r"\b(?:let me know|hope (?:this|that|it)|feel free|if you have|any (?:other |more )?questions|thank|happy to)\b",
    re.IGNORECASE,
)
_NO_CONCLUSION = re.compile(
    r"\b(?:(?:is|are|was|were|does|do|did|can|could|must|has|have|would|will)(?: not|n'?t|n’t)|cannot|not (?:a|an|the|"
    r"possible|valid|equal|enough|sufficient)|neither|impossible|incorrect|contradict\w*|inconsistent|no (?:solution|answer|such)|"
    r"(?:let'?s|let us|we need to|we (?:have|must) to|need to|i need to|we should|i will|we will|next,? we|now,? we) "
    r"(?:\w+ )?(?:try|check|re\w+|see|consider|find|use|look|test|compute|calculate|verify|determine|assume|start|solve|know)"
    r"|(?:don'?t|do not) know|unable|unclear|mistake|error|try again|wait)\b|\?\s*$",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"(?:\b(?:option|choice|answer)s?\s*(?:is\s*)?:?\s*|\()\**\(?(?P<a>[A-Z])\b\)?|(?<![\w(])(?P<b>[A-Z])\)"
    r"|(?<![\w'])(?P<c>[B-HJ-Z])(?=[\s*]*[.!]?[\s*]*$)|(?<=\*\*)(?P<d>[A-Z])(?=\*\*)"
)
_EXPRESSION = re.compile(r"[\d(][\d\s()+*-]*[\d)]")


class Candidate(NamedTuple):
    begin: int
    end: int
    answer: str


def find_candidate(text: str, grader: str) -> str | None:
    """Return the last candidate answer of a finished text without a strict answer, or None."""
    find = FINDERS.get(grader, find_value)
    text = cut_run_on(text)
    if find is None or text.rfind("<think>") > text.rfind("</think>"):
        return None
    candidate = find(strip_thinking(text))
    return candidate if candidate and len(candidate) <= MAX_CANDIDATE_CHARS else None


def find_value(reply: str) -> str | None:
    """Return the value that the last sentences give, or a reply of a few words."""
    reply = re.sub(r"\*\*|__|`", "", reply).strip()
    for sentence, values in _last_sentences(reply):
        if _NO_CONCLUSION.search(_mask(sentence)):
            return None
        if values:
            return _choose_value(sentence, values).answer
    is_bare = "\n" not in reply and len(reply.split()) <= MAX_BARE_WORDS
    return reply.rstrip(" .") if is_bare and not _NO_CONCLUSION.search(reply) and not re.search(r"\d", reply) else None


def find_option(reply: str) -> str | None:
    """Return the letter of the option that the last sentences name, else the value that they give."""
    plain = reply.strip()
    for sentence, _ in _last_sentences(plain):
        options = [m for m in _OPTION.finditer(sentence) if not re.search(r"\bnot\b|n't\b", sentence[: m.start()])]
        if options:
            return str(next(filter(None, options[-1].groups())))
    return find_value(reply)


def find_expression(reply: str) -> str | None:
    """Return the last sum or product of whole numbers, without its result."""
    plain = re.sub(r"\\times|\\cdot|[×·]", "*", reply[-TAIL_CHARS:]).replace("−", "-")
    found = [m[0].strip() for m in _EXPRESSION.finditer(plain) if re.search(r"[\d)]\s*[-+*]\s*[\d(]", m[0])]
    return found[-1] if found else None


def find_short_reply(reply: str) -> str | None:
    """Return a reply of one short line, else what follows "answer is", else a value. Answers may be words or grids."""
    lines = reply.strip().splitlines()
    if len(lines) == 1 and len(reply.split()) <= MAX_BARE_WORDS:
        return reply.strip()
    if stated := re.search(r"\banswer(?: is)?:?\s*\n*((?:[^\n]+\n?){1,30})\s*$", reply[-TAIL_CHARS:], re.IGNORECASE):
        return stated[1].strip()
    return find_value(reply)


# The graders that do not look for a value. None: strict reading already takes all there is.
FINDERS: dict[str, Callable[[str], str | None] | None] = {
    "choice": find_option,
    "make": find_expression,
    "gym": find_short_reply,
    "livebench": None,
    "judge": None,
    "code": None,
}


def _last_sentences(reply: str) -> Iterator[tuple[str, list[Candidate]]]:
    """Yield the last sentences that say something, the last one first, each with its values."""
    tail = reply[-TAIL_CHARS:]
    masked = _mask(tail)
    if re.search(r"\\[\[(]|\$\$", masked):  # a formula that never ends
        return
    ends = [0, *(m.end() for m in _SENTENCE_END.finditer(masked))]
    if ends[-1] < len(tail):
        ends.append(len(tail))
    count = 0
    for begin, end in zip(ends[-2::-1], ends[:0:-1], strict=True):
        sentence = tail[begin:end]
        if not sentence.strip(" .\n-*#_") or (count == 0 and _POLITE.search(sentence)):
            continue
        yield sentence, list(_values(sentence))
        count += 1
        if count == MAX_SENTENCES:
            return


def _mask(text: str) -> str:
    """Replace formulas by letters of the same length, so that their signs end no sentence."""
    return _FORMULA.sub(lambda m: "M" * len(m[0]), text)


def _values(sentence: str) -> Iterator[Candidate]:
    """Yield formulas and numbers that can be answers, in order."""
    skip = enumeration.end() if (enumeration := _ENUMERATION.match(sentence)) else 0
    masked = _mask(sentence)
    found = []
    for formula in _FORMULA.finditer(sentence):
        content = next(filter(None, (formula[name] for name in "abcde")), "")
        if (answer := _formula_value(content)) is not None:
            found.append(Candidate(formula.start(), formula.end(), answer))
    for number in _NUMBER.finditer(masked, skip):
        unit = number["unit"].strip()
        if _LABEL_BEFORE.search(masked[: number.start()]) or unit in ("st", "nd", "rd", "th", "D"):
            continue
        before, after = masked[number.start() - 1 : number.start()], masked[number.end() : number.end() + 1]
        if (before, after) in (("[", "]"), ("(", ")")):  # a citation or the number of an equation
            continue
        sign = "-" if number["minus"] else ""
        value = sign + re.sub(r"\s", "", number["number"]) + ("%" if unit.endswith("%") else "")
        found.append(Candidate(number.start(), number.end(), value))
    if (equation := _PLAIN_EQUATION.search(masked.rstrip(" .!\n"))) and "M" * 3 not in equation[1]:
        right = equation[1].strip()
        if _PLAIN_FORMULA.fullmatch(right) and re.search(r"\d|pi|π", right):
            found = [c for c in found if c.end <= equation.start(1)]
            found.append(Candidate(equation.start(1), equation.end(1), right))
    yield from sorted(found)


def _formula_value(content: str) -> str | None:
    """Return the value of a formula: the right side of its last equals sign. None for a name or a denial."""
    content = re.split(r"\\\\\s*(?:\[[^\]]*\])?", content.strip().rstrip("\\ \n"))[-1].replace("&", "")
    content = re.sub(r"\\(?:tag|label)\{[^{}]*\}|\\q?quad\b.*$", "", content, flags=re.DOTALL)
    if re.search(r"\\ne(?:q|\b)|\\not\b|≠|\\equiv|\\pmod", content):
        return None
    *_, right = re.split(r"(?<![<>!\\])=", content)
    exact, *rounded = re.split(r"\\approx(?![a-z])|≈", right)
    # A rounded value follows an exact one, unless that is a computation.
    is_exact = re.search(r"\d", exact) and not re.search(r"\d\.\d|\\times|\\cdot|\\div|[-+/*]", exact.strip(" -"))
    value = exact if not rounded or is_exact else rounded[-1]
    value = re.sub(r"^(?:\\implies|\\Rightarrow|\\therefore)\s*|(?:\\[,;:! ]|[\s.,;:])+$", "", value.strip()).strip()
    has_value = re.search(r"\d|\\(?:pi|infty|frac|sqrt|emptyset)(?![a-z])|[-+^/]", re.sub(r"_\{?\w+\}?", "", value))
    is_open = re.search(r"(?:\\(?:times|cdot)|[-+*/(])$", value) or value.count("{") != value.count("}")
    return value if has_value and not is_open else None


def _choose_value(sentence: str, values: list[Candidate]) -> Candidate:
    """Return the value that a reader takes for the answer: the last, unless the sentence points to another one."""
    masked = _mask(sentence)
    years = [v for v in values if re.fullmatch(r"[12]\d{3}", v.answer) and _YEAR_BEFORE.search(masked[: v.begin])]
    values = [v for v in values if v not in years] or values
    for verb in reversed(list(_VERB.finditer(masked))):
        # "is 5", "is therefore $5": the value stands right behind the verb.
        behind = [v for v in values if v.begin >= verb.end() and not masked[verb.end() : v.begin].strip(" $€£*:")]
        if behind:
            return behind[0]
    free = [v for v in values if not _PREPOSITION_BEFORE.search(masked[: v.begin])]
    return (free or values)[-1]
