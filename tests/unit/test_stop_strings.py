"""Where a stop string ends a completion: outside formulas and boxes, at the same place in every engine."""

from __future__ import annotations

import random

import pytest

from leash.engines.stop_strings import STOP_STRING, StopWatcher, find_stop, split_at_stop

STOP = "Q:"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("so 7. Q: What is", "so 7. "),
        ("Q: first of all", ""),
        ("no stop string here", None),
        ("", None),
        ("$x Q: y$ and Q: z", "$x Q: y$ and "),
        ("$$\nx Q: y\n\n z$$ Q:", "$$\nx Q: y\n\n z$$ "),
        (r"\(x Q: y\) Q:", r"\(x Q: y\) "),
        ("\\[\nx Q: y\n\\] Q:", "\\[\nx Q: y\n\\] "),
        (r"\\(x Q: y\\) Q:", r"\\(x Q: y\\) "),  # doubled backslashes
        (r"\\[x Q: y\\] Q:", r"\\[x Q: y\\] "),
        (r"\[a \\[2pt] Q: b \\] Q: \] Q:", r"\[a \\[2pt] Q: b \\] Q: \] "),  # `\\[` and `\\]` are line breaks here
        (r"\[a \\\] Q:", r"\[a \\\] "),  # a line break just before the end
        (r"\begin{align} Q: \end{align} Q:", r"\begin{align} Q: \end{align} "),
        (r"\begin{a}\begin{a} Q: \end{a} Q: \end{a} Q:", r"\begin{a}\begin{a} Q: \end{a} Q: \end{a} "),
        (r"\begin{a} \end{b} Q: \end{a} Q:", r"\begin{a} \end{b} Q: \end{a} "),
        ("$\\begin{cases} a \\\\\n Q: \\end{cases}$ Q:", "$\\begin{cases} a \\\\\n Q: \\end{cases}$ "),
        (r"\boxed{Q: {Q:} \} Q: } Q:", r"\boxed{Q: {Q:} \} Q: } "),
        (r"\boxed {Q:} Q:", r"\boxed {Q:} "),
        (r"$\boxed{\text{a $x$ Q: b}}$ Q:", r"$\boxed{\text{a $x$ Q: b}}$ "),
        (r"\frac{Q:}{2}", r"\frac{"),  # a command is no formula
        ("$5 and $6 Q:", "$5 and $6 "),  # prices
        ("It costs $5. Q:", "It costs $5. "),
        ("It costs $5.\nQ: $x$", "It costs $5.\n"),
        (r"\$x Q: y\$", r"\$x "),
        (r"$a \$ Q: b$ Q:", r"$a \$ Q: b$ "),
        ("$a\nQ: b$", "$a\n"),  # one dollar formula has one line
        ("$x$$y Q: z$ Q:", "$x$$y Q: z$ "),
        ("never closed $$x Q:", "never closed $$x "),
        (r"never closed \[x Q: $y Q: z$", r"never closed \[x "),
        (r"never closed \boxed{7 Q:", r"never closed \boxed{7 "),
        (r"never closed \begin{align} Q:", r"never closed \begin{align} "),
        (r"closed \) before it opens \( Q: \) Q:", r"closed \) before it opens \( Q: \) "),
        ("$x$Q:", "$x$"),  # right after a formula
        ("$Q:$", None),
        ("Q:$x$", ""),
    ],
)
def test_a_stop_string_counts_outside_formulas_and_boxes(text: str, kept: str | None) -> None:
    place = find_stop(text, [STOP])
    assert (None if place is None else text[:place]) == kept


def test_the_stop_string_that_is_complete_first_counts() -> None:
    """So the text is the same whether the rule is applied while it is drawn or afterwards."""
    assert find_stop("abcd", ["abcd", "c"]) == 2
    assert find_stop("abcd", ["bc", "c"]) == 1
    assert find_stop("aaa", ["aa"]) == 0


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("so 7 Q:", 5),
        ("$x Q:", None),  # the dollar may be closed
        ("$5. Q: y", None),
        ("$5. Q: y\n", 4),  # the line is over
        ("$x$ Q:", 4),
        (r"\[x Q:", None),
        ("\\[x\n\nQ:", None),
        (r"\boxed{7 Q:", None),
        (r"\begin{align} Q:", None),
        (r"\boxed Q:", 7),
    ],
)
def test_while_it_is_drawn_a_stop_string_in_an_open_formula_waits(text: str, place: int | None) -> None:
    assert find_stop(text, [STOP], final=False) == place


PIECES = ["$", "$", "$$", "\\", "\\(", "\\)", "\\[", "\\]", "\\\\[", "\\\\]", "\\boxed", "{", "}", "\\boxed{", "\\{"]
PIECES += ["\\begin{a}", "\\end{a}", "\\begin", "\\end{b}", "\n", " ", "1", "x", "Q", "Q:", ":", "ed", "gi", "(", "]"]


@pytest.mark.parametrize(
    "stops", [["Q:"], ["x"], ["$"], ["\nQ", "Q:x", "1 "], ["ed", "x]", "\\"], ["}", "oxe", "n{"], ["(", " x"]]
)
def test_what_is_drawn_later_never_moves_the_cut(stops: list[str]) -> None:
    """The first prefix that ends a completion is cut where the whole text is. Random texts full of delimiters."""
    pieces = random.Random(repr(stops))
    seen = {True: 0, False: 0}
    for _ in range(3000):
        text = "".join(pieces.choices(PIECES, k=pieces.randint(1, 12)))
        prefixes = (find_stop(text[:end], stops, final=False) for end in range(len(text) + 1))
        while_drawn = next((place for place in prefixes if place is not None), None)
        whole = find_stop(text, stops)
        if while_drawn is not None:
            assert while_drawn == whole, text
        seen[while_drawn is not None] += whole is not None
    assert seen[True] > 20  # stopped while it was drawn


def test_the_watcher_sees_what_the_rule_sees() -> None:
    """One character at a time, and a few at a time. It may notice a token late, but never cuts elsewhere."""
    pieces, stops = random.Random(0), ["Q:", "x"]
    noticed = {True: 0, False: 0}
    for _ in range(2000):
        text = "".join(pieces.choices(PIECES, k=12))
        for step in (1, 3):
            watcher = StopWatcher(stops)
            ends = [*range(1, len(text), step), len(text)]
            end = next((end for end in ends if watcher.reached(text[:end])), None)
            exact = next((end for end in ends if find_stop(text[:end], stops, final=False) is not None), None)
            assert end is None or (exact is not None and exact <= end)
            if end is not None:
                assert find_stop(text[:end], stops) == find_stop(text, stops)
            noticed[end == exact] += 1
    assert noticed[False] < 0.01 * noticed[True]


def test_text_and_tail_are_the_whole_text() -> None:
    assert split_at_stop("so 7.\nQ: more", "length", ["\nQ:"]) == ("so 7.", "\nQ: more", STOP_STRING)
    # `stop` stays, since scoring adds an end-of-text token to such completions, and one was drawn.
    assert split_at_stop("so 7.\nQ: more", "stop", ["\nQ:"]) == ("so 7.", "\nQ: more", "stop")
    assert split_at_stop("so 7.", "length", ["\nQ:"]) == ("so 7.", None, "length")
    assert split_at_stop("so 7.", "stop", []) == ("so 7.", None, "stop")


@pytest.mark.parametrize(
    "unit", ["\\", "$", "$5 ", "\\(", "\\[\\(", "\\boxed{", "{", "\\begin{a}", "\\end{a}", "\\boxed ", "x", "$5 \n"]
)
def test_degenerate_texts_take_no_quadratic_time(unit: str) -> None:
    """A text of 60,000 characters, as a model in a loop writes it: minutes if the time were quadratic."""
    text = unit * (60_000 // len(unit)) + "Q:"
    find_stop(text, [STOP], final=False)
    assert find_stop(text, [STOP]) == len(text) - 2


def test_ends_of_environments_that_never_began_cost_little() -> None:
    """Quadratic time would be seconds here."""
    text = "\\begin{a}" * 6000 + "\\end{b}" * 6000 + "\nQ:"
    assert find_stop(text, ["\nQ:"]) == len(text) - 3


def test_a_stop_string_that_waits_for_long_is_still_noticed() -> None:
    """The watcher looks at the whole text less often then, but the cut is the same."""
    watcher, text = StopWatcher(["\nQ:"]), "$$"
    for _ in range(2000):
        text += "x\nQ: y "
        assert not watcher.reached(text)
    place = len(text) + len("$$ so 7.")
    text += "$$ so 7.\nQ: "
    looks = 0
    while not watcher.reached(text):
        text, looks = text + "more ", looks + 1
    assert find_stop(text, ["\nQ:"]) == place
    assert looks * len("more ") < 0.06 * place
