r"""The `math` grader, as tables of (gold, answer, whether it is correct, why).

Rows marked #n come from issue n of math-verify, which reports a wrong comparison. The expected value is the true one,
even if its maintainers settled for less.
"""

from __future__ import annotations

from typing import Any

import pytest

from leash.grading.graders import math

Row = tuple[str, str, bool, str]

SPELLINGS: list[Row] = [
    ("7", "7", True, "the same"),
    ("7", " 7 ", True, "white space"),
    ("7", "8", False, "another number"),
    ("7", "-7", False, "another sign"),
    ("025", "25", True, "AIME pads with zeros"),
    ("27.0", "27", True, "AMC23 has floats"),
    ("27.0", "27.0001", False, "a whole gold has no tolerance"),
    ("7", "", False, "nothing"),
    ("", "", False, "an empty gold"),
    ("0.5", r"\frac{1}{2}", True, "a decimal and a fraction"),
    ("0.5", ".5", True, "no leading zero"),
    ("0.5", "½", True, "a character"),
    (r"3\frac{1}{2}", "3½", True, "a mixed number in characters"),
    (r"\frac{1}{2}", r"\dfrac12", True, "digits for braces"),
    (r"\frac{9}{19}", r"\frac9{19}", True, "half of the braces"),
    (r"\frac{3}{4}", r"\frac 34", True, "a space"),
    ("-3/2", r"-\frac{3}{2}", True, "a slash"),
    (r"\frac{-1}{3}", r"-\frac{1}{3}", True, "where the sign stands"),
    ("1/2", "2/4", True, "not in lowest terms"),
    ("1/2", "1/3", False, "another fraction"),
    ("137 \\frac{1}{2}", "137.5", True, "a mixed number"),
    (r"1\frac{4}{5}", "9/5", True, "a mixed number"),
    (r"1\frac{4}{5}", "4/5", False, "not a product"),
    ("3.5", "3 1/2", True, "a mixed number without commands"),
    (r"\frac{2}{3}", r"0.\overline{6}", True, "a repeating decimal"),
    (r"\$32,\!348", "32348", True, "currency and thousands"),
    ("58,500", "58500", True, "thousands"),
    ("11,\\! 111,\\! 111,\\! 100", "11,111,111,100", True, "thousands"),
    ("1000000", "1 000 000", True, "thousands by spaces"),
    ("1234", "1{,}234", True, "thousands as LaTeX has them"),
    ("58,500", "58,501", False, "thousands"),
    (r"\$18.90", "18.9", True, "currency"),
    ("5", "5.", True, "the end of a sentence"),
    ("5", "$5$", True, "dollar signs"),
    ("5", r"\(5\)", True, "formula signs"),
    ("5", "**5**", True, "bold"),
    ("5", r"\text{5}", True, "#37: a number as text"),
    ("-2", "−2", True, "a typographer's minus"),
    ("4.5e33", r"4.5 \times 10^{33}", True, "two ways of powers of ten"),
    ("3e8", "3 x 10^8", True, "an x for times"),
    ("1e-5", "10^{-5}", True, "a power alone"),
    ("1.70e4", "1.70e+06", False, "another power"),
    ("1024", "2^10", True, "an exponent without braces"),
]

UNITS: list[Row] = [
    (r"864 \mbox{ inches}^2", "864", True, "a unit left out"),
    ("864", r"864 \text{ square inches}", True, "a unit put in"),
    (r"5.4 \text{ cents}", "5.4", True, "a unit left out"),
    (r"5\text{ cm}", "5 cm", True, "a unit without commands"),
    (r"5\text{ cm}", r"5\text{ m}", False, "a unit of another size"),
    (r"5\text{ cm}", "6 cm", False, "another number"),
    ("27", "27 miles", True, "words"),
    ("6", "6th", True, "an ordinal"),
    ("6", r"6^{\text{th}}", True, "an ordinal"),
    (r"15000 \text{ kcal m}^{-2} \text{yr}^{-1}", "15000", True, "a long unit"),
    (r"4.4677 \times 10^{14} Hz", r"4.4677 \times 10^{14}", True, "hertz"),
    (r"90^\circ", "90", True, "degrees left out"),
    ("90", "90 degrees", True, "degrees in words"),
    (r"\frac{270}7\text{ degrees}", r"\frac{270}7", True, "degrees in words"),
    (r"1950^\circ C", "1950", True, "degrees Celsius"),
    (r"0.003^{\prime \prime}", "0.003", True, "seconds of arc"),
    (r"1", r"\tan 45^\circ", True, "but an angle in degrees is one"),
    (r"10\%", "10", True, "the percent sign left out"),
    (r"10\%", "0.1", True, "its value"),
    ("10", r"10\%", True, "the percent sign put in"),
    ("0.1", r"10\%", True, "its value"),
    ("0.1", "10", False, "neither has a percent sign"),
    ("10", "0.1", False, "neither has a percent sign"),
    ("0.1", r"0.1\%", False, "a thousandth"),
    (r"28\%", "28 percent", True, "#67: in words"),
    (r"28\%", "28", True, "#67: the sign left out"),
    ("20", "2000", False, "Qwen's scorer takes a hundredfold"),
    ("70", "0.7", False, "and a hundredth"),
    ("6m", "6", False, "a variable is no unit"),
    ("2abc", "2", False, "variables are no unit"),
    ("5", "5 million", False, "a number is no unit"),
    ("5", r"5 \text{ or more}", False, "a bound is no unit"),
    ("5", r"\text{Area} = 5", True, "a name in words"),
    ("7", r"7 \text{ hours and 30 minutes}", False, "a unit that goes on with another number"),
    (r"7.5 \text{ hours}", r"7 \text{ hours } 30 \text{ minutes}", True, "two units of one quantity"),
    ("8", r"8 \text{ of them}", True, "what was counted"),
    ("5 square units", "5 cubic units", False, "another power of an unknown unit"),
    ("5 square units", r"5 \text{ units}^2", True, "one power in two ways"),
    ("5 units²", "5 units³", False, "another power of an unknown unit"),
    ("5 apples", "5 oranges", False, "two unknown words"),
    ("5 apples", r"5\text{ apple}", True, "one unknown word"),
    ("5 berries", "5 berry", True, "one unknown word"),
    ("5 apples", "5 ripe apples", True, "a word more"),
    ("5 apples", "5 different apples", True, "a word more"),
    ("5 apples", "5", True, "left out"),
    ("3 miles north", "3 miles south", False, "two directions"),
    ("3 miles north", "3 miles", True, "a direction left out"),
    (r"3 \text{ miles north-east}", r"3 \text{ miles south-west}", False, "directions that are no unit"),
    (r"5\% \text{ increase}", "5% decrease", False, "two directions"),
    ("5% increase", "5%", True, "a direction left out"),
    ("5", "5 thousandths", False, "a fraction"),
    ("0.005", "5 thousandths", True, "a fraction"),
    ("5", r"5\text{ tenths}", False, "a fraction"),
    ("0.5", r"5\text{ tenths}", True, "a fraction"),
    ("5", "5 fifths", False, "a fraction"),
    ("5", "5 grand", False, "a thousand"),
    ("5000", "5 grand", True, "a thousand"),
    ("5", "5 below zero", False, "a sign in words"),
    ("5", "5 negative", False, "a sign in words"),
    ("5", r"5 \text{ doubled}", False, "another number in words"),
    ("5", "5 halved", False, "another number in words"),
    ("5 left", "5 right", False, "two directions"),
    ("noon", "midnight", False, "two times of day"),
    ("5", "5 and a half", False, "two numbers"),
    ("5", "5⅐", False, "a mixed number"),
    (r"5\frac{1}{7}", "5⅐", True, "a mixed number"),
    ("5", "5h30", False, "two units"),
    ("5", "5kg3g", False, "two units"),
    ("12 noon", "12 midnight", False, "two times of day"),
    ("12 noon", "12 p.m.", True, "a time of day in words"),
    ("12 noon", "noon", True, "a time of day in words"),
    ("10 in the morning", "10 in the evening", False, "two times of day"),
    ("10 a.m.", r"10 \text{ in the morning}", True, "a time of day in words"),
    ("10 p.m.", "10 at night", True, "a time of day in words"),
    ("2 a.m.", "2 at night", True, "a time of day in words"),
    ("3:30 PM", "3:30 in the afternoon", True, "a time of day in words"),
    ("10", "10 midnight", False, "no time of day"),
    ("x", r"\sqrt{x^2}", False, "a sign that the root drops"),
    ("|x|", r"\sqrt{x^2}", True, "a sign that the root drops"),
    ("x", "(x^2)^{1/2}", False, "a sign that the power drops"),
    ("x", r"\max(x, -x)", False, "a sign that the maximum drops"),
    ("|x|", r"\max(x, -x)", True, "a sign that the maximum drops"),
    (r"\sqrt{x}\sqrt{y}", r"\sqrt{xy}", True, "roots of what is positive"),
    (r"\sqrt{km}", r"m\sqrt{\frac{k}{m}}", True, "quantities of one sign"),
    (r"\frac{x}{\sqrt{x}}", r"\sqrt{x}", True, "a root of what is positive"),
    (r"\sqrt[3]{x}", "x^{1/3}", True, "a root that has a sign"),
    (r"\sqrt{4x^2+4}", r"2\sqrt{x^2+1}", True, "a factor before a root"),
    (r"\ln(x^2\sqrt{y})", r"2\ln x+\frac{1}{2}\ln y", True, "logarithms"),
    ("bc", "a bc", False, "an article before a product is a factor"),
    (r"|x-1|+|x-2|", r"|2x-3|", False, "equal outside the points between 1 and 2"),
    (r"\lceil x \rceil", r"\lfloor x \rfloor + 1", False, "equal but at whole numbers"),
]

DECIMALS: list[Row] = [
    (r"\frac{1}{3}", "0.3333", True, "four digits that are right"),
    (r"\frac{1}{3}", "0.333", False, "three are not enough"),
    (r"\frac{1}{3}", "0.3334", False, "four of which one is wrong"),
    (r"\frac{1}{12}", "0.0833333333333333", True, "#2"),
    (r"\sqrt{2}", "1.41421", True, "an irrational number"),
    (r"\sqrt{2}", "1.41431", False, "a wrong digit"),
    (r"\sqrt{2}", "1.41421356237309504880", True, "many digits"),
    (r"\sqrt{2}", "1.41421356237309504881", False, "many digits, the last of them wrong"),
    (r"\sqrt{2}", r"\sqrt{2} \approx 1.41", True, "the exact form comes first"),
    ("25", "24.9999", False, "a whole gold has no tolerance"),
    ("1234567", r"1.2346 \times 10^6", False, "a whole gold has no tolerance"),
    ("27.39", "27.391", True, "more digits than the gold shows"),
    ("27.39", "27.4", False, "fewer"),
    ("4.5", "4.53", False, "a gold is exact by default"),
    ("33.3", r"\frac{100}{3}", False, "#2: three digits may be exact"),
    ("33.33", r"\frac{100}{3}", True, "four digits"),
    ("0.3", "0.30", True, "a trailing zero"),
    (r"\frac{1}{3}", r"\frac{1}{3} = 0.33", True, "the exact form goes before the decimal"),
    (r"\frac{10}{3}", r"x = \frac{10}{3} = 3.33", True, "the exact form goes before the decimal"),
    (r"\frac{1}{2}", r"\frac{1}{2} \text{ or } 0.5", True, "one answer in two ways"),
    ("1.41421", "1.41421 + 3i", False, "not real"),
    (r"2^{0.123456}", r"e^{0.123456 \ln 2}", True, "a decimal exponent"),
    ("1.0", "1", True, "a trailing zero"),
]

ROUNDED: list[Row] = [
    ("24.4", "24.35", True, "rounds to the gold"),
    ("24.4", "24.34", False, "rounds to 24.3"),
    ("1.6", "1.61", True, "rounds to the gold"),
    ("1.6", "1.64", False, "rounds to the gold, but is off by more than a hundredth"),
    ("3e6", "2.6e6", False, "one digit is too coarse"),
    ("4.6e-24", r"4.57 \times 10^{-24} \, \text{m}", True, "rounds to the gold"),
    ("33.3", r"\frac{100}{3}", True, "#2"),
    ("100", r"5\sqrt{399}", False, "a whole gold is exact"),
    ("0.264", "0.265", False, "another last digit"),
]

FALSE_FRIENDS: list[Row] = [
    ("0", "3*x-1*y+13=0", False, "#60: an equation is not its right side"),
    ("3*x-1*y+13=0", "3x + 4y + 14=0", False, "#60"),
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}", False, "#14: small is not equal"),
    (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}", False, "#14"),
    (r"\frac{1}{2^{99}}", r"2^{-99}", True, "though this is"),
    (r"e^{-200}", r"e^{-201}", False, "small and irrational"),
    ("n=2, 3, 4", "n=1, 2, 3", False, "#14"),
    ("D = (0, 1)", "D = (0, 1.5)", False, "#14"),
    (r"F_n = \sum_{k=0}^{n-1} F_k F_{n-k-1}", r"F_n = \sum_{k=0}^{n-2} F_k F_{n-k-2}", False, "#14"),
    (r"19, 46, \text{ and } 82", "21, 36, and 82", False, "#14"),
    (r"19, 46, \text{ and } 82", "82, 19 and 46", True, "though this is"),
    (r"\frac{2^{2005}+1}{3 \cdot 2^{2006}}", r"\frac{1}{3 \cdot 2^{2006}}", False, "#14"),
    (r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{\mathrm{e}}", False, "#14"),
    (r"1 - \frac{1}{\mathrm{e}}", r"\frac{e-1}{e}", True, "though this is"),
    (r"\pm 2021", "2021", False, "#14: half of the answer"),
    (r"\pm 2021", "-2021, 2021", True, "all of it"),
    ("12:00", "1:00", False, "#14"),
    ("6:00 PM", "6:00 p.m.", True, "a time"),
    (r"1, 2, \ldots, n", r"1, 3, 5, \ldots, 2n-1", False, "#14"),
    (r"1:2:3:\ldots", r"1:4:9:\ldots", False, "#14"),
    ("4", r"4\sqrt(2)", False, "#41: nothing is left out"),
    (r"4\sqrt{2}", r"4\sqrt(2)", True, "#41: and it can be read"),
    ("f(x) = 0", r"\forall x>0, f(x) = 0", False, "#64"),
    (r"\frac{1}{\sqrt{n}}", r"\sqrt{1/n}", True, "#64"),
    (r"\frac{x^2}{4}+\frac{y^2}{3}=1", r"\frac{x^2}{16}+\frac{y^2}{12}=1", False, "#40"),
    (r"Y(x)=-x+C+\frac{D}{x}", r"Y(x)=A+\frac{B}{x}-x", False, "#75: the letters may not be constants"),
    ("1331 and 1728", "1728", False, "#47: half of the answer"),
    ("no", "on", False, "words are no products"),
    ("1", "1 apple or 2", False, "two answers"),
    ("1", r"\frac{\ln 1}{\ln 1}", False, "undefined expressions equal nothing"),
    ("I(0) e^{-t}", "0", False, "I(0) is not I times 0"),
    ("204_5", "204_6", False, "another base"),
    ("x=5", "2x=10", False, "not solved"),
    ("x=2", "y=2", False, "another line"),
    ("10^{1000}", "10^{1000}+1", False, "a whole number keeps all its digits"),
    (r"\sqrt{2}", r"\sqrt{2}+10^{-30}", False, "close is not equal"),
    (r"\lfloor n/2 \rfloor", r"\lfloor n/3 \rfloor", False, "equal here and there"),
    ("x" * 5000, "x" * 5001, False, "too long to be read"),
    ("(" * 500 + "1", "1", False, "too deep to be read"),
]

FORMS: list[Row] = [
    (r"\sqrt{12}", r"2\sqrt{3}", True, "a root"),
    (r"\sqrt{12}", "2sqrt(3)", True, "a root without commands"),
    ("7", r"\sqrt{49}", True, "a root that is whole"),
    (r"5 \sqrt[3]{4}", r"5 \cdot 4^{1/3}", True, "a cube root"),
    (r"\frac{8}{\sqrt[3]{7}}", r"\frac{8 \sqrt[3]{49}}{7}", True, "a denominator made rational"),
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}", True, "a denominator made rational"),
    ("e^{16} - 1", "-1 + exp(16)", True, "#69"),
    (r"\dfrac{\pi}{2}", "pi/2", True, "#69"),
    ("14 - i", "14.0 + -1.0i", True, "#69"),
    (r"-2\pi", "-2*pi", True, "#69"),
    (r"O(\log \log n)", "Theta(log log n)", False, "#69: a bound from above is not one from both sides"),
    (r"\frac{x+2}{7}", r"\frac{x}{7}+\frac{2}{7}", True, "#2"),
    (r"\tan^2(y)+1", r"\sec^2(y)", True, "#2"),
    (
        r"-\frac{2(x^2+6)}{9(x^2-2)\sqrt[3]{x^2-2}^2}",
        r"-\frac{8x^2}{9(x^2-2)^{5/3}}+\frac{2}{3(x^2-2)^{2/3}}",
        True,
        "#2",
    ),
    ("x^2+2x+1", "(x+1)^2", True, "a polynomial"),
    ("x^2+2x+1", "1+2x+x^2", True, "in another order"),
    ("x^2+2x+1", "(y+1)^2", False, "in another letter"),
    ("x / 2-1 / 4+c e^{-2 x}", r"y = \frac{1}{2} x - \frac{1}{4} + C e^{-2x}", True, "a constant in capitals"),
    ("R r^2", "r R^2", False, "a gold that tells capitals from small letters"),
    (r"\cot x", r"\cotx", True, "a command that ran into its argument"),
    (r"\arcsin(1.3\sin\theta_w)", r"\sin^{-1}(1.3 \sin(\theta_{w}))", True, "the arc by its other name"),
    ("np.arcsin(10/13)", r"\arcsin\left(\frac{1}{1.3}\right)", True, "a gold of Minerva's"),
    (r"\frac{e^{2 i t}}{2+2 i}+C e^{-2 t}", r"\frac{1 - i}{4} e^{2it} + \frac{C}{e^{2t}}", True, "complex"),
    (
        r"x_{0} \cos (\omega t)+\dot{x}_{0} \sin (\omega t) / \omega",
        r"x_0\cos(\omega t)+\frac{\dot{x}_0}{\omega}\sin\omega t",
        True,
        "a dot",
    ),
    (r"\lambda_{\text{red}} / \sqrt{2}", r"\frac{\lambda_{red}}{\sqrt 2}", True, "a name as text"),
    (r"\frac{d !}{2 k(d-k) !}", r"\binom{d}{k} \frac{(k-1)!}{2}", True, "factorials"),
    (r"\frac{d !}{2 k(d-k) !}", r"\binom{d}{k} \frac{k!}{2}", False, "factorials"),
    (r"\lceil n / 2\rceil+1", r"\lfloor \frac{n+1}{2} \rfloor + 1", True, "for whole numbers"),
    (r"-\log_{10} 250", r"-\log 250", True, "a logarithm without a base"),
    (r"\ln 2", r"\log 2", True, "a logarithm without a base"),
    (r"\ln 2", r"\log_2 2", False, "a logarithm with a base"),
    (r"2^{1009}", r"2 \cdot 2^{1008}", True, "large"),
    (r"2^{1009}", r"2 \cdot 2^{1007}", False, "large"),
    (r"\frac{100!}{2^{50}}", r"100! \cdot 2^{-50}", True, "large"),
    (r"\sum_{k=1}^{10} k", "55", True, "by math-verify"),
    (r"\sum_{k=1}^{10} k", "54", False, "by math-verify"),
    ("2516_8", "2516_{8}", True, "a numeral"),
    ("2516_8", "2516", True, "the base is in the question"),
    (r"\text{Evelyn}", "Evelyn", True, "a name"),
    (r"\text{Evelyn}", "evelyn", True, "a name"),
    (r"\text{Evelyn}", "Navin", False, "another name"),
    (r"\weird{3 x}", r"\weird{3x}", True, "unknown commands are compared as text"),
    (r"\weird{X}", r"\weird{x}", False, "unknown commands are compared as text"),
    (r"\text{(C)}", "C", True, "an option"),
    (r"\text{(C)}", "(B)", False, "another option"),
    ("ab", r"a \cdot b", True, "a product"),
]

EQUATIONS: list[Row] = [
    ("x=5", "5", True, "the name left out"),
    ("5", "x = 5", True, "the name put in"),
    ("x=5", "5 = x", True, "sides swapped"),
    ("x^2+1=x", "x = x^2 + 1", True, "an equation for x is not solved"),
    (r"\boxed{5}", "5", True, "a gold in its box"),
    ("204", r"180 + 24 = 204", True, "a sum with its value"),
    ("y = 2x + 3", "2x+3", True, "the name left out"),
    ("y = 2x + 3", "2x - y + 3 = 0", True, "the same line"),
    ("y = 2x + 3", "y = 2x - 3", False, "another line"),
    ("f(x)=x^2", "x^2", True, "the name left out"),
    ("2x+4y-3=0", "y = -1/2*x + 3/4", True, "#26"),
    ("34x+45y-20z+100=0", "-34x-45y+20z-100=0", True, "#2"),
    ("5x - 7y + 11z + 4 = 0", "5x - 7y + 11z + 5 = 0", False, "another plane"),
    ("MR=SRMC", "SRMC = MR", True, "sides swapped"),
    (r"\frac{dx}{dt} = kx - a", r"a + \frac{dx}{dt} = kx", True, "a differential equation"),
]

COLLECTIONS: list[Row] = [
    ("(1,2)", "(1, 2)", True, "a pair"),
    ("(1,2)", "(2, 1)", False, "another order"),
    ("(1,2)", "1, 2", True, "without parentheses"),
    ("(2,251,252)", r"(2,\,251,\,252)", True, "thin spaces"),
    (r"(1,\frac{9}{2})", "(1,4.5)", True, "#2"),
    ("(3,2)", "(x, y) = (3, 2)", True, "with names"),
    ("(3,2)", "y = 2, x = 3", True, "each by its name"),
    ("(3,2)", "y = 3, x = 2", False, "each by its name"),
    ("3, 5, 7", "7, 5, 3", True, "a list has no order"),
    ("3, 5, 7", "3, 5", False, "one is missing"),
    ("3, 5", "3, 5, 7", False, "one too many"),
    ("1,-2", r"x = -2 \text{ or } x = 1", True, "in words"),
    (r"1 \pm \sqrt{19}", r"1-\sqrt{19}, 1+\sqrt{19}", True, "plus and minus"),
    (r"\{1\pm\sqrt{5},-2\}", r"\{-2, 1+\sqrt{5}, 1-\sqrt{5}\}", True, "a set"),
    (r"\{1,2\}", "(1,2)", False, "a set is no pair"),
    ("(312,123,231)", "(312, 123, 231)", True, "no thousands in a triple"),
    ("[-2,7]", r"x \in [-2,7]", True, "an interval"),
    ("[-2,7]", r"-2 \le x \le 7", True, "#10: an interval by its bounds"),
    (r"-2 \le x \le 7", "[-2,7]", True, "#10, #25: and back"),
    ("[-2,7]", r"-2 < x \le 7", False, "open"),
    ("[-2,7]", "(-2,7)", False, "open"),
    (r"(-\infty,-5)", "k < -5", True, "#71: a half line"),
    (r"k \geqslant 2", r"[2,\infty)", True, "#71: a half line"),
    ("t(0,4]", "(0,4]", True, "a gold of OlympiadBench's"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(3,\infty)\cup(-\infty,2)", True, "a union"),
    (r"(-\infty, 2) \cup (3, \infty)", r"x < 2 \text{ or } x > 3", True, "a union in words"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(-\infty, 2) \cup [3, \infty)", False, "another union"),
    (r"(-\infty, 0) \cup\{1\}$.", r"(-\infty,0) \cup \{1\}", True, "with a point"),
    (r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}", r"\begin{pmatrix}-\frac13\\\frac23\end{pmatrix}", True, "a vector"),
    (r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}", r"\left(-\frac13, \frac23\right)", True, "a vector in a line"),
    (
        r"\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix}",
        r"\begin{bmatrix} -1 & 0 \\ 0 & -1 \\ \end{bmatrix}",
        True,
        "#2",
    ),
    (
        r"\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix}",
        r"\begin{pmatrix} -1 & 0 \\ 0 & 1 \end{pmatrix}",
        False,
        "a matrix",
    ),
]

MULTIPLE: list[Row] = [
    ("$69$,$84$", "84, 69", True, "in any order"),
    ("$69$,$84$", "69", False, "one is missing"),
    ("$100,\\frac{1}{100}$", r"0.01 \text{ and } 100", True, "in words"),
    ("$10^{3},10$", "(1000, 10)", True, "in parentheses"),
    ("$10^{3},10$", "(10, 1000)", False, "which have an order"),
    ("110,111", "111, 110", True, "commas separate answers, not thousands"),
    ("2400, 1350, 864", "864, 1,350, 2,400", True, "unless there are others that do"),
    ("$(1,8,19), (2,7,13)$", "(2,7,13),(1,8,19)", True, "triples"),
    ("$(1,8,19), (2,7,13)$", "(2,13,7),(1,8,19)", False, "triples have an order"),
    ("1,-1,7,-7", r"\pm 1, \pm 7", True, "plus and minus"),
    (r"$\angle B E A_{1}=90$,$\angle A E B_{1}=90$", r"90^\circ, 90^\circ", True, "named"),
    ("$f(x)=x,f(x)=-x$", "f(x) = x", False, "one is missing"),
    ("$221,$8$", "221, 8", True, "a stray sign"),
]


def named(meta: dict[str, Any], rows: list[Row]) -> list[Any]:
    return [pytest.param(meta, *row, id=f"{row[3]}: {row[0][:30]} | {row[1][:30]}") for row in rows]


@pytest.mark.parametrize(
    ("meta", "gold", "answer", "right", "why"),
    [
        *named({}, SPELLINGS + UNITS + DECIMALS + FALSE_FRIENDS + FORMS + EQUATIONS + COLLECTIONS),
        *named({"rounded": True}, ROUNDED),
        *named({"multiple": True}, MULTIPLE),
        *named({"unit": "%", "error": "1e-1"}, [("4.2", "4.19", True, ""), ("4.2", r"4.3\%", True, "")]),
        *named({"unit": "%", "error": "1e-1"}, [("4.2", "4.4", False, ""), ("4.2", "0.0", False, "off by 4.2")]),
        *named({"unit": "km/h"}, [("85", r"85 \text{ km/h}", True, ""), ("85", r"85 \text{ m/s}", False, "")]),
        *named({"unit": "$cm^2$"}, [("15", r"15 \text{ cm}^2", True, ""), ("15", "15 cm^3", False, "a volume")]),
        *named({"unit": "minutes"}, [("90", r"1.5 \text{ hours}", True, "converted"), ("90", "90 hours", False, "")]),
        *named(
            {"unit": r"^{\circ}"}, [("30", r"30^\circ", True, ""), ("30", r"30 \text{ rad}", False, "another unit")]
        ),
        *named({"unit": None, "error": None}, [("85", "85", True, "nulls")]),
    ],
)
def test_an_answer_is_correct_if_it_equals_the_gold(
    meta: dict[str, Any], gold: str, answer: str, right: bool, why: str
) -> None:
    assert math.grade(answer, [gold], meta) == float(right), why


def test_any_of_several_golds_is_accepted() -> None:
    assert math.grade("10/13", ["0.7", r"\frac{1}{1.3}"], {}) == 1.0
    assert math.grade("10/13", ["0.7", "0.8"], {}) == 0.0


TOWERS = [
    r"\dfrac{5^{\left(5^{\left(5^{\left(5^5\right)}\right)} - 4\right)} - 5}{16}",  # math-verify's issue 65
    r"9^{9^{9^{9^{9}}}}",
    "9^9^9^9^9",
    r"999999999!",
    r"(((9!)!)!)!",
    r"1e999999999",
    r"\binom{10^{9}}{10^{8}}",
    r"2^{10^{10^{10}}}",
    r"\sqrt[1000000007]{10^{99999}}",
    r"\sum_{k=1}^{10} 9^{9^{9^{9}}}",
    "-" * 900 + "1",
    "1" + "+1" * 400,
    "x" * 900,
    r"{" * 400 + "1" + "}" * 400,
    r"\frac" * 200,
    "{@Neillier 1276915 4951077 {1,1-3-10);5个_GENERAL2。 _HEADERS1 Orchestra}",  # the same issue
]


@pytest.mark.parametrize("tower", TOWERS)
def test_a_number_too_large_to_write_out_is_rejected_without_computing_it(tower: str) -> None:
    assert math.grade(tower, ["92.5857658508735"], {}) == 0.0
    assert math.grade("17", [tower], {}) == 0.0
    assert math.canonical(tower, {})


@pytest.mark.parametrize(
    ("answers", "meta"),
    [
        (
            ["1/2", "0.5", r"\frac{1}{2}", r"\dfrac{2}{4}", "½", "x = 0.50", r"\frac12 \text{ cm}", r"$\frac{1}{2}$."],
            {},
        ),
        ([r"\sqrt{12}", r"2\sqrt{3}", "2 sqrt(3)", r"\frac{6}{\sqrt{3}}"], {}),
        (["7", r"\sqrt{49}", "07", "7.0", "14/2"], {}),
        (["2, 1", "1, 2", r"x = 1 \text{ or } x = 2", "1,2"], {"multiple": True}),
        (["(1, 1/2)", "(1,0.5)", r"\left(1, \frac{1}{2}\right)"], {}),
        (["2n+1", "n + n + 1", "1+2n"], {}),
        (["Evelyn", r"\text{Evelyn}", "evelyn"], {}),
        ([r"[2, \infty)", r"x \ge 2"], {}),
        (["e^{i t}", "exp(i t)"], {}),
        (["Ce^{t}", "c e^t"], {}),
        (["x^2+y^2=25", "25 = y^2 + x^2", r"\frac{x^2+y^2}{25} = 1"], {}),
    ],
)
def test_equal_answers_are_one_class(answers: list[str], meta: dict[str, Any]) -> None:
    assert len({math.canonical(answer, meta) for answer in answers}) == 1


def test_different_answers_are_different_classes() -> None:
    numbers = [
        "1/2",
        "1/3",
        "0.3333",
        r"\sqrt{2}",
        "1.41421356",
        r"\frac{1}{2^{99}}",
        r"\frac{1}{2^{98}}",
        "2006!",
        "2007!",
    ]
    symbols = ["2n", "2m", "2n+1", "x", r"\sqrt{x^2}", "no", "on", r"\lfloor n/2 \rfloor", r"\lfloor n/3 \rfloor"]
    answers = [*numbers, *symbols, "(1, 2)", "[1, 2]", "2, 1"]
    assert len({math.canonical(answer, {}) for answer in answers}) == len(answers)


def test_the_class_of_a_number_is_its_value() -> None:
    assert math.canonical("2/4", {}) == "1/2"
    assert math.canonical("$1,234$", {}) == "1234"
    assert math.canonical(r"\sqrt{2}", {}) == "1.4142135623730950488"
    assert math.canonical("3 - 4i", {}) == "3.0 + -4.0i"
    assert math.canonical("2, 1", {}) == "1, 2"


@pytest.mark.parametrize(
    ("gold", "meta", "complaint"),
    [
        (["7"], {}, None),
        ([r"\text{Evelyn}"], {}, None),
        (["4.2"], {"error": "1e-1"}, None),
        ([], {}, "there is no gold"),
        (["7", " "], {}, "a gold is empty"),
        ([r"\frac{1}{2"], {}, r"the braces of the gold '\frac{1}{2' don't match"),
        (["4.2"], {"error": "a little"}, "its error 'a little' is not a number"),
        ([r"\weird{3}"], {}, r"the gold '\weird{3}' is neither words nor mathematics that can be read"),
    ],
)
def test_a_gold_that_cannot_be_graded_is_reported(gold: list[str], meta: dict[str, Any], complaint: str | None) -> None:
    assert math.complaint(gold, meta) == complaint


def test_a_gold_that_is_too_long_is_reported() -> None:
    assert "has more than 1000 characters" in str(math.complaint(["1" * 1001], {}))
