r"""Cut what follows when a text begins another question after its answer. Base models invent more questions.

    cut_run_on("It costs 70 dollars.\n\nQuestion: A train leaves …\nAnswer: 12")  ->  "It costs 70 dollars.\n\n"
    cut_run_on("\\boxed{5}<|im_end|>\n<|im_start|>user\nNow add 3.")                   ->  "\\boxed{5}"
    cut_run_on("Problem: what is 2 + 3? Solution: \\boxed{5}")                       ->  the same text

If several questions follow, the first answer counts: it is the one to our question. What is cut, and what is not:

- A *turn* ends the reply if anything stands before it: the tokens of chat templates (`<|im_end|>`, `<|user|>`,
  `[INST]`) anywhere, and `Human:`, `User:`, `### Instruction` or "You are an AI assistant" at the beginning of a line.
- `Question:` or `Q:` at the beginning of a line ends it if the text before is an answer: a marked one (a box, answer
  tags, "answer is", `####`, a block of code), or simply text, unless that introduces or restates the question
  ("Let's solve the following.", "Given: 3 apples.").
- `Problem:`, `Exercise 2.`, `Example 2:`, `Task:`, `Next question:`, `## Problem 2` and a repeated
  instruction ("put your final answer within") end it only if a marked answer stands before: a solution may use them as
  headings.
- Numbered parts that begin with the reply ("Question 1: …, Question 2: …") are parts of one answer.
- Nothing is cut inside thinking, a block of code, a display formula, a box or answer tags. Thinking that ended is not
  an answer to a question, but is enough before a turn.

Not covered: a new question that nothing announces, and the format of a few-shot prompt that is none of the above.
"""

from __future__ import annotations

import re

from leash.grading.thinking import unify_tags

_MARGIN = r"\n[ \t]*(?:[#>*_]+[ \t]*)*"
_HEADING = r"\n[ \t]*#+[ \t]*"
_NUMBER = r"[ \t]*#?(?P<number>\d{1,3}(?:\.\d{1,3})?)?[*_]*[ \t]*(?::|(?<=\d)[.)])"
# Every mark begins with one of these, and each of them with a fixed character, which Python finds fast.
_BEGINNINGS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n[ \t#>*_]*(?:Q[uU\d:*_]|P(?:roblem|ROBLEM)|E(?:xercise|XERCISE|xample)|Task|Ne(?:xt|w) |Another |"
        r"H(?:uman|UMAN)|U(?:ser|SER)|You are|Instr)",
        r"<(?:\||｜User|(?:end|start)_of_turn|/s>|eos>)",
        r"\[INST\]",
        r"ut your final answer",
    )
)
_MARKS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("turn", r"<\|(?:im_end|endoftext|end_of_text|eot_id|end|user|User|system)\|>"),
        ("turn", r"<\|(?:im_start|start_header_id)\|>\s*(?:user|system)\b"),
        ("turn", r"<(?:｜User｜|end_of_turn|start_of_turn>user|/s>|eos>)"),
        ("turn", r"\[INST\]"),
        ("turn", rf"{_MARGIN}(?:(?:Human|HUMAN|User|USER)[*_]*:|You are an? (?:AI|helpful)\b)"),
        ("turn", rf"{_HEADING}(?:Instruction|User|Human)\b"),
        ("question", rf"{_MARGIN}(?:Question|QUESTION){_NUMBER}"),
        ("question", rf"{_MARGIN}Q(?P<number>\d{{0,3}})[*_]*:[*_]*\s+(?=[A-Z\\$][a-z'(]|\d|[IA] )"),
        ("question", rf"{_HEADING}Question[ \t]*(?=\n)"),
        ("heading", rf"{_MARGIN}(?:Problem|PROBLEM|Exercise|EXERCISE){_NUMBER}"),
        ("heading", rf"{_MARGIN}(?:Task{_NUMBER}|Example[ \t]*#?\d{{1,3}}[*_]*[ \t]*[:.])"),
        ("heading", rf"{_MARGIN}(?:Next|New|Another) (?:[Qq]uestion|[Pp]roblem|[Ee]xercise|[Ee]xample|[Tt]ask)[*_]*:"),
        ("heading", rf"{_HEADING}(?:Problem|Exercise|Question|Example)[ \t]*(?P<number>\d{{1,3}})?[ \t]*(?=\n)"),
        ("heading", r"ut your final answer(?: within|, and only that)"),
    )
)
_MARKED_ANSWER = re.compile(
    r"\\(?:boxed|fbox|framebox)\s*(?:\{\s*[^\s}]|\d)|</answer>|</solution>|####\s*[-$\\]?\d|"
    r"answer\**\s*(?:is\b\s*:?|:)\**\s*[^\s.]|```[^`]+```",
    re.IGNORECASE,
)
_INTRODUCTION = re.compile(
    r":[\s*_]*$|\b(?:restat\w*|rewrit\w*|rephras\w*|understand\w*|given|following|below|consider|here(?:'s| is| are)|"
    r"first|begin|start|sure|certainly|of course|ok|okay|"
    r"(?:let'?s|let us|let me|we(?:'ll| will| need to| can)?|i(?:'ll| will| need to| can)?|to) (?:\w+ ){0,2}"
    r"(?:solve|find|answer|break|analy[sz]e|work|look|read|see|think))\b",
    re.IGNORECASE,
)
# What may hold a mark without ending there. A pair is open at a mark if it closes behind it, before it opens again.
_PAIRS = (("\\[", "\\]"), ("\\begin{", "\\end{"), ("<answer>", "</answer>"), ("<solution>", "</solution>"))
MAX_BOX_CHARS = 4000
MAX_MARKS = 200  # a text with more of them repeats itself without an answer
# A last line longer than this is working, not an introduction; only its end is read.
MAX_LINE_CHARS = 300


def cut_run_on(text: str) -> str:
    """Return the text up to the first new question after an answer, or all of it."""
    text = f"\n{text}"  # the first line is a line too
    tagged = ""  # the text with unified tags, once there is a mark
    has_parts = False
    found = sorted([found.start() for beginning in _BEGINNINGS for found in beginning.finditer(text)])
    for at in found[:MAX_MARKS]:
        marks = ((kind, mark) for kind, pattern in _MARKS if (mark := pattern.match(text, at)))
        kind, mark = next(marks, ("", None))
        if mark is None:
            continue
        tagged = tagged or unify_tags(text)
        if (begin := _reply_begin(tagged, at)) is None:
            continue
        number = mark.groupdict().get("number")
        if kind == "turn":
            is_new = bool(text[:at].strip())  # thinking that ended is enough
        else:
            is_new = not (number and has_parts) and _is_answer(text[begin:at], is_before_heading=kind == "heading")
        if is_new and not _is_enclosed(text, begin, at):
            return text[1:at]
        has_parts |= bool(number)
    return text[1:]


def _reply_begin(text: str, at: int) -> int | None:
    """Return where the reply before a position begins, or None if the position is inside thinking."""
    opened, closed = text.rfind("<think>", 0, at), text.rfind("</think>", 0, at)
    if opened < 0 and closed < 0:
        # A chat template may put the opening tag into the prompt.
        closes = text.find("</think>", at)
        return 0 if closes < 0 or 0 <= text.find("<think>", at) < closes else None
    return closed + len("</think>") if closed > opened else None


def _is_answer(before: str, *, is_before_heading: bool) -> bool:
    """Return whether the reply before a mark is an answer, so that the mark begins another question."""
    if not before.strip() or _MARKED_ANSWER.search(before):
        return bool(before.strip())
    last_line = before.rstrip()[-MAX_LINE_CHARS:].rpartition("\n")[2]
    return not is_before_heading and not _INTRODUCTION.search(last_line)


def _is_enclosed(text: str, begin: int, at: int) -> bool:
    """Return whether a position is inside a block of code, a formula, a box or answer tags that begin after `begin`."""
    if any(text.count(fence, begin, at) % 2 and text.find(fence, at) >= 0 for fence in ("```", "$$")):
        return True
    for opening, closing in _PAIRS:
        if (closes := text.find(closing, at)) >= 0 and text.rfind(opening, begin, at) > text.rfind(closing, begin, at):
            opens_again = text.find(opening, at)
            if opens_again < 0 or closes < opens_again:
                return True
    box = text.rfind("\\boxed{", max(begin, at - MAX_BOX_CHARS), at)
    if box < 0 or (depth := text.count("{", box, at) - text.count("}", box, at)) <= 0:
        return False
    # A box that never closes holds nothing.
    return text.count("}", at, at + MAX_BOX_CHARS) - text.count("{", at, at + MAX_BOX_CHARS) >= depth
