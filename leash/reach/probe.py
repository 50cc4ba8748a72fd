"""Can the servers of this run continue tokens? They are asked once, before anything is paid.

A server that takes no prompt of token ids refuses here, instead of after the known completions are scored. One that has
drawn rollouts of a place before is not asked again, so that a run that needs no server does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from leash import tables
from leash.engines.protocol import Request
from leash.engines.selection import build_engine_spec, choose_engine
from leash.params.groups import Params
from leash.problems import load_problems
from leash.prompts import build_prompt, tokenize_prompt
from leash.reach.tasks import Task
from leash.sampling import sampler
from leash.weights import find_weights, load_tokenizer


def probe_servers(params: Params, tasks: Sequence[Task]) -> None:
    """Draw one token from each server that is a target's engine. It raises what the engine raises."""
    asked = set()
    for task in tasks:
        place = task.place
        if place.target in asked or choose_engine(params, place.target) != "openai":
            continue
        asked.add(place.target)
        if tables.shards(tables.rollouts_folder(place.pair, place.target, place.dataset)):
            continue
        question = load_problems(place.dataset)[task.problem_id]["question"]
        prompt = build_prompt(params, place.target, place.dataset, question)
        # Any token will do: the prompt's last one is of the model's vocabulary.
        prefix = tuple(tokenize_prompt(prompt, load_tokenizer(find_weights(params, place.target)))[-1:])
        decoding = replace(sampler.decoding_from_params(params, place.target, place.dataset), max_tokens=2)
        with closing(build_engine_spec(params, place.target, prefixes=True).make()) as engine:
            list(engine.complete([Request(task.problem_id, prompt, range(1), ("reach", "probe"), prefix)], decoding))
