r"""Units: what "km/h", "square feet" and "°C" say, as a factor and a dimension.

    parse_units(r"\text{ km/h}")         ->  one unit: 5/18 m s^-1
    parse_units("pounds")                ->  two units: of mass and of money
    parse_units("square apples")         ->  a word that is no unit, squared: have_same_words compares such words
    parse_units(r"\text{x}")             ->  (): a letter that is no unit

A quantity is its value times its unit. Two quantities with units of different dimensions are different; with units of
one dimension they are compared after conversion. What words that are no unit say is not known: the quantity is the same
only if the words are, or if one side leaves them out. Symbols have their case (mm, Mm), names have not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import islice, product
from operator import mul

MAX_UNIT_CHARS = 80
MAX_READINGS = 8
MAX_POWER = 12

Dimension = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    factor: Fraction = Fraction(1)
    dimension: Dimension = ()
    pi: int = 0  # a degree is pi/180
    offset: Fraction = Fraction(0)  # of a temperature, after the factor
    is_complete: bool = True  # False if it has words that are no unit, such as "people per day"
    words: Dimension = ()  # those words with their powers

    def __mul__(self, other: Unit) -> Unit:
        dimension, words = _add_powers(self.dimension, other.dimension), _add_powers(self.words, other.words)
        complete = self.is_complete and other.is_complete
        return Unit(self.factor * other.factor, dimension, self.pi + other.pi, is_complete=complete, words=words)

    def __pow__(self, power: int) -> Unit:
        if power == 1:
            return self
        dimension, words = (tuple((base, own * power) for base, own in part) for part in (self.dimension, self.words))
        return Unit(self.factor**power, dimension, self.pi * power, is_complete=self.is_complete, words=words)


def _add_powers(first: Dimension, second: Dimension) -> Dimension:
    powers = dict(first)
    for base, power in second:
        powers[base] = powers.get(base, 0) + power
    return tuple(sorted((base, power) for base, power in powers.items() if power))


def have_same_words(first: Sequence[Unit], second: Sequence[Unit]) -> bool:
    """Return whether the unknown words of two units agree in one reading, or one side has no others than the other."""
    sides = ([set(unit.words) for unit in units] for units in (first, second))
    return any(own <= other or other <= own for own, other in product(*sides))


def read_words(text: str) -> Unit:
    """Return a text as a unit of unknown words, whatever it says."""
    for pattern, replacement in _COMMANDS:
        text = pattern.sub(replacement, text)
    words = re.findall(r"[^\W\d_]{2,}", text)
    return reduce(mul, (_read_word(word) for word in words[:MAX_UNIT_CHARS]), Unit())


def _read_word(name: str) -> Unit:
    """Return a word that is no unit, in the singular. What says nothing about the quantity is left out."""
    word = name.lower()
    if word in _REMARKS:
        return Unit(is_complete=False)
    if len(word) > 3 and not word.endswith("ss"):
        word = word.removesuffix("s").removesuffix("e")
        word = f"{word[:-1]}i" if word.endswith("y") else word
    return Unit(is_complete=False, words=((_PLURALS.get(word, word), 1),))


_REMARKS = frozenset(
    (
        *(
            "the",
            "an",
            "of",
            "in",
            "total",
            "each",
            "altogether",
            "overall",
            "different",
            "distinct",
            "possible",
            "such",
        ),
        *("exactly", "only", "about", "long", "wide", "tall", "high", "deep", "old", "away", "apart"),
    )
)
_PLURALS = {"peopl": "person", "persons": "person", "men": "man", "women": "woman", "children": "child"}


def _unit(factor: str, *powers: tuple[str, int], pi: int = 0, offset: str = "0") -> Unit:
    return Unit(Fraction(factor), tuple(sorted(powers)), pi, Fraction(offset))


_LENGTH, _MASS, _TIME, _CURRENT, _HEAT = ("m", 1), ("kg", 1), ("s", 1), ("A", 1), ("K", 1)
_FORCE = (("kg", 1), ("m", 1), ("s", -2))
_ENERGY = (("kg", 1), ("m", 2), ("s", -2))
_POWER = (("kg", 1), ("m", 2), ("s", -3))
_PRESSURE = (("kg", 1), ("m", -1), ("s", -2))
_VOLTAGE = (("kg", 1), ("m", 2), ("s", -3), ("A", -1))

# symbols | names, and the unit. A name has its plural, too.
_SI: list[tuple[str, str, Unit]] = [  # with prefixes
    ("m", "meter metre", _unit("1", _LENGTH)),
    ("g", "gram gramme", _unit("1/1000", _MASS)),
    ("s", "second", _unit("1", _TIME)),
    ("A", "ampere amp", _unit("1", _CURRENT)),
    ("K", "kelvin", _unit("1", _HEAT)),
    ("mol", "mole", _unit("1", ("mol", 1))),
    ("cd", "candela", _unit("1", ("cd", 1))),
    ("Hz", "hertz", _unit("1", ("s", -1))),
    ("N", "newton", _unit("1", *_FORCE)),
    ("J", "joule", _unit("1", *_ENERGY)),
    ("W", "watt", _unit("1", *_POWER)),
    ("Wh", "", _unit("3600", *_ENERGY)),
    ("eV", "electronvolt", _unit("1.602176634e-19", *_ENERGY)),
    ("cal", "calorie", _unit("4.184", *_ENERGY)),
    ("Pa", "pascal", _unit("1", *_PRESSURE)),
    ("bar", "bar", _unit("100000", *_PRESSURE)),
    ("C", "coulomb", _unit("1", ("A", 1), ("s", 1))),
    ("V", "volt", _unit("1", *_VOLTAGE)),
    ("Ω", "ohm", _unit("1", ("kg", 1), ("m", 2), ("s", -3), ("A", -2))),
    ("F", "farad", _unit("1", ("kg", -1), ("m", -2), ("s", 4), ("A", 2))),
    ("T", "tesla", _unit("1", ("kg", 1), ("s", -2), ("A", -1))),
    ("H", "henry", _unit("1", ("kg", 1), ("m", 2), ("s", -2), ("A", -2))),
    ("Wb", "weber", _unit("1", ("kg", 1), ("m", 2), ("s", -2), ("A", -1))),
    ("L l", "liter litre", _unit("1/1000", ("m", 3))),
    ("M", "molar", _unit("1000", ("mol", 1), ("m", -3))),
    ("b", "bit", _unit("1", ("bit", 1))),
    ("B", "byte", _unit("8", ("bit", 1))),
]
_OTHERS: list[tuple[str, str, Unit]] = [  # without prefixes
    ("min", "minute", _unit("60", _TIME)),
    ("h hr", "hour", _unit("3600", _TIME)),
    ("sec", "", _unit("1", _TIME)),
    ("d", "day", _unit("86400", _TIME)),
    ("wk", "week", _unit("604800", _TIME)),
    ("", "month", _unit("1", ("month", 1))),
    ("yr", "year", _unit("12", ("month", 1))),
    ("", "decade", _unit("120", ("month", 1))),
    ("", "century centurie", _unit("1200", ("month", 1))),
    ("in", "inch inche", _unit("0.0254", _LENGTH)),
    ("ft", "foot feet", _unit("0.3048", _LENGTH)),
    ("yd", "yard", _unit("0.9144", _LENGTH)),
    ("mi", "mile", _unit("1609.344", _LENGTH)),
    ("u", "dalton", _unit("1.66053906660e-27", _MASS)),
    ("G", "gauss", _unit("1e-4", ("kg", 1), ("s", -2), ("A", -1))),
    ("S", "siemens", _unit("1", ("kg", -1), ("m", -2), ("s", 3), ("A", 2))),
    ("D", "debye", _unit("3.33564e-30", ("A", 1), ("s", 1), _LENGTH)),
    ("Å", "angstrom", _unit("1e-10", _LENGTH)),
    ("", "micron", _unit("1e-6", _LENGTH)),
    ("mph", "", _unit("0.44704", ("m", 1), ("s", -1))),
    ("kph kmph", "", _unit("5/18", ("m", 1), ("s", -1))),
    ("", "knot", _unit("463/900", ("m", 1), ("s", -1))),
    ("rpm", "", _unit("1/60", ("s", -1))),
    ("acre", "acre", _unit("4046.8564224", ("m", 2))),
    ("ha", "hectare", _unit("10000", ("m", 2))),
    ("gal", "gallon", _unit("0.003785411784", ("m", 3))),
    ("qt", "quart", _unit("0.000946352946", ("m", 3))),
    ("pt", "pint", _unit("0.000473176473", ("m", 3))),
    ("", "cup", _unit("0.0002365882365", ("m", 3))),
    ("cc", "", _unit("1e-6", ("m", 3))),
    ("oz", "ounce", _unit("0.028349523125", _MASS)),
    ("lb lbs", "pound", _unit("0.45359237", _MASS)),
    ("t", "tonne ton", _unit("1000", _MASS)),
    ("", "ton", _unit("907.18474", _MASS)),
    ("atm", "atmosphere", _unit("101325", *_PRESSURE)),
    ("mmHg", "torr", _unit("133.322387415", *_PRESSURE)),
    ("psi", "", _unit("6894.757293168", *_PRESSURE)),
    ("hp", "horsepower", _unit("745.69987158227022", *_POWER)),
    ("rad", "radian", _unit("1", ("angle", 1))),
    ("° deg", "degree", _unit("1/180", ("angle", 1), pi=1)),
    ("' ′", "arcminute", _unit("1/10800", ("angle", 1), pi=1)),
    ("\" ″ ''", "arcsecond", _unit("1/648000", ("angle", 1), pi=1)),
    ("' ′", "", _unit("0.3048", _LENGTH)),
    ("\" ″ ''", "", _unit("0.0254", _LENGTH)),
    ("°C", "celsius", _unit("1", _HEAT, offset="273.15")),
    ("°F", "fahrenheit", _unit("5/9", _HEAT, offset="45967/180")),
    ("$", "dollar buck", _unit("1", ("dollar", 1))),
    ("USD", "", _unit("1", ("dollar", 1))),
    ("¢", "cent", _unit("1/100", ("dollar", 1))),
    ("", "cent", _unit("1/100", ("euro", 1))),
    ("€ EUR", "euro", _unit("1", ("euro", 1))),
    ("£ GBP", "pound", _unit("1", ("pound", 1))),
    ("p", "pence penny pennie", _unit("1/100", ("pound", 1))),
    ("", "penny pennie", _unit("1/100", ("dollar", 1))),
    ("¥ JPY", "yen", _unit("1", ("yen", 1))),
    ("¥ CNY RMB", "yuan", _unit("1", ("yuan", 1))),
    ("₹ INR Rs", "rupee", _unit("1", ("rupee", 1))),
    ("", "peso", _unit("1", ("peso", 1))),
    ("", "franc", _unit("1", ("franc", 1))),
    ("", "ruble rouble", _unit("1", ("ruble", 1))),
]
_PREFIXES = {
    **{
        "T": 12,
        "G": 9,
        "M": 6,
        "k": 3,
        "h": 2,
        "d": -1,
        "c": -2,
        "m": -3,
        "µ": -6,
        "u": -6,
        "n": -9,
        "p": -12,
        "f": -15,
    },
    **{"tera": 12, "giga": 9, "mega": 6, "kilo": 3, "deci": -1, "centi": -2, "milli": -3, "micro": -6, "nano": -9},
    **{"pico": -12},
}
_SYMBOLS: dict[str, list[Unit]] = {}
_NAMES: dict[str, list[Unit]] = {}
for _table in (_OTHERS, _SI):
    for _symbols, _names, _value in _table:
        for _key in _symbols.split():
            _SYMBOLS.setdefault(_key, []).append(_value)
        for _key in _names.split():
            _NAMES.setdefault(_key, []).append(_value)
for _symbols, _names, _value in _SI:
    for _prefix, _exponent in _PREFIXES.items():
        _scaled = Unit(_value.factor * Fraction(10) ** _exponent, _value.dimension)
        for _key in (_names if len(_prefix) > 2 else _symbols).split():
            # A symbol of its own comes first: min is a minute, not a milli-inch.
            (_NAMES if len(_prefix) > 2 else _SYMBOLS).setdefault(_prefix + _key, [_scaled])

_COMMANDS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf|rm|operatorname)(?![A-Za-z])"), " "),
    (re.compile(r"([kMm])\s*\}?\s*\\(?:Omega|ohm)(?![A-Za-z])"), r"\1Ω"),
    (re.compile(r"\\(?:Omega|ohm)(?![A-Za-z])"), "Ω"),
    (re.compile(r"\\mu(?![A-Za-z])[\s{]*|μ"), "µ"),
    (re.compile(r"\\(?:AA|r A)(?![A-Za-z])"), "Å"),
    (re.compile(r"\\[dt]?frac\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}"), r"(\1)/(\2)"),
    (re.compile(r"\\(?:cdot|times)(?![A-Za-z])|[·⋅*~]|\\[,;: ]"), " "),
    (re.compile(r"\^\s*\{\s*(-?\d+)\s*\}"), r"^\1"),
    (re.compile(r"[{}]"), " "),
    (re.compile(r"\bper\b"), "/"),
    (re.compile(r"\b(?:sq|cu)\."), lambda match: match[0][:-1]),
    (re.compile(r"([A-Za-z])\."), r"\1 "),
    (re.compile(r"\bdegrees?\s+(?=(?:Celsius|centigrade|Fahrenheit|[CF])\b)", re.IGNORECASE), "°"),
    (re.compile(r"°\s*(?:Celsius|centigrade)\b", re.IGNORECASE), "°C"),
    (re.compile(r"°\s*Fahrenheit\b", re.IGNORECASE), "°F"),
]
_TOKEN = re.compile(r"\s*(\^\s*-?\d+|[/()]|°[CF]?(?![A-Za-z])|''|[$€£¥₹¢'\"′″]|[A-Za-zΩµÅ]+)\s*")
_POWER_WORDS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}


@lru_cache(maxsize=5000)
def parse_units(text: str) -> tuple[Unit, ...]:
    """Return the units that a text can mean; () if it is none."""
    if not text.strip() or len(text) > MAX_UNIT_CHARS:
        return ()
    for pattern, replacement in _COMMANDS:
        text = pattern.sub(replacement, text)
    tokens = _TOKEN.findall(text)
    if "".join("".join(tokens).split()) != "".join(text.split()) or not (factors := _read_factors(tokens)):
        return ()
    readings = []
    for choice in islice(product(*(units for units, _ in factors)), MAX_READINGS):
        unit = Unit()
        for one, (_, power) in zip(choice, factors, strict=True):
            unit = one if len(factors) == 1 and power == 1 else unit * one**power
        readings.append(unit)
    return tuple(readings)


def _read_factors(tokens: list[str]) -> list[tuple[list[Unit], int]] | None:
    """Return the factors of a unit, each with its readings and its power."""
    factors: list[tuple[list[Unit], int]] = []
    sign, depth_signs, power_before = 1, [1], 1
    for token in tokens:
        if token == "/":
            sign = -1
        elif token == "(":
            depth_signs.append(depth_signs[-1] * sign)
            sign = 1
        elif token == ")":
            if len(depth_signs) == 1:
                return None
            depth_signs.pop()
            sign = 1
        elif token.startswith("^"):
            power = int(token[1:])
            if not factors or abs(power) > MAX_POWER:
                return None
            factors[-1] = factors[-1][0], factors[-1][1] * power
        elif (word := token.lower()) in _POWER_WORDS:
            if word in ("squared", "cubed"):
                if not factors:
                    return None
                factors[-1] = factors[-1][0], factors[-1][1] * _POWER_WORDS[word]
            else:
                power_before = _POWER_WORDS[word]
        else:
            if not (units := look_up(token)):
                return None
            factors.append((units, sign * depth_signs[-1] * power_before))
            sign, power_before = 1, 1
    return factors or None


def is_letter(text: str) -> bool:
    """Return whether a text is one letter that is the symbol of no unit: the name of a variable."""
    for pattern, replacement in _COMMANDS:
        text = pattern.sub(replacement, text)
    if re.fullmatch(r"\s*\\(?:alpha|beta|gamma|delta|epsilon|theta|lambda|rho|sigma|tau|phi|psi|omega)\s*", text):
        return True
    return len(name := text.strip()) == 1 and name.isalpha() and name not in _SYMBOLS


def look_up(name: str) -> list[Unit]:
    """Return the units of this name. A longer word that is no unit may be what was counted, but not a letter."""
    if name in _SYMBOLS:
        # "pound" is a word for two things, a symbol for none.
        return _SYMBOLS[name]
    word = name.lower()
    for singular in (word, word.removesuffix("s")):
        if len(word) > 2 and singular in _NAMES:
            return _NAMES[singular]
    return [_read_word(name)] if len(name) > 1 else []
