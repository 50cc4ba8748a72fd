r"""Lenient reading: the last candidate answer of a reply in which strict reading finds none.

    find_candidate("The grooming costs 70 dollars.", "math")                          ->  "70"
    find_candidate(r"so the area is $\frac{3}{4}$ square units", "math")              ->  r"\frac{3}{4}"
    find_candidate("it must be option (B)", "choice")                                 ->  "B"
    find_candidate("8 - 1 = 7 , 7 * 3 = 21 , ( 8 - 1 ) * 3", "make")                  ->  "( 8 - 1 ) * 3"

A careful reader looks at the last sentence, and at the one before if the last names no value. Of several values, the
answer is what follows the verb ("the total is", "there are"), and not a number behind a preposition ("for 30 days").
Of a formula, it is the right side of the last equals sign. A value is read whole: "2 million", "3 out of 8", "3 hours
and 20 minutes". No candidates are: numbers of steps, cases, equations, figures and citations, dates, exponents, the
name of a variable alone, bounds ("more than 12"), ranges, and the right side of an equation that is still to be solved
(2x = 24). A reply that ends with a denial ("is not a solution", "(A) is incorrect"), a plan ("let's try n = 7"), an
assumption ("suppose x = 5"), a question or a formula that is cut off gives no answer.

Call it only for a text that finished and has no strict answer: the last number of a truncated text is not an answer.
Thinking holds no candidate. Graders whose strict reading already takes the whole reply (livebench, judge), or that
need a program (code), have no lenient reading.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from leash.grading.ending import MAX_BARE_WORDS, UNIT
from leash.grading.run_on import cut_run_on
from leash.grading.thinking import is_unfinished, strip_thinking, unify_tags
from leash.grading.unsolved import is_unsolved, is_unsolved_plain

TAIL_CHARS = 1500  # of the reply, where the last sentences are
MAX_SENTENCES = 2
CONTEXT_CHARS = 40  # beside a value, where the words stand that say what it is
MAX_CANDIDATE_CHARS = 300
GIVING_UP_CHARS = 300  # before the end

_FORMULA = re.compile(
    r"\$\$(?P<a>.*?)\$\$|\\\[(?P<b>.*?)\\\]|\\\((?P<c>.*?)\\\)|\\begin\{(?P<env>[a-z]+\*?)\}(?P<d>.*?)\\end\{(?P=env)\}"
    # Not a price: "$5 and $10" is no formula. The last dollar sign of a text may be missing.
    r"|(?<![\\\w])\$(?!\s?\d[\d,.]*\s+(?:and|or|to|from|for|per|each|in|on|at|of|is|was|as|more|less|\(|[a-z]{4,})\b)"
    r"(?:(?P<e>[^$\n]+?)(?<!\\)\$(?!\d)|(?P<f>[^$\n]*[\\=][^$\n]*)\Z)",
    re.DOTALL,
)
_DIGITS = r"\d(?:[\d.,]*\d)?"
_MAGNITUDE = r"\s?(?:hundred|thousand|million|billion|trillion)\b"
_MAGNITUDE_BEHIND = re.compile(rf"{_MAGNITUDE}")
_NUMBER = re.compile(
    r"(?<![\w.,^_\\/{])(?P<minus>[-−](?=[$€£\d.]))?[$€£]?\s?"
    r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s?/\s?\d+|:\d+)?|\.\d+)(?!\w*\d|\})"
    rf"(?P<magnitude>{_MAGNITUDE})?"
    r"(?P<unit>\s?\\?%|[a-zA-Z°]*+)(?P<modifier>-[a-zA-Z])?"
)
_WORDS = "zero two three four five six seven eight nine ten eleven twelve"
_WORD = (
    rf"(?:{_WORDS.replace(' ', '|')}|one|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|"
    r"nine)ty|hal(?:f|ves)|quarters?|thirds?|(?:four|fif|six|seven|eigh|nin|ten)ths?)"
)
# "two million" is a number, "thirty-six", "two hundred and six" and "two thirds" are read as they are written, "one"
# alone is an article.
_NUMBER_WORD = re.compile(
    rf"(?<![\w-])(?P<word>{_WORD})(?:(?P<more>(?:(?:{_MAGNITUDE}(?:\s+and)?)?[\s-]{_WORD})+(?:{_MAGNITUDE})?)"
    rf"|(?P<magnitude>{_MAGNITUDE}))?(?![\w-])",
    re.IGNORECASE,
)
# An expression in plain text: 9π, 5√2, 2 + √3, 10⁵, 2½, 2 1/2.
_FRACTION_SIGNS, _POWER_SIGNS = "¼½¾⅐-⅞", "⁰¹²³⁴-⁹⁻"
_ATOM = (
    rf"(?:√\s?(?:\([^()\n]*\)|{_DIGITS}|π)|π|{_DIGITS}(?:\s?[{_FRACTION_SIGNS}]|\s\d+/\d+(?![\d-]))?"
    rf"|[{_FRACTION_SIGNS}])[{_POWER_SIGNS}]*"
)
_EXPRESSION_RUN = re.compile(rf"(?<![\w.,^_\\/{{])[-−]?\(*(?:{_ATOM})+\)*(?:\s?[-+−*×·/]\s?\(*(?:{_ATOM})+\)*)*")
_RUN_SIGN = re.compile(rf"[π√{_FRACTION_SIGNS}{_POWER_SIGNS}]|\d\s\d+/\d")
# What belongs to a number and can't be read with it: a factor, a power, a factorial (or an exclamation mark), a sign.
_UNREAD_BEHIND = re.compile(
    rf"!(?!=)|\s?[π√{_FRACTION_SIGNS}]|[{_POWER_SIGNS}]|['\u00a0\u202f ]\d{{3}}(?![\w-])|\.\d|"
    r"\s(?![mgshlLJNWVACFKDIT]\b)[b-zA-Z](?![\w'’°/]|\.\w)|"
    r"\s(?:squared|cubed|factorial|pi|sqrt)\b|\s+and\s+(?:a|one)[\s-]+(?:half|third|quarter)\b"
)
_UNREAD_BEHIND_MAGNITUDE = re.compile(rf"(?:\s+and)?\s+(?:\d|{_WORD}\b)", re.IGNORECASE)
_COMPUTED_BEHIND = re.compile(r"\*\*|[/^*_(+]\w|\s(?:plus|minus|times|divided by|multiplied by)\s+\d")
_UNREAD_BEFORE = re.compile(r"[√π±^]\s*$|\\pm\s*$|\d[eE][-−]?$")
_DIGIT_GROUP_BEFORE = re.compile(r"(?<![\w.,])\d{1,3}['\u00a0\u202f ]$")
_NO_UNIT = re.compile(r"[^\s\\%mgshlLJNWVACFKD°]|pi|sqrt|ish|[bm]n|mil|MM+")
_NEGATIVE_BEFORE = re.compile(r"(?P<number>[\dM)]\s+)?\b(?:negative|minus)\s+$", re.IGNORECASE)
_WORD_VALUES = dict(zip(_WORDS.split(), map(str, (0, *range(2, 13))), strict=True))
# Measures that subdivide others, as in "3 hours 20 minutes".
_MEASURES = (
    "year|month|week|day|hour|hr|h|minute|min|second|sec|s",
    "mile|yard|yd|foot|feet|ft|inch|inche|in|km|kilometer|m|meter|cm|centimeter|mm",
    "pound|lb|ounce|oz|kg|kilogram|g|gram",
    "dollar|cent|euro|penny|pennie",
)
# A value of several numbers, which is read whole. A second number of the same unit is another value.
_COMPOUND = re.compile(
    rf"(?<![\w.,/^])(?:{_DIGITS}\s*(?:{UNIT}\s+)?out of\s+(?:the\s+|every\s+)?{_DIGITS}"
    rf"|{_DIGITS}\s*(?P<unit>{UNIT}),?\s+and\s+{_DIGITS}\s*(?!(?P=unit)\b){UNIT}"
    rf"|{'|'.join(rf'{_DIGITS}[ ]?(?:{units})s?,?[ ]{_DIGITS}[ ]?(?:{units})s?' for units in _MEASURES)}"
    rf"|(?P<ratio>{_DIGITS}\s+to\s+{_DIGITS}))(?![\w/^*=-])",
    re.IGNORECASE,
)
_RATIO = re.compile(r"\b(?:ratios?|odds|proportions?)\b", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(rf"\W*{_DIGITS}\W*")
_SENTENCE_END = re.compile(r"[.!?](?=[\s*)\"']+|$)[\s*)\"']*|\n+|;\s")
_PLAIN_EQUATION = re.compile(r"[^=<>!:]=\s*([^=<>]+)$")
_PLAIN_FORMULA = re.compile(
    r"(?:[\d\s.,+\-*/^()\[\]{}%√π¼½¾⅐-⅞⁰¹²³⁴-⁹⁻]|\\[a-zA-Z]+|\b(?:sqrt|pi|sin|cos|tan|log|ln|exp|[a-zA-Z])\b|\d[a-z]\b)+"
)
_PLAIN_TUPLE = re.compile(r"(?<![A-Za-z])\((?=[^()]*\d)[^()]*,[^()]*\)")
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|textbf)\s*\{[^{}]*\}")
_PROSE = re.compile(r"[.:;]\s+[A-Z][a-z]*\s+[a-z]{2,}|[a-z]{3,}\s+[a-z]{2,}\s+[a-z]{2,}")
_LABEL_BEFORE = re.compile(
    r"(?:\b(?:steps?|cases?|equations?|eqs?\.?|figures?|fig\.?|tables?|parts?|sections?|examples?|\w*problems?|"
    r"questions?|methods?|theorems?|lemmas?|chapters?|pages?|notes?|exercises?|rounds?|no\.|version|base|mod|modulo|"
    r"inequality|condition)\s*[(#]?|"
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\s+(?:\d+,?\s*)?)$",
    re.IGNORECASE,
)
_ENUMERATION = re.compile(r"^\s*(?:[-*•]\s+|[(]?\d{1,2}[.)]\s+)+")
_COPULA = re.compile(
    r"(?:(?<!that )(?<!who )\b(?:is|are|was|were|be|equals?)\b|[=≈:])"
    r"(?:\s*(?:exactly|about|approximately|equal to|thus|therefore|then|only|indeed|a total of|at (?:most|least)|:))*",
    re.IGNORECASE,
)
_FINITE_VERB = re.compile(
    r"\b(?:will|would|can|could|should|must|needs?|has|have|had|takes?|took|makes?|made|lasts?|is|are|was|were|gets?|got)\b",
    re.IGNORECASE,
)
# Words behind which a number describes the question, not its answer, and those that end the main clause.
_PREPOSITION_BEFORE = re.compile(
    r"\b(?:for|in|after|from|(?<!total )of|per|every|each|on|at|over|within|between|with|than|during|through|among|by|"
    r"into|first|last|next|other|these|those|all|when|where|if|since|because|using|let)\s*(?:the\s+|all\s+)?$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"\b(?:to [a-z]+|by \w+ing|than|compared|given|so that|such that|that|which|who|whose|where|when|if|while|because|"
    r"since|for|in(?! total)|over|with|after|from|at|on|per)\b",
    re.IGNORECASE,
)
_YEAR_BEFORE = re.compile(r"\b(?:in|of|since|by|year|until)\s*$", re.IGNORECASE)
_LIST_GAP = re.compile(r"\s*(?:,\s*(?:and\s|or\s)?|and\s|or\s)\s*")
# "x = 11 or x = 12", and "x = 11, x = 12" of the same name.
_NAMED_ALTERNATIVE = re.compile(
    r"(?<![\w)])(?<![-+*/^])(?<![-+*/^] )(?P<name>[a-zA-Z])\s*=\s*\S+?\s*"
    r"(?:,|(?P<or>,?\s*or\b)|and\b)\s*(?P<next>[a-zA-Z])\s*=\s*$"
)
# A bound, the end of a range or what is excluded is no value: "more than 12", "10 to 12", "anything but 12".
_NO_VALUE_BEFORE = re.compile(
    r"\b(?:(?:more|greater|less|fewer|larger|smaller|bigger|higher|lower) than|(?:any|every)thing but)\s*[$€£]?$"
    r"|\d\s*(?:[-–—]|to)\s*[$€£]?$|\bout of\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_RANGE_BEHIND = re.compile(r"\s+to\s+[$€£]?\d|[-–—]\d")
_EXCLUDED_BEFORE = re.compile(r"[,(]\s*not\s*[$€£]?$|(?:[<>≤≥≠]|!=)\s*[$€£]?$", re.IGNORECASE)
# The verb of a clause that only says when: "she will be 20 when he is 50".
_CLAUSE_BEFORE_VERB = re.compile(r"\b(?:when|while|if|because|until|unless)\s+(?:[\w']+\s+){1,3}$", re.IGNORECASE)
_GIVES_UP = re.compile(
    r"\bI(?:'m| am)? (?:don'?t know|do not know|not sure|unsure|unable|can(?:'?t|not) (?:solve|answer|find|determine))",
    re.IGNORECASE,
)
_PROGRAM_LINE = re.compile(r"\s*(?:return\b|print\s*\(|def \w+\s*\(|import \w|from \w+ import|assert )")
# A variable or a value of a function, but not a product as x(x + 1).
_NAME = re.compile(r"[\s\\]*(?P<name>[a-zA-Z]\w*)(?:_\{?\w+\}?)?\s*(?:\((?![^()]*(?P=name))[^()]*\))?\s*")
# Clauses that assume or plan, up to what follows from them.
_FOLLOWS = r"(?::|\b(?:so|then|thus|hence|therefore|which|gives?|yields?|we (?:get|have|obtain|find|see))\b|=>|→|⇒|\Z)"
_ASSUMPTION = re.compile(
    r"(?:^|[,;:]|\b(?:so|and|now|then|next|first)\b)\W*(?:"
    rf"(?:let(?!'?s\b|\s+(?:us|me)\b)|suppose|assume|consider|check|try|substitute|plug)\b.*?{_FOLLOWS}"
    r"|(?:if|when|given|(?:suppos|assum|consider|check|try|substitut|plugg|tak|sett)ing)\b.*?"
    rf"(?:,|{_FOLLOWS}))",
    re.IGNORECASE | re.DOTALL,
)
# "There are 3 cases" counts the working, but "he needs 3 cases" and "there are 3 cases of beer" do not.
_WORKING_COUNT = re.compile(
    r"(?:^\W*|\b(?:there (?:are|is)|we (?:have|get|obtain|consider|distinguish)|gives?|us|into|leads? to|following|and)"
    rf"\s+)(?:the |these )?(?:\d+|M+|{_WORD})\s+(?:{UNIT}\s+)?(?:(?:sub-?)?cases|equations|inequalities|unknowns|"
    r"variables|conditions|constraints|scenarios)\b(?!\s+of\b)",
    re.IGNORECASE,
)
# Sentences behind the answer: polite ones, remarks, and checks of it.
_AFTERWARDS = re.compile(
    r"\b(?:let me know|hope (?:this|that|it)|feel free|if you have|any (?:other |more )?questions|thank|happy to|"
    r"verif\w+|confirm\w*|satisf\w+|correct\b|matches|completes)|^\W*(?:note|source|reference)\b",
    re.IGNORECASE,
)
_NO_CONCLUSION = re.compile(
    r"!=|≠|\b(?:(?:(?:is|are|was|were|does|do|did|can|could|must|has|have|would|will|should)(?: not|n'?t|n’t)|cannot)"
    r"(?:\s+(?:\w+ly\s+)?(?:be|equals?)\b)?|(?:can['’]?t|won['’]?t|never)\s+(?:\w+ly\s+)?(?:be|equals?)|"
    r"not (?:a|an|the|possible|valid|equal|enough|sufficient)|neither|impossible|incorrect|contradict\w*|inconsistent|"
    r"wrong|false|invalid|excluded|eliminated|ruled out|"
    r"no (?:solution|answer|such)|(?:let'?s|let us|(?:we|i) (?:\w+ )?(?:need|have) to|we should|i will|we will|"
    r"next,? we|now,? we) (?:\w+ )?(?:try|re-?(?:check|exam|eval|consider|calc|visit|do)\w*|check|see|consider|find|"
    r"use|look|test|compute|calculate|verify|determine|assume|start|solve|know)"
    # "The sum can be calculated as 144" gives it, "can be calculated as follows" announces it.
    r"|can (?:then )?(?:be )?(?:find|found|calculated?|computed?|determined?|used?|obtained)"
    r"(?! as [$€£]?(?:\d[\d,.]*|M+)(?: [a-z]+)?\W*$)"
    r"|(?:don'?t|do not) know|unable|unclear|mistake|error|try again|wait)\b|\?\s*$",
    re.IGNORECASE,
)
_DENIED_CLAUSE = re.compile(
    r"(?:\bnot|n['’]t) (?:true|the case|clear|certain|known|sure) (?:that|whether|if)\b", re.IGNORECASE
)
_OPTION = re.compile(
    r"(?:\b(?i:option|choice|answer)s?\s*(?:is\s*)?:?\s*|\()\**\(?(?P<a>[A-Z])\b\)?|(?<![\w(])(?P<b>[A-Z])\)"
    r"|(?<![\w'])(?P<c>[B-HJ-Z])(?=[\s*]*[.!]?[\s*]*$)|(?<=\*\*)(?P<d>[A-Z])(?=\*\*)"
)
_OPTION_CLAUSE = re.compile(r"[,.;:]|\b(?:because|since|so|while|whereas|but)\b", re.IGNORECASE)
_OPTION_LIST_GAP = re.compile(r"[\s,()*]*(?:,|\band\b|\bor\b)[\s,()*]*")
_EXCLUSION = re.compile(
    r"(?:\bnot|n't|n’t)\b|\b(?:rul(?:e|es|ed|ing) out|eliminat\w*|exclud\w*|unlike|between|than|instead of|opposed to|"
    r"over|except)\b",
    re.IGNORECASE,
)
# Before a letter that ends a sentence: another letter, which may be the answer as well.
_ALL_BUT = re.compile(r"\b(?:any|every|all|none|nothing)\w*(?: \w+)? but\W*$", re.IGNORECASE)
_OTHER_LETTER = re.compile(r"(?<![\w'’$\\])(?:[B-HJ-Z](?![\w'’])|[A-Z]\)?\s*(?:,|and\b|or\b|&|/|<|>|=))")
_WRONG = re.compile(
    r"\b(?:incorrect|false|wrong|invalid|impossible|eliminated|excluded|ruled out|cannot)\b"
    r"|(?:\b(?:is|are|was|were|can|could|do|does|must|will|would)\s+not|n't|n’t)\b",
    re.IGNORECASE,
)
_OTHER_OPTIONS = re.compile(r"\b(?:others?|rest|remaining|none of)\b", re.IGNORECASE)
_EXPRESSION = re.compile(r"[\d(][\d\s()+*-]*[\d)]")


class Value(NamedTuple):
    begin: int
    end: int
    answer: str  # "" if it can't be read whole: then the reply has no answer if this is the value that it gives
    is_weak: bool = False  # an ordinal, a year, a number word, or a part of a word: counts if there is no other value
    is_equation: bool = False


def find_candidate(text: str, grader: str) -> str | None:
    """Return the last candidate answer of a finished text without a strict answer, or None."""
    find = FINDERS.get(grader, find_value)
    text = unify_tags(cut_run_on(text))
    if find is None or is_unfinished(text):
        return None
    candidate = find(strip_thinking(text))
    return candidate if candidate and len(candidate) <= MAX_CANDIDATE_CHARS else None


def find_value(reply: str) -> str | None:
    """Return the value that the last sentences give, or a reply of a few words."""
    reply = re.sub(r"\*\*(?!(?<=[\d)]\*\*)[\d(])|__|`", "", reply).strip()  # 2**10 is no emphasis
    for sentence, values in _last_sentences(reply):
        if _AFTERWARDS.search(_mask(sentence)) and not _stated_value(sentence, values, 0):
            continue
        if _PROGRAM_LINE.match(sentence):
            return None
        denials = list(_NO_CONCLUSION.finditer(_mask(sentence)))
        # "The number of eggs that are not used is 16" denies nothing.
        stated = _stated_value(sentence, values, denials[-1].end() if denials else 0)
        is_plan = any(denial[0].lower().startswith(("let", "?")) for denial in denials)
        is_plan = is_plan or bool(_DENIED_CLAUSE.search(_mask(sentence)))
        if is_plan or (denials and not stated):
            return None
        if not values and _WORKING_COUNT.search(_mask(sentence)):
            return None
        if values:
            assumed = [found.span() for found in _ASSUMPTION.finditer(_mask(sentence))]
            values = [v for v in values if not any(begin <= v.begin < end for begin, end in assumed)]
            if not values:
                return None
            chosen = stated or _main_value(sentence, values)
            if not chosen.answer:
                return None
            before = _before(_mask(sentence), chosen.begin)
            if _NO_VALUE_BEFORE.search(before) or _GIVES_UP.search(reply[-GIVING_UP_CHARS:]):
                return None
            return _with_list(sentence, values, chosen)
    is_bare = "\n" not in reply and len(reply.split()) <= MAX_BARE_WORDS
    is_word = re.search(r"[^\W\d_]", reply) and not re.search(r"\d", reply)
    return reply.rstrip(" .") if is_bare and is_word and not _NO_CONCLUSION.search(reply) else None


def find_option(reply: str) -> str | None:
    """Return the letter of the option that the last sentences name, else the value that they give."""
    plain = reply.strip()
    if _GIVES_UP.search(plain[-GIVING_UP_CHARS:]):
        return None
    has_denied = False
    for sentence, _ in _last_sentences(plain):
        denials = [denial[0].lower() for denial in _NO_CONCLUSION.finditer(_mask(sentence))]
        if any(denial.startswith(("let", "?")) for denial in denials):
            return None
        options = list(_OPTION.finditer(sentence))
        if chosen := [option for option in options if not _is_denied(sentence, option, options)]:
            return str(next(filter(None, chosen[-1].groups())))
        has_denied |= bool(options)
        if denials and not options and not _OTHER_OPTIONS.search(sentence):
            return None
    return None if has_denied else find_value(reply)


def _is_denied(sentence: str, option: re.Match[str], options: list[re.Match[str]]) -> bool:
    """Whether the clause of an option denies it, or it is one of a list: "between (B) and (C)"."""
    index = options.index(option)
    neighbours = itertools.pairwise(options[max(index - 1, 0) : index + 2])
    if any(_OPTION_LIST_GAP.fullmatch(sentence[first.end() : second.start()]) for first, second in neighbours):
        return True
    if _ALL_BUT.search(sentence, 0, option.start()):
        return True
    if option["c"] and _OTHER_LETTER.search(sentence, 0, option.start()):
        return True
    begin = max([m.end() for m in _OPTION_CLAUSE.finditer(sentence, 0, option.start())], default=0)
    before = sentence[max(begin, options[index - 1].end() if index else 0) : option.start()]
    end = options[index + 1].start() if index + 1 < len(options) else len(sentence)
    behind = _OPTION_CLAUSE.split(sentence[option.end() : end])[0]
    is_stated = re.search(r"\b(?:is|be)\W*$", before)
    denial = _EXCLUSION.search(before) or (not is_stated and _NO_CONCLUSION.search(before))
    return bool(denial or _WRONG.search(behind))


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
    phrases = list(re.finditer(r"\banswer(?: is)?\b:?", reply[-TAIL_CHARS:], re.IGNORECASE))
    stated = reply[-TAIL_CHARS:][phrases[-1].end() :].strip() if phrases else ""
    return stated if stated and "\n\n" not in stated else find_value(reply)


def find_exact(reply: str) -> str | None:
    """Return the last number of a reply without words ("3 + 4 = 7 , 7"), else a value."""
    numbers = re.findall(r"(?<![\d.])-?\d+(?:\.\d+)?", reply[-TAIL_CHARS:])
    return numbers[-1] if numbers and not re.search(r"[^\W\d_]{2}|\\", reply) else find_value(reply)


# The graders that do not look for a value. None: strict reading already takes all there is.
FINDERS: dict[str, Callable[[str], str | None] | None] = {
    "choice": find_option,
    "exact": find_exact,
    "make": find_expression,
    "gym": find_short_reply,
    "livebench": None,
    "judge": None,
    "code": None,
}


def _last_sentences(reply: str) -> Iterator[tuple[str, list[Value]]]:
    """Yield the last sentences that say something, the last one first, each with its values."""
    if any(reply.rfind(begin) > reply.rfind(end) for begin, end in ((r"\[", r"\]"), (r"\(", r"\)"))):
        return  # the text is cut off in a formula
    if reply.count("$$") % 2:
        return
    tail = reply[-TAIL_CHARS:]
    if 0 <= (closing := tail.find(r"\]")) < tail.find(r"\[") % (TAIL_CHARS + 1):
        tail = tail[closing + 2 :]  # it begins in a formula
    masked = _mask(tail)
    ends = [0, *(m.end() for m in _SENTENCE_END.finditer(masked))]
    if ends[-1] < len(tail):
        ends.append(len(tail))
    count = 0
    for begin, end in zip(ends[-2::-1], ends[:0:-1], strict=True):
        sentence = tail[begin:end]
        if not sentence.strip(" .\n-*#_()"):
            continue
        yield sentence, _values(sentence, tail[:begin])
        count += not _AFTERWARDS.search(masked[begin:end])
        if count == MAX_SENTENCES:
            return


def _mask(text: str) -> str:
    """Replace formulas by letters of the same length, so that their signs end no sentence."""
    return _FORMULA.sub(lambda m: "M" * len(m[0]), text)


def _before(masked: str, at: int) -> str:
    return masked[max(at - CONTEXT_CHARS, 0) : at]


def _values(sentence: str, earlier: str) -> list[Value]:
    """Return the formulas and numbers that can be answers, in order; weak ones only if there are no others."""
    masked = _mask(sentence)
    found = []
    for formula in _FORMULA.finditer(sentence):
        content = next(filter(None, (formula[name] for name in "abcdef")), "")
        if _LABEL_BEFORE.search(_before(masked, formula.start())):
            continue
        if (answer := _formula_value(content, earlier + sentence[: formula.start()])) is not None:
            magnitude = _MAGNITUDE_BEHIND.match(masked, formula.end())
            answer += magnitude[0] if magnitude else ""
            found.append(Value(formula.start(), formula.end(), answer, is_equation="=" in content))
    skip = enumeration.end() if (enumeration := _ENUMERATION.match(sentence)) else 0
    working = [count.span() for count in _WORKING_COUNT.finditer(masked)]
    for compound in _compounds(sentence, skip):
        found = [value for value in found if value.end <= compound.begin or value.begin >= compound.end]
        found.append(compound)
        masked = masked[: compound.begin] + "M" * (compound.end - compound.begin) + masked[compound.end :]
    for point in _PLAIN_TUPLE.finditer(masked):
        if _PLAIN_FORMULA.fullmatch(point[0]):
            found.append(Value(point.start(), point.end(), point[0]))
    masked = _PLAIN_TUPLE.sub(lambda point: "M" * len(point[0]), masked)
    runs = [*_expression_runs(masked, skip)]
    plain = masked
    for run in runs:
        plain = plain[: run.begin] + "M" * (run.end - run.begin) + plain[run.end :]
    found += [*runs, *_numbers(plain, skip)]
    if (equation := _PLAIN_EQUATION.search(masked.rstrip(" .!\n"))) and "MMM" not in equation[1]:
        right = equation[1].strip()
        if is_unsolved_plain(masked[max(skip, equation.start() - CONTEXT_CHARS) : equation.start() + 1], earlier):
            return []
        if _PLAIN_FORMULA.fullmatch(right) and re.search(r"\d|pi|π", right):
            found = [value for value in found if value.end <= equation.start(1)]
            is_factorial = right[-1:].isdigit() and masked.startswith("!", equation.end())
            found.append(Value(equation.start(1), equation.end(1), "" if is_factorial else right, is_equation=True))
    found = [_negate(value, masked) for value in found if not any(begin <= value.begin < end for begin, end in working)]
    return sorted([value for value in found if not value.is_weak] or found)


def _compounds(sentence: str, begin: int) -> Iterator[Value]:
    """Yield the values that have several numbers: "3 out of 8", "5 feet 6 inches", and "3 to 2" if it is a ratio."""
    shown = _FORMULA.sub(
        lambda m: re.sub(r"[$\\()]", " ", m[0]) if _PLAIN_NUMBER.fullmatch(m[0]) else "M" * len(m[0]), sentence
    )
    is_ratio = _RATIO.search(shown)
    for compound in _COMPOUND.finditer(shown, begin):
        if is_ratio or not compound["ratio"]:
            yield Value(compound.start(), compound.end(), " ".join(compound[0].split()))


def _expression_runs(masked: str, begin: int) -> Iterator[Value]:
    """Yield the expressions of plain text that have a root, π, a power or a fraction sign, or are mixed numbers."""
    for run in _EXPRESSION_RUN.finditer(masked, begin):
        if not _RUN_SIGN.search(run[0]):
            continue
        first, last = run.span()
        while masked[last - 1] == ")" and masked.count(")", first, last) > masked.count("(", first, last):
            last -= 1
        while masked[first] == "(" and masked.count("(", first, last) > masked.count(")", first, last):
            first += 1
        is_part = re.search(r"(?:[*×/+±^]|\d\s*[-−])\s*$", _before(masked, first)) or re.match(
            r"[\w^(!]", masked[last:]
        )
        is_whole = not is_part and masked.count("(", first, last) == masked.count(")", first, last)
        yield Value(first, last, masked[first:last] if is_whole else "")


def _negate(value: Value, masked: str) -> Value:
    """Read "negative 3" whole. The 3 of "5 minus 3" is a part of a computation."""
    if not (sign := _NEGATIVE_BEFORE.search(_before(masked, value.begin))):
        return value
    is_readable = value.answer and not sign["number"] and not value.answer.startswith(("-", "−"))
    return value._replace(answer=f"-{value.answer}" if is_readable else "")


def _numbers(masked: str, begin: int) -> Iterator[Value]:
    """Yield the numbers of plain text, in digits and in words, that are no labels, bounds or parts of a computation."""
    # A formula that lacks its dollar signs has many numbers.
    for number in () if re.search(r"\\[a-z]+\{", masked) else _NUMBER.finditer(masked, begin):
        before, after = _before(masked, number.start()), masked[number.end() : number.end() + CONTEXT_CHARS]
        if _LABEL_BEFORE.search(before) or (before[-1:], after[:1]) in (("[", "]"), ("(", ")")):  # also a citation
            continue
        if _EXCLUDED_BEFORE.search(before) or re.match(r"\s*[<>≤≥≠]", after) or _RANGE_BEHIND.match(after):
            continue
        if re.search(r"[*×/+]\s*$", before) or re.match(r"\s*[*×/+]\s*[\d(]", after):
            continue  # a part of a sum or product
        unit = number["unit"].strip()
        answer = ("-" if number["minus"] else "") + re.sub(r"\s", "", number["number"]) + ("%" if "%" in unit else "")
        is_year = bool(re.fullmatch(r"[12]\d{3}", answer) and _YEAR_BEFORE.search(before))
        is_weak = is_year or bool(number["modifier"]) or unit in ("st", "nd", "rd", "th", "D")
        is_group = re.fullmatch(r"\d{3}", number["number"]) and not number["modifier"]
        is_cut = (
            _UNREAD_BEHIND.match(masked, number.end())
            or _UNREAD_BEFORE.search(before)
            or _NO_UNIT.fullmatch(unit)
            or (is_group and _DIGIT_GROUP_BEFORE.search(before))  # 20 000
            or (number["magnitude"] and _UNREAD_BEHIND_MAGNITUDE.match(masked, number.end()))
        )
        is_term = _COMPUTED_BEHIND.match(masked, number.end()) is not None
        answer = "" if is_cut or is_term else answer + (number["magnitude"] or "")
        yield Value(number.start(), number.end(), answer, is_weak or is_term)
    for word in _NUMBER_WORD.finditer(masked, begin):
        value = {**_WORD_VALUES, "one": "1"}.get(word["word"].lower())
        if word["more"] or _UNREAD_BEHIND.match(masked, word.end()):
            yield Value(word.start(), word.end(), (word["more"] and word[0]) or "", is_weak=True)
        elif value and (word["magnitude"] or value != "1"):
            yield Value(word.start(), word.end(), value + (word["magnitude"] or ""), is_weak=True)


def _formula_value(content: str, before: str) -> str | None:
    """Return the value of a formula: the right side of its last equals sign. None for a name or a denial."""
    *rows, content = re.split(r"\\\\\s*(?:\[[^\]]*\])?", content.strip().rstrip("\\ \n"))
    before += " ".join(rows)
    content = re.sub(r"\\(?:tag|label)\{[^{}]*\}", "", content.replace("&", "")).strip()
    if re.search(r"\\ne(?:q|\b)|\\not\b|≠|\\equiv|\\pmod", content) or _PROSE.search(_TEXT_COMMAND.sub("", content)):
        return None
    if len(parts := re.split(r"\\q?quad(?![a-z])", content)) > 1:  # several values, steps, or a value with a remark
        if any(arrow in content for arrow in (r"\Rightarrow", r"\implies", r"\therefore")):
            return _formula_value(parts[-1], before)
        answers = [_formula_value(part, before) for part in parts if not re.match(r"\s*(?:\\text|\(\s*\\text)", part)]
        return ", ".join(filter(None, answers)) or None
    *left, right = re.split(r"(?<![<>!\\])=", content)
    # An equation between two terms with unknowns is an answer by itself; y = … and f(x) = … name one.
    unknown = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z](?![a-zA-Z])")
    is_name = left and _NAME.fullmatch(left[0])
    if len(left) == 1 and not is_name and unknown.search(left[0]) and unknown.search(right):
        right = content
    elif len(left) == 1 and not is_name and is_unsolved(left[0], before):
        return None
    exact, *rounded = re.split(r"\\approx(?![a-z])|≈", right)
    # A rounded value follows an exact one, unless that is a computation.
    is_exact = re.search(r"\d", exact) and not re.search(r"\d\.\d|\\times|\\cdot|\\div|[-+/*]", exact.strip(" -"))
    value = exact if not rounded or is_exact else rounded[-1]
    value = re.sub(r"^(?:\\implies|\\Rightarrow|\\therefore)\s*|(?:\\[\],;:! ]|[\s.,;:])+$", "", value.strip()).strip()
    term = r"\d|\\(?:pi|infty|frac|sqrt|emptyset|varnothing|a?(?:sin|cos|tan)h?|ln|log|exp)(?![a-z])|[-+^/,]"
    is_open = re.search(r"(?:\\(?:times|cdot)|[-+*/(])$", value) or value.count("{") != value.count("}")
    has_value = bool(left and value) or re.search(term, re.sub(r"_\{?\w+\}?(?!.*,)", "", value))
    return value if has_value and not is_open else None


def _stated_value(sentence: str, values: list[Value], begin: int) -> Value | None:
    """Return the last value that stands right behind "is" or an equals sign, after a position."""
    masked = _mask(sentence)
    stated = [v for v in values if v.is_equation and not _PREPOSITION_BEFORE.search(_before(masked, v.begin))]
    for verb in _COPULA.finditer(masked):
        if verb.start() < begin:  # the verb of the denial
            continue
        if verb[0][0].isalpha() and _CLAUSE_BEFORE_VERB.search(_before(masked, verb.start())):
            continue
        stated += [v for v in values if v.begin >= verb.end() and not masked[verb.end() : v.begin].strip(" $€£:")][:1]
    return max((value for value in stated if value.begin >= begin), default=None)


def _main_value(sentence: str, values: list[Value]) -> Value:
    """Return the last value of the main clause: 5 in "the 42 guests need 5 tables to sit at for 3 hours"."""
    masked = _mask(sentence)
    if verb := _FINITE_VERB.search(masked):
        values = [value for value in values if value.begin >= verb.end()] or values
    free = [value for value in values if not _PREPOSITION_BEFORE.search(_before(masked, value.begin))]
    if not free:
        return values[-1]
    chosen = free[0]
    for value in free[1:]:
        if _CLAUSE.search(masked[chosen.end : value.begin]):
            break
        chosen = value
    return chosen


def _with_list(sentence: str, values: list[Value], chosen: Value) -> str | None:
    """Return a value with those that form a list with it: "x = 1 or x = 3" gives "1, 3"."""
    # "m = 3 and n = 2, and m + n = 3 + 2 = 5" ends with one value, not with three.
    joins = [not v.is_equation or re.match(r"\W*\w+\s*=[^=]*$", sentence[v.begin : v.end]) for v in values]
    first = last = values.index(chosen)
    if not joins[first]:
        named = _NAMED_ALTERNATIVE.search(sentence, max(chosen.begin - CONTEXT_CHARS, 0), chosen.begin)
        is_list = named and first and (named["or"] or named["name"] == named["next"])
        return f"{values[first - 1].answer}, {chosen.answer}" if is_list else chosen.answer
    while first and joins[first - 1] and _LIST_GAP.fullmatch(sentence[values[first - 1].end : values[first].begin]):
        first -= 1
    while (after := last + 1) < len(values) and joins[after]:
        if not _LIST_GAP.fullmatch(sentence[values[last].end : values[after].begin]):
            break
        last = after
    listed = [value.answer for value in values[first : last + 1]]
    return ", ".join(dict.fromkeys(listed)) if all(listed) else None
