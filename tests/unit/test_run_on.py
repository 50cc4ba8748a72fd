"""Run-on texts: a new question after the answer is cut off, as tables of (text, what is left, why)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leash.grading.extraction import extract
from leash.grading.graders import choice, code, gym, judge, livebench
from leash.grading.run_on import cut_run_on

FIXTURES = Path(__file__).parent.parent / "fixtures" / "grading" / "completions"

# Solutions in the forms that the embedded models write.
WORKED = [
    r"12 + 1 = 13 , 13 - 1 = 12 , 12 + 2 = 14 , 14 - 9 = 5 , \boxed{ 5 }",
    r"\boxed{ 11 }",
    r"2 * 3 = 6 , 6 + 9 = 15 , \boxed{ 2 * 3 + 9 }",
    r"8 - 1 = 7 , 7 * 3 = 21 , \boxed{ ( 8 - 1 ) * 3 }",
    r"\boxed{ 9 + 2 + 3 }",
]
ANSWERS = [
    *WORKED,
    r"So it is $\boxed{\frac{1}{2}}$.",
    "<think> maybe 4 </think> <answer>5</answer>",
    "The answer is 5.",
    "18 - 5 = 13\n#### 13",
    "**Answer:** 42",
]
BEGINNINGS = [
    "\n\nQuestion: what is 1 + 1?\nAnswer: \\boxed{2}",
    "\n\n**Question:** what is 1 + 1?\n**Answer:** 2",
    "\n\nQuestion 2: what is 1 + 1? \\boxed{2}",
    "\n### Question\nwhat is 1 + 1?\n\\boxed{2}",
    "\nQ: What is 1 + 1?\nA: \\boxed{2}",
    "\n\nProblem: what is 1 + 1?\nSolution: \\boxed{2}",
    "\n\n## Problem 3.\nwhat is 1 + 1? \\boxed{2}",
    "\n\nExercise 2. Add 1 and 1. \\boxed{2}",
    "\n\nHuman: what is 1 + 1?\n\nAssistant: \\boxed{2}",
    "\nUser: what is 1 + 1? \\boxed{2}",
    "\n### Instruction:\nAdd 1 and 1.\n### Response:\n\\boxed{2}",
    "<|im_end|>\n<|im_start|>user\nwhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n\\boxed{2}",
    "<|endoftext|>Human: what is 1 + 1? <think> 1 + 1 </think> \\boxed{2}",
    "<|eot_id|><|start_header_id|>user<|end_header_id|> what is 1 + 1? \\boxed{2}",
    "<|user|>\nwhat is 1 + 1? \\boxed{2}",
    "</s> [INST] what is 1 + 1? [/INST] <answer>2</answer>",
    "\n\nYou are an AI assistant. What is 1 + 1? \\boxed{2}",
    "\n\nWhat is 1 + 1? Please reason step by step, and put your final answer within \\boxed{}. It is \\boxed{2}",
]

UNCUT = [
    ("", "nothing"),
    (r"Problem: what is 2 + 3? Solution: \boxed{5}", "the question is restated first"),
    ("Question: what is 2 + 3?\nAnswer: 5", "the question is restated first"),
    ("\n\n### Problem\nWhat is 2 + 3?\n### Solution\n\\boxed{5}", "the question is restated first"),
    ("Let's solve the following.\n\nQuestion: what is 2 + 3?\n\\boxed{5}", "an introduction is no answer"),
    ("Given: 3 apples.\nQuestion: how many? \\boxed{3}", "nor is a restatement"),
    ("We have 3 apples.\nProblem: how many? \\boxed{3}", "a heading needs a marked answer before it"),
    ("1. **Understanding the Problem:**\n - \\boxed{3}", "a heading with other words"),
    ("The answer is 5.\nAccording to the problem: 5 fits.", "a line that ends with the word"),
    ("The answer is 5. Question: is it?", "not at the beginning of a line"),
    ("Question 1: a? Answer: 3\nQuestion 2: b? Answer: 4", "numbered parts"),
    ("<think>It is \\boxed{4}.\nQuestion: is it?\nHuman: yes</think> \\boxed{5}", "thinking"),
    ("It is \\boxed{4}.\nProblem: q\nUser: yes</think> \\boxed{5}", "thinking that the prompt opened"),
    ("<think>It is \\boxed{4}.\n\nQuestion: is it? \\boxed{5}", "thinking that never ends"),
    ("\\boxed{4}\n```\nQuestion: a comment\n```\n\\boxed{5}", "a block of code"),
    ("\\boxed{4}\n\\[\nQ: Some \\to R\n\\]\n\\boxed{5}", "a display formula"),
    ("\\boxed{4}\n$$\nProblem: x\n$$\n\\boxed{5}", "a display formula"),
    ("\\boxed{4} and \\boxed{\nProblem: x}", "a box"),
    ("The answer is <answer>\nQuestion: why?</answer>", "answer tags"),
    ("\\boxed{4}\nQ: V \\to R is a form.", "a name, not a question"),
    ("\\boxed{4}\nQ.E.D.", "the end of a proof"),
    ("Human: hello", "nothing before a turn"),
]


# Written before the patterns were read, which were then fitted to them: answers with what runs on, and whole texts.
RUN_ON = [
    ("The answer is 12.", "\n\nQuestion: A train goes 60 miles. How long?\nAnswer: The answer is 3."),
    ("The answer is 12.", "\n\nQ: What is 3+4?\nA: 7"),
    ("So the result is \\boxed{12}.", "\n\nProblem: Find x if x+1=5.\nSolution: \\boxed{4}"),
    ("So the result is $\\boxed{12}$.", "\n\n## Problem 2\nFind x.\n\n## Solution\n\\boxed{4}"),
    ("#### 12", "\n\nQuestion: Tom has 3 pens. He buys 4.\nAnswer: 3+4=7\n#### 7"),
    ("The answer is 12.", "\n\nHuman: Thanks! Now what is 5*5?\n\nAssistant: The answer is 25."),
    (
        "The answer is 12.",
        "<|im_end|>\n<|im_start|>user\nWhat is 5*5?<|im_end|>\n<|im_start|>assistant\nThe answer is 25.",
    ),
    ("The answer is 12.", "\n<|user|>\nWhat is 5*5?\n<|assistant|>\nThe answer is 25."),
    ("Answer: 12", "\n\nProblem 2:\nWhat is 9*9?\n\nAnswer: 81"),
    ("Answer: 12", "\n\nExercise 5. Compute 8+8.\nAnswer: 16"),
    ("\\boxed{12}", "\n\nUser: What is 8+8?\nAssistant: \\boxed{16}"),
    ("Thus \\boxed{12}", "\n\n### Instruction:\nCompute 7-2.\n\n### Response:\n\\boxed{5}"),
    (
        "The final answer is $12$. I hope it is correct.",
        "\n\nProblem:\nIf $f(x)=x^2$, find $f(3)$.\n\nSolution:\n"
        "$f(3)=9$. Final Answer: The final answer is $9$. I hope it is correct.",
    ),
    ("The answer is 12.", "\n\nQuestion 2: How many legs do 5 dogs have?\nThe answer is 20."),
    (
        "The answer is 12.",
        "\nQ: If there are 3 cars and 2 more arrive, how many?\nA: There are 3. 3+2=5. The answer is 5.",
    ),
    ("The answer is 12.", "\n\n**Question:** What is 2+2?\n**Answer:** 4"),
    ("The answer is 12.", "\n\n**Problem 4.** What is 2+2?\n\n**Solution.** The answer is 4."),
    ("<think>easy</think> \\boxed{12}", "\n\nQuestion: What is 2+2?\n\\boxed{4}"),
    ("<answer>12</answer>", "\n\nUser: Find 3*3.\nAssistant: <think>9</think><answer>9</answer>"),
    (
        "The answer is 12.",
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhat is 1+1?"
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nThe answer is 2.",
    ),
    ("The answer is 12.", "</s><s>[INST] What is 1+1? [/INST] The answer is 2."),
    ("The answer is 12.", "\n\nExample 2: What is the sum of 4 and 9?\nThe answer is 13."),
    ("The answer is 12.", "\n\n---\n\nQuestion: What is the sum of 4 and 9?\nThe answer is 13."),
    ("The answer is 12.", "\n\nNext question: What is the sum of 4 and 9?\nThe answer is 13."),
    ("Hence $x=\\boxed{12}$.", "\n\nTask: Add 4 and 9.\nHence \\boxed{13}."),
]
WHOLE = [
    "Question: What is 6+6?\nAnswer: 6+6 = 12. The answer is 12.",
    "Problem: we need the sum of 5 and 7.\nSolution: the sum is 12. The answer is 12.",
    "Let me restate. Q: how many are left? There are 12-4=8. The answer is 8.",
    "The question: how many apples? 3+4 = 7.\nThe answer is 7.",
    "Part 1: x = 3.\nPart 2: y = 4.\nThe answer is 7.",
    "Step 1: 3+4 = 7\nStep 2: 7*2 = 14\nThe answer is 14.",
    "<think>Problem: find x. Maybe \\boxed{3}?\n\nQuestion: is x positive? yes.</think>\nThe answer is 5.",
    "We use Problem 2 of the sheet.\nIt says x=3, so the answer is 9.",
    "Let P: the point and Q: the other point. The distance is \\boxed{5}.",
    "Case 1: n is even. Then n=2.\nCase 2: n is odd. Then n = 3.\nThe answer is 2.",
    "The user: who pays 3 dollars each for 4 items pays 12.\nAnswer: 12",
    "Answer: 3 + 4 = 7\n\nExplanation: The sum of 3 and 4.\n\nFinal answer: \\boxed{7}",
    "Question 1: what is asked? The total.\nQuestion 2: what do we know? 3 and 4.\nSo the answer is 7.",
    "Let P be (0,0).\nQ: (3,4).\nThe distance PQ is \\boxed{5}.",
    "```python\n# Question: sum\nprint(12)\n```\nThe answer is 12.",
    "First we compute \\boxed{3} for part (a).\n\nProblem (b): now double it: \\boxed{6}.\n",
]


@pytest.mark.parametrize("begin", BEGINNINGS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_first_answer_counts(answer: str, begin: str) -> None:
    assert extract(answer) is not None
    assert extract(answer + begin) == extract(answer)
    assert extract(answer + begin + begin) == extract(answer)
    # Only the question that nothing announces is left, up to its instruction.
    assert cut_run_on(answer + begin).removeprefix(answer).strip() in (
        "",
        "What is 1 + 1? Please reason step by step, and p",
    )


@pytest.mark.parametrize(("text", "why"), UNCUT)
def test_what_is_not_another_question_stays(text: str, why: str) -> None:
    assert cut_run_on(text) == text, why


@pytest.mark.parametrize("text", ANSWERS)
def test_nothing_appended_changes_nothing(text: str) -> None:
    assert cut_run_on(text) == text


def test_an_answer_without_a_mark_counts_before_a_question_but_not_before_a_heading() -> None:
    answer = "The grooming costs 70 dollars."
    assert cut_run_on(f"{answer}\n\nQuestion: next? \\boxed{{2}}") == f"{answer}\n"
    assert extract(f"{answer}\n\nQuestion: next? \\boxed{{2}}") is None
    assert cut_run_on(f"{answer}\n\nProblem: next? \\boxed{{2}}").endswith("\\boxed{2}")


def test_a_restated_question_is_kept_and_the_next_one_is_cut() -> None:
    first = "Problem: 2 + 3?\nSolution: \\boxed{5}"
    assert cut_run_on(f"{first}\n\nProblem: 1 + 1?\nSolution: \\boxed{{2}}") == f"{first}\n"


def test_the_box_of_thinking_counts_if_a_turn_follows_it() -> None:
    assert extract("<think>\\boxed{4}</think>\n\nHuman: more <think></think> \\boxed{7}") == "4"


def test_every_grader_reads_the_first_answer() -> None:
    assert choice.extract("It is **B**\n\nQuestion: which?\nIt is **C**") == "B"
    assert gym.extract("<answer>son</answer>\nUser: and now? <answer>wife</answer>") == "son"
    assert livebench.extract("It is **5**.\n\nQuestion: and now?\nIt is **6**.") == "**5**"
    assert judge.extract("Michio Sugeno\n\nQuestion: Who else?\nAnswer: nobody") == "Michio Sugeno"
    program = "```python\nprint(1)\n```"
    assert code.extract(f"{program}\n\n### Question:\nPrint 2.\n\n```python\nprint(2)\n```") == "print(1)"


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_answers_of_graded_completions_are_unaffected(begin: str) -> None:
    texts = []
    for line in (FIXTURES / "qwen25_3b_instruct_vs_rlft_greedy.jsonl").read_text().splitlines():
        texts += json.loads(line)["code"]
    for line in (FIXTURES / "llama3b_k50_step400.jsonl").read_text().splitlines():
        texts += [drawn["full_model_response"] for drawn in json.loads(line)["completions"]]
    answered = [text for text in texts if extract(text) is not None]
    assert len(answered) > 10
    assert [text for text in texts if cut_run_on(text) != text] == []
    assert [text for text in answered if extract(text + begin) != extract(text)] == []


@pytest.mark.parametrize(("answer", "rest"), RUN_ON)
def test_what_runs_on_is_cut(answer: str, rest: str) -> None:
    assert cut_run_on(answer + rest).rstrip("\n-") == answer
    assert extract(answer + rest) == extract(answer)


@pytest.mark.parametrize("text", WHOLE)
def test_whole_texts_stay(text: str) -> None:
    assert cut_run_on(text) == text
