"""Whatever happens to a run, in whatever order: its numbers are those of its inputs, or a stage refuses in a sentence.

Hypothesis chooses steps: edits of the inputs, kills, flipped bits, lost, cut and doubled files, full disks, imports,
single stages, a remote. After each run of all stages, by `dvc repro` or by hand, its numbers must equal those that
`small_run.Oracle` makes from the same inputs in a new folder; or it ends with a sentence, and what the sentences say
leads to a run that ends well. No command ends with a traceback or does not end.

Each run deals its steps from a shuffled deck that has every sort of step and every place of a fault, so that none is
left out. `LEASH_STEPS` is the number of steps (default 300, the same ones each time), `LEASH_SEED` another choice.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from leash import tables
from tests.faults import Ended, can_mount, is_json
from tests.functional import small_run
from tests.functional.conftest import shell
from tests.functional.forked_commands import Fault, Server
from tests.functional.small_run import ANSWERS, DATASET, GRADERS, IMPORTED, STAGES, WEIGHTS, Inputs, Oracle

STEPS = int(os.environ.get("LEASH_STEPS", "300"))
STEPS_PER_RUN = 30
RUNS = max(1, -(-STEPS // STEPS_PER_RUN))
MAX_REMEDIES = 12
MAX_UNFINISHED_STEPS = 10
PLACES = ("data", "data/completions", "data/verdicts", "reports", ".dvc/cache")
DISKS = ("data", "data/completions", "data/verdicts", "data/mass", "data/support", "data/entropy", "reports")
NUMBER = st.integers(0, 2**20)  # which of the files, which bit: modulo what there is
COMMANDS = st.sampled_from(STAGES)
COUNTING = [
    *(("epsilon", epsilon) for epsilon in (0, 0.3, "auto")),
    *(("use", use) for use in ("all", 2)),
    *(("reading", reading) for reading in ("strict", "lenient")),
]
DATA = [
    *(("grader", grader) for grader in GRADERS),
    *((name, number) for name in ("golds", "questions") for number in (0, 1)),
    *(("reversed", backwards) for backwards in (False, True)),
]
MODEL = [*(("weights", weights) for weights in WEIGHTS), *(("temperature", each) for each in (1.0, 0.7))]
# The tables that the later stages read, and those stages.
READ = ("problems", "verdicts", "mass", "reach", "reasoning", "perplexity", "entropy")
LATER = STAGES[[name for name, *_ in STAGES].index("categorize") :]


Strategies = dict[str, st.SearchStrategy[Any]]
Step = tuple[str, Strategies]  # the name of a method of the machine, and its arguments
DECK: list[Step] = []
DECKS = 2  # that a run deals from: a sort of step may come twice, or not at all


def step(times: int = 1, **arguments: Any) -> Callable[[Any], Any]:
    """Put a method into the deck, once for each choice of an argument that is a tuple of choices."""

    def register(method: Any) -> Any:
        choices = {name: each for name, each in arguments.items() if isinstance(each, tuple)}
        for chosen in product(*choices.values()):
            fixed = {name: st.just(value) for name, value in zip(choices, chosen, strict=True)}
            DECK.extend([(method.__name__, {**arguments, **fixed})] * times)
        return method

    return register


class World:
    """What all runs share: the server, the oracle, a finished repository to copy, and what happened."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self.oracle = Oracle(server, folder / "oracle")
        self.finished = folder / "finished"
        self.happened: Counter[str] = Counter()
        self.dealt: set[str] = set()
        self.runs = 0
        self.finished.mkdir()
        small_run.prepare(self.finished)
        Inputs().write(self.finished)
        shell("dvc", "remote", "add", "-d", "store", str(folder / "store"), cwd=self.finished)
        for command in (("leash", "resolve"), ("leash", "fetch", DATASET), small_run.import_command("a", 0)):
            assert server.run(self.finished, *command).code == 0
        ended = server.run(self.finished, "dvc", "repro")
        assert ended.code == 0, ended.said


class Machine(RuleBasedStateMachine):
    world: World

    def __init__(self) -> None:
        super().__init__()
        self.inputs = Inputs()
        self.repo = self.world.folder / f"repo-{self.world.runs}"
        self.world.runs += 1
        shutil.copytree(self.world.finished, self.repo, symlinks=True)
        self.guests = self.repo / tables.completions_folder(IMPORTED, DATASET)
        self.added: list[Path] = []  # files that are there twice
        self.log: list[str] = []
        self.unfinished = 0  # steps since the numbers were compared
        self.deck: list[Step] = []

    # Rules of Hypothesis are not drawn alike: it leaves some out of a run, and may repeat others in all of it.
    @initialize(data=st.data())
    def shuffle(self, data: st.DataObject) -> None:
        cards = [card for card in DECK if card[0] != "fill_the_disk" or can_mount()]
        self.deck = [cards[place % len(cards)] for place in data.draw(st.permutations(range(DECKS * len(cards))))]

    @rule(data=st.data())
    def deal(self, data: st.DataObject) -> None:
        name, strategies = self.deck.pop()
        self.world.dealt.add(name)
        getattr(self, name)(**{key: data.draw(each, label=key) for key, each in strategies.items()})

    def teardown(self) -> None:
        shutil.rmtree(self.repo)

    # Edits of the inputs

    def edit(self, **changes: Any) -> None:
        self.note(f"edit {' '.join(changes)}", *changes.values())
        self.inputs = replace(self.inputs, **changes)
        self.inputs.write(self.repo)

    @step(2, k=st.sampled_from([2, 4, 6]))
    def raise_or_lower_k(self, k: int) -> None:
        self.edit(k=k)

    @step(2, change=st.sampled_from(COUNTING))
    def edit_how_it_counts(self, change: tuple[str, Any]) -> None:
        self.edit(**dict([change]))

    @step(2, change=st.sampled_from(DATA))
    def edit_the_data_set(self, change: tuple[str, Any]) -> None:
        self.edit(**dict([change]))

    @step(change=st.sampled_from(MODEL))
    def edit_the_model(self, change: tuple[str, Any]) -> None:
        self.edit(**dict([change]))

    @step(name=st.sampled_from(sorted(ANSWERS)), option=st.sampled_from([(), ("--replace",)]))
    def import_a_file(self, name: str, option: tuple[str, ...]) -> None:
        self.note("import", name, *option)
        self.imported(name, *option)

    def imported(self, name: str, *options: str, fault: Fault | None = None) -> Ended:
        """Import a file; the inputs have it if that succeeds."""
        there = any(self.guests.glob("*.parquet")) or (self.guests / "manifest.json").exists()
        ended = self.run(*small_run.import_command(name, self.inputs.questions, *options), fault=fault)
        if ended.code == 0:
            before = self.inputs.imports if there and not options else ()
            files = dict.fromkeys([*before, (name, self.inputs.questions)])
            self.inputs = replace(self.inputs, imports=tuple(files))
        return ended

    def fetched(self) -> None:
        """A remote, or DVC's cache, may have had the files of an earlier import: the manifest lists them."""
        manifest = self.guests / "manifest.json"
        if manifest.exists() and is_json(manifest.read_text(errors="replace")):
            sources = json.loads(manifest.read_text()).get("sources", [])
            files = tuple((source["file"][0], int(source["file"][1])) for source in sources)
            self.inputs = replace(self.inputs, imports=files or self.inputs.imports)

    # Faults

    def files(self, place: str) -> list[Path]:
        """The files in a folder that Leash or DVC made: no links, behind which the user's own files are."""
        found = (file for file in (self.repo / place).rglob("*") if file.is_file() and not file.is_symlink())
        return sorted(file for file in found if file.name != ".gitignore" and file.stat().st_size)

    def chosen(self, place: str, which: int) -> Path:
        """A file of a place, or of another one if that is empty."""
        files = next(files for each in (place, *PLACES) if (files := self.files(each)))
        return files[which % len(files)]

    def overwrite(self, file: Path, content: bytes, *, quietly: bool) -> None:
        """As a disk does it: whatever the permissions, and, `quietly`, without a new time."""
        stat = file.stat()
        file.chmod(0o600)
        file.write_bytes(content)
        if quietly:
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        file.chmod(stat.st_mode)

    @step(place=PLACES, which=NUMBER, bit=NUMBER, quietly=st.booleans())
    def flip_a_bit(self, place: str, which: int, bit: int, quietly: bool) -> None:
        file = self.chosen(place, which)
        self.note(f"flip a bit in {place}", file.relative_to(self.repo), bit, quietly)
        # DVC goes by the time of a file. A report that changes without a new time is its to notice, and it can't.
        self.flip(file, bit, quietly=quietly and place != "reports")

    def flip(self, file: Path, bit: int, *, quietly: bool) -> None:
        content = bytearray(file.read_bytes())
        content[bit % len(content)] ^= 1 << bit % 8
        self.overwrite(file, bytes(content), quietly=quietly)

    def turn_verdicts(self, file: Path) -> None:
        """The bits whose flip makes the most of a number: what is right becomes wrong, under the old seal."""
        table, buffer = pq.read_table(file), pa.BufferOutputStream()
        place = table.schema.get_field_index("correct")
        turned = table.set_column(place, table.schema.field(place), pc.invert(table["correct"]))
        pq.write_table(turned, buffer)
        self.overwrite(file, bytes(buffer.getvalue()), quietly=True)

    @step(place=PLACES, which=NUMBER, share=st.sampled_from([0, 0.5, 0.98]))
    def truncate_a_file(self, place: str, which: int, share: float) -> None:
        file = self.chosen(place, which)
        self.note(f"truncate in {place}", file.relative_to(self.repo), share)
        content = file.read_bytes()
        self.overwrite(file, content[: int(len(content) * share)], quietly=False)

    @step(place=PLACES, which=NUMBER)
    def delete_a_file(self, place: str, which: int) -> None:
        file = self.chosen(place, which)
        self.note(f"delete in {place}", file.relative_to(self.repo))
        file.unlink()

    @step(which=NUMBER)
    def delete_a_folder(self, which: int) -> None:
        folders = sorted(
            folder for folder in (self.repo / "data").rglob("*") if folder.is_dir() and not folder.is_symlink()
        )
        if not folders:
            self.delete_a_file("reports", which)
            return
        folder = folders[which % len(folders)]
        self.note("delete a folder", folder.relative_to(self.repo))
        shutil.rmtree(folder)

    @step(place=PLACES[:3], which=NUMBER, where=NUMBER, in_front=st.booleans())
    def duplicate_a_file(self, place: str, which: int, where: int, in_front: bool) -> None:
        """Beside itself, or where a similar file is, under a name that sorts before or after its own."""
        file = self.chosen(place, which)
        folders = sorted({file.parent, *(each.parent for each in self.files(place) if each.suffix == file.suffix)})
        folder = folders[where % len(folders)]
        copy = folder / f"{'0' if in_front else 'z'}{file.name}"
        self.note(f"duplicate in {place}", file.relative_to(self.repo), copy.relative_to(self.repo))
        shutil.copy(file, copy)
        self.added.append(copy)

    # Commands

    @step(2, command=COMMANDS)
    def run_a_stage(self, command: tuple[str, ...]) -> None:
        self.note("run a stage", *command)
        self.run("leash", *command)

    @step(2, command=COMMANDS, n=st.integers(1, 40))
    def kill_a_stage(self, command: tuple[str, ...], n: int) -> None:
        self.note("kill a stage", *command, n)
        self.run("leash", *command, fault=Fault("kill", " ".join(("leash", *command)), n))

    @step(name=st.sampled_from(sorted(ANSWERS)), n=st.integers(1, 12), option=st.sampled_from([(), ("--replace",)]))
    def kill_an_import(self, name: str, n: int, option: tuple[str, ...]) -> None:
        """And import again: until then nobody can tell which samples there are to be."""
        self.note("kill an import", name, n, *option)
        if self.imported(name, *option, fault=Fault("kill", "leash import", n)).code not in (0, 2):
            self.imported(name, "--replace")

    @step(2, command=COMMANDS, n=st.integers(1, 60))
    def kill_a_repro(self, command: tuple[str, ...], n: int) -> None:
        self.note("kill a stage of dvc repro", *command, n)
        self.run("dvc", "repro", fault=Fault("kill", " ".join(("leash", *command)), n))

    @step(n=st.integers(1, 400))
    def kill_dvc(self, n: int) -> None:
        self.note("kill dvc", n)
        self.run("dvc", "repro", fault=Fault("kill", "dvc repro", n))
        rwlock = self.repo / ".dvc" / "tmp" / "rwlock"
        if rwlock.exists() and not is_json(rwlock.read_text()):
            rwlock.unlink()  # as docs/troubleshooting.md says

    @step(command=COMMANDS, place=st.sampled_from(DISKS), n=st.sampled_from([0, 4096, 12288]))
    def fill_the_disk(self, command: tuple[str, ...], place: str, n: int) -> None:
        self.note("fill the disk", *command, place, n)
        self.run("leash", *command, fault=Fault("disk", " ".join(("leash", *command)), n, place))

    @step(level=st.sampled_from(["verdicts", "everything"]), lost=st.sampled_from(["data", *DISKS[1:], None]))
    def pull(self, level: str, lost: str | None) -> None:
        """What was pushed before something was lost."""
        self.note("push, lose, pull", level, lost)
        self.run("dvc", "push")
        if lost:
            shutil.rmtree(self.repo / lost, ignore_errors=True)
        self.run("leash", "pull", level)
        self.fetched()

    @step(by=("dvc", "hand"))
    def run_all(self, by: str) -> None:
        self.note(f"all stages by {by}")
        self.finish(by)

    @step(table=st.sampled_from(READ), which=NUMBER, bit=NUMBER, kind=("flip", "turn", "double"))
    def damage_between_stages(self, table: str, which: int, bit: int, kind: str) -> None:
        """The later stages alone read a damaged table, so that no stage repairs it before. Each refuses, or has the
        right numbers all the same."""
        self.finish("dvc")
        table = "verdicts" if kind == "turn" else table
        file = self.chosen(f"data/{table}", which)
        if kind == "turn" and file.suffix != ".parquet":
            kind = "flip"
        self.note(f"damage between stages: {kind} in {table}", file.relative_to(self.repo), bit)
        if kind == "double":
            self.added.append(file.with_name(f"z{file.name}"))
            shutil.copy(file, self.added[-1])
        elif kind == "turn":
            self.turn_verdicts(file)
        else:
            self.flip(file, bit, quietly=True)
        for command in LATER:
            if self.run("leash", *command).code:
                self.world.happened["refusals between stages"] += 1
                return
        self.compare()

    @invariant()
    def is_right_after_some_steps(self) -> None:
        """Hypothesis leaves some rules out of some runs, and `run_all` must not be left out."""
        if self.unfinished >= MAX_UNFINISHED_STEPS:
            self.finish("hand" if self.world.happened["steps"] % 3 == 0 else "dvc")

    def finish(self, by: str) -> None:
        """Run all stages, do what refusals say until the run ends well, and compare its numbers."""
        refused: list[str] = []
        while (ended := self.run_all_stages(by)).code:
            refused.append(ended.sentence)
            assert len(refused) <= MAX_REMEDIES, self.story("no remedy helps", *refused)
            self.do_what_is_said(ended, refused)
        self.compare()

    def compare(self) -> None:
        expected = self.world.oracle(self.inputs)
        assert not isinstance(expected, Ended), self.story("a run from scratch refuses", expected.said)
        self.unfinished = 0
        found = small_run.numbers(self.repo)
        # A copy under another name is nobody's table. One that every reader refuses is there, but not in `found`.
        refused = {name for name in expected if name not in found and (self.repo / name).is_file()}
        other = sorted(name for name in expected if name not in refused and found.get(name) != expected[name])
        self.world.happened["comparisons with a run from scratch"] += 1
        assert not other, self.story("other numbers than from scratch", *other)

    def run_all_stages(self, by: str) -> Ended:
        if by == "dvc":
            return self.run("dvc", "repro")
        for command in STAGES:
            if (ended := self.run("leash", *command)).code:
                break
        return ended

    def do_what_is_said(self, ended: Ended, refused: list[str]) -> None:
        """Follow the sentence. Where it names a command, that is it."""
        sentence = ended.sentence
        self.log.append(f"    refused: {sentence}")
        self.world.happened["refusals"] += 1
        said = [each.split() for each in re.findall(r"`((?:LEASH_ANEW=1 )?(?:leash|dvc|chmod) [^`]*)`", sentence)]
        if "import again" in sentence:
            said = [["leash", "import"]]
        elif "Delete the file" in sentence:
            said = [["delete"]]
        elif "No such file" in sentence and "/data/inputs/" in sentence:
            said = [["leash", "resolve"]]  # as docs/troubleshooting.md says
        elif sentence.startswith("ERROR: "):
            self.world.happened["errors of DVC itself"] += 1
            said = [["dvc", "repro", "--no-run-cache"]]  # docs/troubleshooting.md: its cache is damaged
        assert said, self.story("a sentence without a remedy", ended.said)
        # One that did not help gives way to the next.
        command = said[(refused.count(sentence) - 1) % len(said)]
        self.log.append(f"    does: {' '.join(command)}")
        if command == ["delete"]:
            self.delete_the_file(sentence)
        elif command[:2] == ["leash", "import"]:
            self.import_anew()
        elif command[0] == "chmod":
            shell(*command, cwd=self.repo)
        elif command[0] == "LEASH_ANEW=1":
            self.run(*command[1:], LEASH_ANEW="1")
        else:
            self.run(*command)
        if command[0] == "dvc" or command[:2] == ["leash", "pull"]:
            self.fetched()

    def import_anew(self) -> None:
        files = self.inputs.imports
        if any(questions != self.inputs.questions for _, questions in files):
            files = tuple({name: (name, self.inputs.questions) for name, _ in files}.values())
        for number, (name, _) in enumerate(files):
            self.imported(name, *(() if number else ("--replace",)))

    def delete_the_file(self, sentence: str) -> None:
        """That which a fault has added, if the sentence names it, which it must."""
        copies = [copy for copy in self.added if str(copy.relative_to(self.repo)) in sentence and copy.exists()]
        assert copies, self.story("a file that is there once is said to be there twice", sentence)
        copies[0].unlink()

    def run(self, *command: str, fault: Fault | None = None, **environment: str) -> Ended:
        ended = self.world.server.run(self.repo, *command, fault=fault, **environment)
        assert "Traceback" not in ended.said, self.story(" ".join(command), ended.said)
        if fault is None or fault.kind != "kill":
            assert ended.code >= 0, self.story(" ".join(command), str(ended.code), ended.said)
        if ended.code > 0 and not (fault and fault.kind == "kill"):
            assert ended.sentence, self.story(" ".join(command), str(ended.code), ended.said)
        return ended

    def note(self, what: str, *about: object) -> None:
        self.world.happened[what] += 1
        self.world.happened["steps"] += 1
        self.unfinished += 1
        self.log.append(f"{what}: {' '.join(map(str, about))}")

    def story(self, *what: str) -> str:
        return "\n".join([*self.log, "", *what])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, server: Server) -> World:
    return World(tmp_path_factory.mktemp("machine"), server)


def test_one_other_number_is_seen(world: World, tmp_path: Path) -> None:
    """Whatever its seal says: so the machine can fail."""
    repo = shutil.copytree(world.finished, tmp_path / "repo", symlinks=True)
    expected = world.oracle(Inputs())
    assert small_run.numbers(repo) == expected
    path = repo / tables.support_path(IMPORTED)
    support = tables.read(path, tables.SUPPORT_SCHEMA, "")
    place = support.schema.get_field_index("c_base")
    hits = pc.add(support["c_base"], pa.scalar(1, pa.int32()))
    tables.write(path, support.set_column(place, "c_base", hits), tables.SUPPORT_SCHEMA)
    assert isinstance(expected, dict)
    found = small_run.numbers(repo)
    assert [name for name in found if found[name] != expected[name]] == [str(tables.support_path(IMPORTED))]


def test_turned_verdicts_are_refused_and_made_again(world: World) -> None:
    machine = type("Machine", (Machine,), {"world": world})()
    file = next(machine.repo.glob("data/verdicts/base/*/*.parquet"))
    machine.turn_verdicts(file)
    ended = machine.run("leash", "categorize")
    assert ended.code == 2
    assert f"{file.name} is damaged" in ended.sentence
    machine.finish("hand")
    machine.teardown()


def test_numbers_are_right_or_refused(world: World, record_property: Callable[[str, object], None]) -> None:
    chosen = settings(
        max_examples=RUNS,
        stateful_step_count=1 + STEPS_PER_RUN,  # the shuffle is one
        deadline=None,
        database=None,
        derandomize="LEASH_SEED" not in os.environ,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    machine = type("Machine", (Machine,), {"world": world})
    if given := os.environ.get("LEASH_SEED"):
        machine = seed(int(given))(machine)
    try:
        run_state_machine_as_test(machine, settings=chosen)
    finally:
        for what, times in sorted(world.happened.items()):
            record_property("fault", f"{what}: {times}")
    assert world.happened["steps"] >= STEPS
    if STEPS >= 300:
        assert world.dealt >= {name for name, _ in DECK if name != "fill_the_disk" or can_mount()}
