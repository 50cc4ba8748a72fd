r"""Find the answer that a completion gives. The rules are the same for every model.

    extract(r"12 + 5 = 17 , \boxed{ 17 }")                          ->  "17"
    extract("so it is <answer> 17 </answer>")                       ->  "17"
    extract(r"\boxed{1}. No, it is \boxed{3}")                      ->  "3"       (the last box is the answer ...)
    extract(r"x = \boxed{1} or x = \boxed{3}")                      ->  "1, 3"    (... unless boxes form a list)
    extract(r"So $y = -\boxed{3}$.")                                ->  "-3"      (a sign belongs to its box)
    extract("18 - 5 = 13\n#### 13")                                 ->  "13"
    extract(r"<think> maybe \boxed{4}, no ... </think> \boxed{5}")  ->  "5"

The reply after the thinking is searched first: the last box, then the last answer tags, then an answer stated in the
last lines. If the reply has none of these, the last box of the thinking counts, provided that the thinking ended.
Thinking that never ends holds no answer. Tags of thinking have several names (thinking.py).

What stands on the lines below "The answer is:" or a heading such as "## Final Answer" is an answer, too: a line, a
display formula or bullets. There a dash before a space is a bullet: "The answer is:\n- 5" is 5.

Texts are searched from the end for fixed words, so a text of 120 kB costs no more than its tail.

A sign belongs to the box if nothing stands before it that it could be subtracted from: `= -\boxed{3}` is -3, but
`x - \boxed{3}`, a dash ("Answer - \boxed{3}") and a list item (a line "- \boxed{3}") are 3.

This module also owns the scanners for boxes, answer tags and braces that graders share. Whether an answer is correct
is decided elsewhere (leash/grading/graders).
"""

from __future__ import annotations

import re

from leash.finish import THINK_CLOSE_TAG, THINK_OPEN_TAG
from leash.grading.run_on import cut_run_on
from leash.grading.thinking import unify_tags

BOX_COMMANDS = ("\\boxed", "\\fbox", "\\framebox")
ANSWER_OPEN_TAG, ANSWER_CLOSE_TAG = "<answer>", "</answer>"

# An answer has a few characters. A box without its closing brace would run to the end of the text.
MAX_BOX_CHARS = 4000
MAX_UNCLOSED_BOXES = 20
# A stated answer stands near the end of the text and is short: more words than this make a sentence.
STATED_TAIL_CHARS = 400
MAX_STATED_CHARS = 120
MAX_STATED_WORDS = 6
SIGN_CONTEXT_CHARS = 60  # what stands before a sign tells whether it is one
# Boxes form a list if little stands between them.
MAX_BOX_GAP_CHARS = 30
MAX_LISTED_BOXES = 30

_SPECIAL_TOKENS = re.compile(r"(?:\s*(?:</?s>|<\|[a-z_]{1,30}\|>|<eos>|<end_of_turn>|<｜[^<>｜]{1,40}｜>))+\s*$")
_BRACE = re.compile(r"[{}]")
_BRACE_OR_ESCAPE = re.compile(r"\\.|[{}]", re.DOTALL)
_LIST_SEPARATORS = re.compile(r"(?:[\s$,;]|\\[()\[\],; ]|\\q?quad|\\text\{\s*(?:and|or)\s*\}|and|or)*")
_LIST_CONNECTIVE = re.compile(r"[,;]|and|or")
_BOX_NAME = re.compile(r"(?:(?<![A-Za-z\\])|(?<=\\quad))([A-Za-z])(_\{?\w{1,3}\}?)?\s*=\s*$")
_SIGN = re.compile(r"(-|−|\\pm|±)(\s*)$")
_BEFORE_SIGN = re.compile(r"(?:[=<>≤≥({&]|\\[(\[]|\\(?:leq?|geq?|approx|q?quad|implies|Rightarrow|to))$")
# Without a space after the sign, words and the beginning of a line may also stand before it.
_BEFORE_ATTACHED_SIGN = re.compile(r"(?:^|\n|[:,;]\s*|\*\*|\\\\|(?<![A-Za-z\\])[A-Za-z]{2,}\s)$")
_UNSIGNED_CONTENT = re.compile(r"[\w.\\{}/ ]+")
_TEXT_COMMAND = re.compile(r"^\\text\{\s*([^{}]*)\}$")
# What follows a digit without a space belongs to it: \boxed 5\pi, \boxed 5\text{ thousand}.
_UNBRACED_CONTENT = re.compile(
    r"\s*(-?\d[\d.,/]*(?:(?:\\[A-Za-z]|[A-Za-z!^_%(])[^$\n]*?(?=\$|\n|\\[)\]]|\.\s|$))?|[A-Z](?![A-Za-z]))"
)
_ANSWER_PHRASE = re.compile(
    r"answer[*_]*\s*(?:is\b[ \t]*:?|:)(?:\s*(?:therefore|thus|hence|then|simply|exactly|equal to|given by)\b[,:]?)*"
    # a heading or a label on a line of its own
    r"|^[ \t>]*(?:[#*_]+[ \t]*)?(?:the[ \t]+)?(?:(?:final|correct)[ \t]+)?answer[ \t]*[*_]*[ \t]*(?=\n)"
    r"|####",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL_END = re.compile(r"[ \t*_:]*")
_BULLET = re.compile(r"[ \t]*[-*•–+][ \t]+(\S[^\n]*)(?:\n|$)")
_PROSE_WORD = re.compile(r"\b(?!(?:and|or)\b)[^\W\d_]{2,}|\b[aI]\b")
_DISPLAY = re.compile(
    r"\\\[(?P<a>.*?)\\\]|\$\$(?P<b>.*?)\$\$|\\\(\s*\n(?P<c>.*?)\\\)|(?<!\$)\$[ \t]*\n(?P<d>[^$]*)\$"
    r"|\\begin\{(?P<env>(?:equation|align|gather|multline)\*?)\}(?P<e>.*?)\\end\{(?P=env)\}",
    re.DOTALL,
)
_ALIGNED = re.compile(r"\s*\\begin\{((?:aligned|align|gathered|split)\*?)\}(.*)\\end\{\1\}\s*", re.DOTALL)
_FORMULA_SIGNS = re.compile(r"^\\{1,2}[(\[]|\\{1,2}[)\]]$")
# Models copy these from the instruction.
_PLACEHOLDERS = {"", "answer", "your answer", "your answer here", "final answer", "your final answer", "...", "…", "?"}


def extract(text: str) -> str | None:
    """Return the answer that a completion ends with, or None."""
    thinking, reply = _split_thinking(_strip_tokens_at_end(unify_tags(cut_run_on(text))))
    searches = ((_find_boxed, reply), (_find_open_or_tagged, reply), (_find_stated, reply), (_find_boxed, thinking))
    for find, part in searches:
        if (answer := find(part)) is None:
            continue
        if _TEXT_COMMAND.sub(r"\1", answer.strip()).strip(" []<>_\n").casefold() not in _PLACEHOLDERS:
            return strip_special_tokens(" ".join(answer.split()))
    return None


def _strip_tokens_at_end(text: str) -> str:
    """Remove tokens such as </s> at the end. Only the tail is searched."""
    tail = text[-STATED_TAIL_CHARS:].rstrip()
    return text[:-STATED_TAIL_CHARS] + strip_special_tokens(tail) if tail.endswith(">") else text


def strip_special_tokens(text: str) -> str:
    """Remove tokens such as </s> and <|im_end|> at the end of a text."""
    return _SPECIAL_TOKENS.sub("", text) if text.endswith(">") else text


def find_closing_brace(text: str, opening: int, end: int | None = None, *, skip_escaped: bool = False) -> int | None:
    r"""Return the position of the brace that closes the one at `opening`, or None. \{ and \} count unless skipped."""
    depth = 0
    braces = _BRACE_OR_ESCAPE if skip_escaped else _BRACE
    for brace in braces.finditer(text, opening, len(text) if end is None else end):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return brace.start()
    return None


def find_tagged(text: str) -> str | None:
    """Return the content of the last answer tags that close. Models close more tags than they open."""
    begin = text.rfind(ANSWER_OPEN_TAG, 0, max(text.rfind(ANSWER_CLOSE_TAG), 0))
    return text[begin + len(ANSWER_OPEN_TAG) : text.find(ANSWER_CLOSE_TAG, begin)] if begin >= 0 else None


def find_last_box(text: str) -> str | None:
    r"""Return the content of the last \boxed{…} that closes, of any length. One pass: thousands may never close."""
    openings: list[int] = []
    boxes = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            openings.append(brace.end())
        elif openings and text.endswith("\\boxed{", 0, begin := openings.pop()):
            boxes.append((begin, brace.start()))
    return text[slice(*max(boxes))] if boxes else None


def _split_thinking(text: str) -> tuple[str, str]:
    """Split a text into thinking that ended, if any, and the reply after it."""
    # A chat template may put the opening tag into the prompt, so a closing tag alone ends the thinking.
    end = text.rfind(THINK_CLOSE_TAG)
    if text.find(THINK_OPEN_TAG, max(end, 0)) < 0:
        return (text[:end], text[end + len(THINK_CLOSE_TAG) :]) if end >= 0 else ("", text)
    # Some models never close the thinking but give an answer in tags: the tags end it.
    begin = text.rfind(ANSWER_OPEN_TAG)
    return "", text[begin:] if text.find(ANSWER_CLOSE_TAG, max(begin, 0)) > begin >= 0 else ""


def _find_boxed(text: str) -> str | None:
    """Return the content of the last box that closes, joined with earlier boxes that form a list with it."""
    if (box := _find_box_before(text, len(text))) is None:
        return None
    begin, _, content = box
    if text.rfind("box", max(begin - MAX_BOX_CHARS, 0), begin) < 0:
        return content  # most texts have one box
    contents, names = [content], [_find_box_name(text, begin)]
    while len(contents) < MAX_LISTED_BOXES and (earlier := _find_box_before(text, begin, begin - MAX_BOX_CHARS)):
        name = _find_box_name(text, earlier[0])
        # The box after "or x =" continues a list only if the one before has a name too.
        gap = text[earlier[1] : names[0].start() if names[0] and name else begin]
        # A connective is required: white space alone separates two attempts, not two items.
        if len(gap) > MAX_BOX_GAP_CHARS or not (_LIST_CONNECTIVE.search(gap) and _LIST_SEPARATORS.fullmatch(gap)):
            break
        begin = earlier[0]
        contents.insert(0, earlier[2])
        names.insert(0, name)
    if all(names) and len({name[1] for name in names if name}) > 1:  # x = 4 and y = 9
        return ", ".join(f"{name[0]}{part}" for name, part in zip(names, contents, strict=True) if name)
    return ", ".join(contents) if len(set(contents)) > 1 else content


def _find_box_name(text: str, begin: int) -> re.Match[str] | None:
    """Return the match of the `x =` before a box."""
    head = max(begin - SIGN_CONTEXT_CHARS, 0)
    return _BOX_NAME.search(text, head, begin) if text[head:begin].rstrip().endswith("=") else None


def _find_box_before(text: str, end: int, floor: int = 0) -> tuple[int, int, str] | None:
    """Return begin, end and content, all with its sign, of the last box that begins in text[floor:end] and closes."""
    floor = max(floor, 0)
    for _ in range(MAX_UNCLOSED_BOXES):
        begin = after = -1
        for command in BOX_COMMANDS:
            if (found := text.rfind(command, max(floor, begin + 1), end)) >= 0:
                begin, after = found, found + len(command)
        if begin < 0:
            return None
        # \boxed 5 needs no braces
        if bare := _UNBRACED_CONTENT.match(text, after, after + MAX_STATED_CHARS):
            return _add_sign(text, begin, bare.end(), bare[1].rstrip(".,"))
        if (opening := text.find("{", after, after + 3)) >= 0:
            closing = find_closing_brace(text, opening, opening + MAX_BOX_CHARS, skip_escaped=True)
            if closing is not None:
                return _add_sign(text, begin, closing + 1, text[opening + 1 : closing])
        end = begin
    return None


def _add_sign(text: str, begin: int, end: int, content: str) -> tuple[int, int, str]:
    """Add the sign that stands before a box, unless it is a dash, a bullet or a subtraction."""
    head = text[max(begin - SIGN_CONTEXT_CHARS, 0) : begin]
    if not head.rstrip().endswith(("-", "−", "±", "\\pm")) or not (sign := _SIGN.search(head)) or "=" in content:
        return begin, end, content
    before = head[: sign.start()]
    paragraph = text[max(text.rfind("\n\n", 0, begin), begin - STATED_TAIL_CHARS, 0) : begin]
    opens_formula = before.rstrip(" ").endswith("$") and (paragraph.count("$") % 2 == 1 or before.endswith("$$"))
    is_sign = opens_formula or _BEFORE_SIGN.search(before.rstrip())
    if not (is_sign or (not sign[2] and _BEFORE_ATTACHED_SIGN.search(before))):
        return begin, end, content
    signed = content.strip() if _UNSIGNED_CONTENT.fullmatch(content.strip()) else f"({content})"
    return begin - len(sign[0]), end, ("\\pm " if sign[1] in ("\\pm", "±") else "-") + signed


def _find_open_or_tagged(text: str) -> str | None:
    """Return the content of the last answer tags. A short last line needs no closing tag."""
    # Engines drop the words that they stop at.
    begin = text.rfind(ANSWER_OPEN_TAG)
    if begin > text.rfind(ANSWER_CLOSE_TAG):
        rest = text[begin + len(ANSWER_OPEN_TAG) :].strip()
        if 0 < len(rest) <= MAX_STATED_CHARS and "\n" not in rest:
            return rest
    return find_tagged(text)


def _find_stated(text: str) -> str | None:
    """Return what the last lines call the answer: `The final answer is $5$.`, `**Answer:** 5`, `#### 5`."""
    tail = text.rstrip()[-STATED_TAIL_CHARS:]
    if not (phrases := list(_ANSWER_PHRASE.finditer(tail))):
        return None
    label_end = _LABEL_END.match(tail, phrases[-1].end())
    rest = tail[label_end.end() if label_end else phrases[-1].end() :]
    is_below = rest.startswith("\n")
    rest = rest.strip()
    if is_below and (bullets := _read_bullets(rest)):
        stated, after = bullets, ""
    elif display := _DISPLAY.match(rest):  # a formula on lines of its own
        stated, after = _flatten_display(next(filter(None, map(display.group, "abcde")), "")).rstrip(" ."), ""
    else:
        stated, *others = re.split(r"\.\s|\.$", rest.partition("\n")[0].strip(" *_:"), maxsplit=1)
        after = "".join(others)
    stated = _FORMULA_SIGNS.sub("", stated.strip(" *_`$:")).strip()
    # "x = 1 or x = 2" and "1, 2, 3, 4, 5, 6, 7, 8" have many parts, but are no sentences.
    is_formula = "\\" in stated or not _PROSE_WORD.search(stated)
    is_short = len(stated) <= MAX_STATED_CHARS and (is_formula or len(stated.split()) <= MAX_STATED_WORDS)
    # Below a heading there may be a solution instead: "Let x = 5. Then x + 1 = 6."
    is_working = is_below and bool(re.search(r"[\d\\$]", after))
    return stated if is_short and not is_working else None


def _read_bullets(text: str) -> str:
    """Return the items that a text begins with, with commas between them; "" if it begins with none."""
    items, end = [], 0
    while bullet := _BULLET.match(text, end):
        items.append(bullet[1].strip(" *_`$.,;"))
        end = bullet.end()
    return ", ".join(items)


def _flatten_display(formula: str) -> str:
    """Write a formula of several lines as one: an equation that goes on in the next line is a chain."""
    if aligned := _ALIGNED.fullmatch(formula):
        formula = aligned[2]
    elif "\\begin{" in formula:  # a matrix keeps its rows
        return formula
    rows = [" ".join(row.replace("&", " ").split()) for row in re.split(r"\\\\", formula)]
    return re.sub(r", (?==)", " ", ", ".join(row for row in rows if row))
