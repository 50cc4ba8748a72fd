r"""Extraction: what a completion says its answer is. The same for every model.

extract(r"12 + 5 = 17 , \boxed{ 17 }")          ->  "17"
extract("so it is <answer> 17 </answer>")       ->  "17"
"""

from __future__ import annotations

BOX = "\\boxed{"
OPEN, CLOSE = "<answer>", "</answer>"


def extract(text: str) -> str | None:
    """The content of the last box whose braces are balanced; without one, that of the last answer tags; or None."""
    end = len(text)
    while (begin := text.rfind(BOX, 0, end)) >= 0:
        content = _balanced(text, begin + len(BOX))
        if content is not None:
            return " ".join(content.split())
        end = begin
    return _tagged(text)


def _tagged(text: str) -> str | None:
    end = text.rfind(CLOSE)
    begin = text.rfind(OPEN, 0, max(end, 0))
    return " ".join(text[begin + len(OPEN) : end].split()) if begin >= 0 else None


def _balanced(text: str, begin: int) -> str | None:
    depth = 1
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[begin:i]
    return None
