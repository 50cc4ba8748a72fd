"""Read a judge's word from its reply. A word that is not clear is none: an unscored answer is better than a wrong one.

    WORDS = WordReader(yes="CORRECT", no="INCORRECT", others=("NOT_ATTEMPTED",))
    WORDS.read("It names the river and the year.\\n\\nCORRECT")     ->  "CORRECT"
    WORDS.read("The given answer is CORRECT.")                     ->  "CORRECT"
    WORDS.read("The answer is NOT CORRECT.")                       ->  "INCORRECT"
    WORDS.read("INCORRECT\\n\\nThe reference says Paris.")           ->  "INCORRECT"
    WORDS.read("The CORRECT answer is 5 but the model said 6.")    ->  None
    WORDS.read("CORRECT\\nWait, that's wrong.")                     ->  None

Prompts ask for a word in capitals on a line of its own. A `yes` is taken from such a line only if it is the last one
and the line before is complete, or from a last sentence of one form: "the answer is CORRECT". Whatever else a reply
says, it holds no `yes`. A `no` and the other words may have an explanation behind them that has no second thoughts. A
denied `yes` is `no`; a denied `no` is unclear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from leash.grading.thinking import is_unfinished, strip_thinking, unify_tags

UNCLEAR = "?"
MAX_LINE_CHARS = 300  # of a line or a sentence that is read
# Of a word alone. A crossed box, a tilde or an exclamation mark in front may deny it.
_SIGN = r"[\s*_`\"'“”‘’.,:;()\[\]{}<>\\/#$|✅✓–—=-]"

_LABEL = (
    r"(?:(?:so|thus|therefore|hence|overall)\b,?\s+)?(?:(?:my|the)\s+)?(?:(?:final|overall)\s+)?"
    r"(?:grade|verdict|answer|result|judge?ment|conclusion|assessment|evaluation|decision|classification|rating|label|vote"
    r"|boxed|text|textbf|(?-i:[Cc]orrect(?:ness)?(?=\W*[:=])))(?:\s+is)?"
)
_DENIAL = r"(?:not|never|far\s+from)(?:\s+(?:at\s+all|really|quite|fully|entirely))?"
_PREFIX_DENIAL = r"(?:un|in|non)-"
_SUBJECT = (
    r"(?:(?:so|thus|therefore|hence|still|overall|finally|yes|no|in\s+conclusion|in\s+summary)\b[,:]?\s+)?"
    r"(?:(?:it|this|that)|(?:(?:the|this|that|its)\s+)?(?:(?:given|final|submitted|provided|whole)\s+)?"
    r"(?:answer|response|reply|solution|working|reasoning|argument))"
)
_IS = r"\s+is(?:\s+(?:therefore|thus|hence|indeed|also|clearly|fully|entirely|completely))?"
_IS_NOT = (
    rf"\s+(?:is\s+{_DENIAL}|isn['’]t(?:\s+(?:at\s+all|really|quite))?|can(?:not|['’]t)\s+be\s+(?:called|considered))"
)
_SO = re.compile(r".*\b(?:so|therefore|thus|hence)\b,?\s+", re.IGNORECASE)
_EXPLANATION = re.compile(r"\s*(?:[:,.;–—]|-\s)\s*(?=\S)")
_SECOND_THOUGHT = re.compile(
    r"\b(?:wait|actually|however|but|although|though|unless|hmm+|oops|sorry|correction|reconsider\w*|reflection|after\s+all"
    r"|in\s+fact|second\s+thought|scratch|strike|mistaken|misread|apolog\w+|no\s+longer|right|false)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(r"\b(?:not|no|never|is|be|that)\W*$", re.IGNORECASE)  # goes on in spite of its punctuation
_COMPLETE = re.compile(r"(?:[.!?)\]}$»”\d]|\",?)$")
_SENTENCE_END = re.compile(r"(?<=[.!;?])\s+")
_DECORATION = str.maketrans("", "", '*`"“”')


class WordReader:
    """Reads one of `yes`, `no` and some other words, all in capitals. `no` is `yes` behind a prefix."""

    def __init__(self, yes: str, no: str, others: Sequence[str] = ()) -> None:
        self.words = (yes, no, *others)
        self._yes, self._no = yes, no
        spellings = "|".join(word.replace("_", "[ _-]") for word in sorted(self.words, key=len, reverse=True))
        self._word = re.compile(rf"(?<![A-Za-z])(?:{spellings})(?![A-Za-z])")
        word = rf"(?P<word>{spellings})"
        # A line with the word alone, perhaps denied or after a label: "Verdict: SOUND.", <grade>CORRECT</grade>
        self._alone = re.compile(
            rf"{_SIGN}*(?:(?i:{_LABEL}){_SIGN}+(?:(?i:text|textbf)\W)?)?{_SIGN}*"
            rf"(?P<denial>(?i:{_DENIAL}){_SIGN}+|(?i:{_PREFIX_DENIAL}))?{word}(?:{_SIGN}|!)*(?:(?i:{_LABEL})>)?"
        )
        self._clause = re.compile(rf"(?i:{_SUBJECT})(?:(?P<denial>(?i:{_IS_NOT}))|(?i:{_IS}))\s+{word}[\s.!]*")
        self._leading = re.compile(rf"[\W_]*(?P<denial>(?i:{_DENIAL})\s+)?{word}")

    def read(self, reply: str) -> str | None:
        """The word in a reply, after its thinking; None if it has none, or none that is clear."""
        if is_unfinished(unify_tags(reply)):
            return None
        text = strip_thinking(reply)
        lines = list(re.finditer(r"^.*\w.*$", text, re.MULTILINE))
        found = [self._say(self._match(self._alone, line[0].strip())) for line in lines]
        if not (alone := [number for number, word in enumerate(found) if word]):
            return self._read_sentences(text, lines[-1].start()) if lines else None
        last = alone[-1]
        # Two such lines in a row are a list of the words, unless they agree.
        if found[last] == UNCLEAR or (last and found[last - 1] and found[last - 1] != found[last]):
            return None
        if found[last] == self._yes:
            return self._yes if last == len(lines) - 1 and _is_complete(text[: lines[last].start()]) else None
        after = text[lines[last].end() :]
        return None if self._word.search(after) or _SECOND_THOUGHT.search(after) else found[last]

    def _read_sentences(self, text: str, last_line: int) -> str | None:
        """The word of the last sentence, if that has a form that is clear and no other sentence has a word."""
        *before, last = _SENTENCE_END.split(text[last_line:].translate(_DECORATION).strip())
        statements = [text[:last_line], *(sentence for sentence in before if not sentence.endswith("?"))]
        if any(self._word.search(statement) for statement in statements):
            return self._read_explained(text)
        if len(last) > MAX_LINE_CHARS:
            return self._read_explained(text)
        clauses = [last] if self._match(self._clause, last) else last.split(",")
        said = {self._say(self._match(self._clause, clause.strip())) for clause in clauses}
        if len(said) == 1 and (word := said.pop()):
            return word if word != UNCLEAR and (before or _is_complete(text[:last_line])) else None
        if (word := self._say(self._match(self._alone, last))) and word != UNCLEAR:
            # It answers a question. Only one that offers both words is clear, unlike "Is the answer wrong?"
            offered = {found[0] for found in self._word.finditer(before[-1])} if before else set()
            return word if offered >= {self._yes, self._no} else None
        conclusion = self._say(self._match(self._clause, _SO.sub("", last)))
        if conclusion not in (None, self._yes, UNCLEAR) and len(self._word.findall(last)) == 1:
            return conclusion
        return self._read_explained(text)

    def _read_explained(self, text: str) -> str | None:
        """A word that is not `yes` at the beginning, with an explanation behind it."""
        if not (begin := self._leading.match(text)) or not _EXPLANATION.match(text, begin.end()):
            return None
        word, rest = self._say(begin), text[begin.end() :]
        is_clear = word not in (None, self._yes, UNCLEAR) and not self._word.search(rest)
        return word if is_clear and not _SECOND_THOUGHT.search(rest) else None

    def _match(self, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
        return pattern.fullmatch(text) if len(text) <= MAX_LINE_CHARS else None

    def _say(self, match: re.Match[str] | None) -> str | None:
        """What a matched word means: a denied `yes` is `no`, and any other that is denied is unclear."""
        if match is None:
            return None
        word = re.sub(r"[ -]", "_", match["word"])
        return word if not match["denial"] else self._no if word == self._yes else UNCLEAR


def _is_complete(text: str) -> bool:
    r"""Whether what follows a text stands for itself: not the word in "It is not\nCORRECT"."""
    lines = text.split("\n")[:-1]
    line = next((line.rstrip(" *_`")[-MAX_LINE_CHARS:] for line in reversed(lines) if re.search(r"\w", line)), "")
    if not line or re.fullmatch(rf"[\W_]*{_LABEL}[\W_]*", line, re.IGNORECASE):
        return True
    return bool(_COMPLETE.search(line)) and not _DOUBT.search(line)
