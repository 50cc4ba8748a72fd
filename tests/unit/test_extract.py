"""Extraction: which answer a completion gives, as tables of (text, answer, why)."""

from __future__ import annotations

from cProfile import Profile

import pytest

from leash.grading.extraction import extract
from leash.grading.thinking import unify_tags

BOXES: list[tuple[str, str | None, str]] = [
    (r"12 + 5 = 17 , \boxed{ 17 }", "17", "a box"),
    (r"\boxed{1} no, \boxed{2}", "2", "the last one counts"),
    (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", "balanced braces"),
    (r"\boxed{\text{(C)}}", r"\text{(C)}", "text"),
    (r"\boxed{\left\{ 1, 2 \right.}", r"\left\{ 1, 2 \right.", "an escaped brace opens nothing"),
    (r"\boxed{\{1, 2\}}", r"\{1, 2\}", "escaped braces"),
    (r"\boxed{x = \boxed{5}}", "5", "a box in a box"),
    (r"\boxed {5}", "5", "a space"),
    (r"so it is $\boxed 5$.", "5", "without braces"),
    (r"so it is $\boxed 5\pi$.", r"5\pi", "a digit without braces is not cut off from its term"),
    (r"\fbox{7}", "7", "another box"),
    (r"\framebox{204} minutes", "204", "and another"),
    ("\\boxed{1\n + 2}", "1 + 2", "lines"),
    (r"\boxed{1} and \boxed{cut off", "1", "a box that never closes is none"),
    (r"\boxed{{}", None, "a box that never closes is none"),
    (r"\boxed{}", None, "an empty box or tag is no answer"),
    (r"Put it in \boxed{your answer}.", None, "nor is the instruction's placeholder"),
    (r"\boxed{\text{answer}}", None, "nor is the instruction's placeholder"),
    (r"\boxed{?}", None, "nor is a question"),
    (r"\boxed{\{\}}", r"\{\}", "but the empty set is one"),
    (r"\boxed{12} as in \boxed{...}", None, "nor are dots, which replace the box before"),
]

LISTS: list[tuple[str, str | None, str]] = [
    (r"\boxed{1} and \boxed{3}", "1, 3", "two answers"),
    (r"$\boxed{1}$, $\boxed{2}$, \text{ or } $\boxed{3}$", "1, 2, 3", "three answers"),
    (r"\(\boxed{1}\) and \(\boxed{3}\)", "1, 3", "in formulas"),
    (r"\boxed{5} or \boxed{5}", "5", "the same answer twice"),
    ("\\boxed{1}\n\n\\boxed{3}", "3", "only a word or a comma makes a list"),
    ("$x = \\boxed{1}$\n\n$x = \\boxed{3}$", "3", "only a word or a comma makes a list"),
    (r"x = \boxed{1} or x = \boxed{3}", "1, 3", "a name for each"),
    (r"$x_1 = \boxed{1}$, $x_2 = -\boxed{3}$", "1, -3", "a name and a sign"),
    (r"$x = \boxed{4}$ and $y = \boxed{9}$", "x = 4, y = 9", "different names stay"),
    (r"\boxed{4}, so $y = \boxed{9}$", "9", "a name for one only"),
    (r"$x = \boxed{4}$, so $y = \boxed{9}$", "9", "one follows from the other"),
]

SIGNS: list[tuple[str, str | None, str]] = [
    (r"$y = -\boxed{3}$", "-3", "a sign before the box"),
    (r"$-\boxed{\frac{1}{3}}$", r"-\frac{1}{3}", "at the beginning of a formula"),
    (r"The answer is -\boxed{3}", "-3", "after words"),
    (r"$-\boxed{x + 1}$", "-(x + 1)", "of a sum"),
    (r"$x = \pm\boxed{3}$", r"\pm 3", "two signs"),
    (r"$x - \boxed{3}$", "3", "a subtraction"),
    (r"$x$ - \boxed{3}", "3", "a dash or a subtraction"),
    (r"Answer - \boxed{3}", "3", "a dash"),
    ("So:\n- \\boxed{3}", "3", "a list item"),
]

TOKENS: list[tuple[str, str | None, str]] = [
    ("The answer is 4.</s>", "4", "a special token at the end"),
    ("#### 4<|im_end|>\n<|endoftext|>", "4", "and two"),
    (r"\boxed{4</s>}", "4", "inside the box"),
    ("<answer>6<|im_end|>0", "6", "nothing counts behind the end of a turn"),
    ("The answer is x < s>", "x < s>", "nor anything else in angles"),
    ("The final answer is:\n\\[\n5\n\\]", "5", "a formula on lines of its own"),
    ("The answer is therefore $5$.", "5", "an adverb"),
]

TAGS: list[tuple[str, str | None, str]] = [
    ("I think <answer>\n17 </answer>.", "17", "tags"),
    ("<answer>1</answer> no, <answer>2</answer>", "2", "the last ones count"),
    (r"<answer>1</answer> and \boxed{3}", "3", "a box takes precedence over tags"),
    (r"<answer> The sum is \boxed{3} </answer>", "3", "a box takes precedence over tags"),
    ("</think> <answer> 3.89e-10", "3.89e-10", "engines drop the closing tag where they stop at it"),
    ("<answer>" + "and so on " * 50, None, "but a long text was cut off"),
    ("<answer>first\nsecond", None, "and so were several lines"),
    ("</answer> 5 <answer>", None, "tags in the wrong order"),
    ("<answer>True</answer></answer>", "True", "a closing tag too many, as real models write"),
    ("<answer> </answer>", None, "an empty box or tag is no answer"),
]

STATED: list[tuple[str, str | None, str]] = [
    ("Natalia sold 48+24 = 72 clips.\n#### 72", "72", "GSM8K"),
    ("The final answer is $\\frac{1}{2}$. I hope it is correct.", r"\frac{1}{2}", "Minerva's prompt"),
    ("The answer is 3.14.", "3.14", "a decimal point ends no sentence"),
    ("**Answer:** 42", "42", "bold"),
    ("**Final Answer: 73**", "73", "math-verify's issue 76"),
    (r"The answer is \(x = 5\)", "x = 5", "a formula"),
    ("The answer is 5. The answer is 6.", "6", "the last one counts"),
    ("**Answer:**\n5", "5", "on the line below its label"),
    ("## Final Answer\n\n**5**", "5", "below a heading"),
    ("**Answer**\n5", "5", "below a label without a colon"),
    ("**Answer:**\n\\(\n5\n\\)", "5", "a formula on lines of its own"),
    ("The answer is\n\\begin{equation}\n5\n\\end{equation}", "5", "and in an environment"),
    ("The answer is\n$$\n\\begin{aligned} x &= 2 + 3 \\\\ &= 5 \\end{aligned}\n$$", "x = 2 + 3 = 5", "aligned rows"),
    ("The answer is:\n- 5", "5", "a bullet is no minus"),
    ("The answer is:\n-5", "-5", "but a minus is"),
    ("The answer is:\n- -5", "-5", "a bullet before a minus"),
    ("The answer is:\n* 1\n* 2", "1, 2", "bullets make a list"),
    ("## Answer\nLet x = 5. Then x + 1 = 6.", None, "a heading before a solution"),
    ("The answer is that there are more of them than one would have thought at first.", None, "a sentence"),
    ("The answer is 5." + " But let me check this again." * 20, None, "not at the end"),
    ("no box", None, "nothing"),
    ("17", None, "a number alone is not called an answer"),
    ("", None, "nothing"),
]

THOUGHTS: list[tuple[str, str | None, str]] = [
    (r"<think> maybe \boxed{4}, no </think> \boxed{5}", "5", "the reply after the thinking"),
    (r"maybe \boxed{4}, no </think> \boxed{5}", "5", "the opening tag is in the prompt"),
    (r"<think> \boxed{4} </think> So it is 4.", "4", "thinking that ended with a box"),
    (r"<think> \boxed{4} </think> The answer is 5.", "5", "but a stated answer comes first"),
    (r"<think> \boxed{4} </think> <answer>5</answer>", "5", "and so do tags"),
    (r"<think> so \boxed{4}, or is it", None, "thinking that never ends"),
    ("<think> The answer is 4.", None, "thinking that never ends"),
    ("<think> so 4 \\end{think}\n<answer>5</answer>", "5", "answer tags end it as well"),
    (r"<thinking> \boxed{4} </thinking> \boxed{5}", "5", "thinking by another name"),
    (r"<Thinking> so \boxed{4}, or is it", None, "which never ends"),
    (r"<thought>4</thought> <thinking> \boxed{5}", None, "a second thought that never ends"),
    ("<think> a </think> <think> b </think> \\boxed{1}", "1", "two thoughts"),
]


@pytest.mark.parametrize(("text", "answer", "why"), BOXES + LISTS + SIGNS + TOKENS + TAGS + STATED + THOUGHTS)
def test_extract_finds_the_answer(text: str, answer: str | None, why: str) -> None:
    assert extract(text) == answer, why


@pytest.mark.parametrize(
    "part",
    [
        "so it goes on and on, \\boxed{",
        "\\boxed{1} {",
        "<answer>",
        "</think>",
        "The answer is ",
        "####",
        "{",
        "\\",
        " ",
        "\\boxed ",
        "\\boxed{1}, ",
    ],
)
def test_a_longer_text_takes_no_more_function_calls(part: str) -> None:
    """Only the tail is searched, so the cost does not depend on what comes before."""
    assert _count_calls(part * (200_000 // len(part))) <= _count_calls(part * (20_000 // len(part))) + 10


def _count_calls(text: str) -> int:
    profile = Profile()
    profile.runcall(extract, text)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    ("text", "unified"),
    [
        ("<think>3 + 4</think> 7", "<think>3 + 4</think> 7"),
        ("<Thinking>3 + 4</THOUGHTS> 7", "<think>   3 + 4</think>    7"),
        ("<THINK>3 < 4</thought> 7", "<think>3 < 4</think>   7"),
        ("<thinker> </ think> <thinks>", "<thinker> </ think> <thinks>"),
    ],
)
def test_tags_of_thinking_have_one_spelling_and_keep_their_length(text: str, unified: str) -> None:
    assert unify_tags(text) == unified
