"""Memory and time of the scorer on a trace of 32,768 tokens with a vocabulary of 151,936, on one thread.

The model is a Qwen2 of two layers with random weights in float32. Each measurement is a process of its own; its peak is
the most memory it ever held (VmHWM) less what it held before the pass.

The plain way is transformers' forward pass with labels, which gives the loss; no gradients are kept on either side. It
needs the logits and their log-softmax at a time, 40 GB at 32,768 tokens, so that it is measured at 8,192. Time: ours
against the plain way at 8,192 tokens, by turns, the medians. Memory: ours at 32,768 tokens against the size of the
logits alone there, 19.9 GB, which is half of what the plain way would take. The time is that of log-likelihoods alone,
and once more of log-likelihoods and entropies. Printed beside them, without a goal: the memory of both sides at 8,192
tokens, and ours under temperature 0.6 and top_p 0.95 at 1,024.
"""

from __future__ import annotations

import multiprocessing
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import torch
from result import tell
from transformers import Qwen2Config, Qwen2ForCausalLM

from leash import weights
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import ScoringSpec
from leash.statistics import seeds

ROOT = Path(__file__).parent.parent.parent
VOCABULARY, WHOLE, PART, TURNS = 151_936, 32_768, 8_192, 3
LEAST_SAVING, MOST_TIME = 10.0, 1.2
READINGS = {
    "nll": ScoringSpec(),
    "entropies": ScoringSpec(entropies=True),
    "decoding": ScoringSpec(entropies=True, temperature=0.6, top_p=0.95),
}


def main() -> None:
    seconds: dict[str, list[float]] = {"plain": [], "nll": [], "entropies": []}
    peaks: dict[str, float] = {}
    for _ in range(TURNS):
        for way, times in seconds.items():
            taken, peaks[way] = in_a_process(way, PART)
            times.append(taken)
    middle = {way: median(times) for way, times in seconds.items()}
    _, decoding = in_a_process("decoding", PART // 8)
    whole, peak = in_a_process("nll", WHOLE)
    print(f"{PART:,} tokens, seconds: " + ", ".join(f"{way} {taken:.1f}" for way, taken in middle.items()))
    print(f"{PART:,} tokens, GB: " + ", ".join(f"{way} {size / 1e9:.2f}" for way, size in peaks.items()))
    print(f"{PART // 8:,} tokens with the decoding distribution: {decoding / 1e9:.2f} GB")
    print(f"{WHOLE:,} tokens: {whole:.1f} s, {peak / 1e9:.2f} GB")
    logits = WHOLE * VOCABULARY * 4
    tell(
        f"scorer, peak memory at {WHOLE:,} tokens vs the logits, GB",
        ours=peak / 1e9,
        theirs=logits / 1e9,
        ratio=logits / peak,
        goal=f">= {LEAST_SAVING:g}x less",
        ok=logits / peak >= LEAST_SAVING,
    )
    for way in ("nll", "entropies"):
        ratio = middle[way] / middle["plain"]
        tell(
            f"scorer, {way}, vs forward with loss at {PART:,} tokens, s",
            ours=middle[way],
            theirs=middle["plain"],
            ratio=ratio,
            goal=f"<= {MOST_TIME:g}x",
            ok=ratio <= MOST_TIME,
        )


def in_a_process(way: str, length: int) -> tuple[float, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (way, length))


def measure(way: str, length: int) -> tuple[float, float]:
    """Seconds and bytes of one pass, after a short one that warms up."""
    torch.set_num_threads(1)
    torch.manual_seed(seeds.seed("benchmark", "scorer"))
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=WHOLE,
            tie_word_embeddings=True,
        )
    ).eval()
    tokens = seeds.stream("benchmark", "scorer", "tokens").integers(VOCABULARY, size=length).tolist()
    tokenizer = weights.load_tokenizer(
        weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float32")
    )
    scorer = Scorer(model, tokenizer)
    one_pass(way, scorer, tokens[:64])
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = held("VmRSS")
    begun = time.perf_counter()
    one_pass(way, scorer, tokens)
    return time.perf_counter() - begun, held("VmHWM") - before


@torch.inference_mode()
def one_pass(way: str, scorer: Scorer, tokens: list[int]) -> None:
    if way == "plain":
        ids = torch.tensor([tokens])
        scorer.model(input_ids=ids, labels=ids, use_cache=False)
    else:
        scorer.steps([(tokens[:1], tokens[1:])], READINGS[way])


def held(what: str) -> float:
    """Bytes that this process holds (VmRSS) or held at most (VmHWM)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return float(lines[what].split()[0]) * 1024


if __name__ == "__main__":
    main()
