"""Images in real vLLM: a tiny Idefics3 with random weights, made here, sees the images that a question comes with.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from leash import tables
from leash import weights as models
from leash.engines import selection
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.vllm_engine import NotAVisionModelError, RefusedPromptError, decode_image
from leash.prompts import Prompt, render_prompt
from leash.sample_ledger import SamplesMismatchError
from leash.sampling import sampler
from leash.weights import load_processor
from stages.sample import stage
from stages.verify import stage as verify
from tests.conftest import small, write_params
from tests.vllm.conftest import BASE, engine_on

pytestmark = pytest.mark.vllm

GREEDY = Decoding(temperature=0.0, top_p=1.0, max_tokens=12)
PLAIN = Decoding(temperature=1.0, top_p=1.0, max_tokens=12)
SIDE, PATCH = 56, 14
PATCHES = (SIDE // PATCH) ** 2 // 4  # four patches make a token
TOKENS = PATCHES + 3  # of an image in the prompt, with the tokens around it
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %} {% endfor %}"
)


def stripes(colour: str, format: str = "PNG") -> bytes:
    """An image file with vertical stripes of a colour on white."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (40, 30), "white")
    for left in range(0, 40, 10):
        ImageDraw.Draw(image).rectangle((left, 0, left + 4, 30), fill=colour)
    file = BytesIO()
    image.save(file, format)
    return file.getvalue()


RED, BLUE, JPEG = stripes("red"), stripes("blue"), stripes("green", "JPEG")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> models.Weights:
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    folder = tmp_path_factory.mktemp("models") / "eyes"
    make_model(folder)
    return models.Weights("eyes", str(folder), None, "float32")


def make_model(folder: Path) -> None:
    """Make weights so large that the image affects every token."""
    import torch
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration, LlamaConfig

    processor = make_processor()
    ids = processor.tokenizer.convert_tokens_to_ids
    shape: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "initializer_range": 0.15,
    }
    config: Any = Idefics3Config(
        vision_config={**shape, "image_size": SIDE, "patch_size": PATCH},
        text_config=LlamaConfig(
            **shape,
            num_key_value_heads=2,
            vocab_size=len(processor.tokenizer),
            bos_token_id=ids("<s>"),
            eos_token_id=ids("</s>"),
            pad_token_id=ids("<pad>"),
        ),
        image_token_id=ids("<image>"),
        pad_token_id=ids("<pad>"),
    )
    config.initializer_range = shape["initializer_range"]
    torch.manual_seed(7)
    Idefics3ForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)


def make_processor() -> Any:
    """The tokenizer of the embedded models with the tokens for an image."""
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    tokenizer = models.load_tokenizer(BASE)
    tokenizer.add_tokens(["<fake_token_around_image>", "<global-img>", "<image>"], special_tokens=True)
    eyes = Idefics3ImageProcessorPil(
        size={"longest_edge": SIDE}, max_image_size={"longest_edge": SIDE}, do_image_splitting=False
    )
    return Idefics3Processor(eyes, tokenizer, image_seq_len=PATCHES, chat_template=TEMPLATE)


@pytest.fixture(scope="module")
def vllm(in_process: None, weights: models.Weights) -> Any:
    return engine_on(weights)


def make_prompt(*images: bytes, text: str = "compute 3 + 4 :") -> Prompt:
    return Prompt(text, "make", chat=True, images=images)


def drawn(vllm: Any, prompt: Prompt, decoding: Decoding = GREEDY, samples: range = range(1)) -> list[Completion]:
    found = vllm.complete([Request("p", prompt, samples, ("test",))], decoding)
    return sorted(found, key=lambda completion: completion.sample)


def outcome(completions: Sequence[Completion]) -> list[tuple[str, float | None]]:
    return [(completion.text, completion.logprob) for completion in completions]


@pytest.mark.parametrize("images", [(RED,), (BLUE,), (JPEG,), (RED, BLUE), (BLUE, RED)])
def test_greedy_completions_are_those_of_transformers(
    vllm: Any, weights: models.Weights, images: tuple[bytes, ...]
) -> None:
    import torch
    from transformers import Idefics3ForConditionalGeneration

    model: Any = Idefics3ForConditionalGeneration.from_pretrained(weights.source)
    processor: Any = load_processor(weights)
    text = render_prompt(make_prompt(*images), processor)
    inputs: Any = processor(
        text=text, images=[decode_image(image) for image in images], return_tensors="pt", add_special_tokens=False
    )
    out: Any = model.generate(
        **inputs, do_sample=False, max_new_tokens=12, output_logits=True, return_dict_in_generate=True
    )
    ids = out.sequences[0, inputs["input_ids"].shape[1] :]
    steps = torch.stack(out.logits, 1)[0].log_softmax(-1)
    (ours,) = drawn(vllm, make_prompt(*images))
    assert ours.tokens == len(ids)
    assert ours.text.split() == processor.tokenizer.decode(ids, skip_special_tokens=True).split()
    assert ours.logprob == pytest.approx(float(steps.gather(1, ids[:, None]).sum()), abs=1e-3)


def test_another_image_changes_the_samples_and_the_same_image_does_not(vllm: Any) -> None:
    samples = range(16)
    red, blue, again = (outcome(drawn(vllm, make_prompt(image), PLAIN, samples)) for image in (RED, BLUE, RED))
    assert red == again
    assert len({text for text, _ in red}) > 8
    assert sum(one != other for one, other in zip(red, blue, strict=True)) > 8


def test_the_prompt_grows_by_the_images_tokens(vllm: Any, weights: models.Weights) -> None:
    texts = load_processor(weights).tokenizer(
        render_prompt(make_prompt(RED), load_processor(weights)), add_special_tokens=False
    )
    ids = vllm._vllm_input(make_prompt(RED))["prompt_token_ids"]
    assert len(ids) == len(texts["input_ids"]) - 1 + TOKENS
    assert len(vllm._vllm_input(make_prompt(RED, BLUE))["prompt_token_ids"]) == len(ids) + TOKENS


def test_an_image_replaces_its_mark(vllm: Any) -> None:
    marked = outcome(drawn(vllm, make_prompt(RED, BLUE, text="make <image2> from <image1> :")))
    assert marked == outcome(drawn(vllm, make_prompt(BLUE, RED, text="make <image1> from <image2> :")))
    assert marked != outcome(drawn(vllm, make_prompt(RED, BLUE, text="make <image1> from <image2> :")))


def test_transparent_pixels_become_white() -> None:
    from PIL import Image

    file = BytesIO()
    Image.new("RGBA", (2, 2), (200, 0, 0, 0)).save(file, "PNG")
    assert decode_image(file.getvalue()).getpixel((0, 0)) == (255, 255, 255)
    assert decode_image(RED).getpixel((0, 0)) == (255, 0, 0)


def test_a_broken_image_is_refused_and_the_engine_continues(vllm: Any) -> None:
    with pytest.raises(RefusedPromptError, match="images is damaged"):
        drawn(vllm, make_prompt(b"not an image"))
    assert len(drawn(vllm, make_prompt(RED))) == 1


def test_a_template_without_a_place_for_images_is_refused(vllm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm._processor, "chat_template", TEMPLATE.replace("<image>", ""))
    with pytest.raises(RefusedPromptError, match="image"):
        drawn(vllm, make_prompt(RED, text="make 7 from 3 4 :"))


@pytest.mark.usefixtures("in_process")
def test_a_model_that_cannot_see_is_refused() -> None:
    with pytest.raises(NotAVisionModelError) as error:
        drawn(engine_on(BASE), make_prompt(RED))
    assert error.value.model == "base"


def test_the_stage_samples_questions_with_images(
    vllm: Any, weights: models.Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the problems table to verdicts. Samples are not drawn twice, and another image makes them unusable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selection, "_load_vllm", lambda *_: vllm)  # the running engine
    raw = small(sample={"k": 6, "engine": "vllm", "vllm": {"max_model_len": 128, "eager": True}, "max_tokens": 12})
    raw["models"] = {name: {"path": weights.source, "dtype": "float32"} for name in ("eyes", "again")}
    raw["datasets"] = {"pictures": {"path": "pictures.parquet", "grader": "exact", "chat": True, "system": "make"}}
    raw["pairs"] = {"same": {"base": "eyes", "rlvr": "again"}}
    raw["run"] |= {"models": ["eyes", "again"], "datasets": ["pictures"], "pairs": ["same"]}
    params = write_params(tmp_path, raw)
    write_problems([[RED], [BLUE], None])

    assert stage.run(params, "eyes", "pictures").samples == 3 * 6
    assert stage.run(params, "eyes", "pictures").samples == 0
    texts = {(row["problem_id"], row["sample"]): row["text"] for row in rows("eyes", "pictures")}
    assert len(texts) == 3 * 6
    assert [texts["p0", i] for i in range(6)] != [texts["p1", i] for i in range(6)]
    assert verify.run(params, "eyes", "pictures") == 3 * 6
    assert sampler.format_first_prompt(params, "eyes", "pictures").startswith("<s>make <image>compute 3 + 4 :")

    write_problems([[BLUE], [BLUE], None])
    with pytest.raises(SamplesMismatchError) as error:
        stage.run(params, "eyes", "pictures")
    assert error.value.problem_id == "p0"


def write_problems(images: Sequence[list[bytes] | None]) -> None:
    """Problems with the same question and different images."""
    problems = [
        {
            "dataset": "pictures",
            "problem_id": f"p{i}",
            "question": "compute 3 + 4 :",
            "gold": ["7"],
            "grader": "exact",
            "images": shown,
            "meta": '{"question": "compute 3 + 4 :"}',
        }
        for i, shown in enumerate(images)
    ]
    tables.write(
        tables.problems_path("pictures"),
        tables.table_from_rows(problems, tables.PROBLEMS_SCHEMA),
        tables.PROBLEMS_SCHEMA,
    )


def rows(model: str, dataset: str) -> list[dict[str, Any]]:
    folder = tables.completions_folder(model, dataset)
    return [
        row for shard in tables.shards(folder) for row in tables.read(shard, tables.COMPLETIONS_SCHEMA, "").to_pylist()
    ]
