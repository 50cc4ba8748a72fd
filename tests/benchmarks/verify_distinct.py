r"""The verify stage against a plain loop of math_verify.parse and verify where no two answers are alike.

    python tests/benchmarks/verify_distinct.py

The worst case for a stage that grades each distinct answer once: fractions, roots, sums, points and polynomials, one in
three of them right, each written differently. Texts are short, so that grading is what is measured. Goal: at least 1.8
times the speed.
"""

from __future__ import annotations

from verify_throughput import compare  # type: ignore[import-not-found]  # it stands beside this file

PROBLEMS, SAMPLES, GOAL = 12, 400, 1.8


def main() -> None:
    compare("verify: every answer different", [different(n) for n in range(3, 3 + PROBLEMS)], GOAL)


def different(n: int) -> tuple[str, list[str]]:
    """A gold, and as many texts as there are samples, no two of which give the same answer letter for letter."""
    forms = [
        (
            rf"\frac{{{n}}}{{7}}",
            lambda i: rf"\frac{{{n * i}}}{{{7 * i}}}",
            lambda i: rf"\frac{{{n * i + 1}}}{{{7 * i}}}",
        ),
        (rf"{n}\sqrt{{2}}", lambda i: rf"\frac{{{n * i}\sqrt{{2}}}}{{{i}}}", lambda i: rf"{n + i}\sqrt{{2}}"),
        (f"{n}", lambda i: f"{n + i}-{i}", lambda i: f"{n + i}"),
        (f"({n}, 2)", lambda i: rf"({n}, \frac{{{2 * i}}}{{{i}}})", lambda i: f"({n}, {2 + i})"),
        (f"x^2+{n}", lambda i: f"x^2+{n + i}-{i}", lambda i: f"x^2+{n + i}x"),
    ]
    gold, right, wrong = forms[n % len(forms)]
    answers = [right(i + 1) if i % 3 == 0 else wrong(i + 1) for i in range(SAMPLES)]
    assert len(set(answers)) == SAMPLES
    return gold, [f"So the answer is \\boxed{{{answer}}}" for answer in answers]


if __name__ == "__main__":
    main()
