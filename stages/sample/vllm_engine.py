"""The `vllm` engine: vLLM's offline engine, on GPUs or its CPU build.

A thread of its own steps the engine. Callers, as many threads as they like, hand it their requests and wait for their
own completions; so the engine always has more to do than it can run at a time, and no long completion makes it wait.
A prompt's prefix is cached, and a group of its samples is one request.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from queue import SimpleQueue
from typing import Any

from stages.errors import LeashError
from stages.models import Weights, load_tokenizer
from stages.params import Vllm
from stages.prompts import token_ids
from stages.sample.engine import Completion, Decoding, Request

PROMPTS = 1024  # whose tokens are remembered


@dataclass(frozen=True)
class Asked:
    """A group of samples of a request, and where its completions are waited for."""

    request: Request
    samples: range
    decoding: Decoding
    answers: SimpleQueue[list[Completion] | BaseException]


class VllmEngine:
    def __init__(self, weights: Weights, settings: Vllm) -> None:
        self.weights, self.settings = weights, settings
        self._ids = lru_cache(maxsize=PROMPTS)(partial(token_ids, tokenizer=load_tokenizer(weights)))
        self._asked: SimpleQueue[Asked] = SimpleQueue()
        started: SimpleQueue[BaseException | None] = SimpleQueue()
        threading.Thread(target=self._serve, args=(started,), daemon=True).start()
        if error := started.get():
            raise LeashError(f"vLLM can't start on {weights.name}: {_brief(error)}") from error

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]:
        answers: SimpleQueue[list[Completion] | BaseException] = SimpleQueue()
        groups = [Asked(request, samples, decoding, answers) for request in requests for samples in request.groups()]
        for group in groups:
            self._asked.put(group)
        for _ in groups:
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            yield from answer

    def _serve(self, started: SimpleQueue[BaseException | None]) -> None:
        """Everything vLLM happens in this thread, from loading on. When it fails, all who wait are told."""
        running: dict[str, Asked] = {}
        try:
            engine = self._load()
            started.put(None)
            self._step(engine, running)
        except BaseException as error:
            started.put(error)
            for group in running.values():
                group.answers.put(LeashError(f"vLLM failed: {_brief(error)}; what was finished is kept."))

    def _step(self, engine: Any, running: dict[str, Asked]) -> None:
        """Take what is asked for, and step; wait only where there is nothing to do."""
        number = 0
        while True:
            while not running or not self._asked.empty():
                group = self._asked.get()
                try:
                    engine.add_request(str(number), *self._request(engine, group))
                except ValueError as error:
                    group.answers.put(LeashError(f"vLLM refuses problem {group.request.problem_id}: {_brief(error)}"))
                    continue
                running[str(number)] = group
                number += 1
            for output in engine.step():
                if output.finished:
                    group = running.pop(output.request_id)
                    group.answers.put([_completion(group, child) for child in output.outputs])

    def _load(self) -> Any:
        from vllm import LLM

        settings = self.settings
        return LLM(
            self.weights.source,
            revision=self.weights.revision,
            dtype=self.weights.dtype,
            tensor_parallel_size=settings.tensor_parallel,
            gpu_memory_utilization=settings.gpu_memory,
            max_model_len=settings.max_model_len,
            max_num_seqs=settings.max_num_seqs,
            enforce_eager=settings.eager,
            enable_prefix_caching=True,
            load_format="safetensors",
            # Without seeds of their own, samples come from the engine's one stream: a new one at every start, or a
            # run that goes on would repeat what it drew before.
            seed=0 if settings.seeds else secrets.randbits(31),
            disable_log_stats=True,
        ).llm_engine

    def _request(self, engine: Any, group: Asked) -> tuple[Any, Any]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        request, decoding = group.request, group.decoding
        ids = self._ids(request.prompt)
        params = SamplingParams(
            n=len(group.samples),
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            max_tokens=decoding.max_tokens,
            seed=request.seed(group.samples.start) if self.settings.seeds else None,
            logprobs=0 if self.settings.logprobs else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        return engine.renderer.render_cmpl([{"prompt_token_ids": ids}])[0], params


def _completion(group: Asked, child: Any) -> Completion:
    return Completion(
        group.request.problem_id,
        group.samples.start + child.index,
        child.text,
        len(child.token_ids),
        child.finish_reason,
        child.cumulative_logprob,
    )


def _brief(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
