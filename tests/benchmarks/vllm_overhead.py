"""The sample stage with vLLM against a bare `LLM.generate` call on the same requests.

    make test-vllm                                            # once: makes the environment with vLLM
    .venv-vllm/bin/python tests/benchmarks/vllm_overhead.py

Both draw the same samples of the embedded base model, with the same seeds and log-probabilities, by turns in one
process, each with an engine of its own that was started and warmed up before. The stage also schedules, grades what
it has drawn, and writes parts and shards, and each of its turns begins and ends as a whole run does; the bare call
keeps everything in memory. Goal: at least 0.95 of the bare call's tokens a second, over all turns.

Whether seeds of their own cost throughput is measured beside it: the bare call again, without seeds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from result import tell

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
os.environ |= ENVIRONMENT

from leash import problems, prompts  # noqa: E402
from leash import weights as models  # noqa: E402
from leash.engines import selection  # noqa: E402
from leash.engines.protocol import Request  # noqa: E402
from leash.params import groups, loading  # noqa: E402
from leash.sampling import sampler  # noqa: E402
from stages.fetch import stage  # noqa: E402
from stages.sample import stage as sample  # noqa: E402

ROOT = Path(__file__).parent.parent.parent
DATASET, SAMPLES, TURNS = "chain", 96, 5  # samples of each of 48 problems in a turn


def main() -> None:
    settings = adapted(loading.load(ROOT / "params.yaml"))
    os.chdir(tempfile.mkdtemp())
    stage.run(settings, DATASET)
    bare = new_bare(settings)
    sides: dict[str, Callable[[range], int]] = {
        "stage": new_stage(settings),
        "bare": bare,
        "bare without seeds": lambda samples: bare(samples, seeds=False),
    }
    tokens, seconds = dict.fromkeys(sides, 0), dict.fromkeys(sides, 0.0)
    for turn in range(TURNS + 1):  # the first is not counted
        for name, side in sides.items():
            began = time.perf_counter()
            drawn = side(range(turn * SAMPLES, (turn + 1) * SAMPLES))
            if turn:
                tokens[name] += drawn
                seconds[name] += time.perf_counter() - began
        print({name: round(tokens[name] / seconds[name]) for name in sides} if turn else "warm", flush=True)
    ours, theirs = (tokens[name] / seconds[name] for name in ("stage", "bare"))
    tell(
        "sample stage with vLLM against LLM.generate",
        ours=ours,
        theirs=theirs,
        ratio=ours / theirs,
        goal="tokens/s, at least 0.95",
        ok=ours / theirs >= 0.95,
    )


def adapted(settings: groups.Params) -> groups.Params:
    base = settings.models["base"].model_copy(
        update={"path": str(ROOT / "models" / "embedded" / "base"), "dtype": "float32"}
    )
    vllm = settings.sample.vllm.model_copy(update={"max_model_len": 128, "eager": True})
    drawn = settings.sample.model_copy(update={"engine": "vllm", "vllm": vllm, "k": (TURNS + 1) * SAMPLES})
    return settings.model_copy(update={"models": settings.models | {"base": base}, "sample": drawn})


def new_stage(settings: groups.Params) -> Callable[[range], int]:
    """The stage as it is, but for the engine, which is there already; each turn goes on where the last one ended."""
    kind = selection.build_engine_spec(settings, "base")
    engine = kind.make()
    ready = replace(kind, make=lambda: engine)
    selection.build_engine_spec = lambda *_: ready
    return lambda samples: sample.run(settings, "base", DATASET, pilot=samples.stop).tokens


def new_bare(settings: groups.Params) -> Callable[..., int]:
    from vllm import LLM, SamplingParams

    weights, vllm, decoding = (
        models.find_weights(settings, "base"),
        settings.sample.vllm,
        sampler.decoding_from_params(settings, "base", DATASET),
    )
    sizes = {"max_model_len": vllm.max_model_len, "max_num_seqs": vllm.max_num_seqs}
    llm = LLM(weights.source, dtype=weights.dtype, enforce_eager=vllm.eager, **sizes)
    name = (settings.sample.seed, "base", DATASET)

    def generate(samples: range, seeds: bool = True) -> int:
        asked: list[str] = []
        wanted: list[Any] = []
        for problem, row in problems.load_problems(DATASET).items():
            request = Request(problem, prompts.Prompt(row["question"]), samples, name)
            for number in samples:
                asked.append(row["question"])
                wanted.append(
                    SamplingParams(
                        temperature=decoding.temperature,
                        top_p=decoding.top_p,
                        max_tokens=decoding.max_tokens,
                        seed=request.seed(number) if seeds else None,
                        logprobs=0,
                    )
                )
        outputs = llm.generate(asked, wanted, use_tqdm=False)
        return sum(len(child.token_ids) for output in outputs for child in output.outputs)

    return generate


if __name__ == "__main__":
    main()
