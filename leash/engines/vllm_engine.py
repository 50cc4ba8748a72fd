"""The `vllm` engine: vLLM's offline engine, on GPUs or with its CPU build.

A sample is one request with its own seed, and vLLM caches the prefix of its prompt. The scheduler calls `start` and
`step`: requests start when others finish, so a long completion does not hold up the rest. `complete` runs a few
requests to the end.

vLLM's own stop strings would end completions inside formulas too. So `step` looks at the text after every token, ends
the request itself, and leaves vLLM's later tokens out.

For a prompt with images, the chat template of the model's processor writes one token per image. vLLM replaces it by as
many tokens as the model uses for an image of that size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from leash.engines import vllm_startup
from leash.engines.cut_thoughts import mark_cut_thought
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.stop_strings import STOP_STRING, StopWatcher, split_at_stop
from leash.errors import LeashError
from leash.finish import UNKNOWN
from leash.params.groups import Vllm
from leash.prompts import Prompt, render_prompt, tokenize_prompt
from leash.token_ids import ids_to_store
from leash.weights import Weights, load_processor, load_tokenizer

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import ProcessorMixin


@dataclass(frozen=True)
class RunningSample:
    """A sample that vLLM draws. `prefix_text` is what its prefix says, and `watcher` is None if there are no stop
    strings."""

    ticket: int
    request: Request
    sample: int
    stops: tuple[str, ...]
    prefix_text: str
    watcher: StopWatcher | None


MAX_CACHED_PROMPTS = 1024
# With their decoded images, prompts take megabytes each.
MAX_CACHED_IMAGE_PROMPTS = 64


class NotAVisionModelError(LeashError):
    """The questions have images, and the model cannot see them."""

    def __init__(self, model: str) -> None:
        self.model = model
        super().__init__(
            f"The questions have images, and {model} is not a vision-language model. Sample a model that is, or data "
            f"sets without images."
        )


class RefusedPromptError(LeashError):
    """vLLM does not accept the prompt of a problem."""

    def __init__(self, problem_id: str, reason: str) -> None:
        self.problem_id = problem_id
        super().__init__(
            f"vLLM refuses problem {problem_id}: {reason}. Correct the problem, or change `sample.max_tokens` or "
            f"`sample.vllm.max_model_len` if it is too long."
        )


class RefusedDecodingError(LeashError):
    """vLLM does not accept the decoding settings."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"vLLM refuses the decoding settings: {reason}. Change `sample.temperature`, `sample.top_p` or "
            f"`sample.max_tokens`, or sample with the engine `torch`."
        )


class VllmEngine:
    def __init__(self, weights: Weights, settings: Vllm) -> None:
        self.settings, self._weights = settings, weights
        self._tokenizer = load_tokenizer(weights)
        self._engine = vllm_startup.start_engine(weights, settings)
        self._render_cached = lru_cache(maxsize=MAX_CACHED_PROMPTS)(self._render)
        self._decode_images_cached = lru_cache(maxsize=MAX_CACHED_IMAGE_PROMPTS)(self._decode_images)
        self._next_id = 0
        self._running: dict[str, RunningSample] = {}  # by vLLM's request id
        self._finished: dict[int, list[Completion]] = {}  # by ticket, until all its samples are finished
        self._unfinished_counts: dict[int, int] = {}  # by ticket

    def start(self, requests: Iterable[Request], decoding: Decoding) -> int:
        """Start all samples of these requests. `step` returns the ticket when they are all finished."""
        from vllm import SamplingParams
        from vllm.exceptions import VLLMClientError
        from vllm.sampling_params import RequestOutputKind

        ticket, stops = self._next_id, decoding.stop
        output_kind = RequestOutputKind.CUMULATIVE if stops else RequestOutputKind.FINAL_ONLY
        for request in requests:
            prefix_text = self._decode(request.prefix) if request.prefix else ""
            for sample in request.samples:
                try:
                    params = SamplingParams(
                        temperature=decoding.temperature,
                        top_p=decoding.top_p,
                        max_tokens=request.tokens_to_draw(decoding.max_tokens),
                        seed=request.seed(sample) if self.settings.seeds else None,
                        logprobs=0 if self.settings.logprobs else None,
                        output_kind=output_kind,
                    )
                except (ValueError, VLLMClientError) as error:
                    raise RefusedDecodingError(vllm_startup.summarize_error(error)) from None
                name = str(self._next_id)
                try:
                    self._engine.add_request(name, self._vllm_input(request.prompt, request.prefix), params)
                except (ValueError, VLLMClientError) as error:
                    raise RefusedPromptError(request.problem_id, vllm_startup.summarize_error(error)) from None
                watcher = StopWatcher(stops) if stops else None
                self._running[name] = RunningSample(ticket, request, sample, stops, prefix_text, watcher)
                self._unfinished_counts[ticket] = self._unfinished_counts.get(ticket, 0) + 1
                self._next_id += 1
        return ticket

    def step(self) -> list[tuple[int, list[Completion]]]:
        """Draw one token of every running sample. Return the tickets that are finished now, with their completions."""
        ended: list[tuple[RunningSample, Completion]] = []
        for output in vllm_startup.step_engine(self._engine):
            running, drawn = self._running[output.request_id], output.outputs[0]
            finish = drawn.finish_reason
            if not output.finished:
                if running.watcher is None or not running.watcher.reached(running.prefix_text + drawn.text):
                    continue
                self._engine.abort_request([output.request_id])
                finish = STOP_STRING
            del self._running[output.request_id]
            request, ids = running.request, [*running.request.prefix, *drawn.token_ids]
            # After a prefix, a character can have bytes of both sides: the text is that of all tokens.
            drawn_text = self._decode(ids) if request.prefix else drawn.text
            text, tail, finish = split_at_stop(drawn_text, finish or UNKNOWN, running.stops)
            template = self._processor if request.prompt.images else self._tokenizer
            finish = mark_cut_thought(finish, text, request.prompt, template)
            facts = text, len(ids), finish, drawn.cumulative_logprob, ids, tail
            ended.append((running, Completion(request.problem_id, running.sample, *facts)))
        done = []
        for running, completion in self._drop_implied_ids(ended):
            ticket = running.ticket
            self._finished.setdefault(ticket, []).append(completion)
            self._unfinished_counts[ticket] -= 1
            if not self._unfinished_counts[ticket]:
                del self._unfinished_counts[ticket]
                done.append((ticket, self._finished.pop(ticket)))
        return done

    def _drop_implied_ids(
        self, ended: Sequence[tuple[RunningSample, Completion]]
    ) -> Iterator[tuple[RunningSample, Completion]]:
        """Without a prefix, keep the ids of those completions alone whose text does not split into them again. All
        completions of a step are split together: a ticket often has only one."""
        completions = [completion for _, completion in ended]
        texts, stopped = [c.drawn_text for c in completions], [c.finish == "stop" for c in completions]
        kept = ids_to_store(texts, stopped, [c.token_ids or [] for c in completions], self._tokenizer)
        for (running, completion), ids in zip(ended, kept, strict=True):
            yield running, completion if running.request.prefix else replace(completion, token_ids=ids)

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]:
        self.start(requests, decoding)
        while self._unfinished_counts:
            for _, completions in self.step():
                yield from completions

    def close(self) -> None:
        vllm_startup.close_engine(self._engine)

    def _vllm_input(self, prompt: Prompt, prefix: tuple[int, ...] = ()) -> Any:
        """Prompt and prefix as vLLM wants them. Prompts with images are rendered for every sample: vLLM's front end
        counts their uses to know which images its core process still has. The decoded images are cached."""
        if not prompt.images:
            return self._render_cached(prompt, prefix)
        content = self._decode_images_cached(prompt)
        try:
            return self._engine.renderer.render_cmpl(
                [{**content, "prompt_token_ids": [*content["prompt_token_ids"], *prefix]}]
            )[0]
        except (RuntimeError, AssertionError) as error:  # the text and the images do not match
            raise ValueError(vllm_startup.summarize_error(error)) from error

    def _render(self, prompt: Prompt, prefix: tuple[int, ...]) -> Any:
        ids = [*tokenize_prompt(prompt, self._tokenizer), *prefix]
        return self._engine.renderer.render_cmpl([{"prompt_token_ids": ids}])[0]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def _decode_images(self, prompt: Prompt) -> dict[str, Any]:
        text = render_prompt(prompt, self._processor)
        images = [decode_image(part) for part in prompt.parts if isinstance(part, bytes)]
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return {"prompt_token_ids": ids, "multi_modal_data": {"image": images}}

    @cached_property
    def _processor(self) -> ProcessorMixin:
        vision = self._engine.renderer.mm_processor
        if vision is None or "image" not in vision.info.supported_mm_limits:
            raise NotAVisionModelError(self._weights.name)
        return load_processor(self._weights)


def decode_image(content: bytes) -> Image:
    """An image in RGB, as models expect it. Transparent pixels become white."""
    from PIL import Image

    try:
        image = Image.open(BytesIO(content))
        if not image.has_transparency_data:
            return image.convert("RGB")
        background = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(background, image.convert("RGBA")).convert("RGB")
    except (OSError, Image.DecompressionBombError):
        raise ValueError("one of its images is damaged, has an unknown format, or is too large") from None
