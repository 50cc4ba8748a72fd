"""The `vllm` engine: vLLM's offline engine, on GPUs or its CPU build.

A sample is one request with a seed of its own; its prompt's prefix is cached. Requests are started as there is room
for them and taken as they finish, so that no long completion keeps the engine waiting: `start` and `step` are what
the worker that holds it calls. `complete` is the same for those who want all of a few requests.

A prompt with images is the text that the chat template of the model's processor makes of it, with a token in the place
of each image, and the images beside it; vLLM puts as many tokens there as the model has for such an image.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from stages.errors import LeashError
from stages.models import Weights, load_processor, load_tokenizer
from stages.params import Vllm
from stages.prompts import Prompt, rendered, token_ids
from stages.sample import vllm_start
from stages.sample.engine import Completion, Decoding, Request

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import ProcessorMixin

PROMPTS = 1024  # remembered as vLLM wants them
ILLUSTRATED = 64  # remembered with their images unpacked: megabytes each


class VllmEngine:
    def __init__(self, weights: Weights, settings: Vllm) -> None:
        self.settings, self._weights = settings, weights
        self._tokenizer = load_tokenizer(weights)
        self._engine = vllm_start.new_engine(weights, settings)
        self._rendered = lru_cache(maxsize=PROMPTS)(self._render)
        self._unpacked = lru_cache(maxsize=ILLUSTRATED)(self._unpack)
        self._sent = 0
        self._running: dict[str, tuple[int, Request, int]] = {}  # by vLLM's name: ticket, request, sample
        self._finished: dict[int, list[Completion]] = {}  # by ticket, while others of it run
        self._left: dict[int, int] = {}

    def start(self, requests: Iterable[Request], decoding: Decoding) -> int:
        """Begin on all samples of some requests; the ticket says when they are finished."""
        ticket = self._sent
        for request in requests:
            for sample in request.samples:
                self._start(ticket, request, sample, self._params(request, sample, decoding))
        return ticket

    def step(self) -> list[tuple[int, list[Completion]]]:
        """One token for everything that runs; the tickets that are finished with it."""
        done = []
        for output in vllm_start.step(self._engine):
            if output.finished:
                ticket, request, sample = self._running.pop(output.request_id)
                self._finished.setdefault(ticket, []).append(_completion(request, sample, output.outputs[0]))
                self._left[ticket] -= 1
                if not self._left[ticket]:
                    del self._left[ticket]
                    done.append((ticket, self._finished.pop(ticket)))
        return done

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]:
        self.start(requests, decoding)
        while self._left:
            for _, completions in self.step():
                yield from completions

    def close(self) -> None:
        vllm_start.close(self._engine)

    def _input(self, prompt: Prompt) -> Any:
        """What vLLM takes. Its front remembers which images its core has from seeing each use of them, so that prompts
        with images go through it once a sample; the pixels stay where they are."""
        if not prompt.images:
            return self._rendered(prompt)
        try:
            return self._engine.renderer.render_cmpl([{**self._unpacked(prompt)}])[0]
        except (RuntimeError, AssertionError) as error:  # a text and images that do not go together
            raise ValueError(vllm_start.brief(error)) from error

    def _render(self, prompt: Prompt) -> Any:
        return self._engine.renderer.render_cmpl([{"prompt_token_ids": token_ids(prompt, self._tokenizer)}])[0]

    def _unpack(self, prompt: Prompt) -> dict[str, Any]:
        text = rendered(prompt, self._processor)
        images = [picture(part) for part in prompt.parts if isinstance(part, bytes)]
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return {"prompt_token_ids": ids, "multi_modal_data": {"image": images}}

    @cached_property
    def _processor(self) -> ProcessorMixin:
        takes = self._engine.renderer.mm_processor
        if takes is None or "image" not in takes.info.supported_mm_limits:
            raise LeashError(
                f"The questions have images, and {self._weights.name} is no vision-language model; sample one that is, "
                f"or data sets without images."
            )
        return load_processor(self._weights)

    def _start(self, ticket: int, request: Request, sample: int, params: Any) -> None:
        from vllm.exceptions import VLLMClientError

        name = str(self._sent)
        try:
            self._engine.add_request(name, self._input(request.prompt), params)
        except (ValueError, VLLMClientError) as error:
            raise LeashError(f"vLLM refuses problem {request.problem_id}: {vllm_start.brief(error)}.") from None
        self._running[name] = ticket, request, sample
        self._left[ticket] = self._left.get(ticket, 0) + 1
        self._sent += 1

    def _params(self, request: Request, sample: int, decoding: Decoding) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            max_tokens=decoding.max_tokens,
            seed=request.seed(sample) if self.settings.seeds else None,
            logprobs=0 if self.settings.logprobs else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def picture(content: bytes) -> Image:
    """An image in the colours that models are shown; what is transparent becomes white, as on paper."""
    from PIL import Image

    try:
        image = Image.open(BytesIO(content))
        if not image.has_transparency_data:
            return image.convert("RGB")
        paper = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB")
    except (OSError, Image.DecompressionBombError):
        raise ValueError("one of its images is damaged or of an unknown kind, or larger than any screen") from None


def _completion(request: Request, sample: int, drawn: Any) -> Completion:
    tokens, logprob = len(drawn.token_ids), drawn.cumulative_logprob
    return Completion(request.problem_id, sample, drawn.text, tokens, drawn.finish_reason, logprob)
