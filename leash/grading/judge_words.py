"""Read a judge's word from its reply. A word that is not clear is none: an unscored answer is better than a wrong one.

    WORDS = WordReader(yes="CORRECT", no="INCORRECT", others=("NOT_ATTEMPTED",))
    WORDS.read("CORRECT")                                       ->  "CORRECT"
    WORDS.read("The answer is NOT CORRECT.")                    ->  "INCORRECT"
    WORDS.read("CORRECT or INCORRECT? INCORRECT")               ->  "INCORRECT"  (a question is no word)
    WORDS.read("It would be CORRECT if it named the year.")     ->  None
    WORDS.read("CORRECT, INCORRECT or NOT_ATTEMPTED.")          ->  None  (the instruction repeated)

Prompts ask for a word in capitals on a line of its own. The last such line decides, if nothing after it contradicts it.
Without one, all words in the sentences must agree. A denied `yes` is `no`. A denied `no` and a word in doubt (would be,
partly, if) are unclear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from leash.grading.thinking import is_unfinished, strip_thinking, unify_tags

UNCLEAR = "?"
MAX_LINE_CHARS = 200  # of a line with a word, its label and decoration alone
# The words of a longer sentence have no clear relation to each other.
MAX_SENTENCE_CHARS = 1000

# A line with the word alone, perhaps bold, denied or after a label: "**UNSOUND**", "Verdict: SOUND."
_LABEL = r"(?:[A-Za-z ]{1,20}:[\W_]*)?"
_DENIAL = r"(?:\b(?:not|never|neither|nor|cannot|hardly|far\s+from)|n['’]t)"
# At most two words stand between a denial and what it denies: "not at all CORRECT".
_DENIED = re.compile(rf"(?:{_DENIAL}[\W_]+(?:\w+\W+){{0,2}}|\b(?:un|in|non)-)[\W_]*$", re.IGNORECASE)
_DOUBT = re.compile(
    rf"{_DENIAL}|\b(?:no|without|if|unless|whether|would|could|might|may|should|to\s+be|almost|nearly|partly|partially"
    r"|mostly|un|in|non)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=\?)|(?<=[.!;])\s+|\n+")
_CLAUSE_END = re.compile(r"[,:–—]|\s-\s|\b(?:and|so|therefore|thus|hence|but|because|since|as)\b", re.IGNORECASE)


class WordReader:
    """Reads one of `yes`, `no` and some other words, all in capitals. `no` is `yes` behind a prefix."""

    def __init__(self, yes: str, no: str, others: Sequence[str] = ()) -> None:
        self.words = (yes, no, *others)
        self._yes, self._no = yes, no
        spellings = "|".join(word.replace("_", "[ _-]") for word in sorted(self.words, key=len, reverse=True))
        self._word = re.compile(rf"(?<![A-Za-z])(?:{spellings})(?![A-Za-z])")
        self._alone = re.compile(rf"[\W_]*{_LABEL}(?:{_DENIAL}[\W_]+)?(?:{spellings})[\W_]*", re.IGNORECASE)
        self._denied_yes = re.compile(
            rf"(?<![A-Za-z])(?:{no}|{_DENIAL}[\W_]+(?:\w+\W+)?{yes})(?![A-Za-z])", re.IGNORECASE
        )

    def read(self, reply: str) -> str | None:
        """The word in a reply, after its thinking; None if it has none, or none that is clear."""
        if is_unfinished(unify_tags(reply)):
            return None
        text = strip_thinking(reply)
        lines = [line for line in text.splitlines() if line.strip()]
        alone = [number for number, line in enumerate(lines) if self._is_alone(line)]
        if not alone:
            return self._agreed(self._find(text))
        # Two such lines in a row are a list of the words, unless they agree.
        decisive = [lines[n] for n in alone[-2:] if n >= alone[-1] - 1]
        after = "\n".join(lines[alone[-1] + 1 :])
        found = [word for line in decisive for word in self._find(line)] + self._find(after)
        word = self._agreed(found)
        return None if word == self._yes and self._denied_yes.search(after) else word

    def _is_alone(self, line: str) -> bool:
        return len(line) <= MAX_LINE_CHARS and bool(self._word.search(line) and self._alone.fullmatch(line))

    def _agreed(self, found: Sequence[str]) -> str | None:
        return found[0] if len(set(found)) == 1 and found[0] != UNCLEAR else None

    def _find(self, text: str) -> list[str]:
        """What each word of a text says. Questions say nothing."""
        found = []
        for sentence in _SENTENCE_END.split(text):
            if len(sentence) > MAX_SENTENCE_CHARS:
                found += [UNCLEAR] * bool(self._word.search(sentence))
            elif not sentence.rstrip(" *_\"'`").endswith("?"):
                found += [self._judge(sentence, match) for match in self._word.finditer(sentence)]
        return found

    def _judge(self, sentence: str, match: re.Match[str]) -> str:
        word = re.sub(r"[ -]", "_", match[0])
        before, after = sentence[: match.start()], sentence[match.end() :]
        if _DENIED.search(before):
            return self._no if word == self._yes else UNCLEAR
        clause = f"{_CLAUSE_END.split(before)[-1]} {_CLAUSE_END.split(after)[0]}"
        return UNCLEAR if _DOUBT.search(clause) else word
