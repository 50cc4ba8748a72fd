r"""Does a text end as a finished one does? For texts of which nobody recorded how they ended.

    looks_finished("So he pays 12 dollars.")                      ->  True
    looks_finished(r"So \[ x = 12 \]")                            ->  True
    looks_finished("Then the total is 12 and we still have to")   ->  False
    looks_finished("x = 12\n\nStep 4: add")                       ->  False

A finished text ends with sentence punctuation, a closed formula, a closing quote or bracket, or a value with or without
its unit; or a new question follows it; or it is a few words without a number. The last line must not be a heading or
the number of a step. A text that was cut off right behind a sentence or a value looks finished, too.
"""

from __future__ import annotations

import re

from leash.grading.run_on import cut_run_on

TAIL_CHARS = 1500
MAX_BARE_WORDS = 6  # a reply of so few words is an answer by itself

# Words that are no unit, and that no text ends with: more is to come.
_FUNCTION_WORD = (
    r"(?:an?|the|and|or|so|but|nor|yet|to|of|in|on|at|by|for|from|with|as|than|then|that|this|these|those|there|which|who|"
    r"whose|whom|what|where|when|while|if|since|because|after|before|until|during|through|within|between|among|without|is|are|was|were|be|been|has|have|had|do|does|did|will|would|can|"
    r"could|should|must|may|might|we|i|you|he|she|it|they|his|her|its|their|our|my|your|each|every|per|more|less|fewer|"
    r"other|others|not|no|out|into|over|plus|minus|times|thus|hence|therefore|now|next|also|\w+ing|\w+ed)"
)
UNIT = rf"(?!{_FUNCTION_WORD}\b)[a-zA-Z°]+"
_HEADING = re.compile(
    r"\s*(?:#+\s.*|[\W_]*(?:(?:step|case|part|section|solution|method|question|problem)\s*\w{1,3}|\d{1,2}|[a-z])[.):]?[\W_]*)",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?:[.!?。…]|\\\]|\\\)|\\end\{[a-z]+\*?\}|[)\]}\"'”’»]"
    rf"|(?:\d[\d.,]*+|[π∞%°²³!])(?:\s*\\?%|\s*(?:(?:square|cubic)\s+)?{UNIT}(?:\^?\d|[²³])?)?|(?<![\w'])(?-i:[B-HJ-Z])"
    r"|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve))$",
    re.IGNORECASE,
)
_OPEN_WORD = re.compile(rf"(?:\b{_FUNCTION_WORD}|[,;:=+*/(\[{{-])$", re.IGNORECASE)


def looks_finished(text: str) -> bool:
    """Whether the end of a text is that of a finished one, or a new question follows its answer."""
    if len(reply := cut_run_on(text)) < len(text):
        return True
    tail = reply[-TAIL_CHARS:].rstrip().rstrip("*_`").rstrip()
    last_line = tail.rpartition("\n")[2]
    if "\n" not in reply.strip() and len(reply.split()) <= MAX_BARE_WORDS and not re.search(r"\d", reply):
        return bool(tail) and not _OPEN_WORD.search(tail)
    if "\n" in tail and _HEADING.fullmatch(last_line) and not re.fullmatch(r"[\s*_]*\d+[\s*_]*", last_line):
        return False
    if tail.endswith("$"):  # a formula that closes here, not one that begins
        paragraph = tail.rpartition("\n\n")[2]
        return paragraph.replace(r"\$", "").replace("$$", "$").count("$") % 2 == 0
    return bool(_END.search(tail))
