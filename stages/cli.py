"""The `leash` command line: one command per stage of the pipeline, and commands for people beside them.

Heavy imports are inside the commands, so that `leash --help` answers at once. An error that the user can fix is one
sentence on stderr and exit code 2; SIGTERM ends a command with exit code 143. The stages and `leash` do the work.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from leash.errors import LeashError, Terminated, first_line
from leash.formatting import escape_controls
from leash.params import groups, loading
from leash.params.errors import UnnamedStageError

if TYPE_CHECKING:
    from leash.sampling import cost_estimate

# The stages of dvc.yaml whose outputs `leash push` and `leash pull` transfer. Parameters, the numbers of the report and
# the embedded weights are in git.
STAGES_BY_LEVEL: dict[str, tuple[str, ...]] = {
    "everything": (),  # DVC transfers all stages if none is named; most of it is completions
    # What every metric is computed from, at any epsilon and any k that was drawn: megabytes.
    "verdicts": ("fetch", "verify", "reasoning", "mass", "categorize", "perplexity", "entropy", "report"),
    "completions": ("sample",),  # alone, for a remote of their own
    "report": ("report",),
}
# Single outputs of other stages. Rollouts have texts, the tables made from them do not.
OUTPUTS_BY_LEVEL: dict[str, tuple[str, ...]] = {"verdicts": ("data/reach",)}
FILE_TYPE = click.Path(path_type=Path)
PARAMS_OPTION = click.option(
    "--params", "file", type=FILE_TYPE, default=Path("params.yaml"), show_default=True, help="The parameter file."
)
LEVEL_ARGUMENT = click.argument("level", type=click.Choice(list(STAGES_BY_LEVEL)))
REMOTE_OPTION = click.option("-r", "--remote", metavar="NAME", help="The DVC remote (default: DVC's default remote).")
FORMATS = ["auto", "jsonl", "qwen-math", "reasoning-gym", "lm-eval", "lighteval", "nemo-skills"]
FORMAT_HELP = "The harness that wrote the files; auto detects it by their fields."
# A long message keeps its beginning, which says what is wrong, and its end, which says what to do.
MESSAGE_HEAD_CHARS, MESSAGE_TAIL_CHARS = 500, 400


class LeashGroup(click.Group):
    """Prints errors as one sentence, and lists the commands in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> object:
        signal.signal(signal.SIGTERM, _raise_terminated)
        try:
            return super().invoke(ctx)
        except (LeashError, OSError) as error:
            message = _describe_os_error(error) if isinstance(error, OSError) else str(error)
            _echo(f"leash: {_sanitize(message)}", err=True)
            sys.exit(2)
        except Terminated:
            _echo("leash: stopped by SIGTERM. Finished work is kept; run the command again to resume.", err=True)
            sys.exit(128 + signal.SIGTERM)


def _describe_os_error(error: OSError) -> str:
    """A full disk, a folder without permission or a name that is too long, as a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full. Finished work is kept; free some space and run the command again."
    if error.filename is None:
        raise error
    return f"Cannot access {os.fsdecode(error.filename)}: {error.strerror}. Fix its permissions or choose another path."


def _echo(text: object, *, err: bool = False) -> None:
    """Print a text, which can quote a model, a data set or a server: no control code reaches the terminal."""
    click.echo(escape_controls(str(text)), err=err)


def _sanitize(message: str) -> str:
    """Escape control characters and cut the middle of a long message: it can quote a hostile file."""
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    if len(printable) <= MESSAGE_HEAD_CHARS + MESSAGE_TAIL_CHARS:
        return printable
    return f"{printable[:MESSAGE_HEAD_CHARS]} … {printable[-MESSAGE_TAIL_CHARS:]}"


def _raise_terminated(*_: object) -> None:
    raise Terminated


def _print_scored(scored: int, warnings: list[str], what: str) -> None:
    for warning in warnings:
        _echo(warning, err=True)
    _echo(f"{scored:,} {what} scored.")


@click.group(cls=LeashGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rlvr-leash")
def main() -> None:
    """Did RLVR make new correct solutions reachable, or only sharpen what the base could already do?

    `dvc repro` runs every stage that is out of date. The stages are listed first, in their order, and also run by hand.
    """


@main.command()
@PARAMS_OPTION
def resolve(file: Path) -> None:
    """Check params.yaml and fill in its defaults.

    The other stages read the result from data/params, and the files that params.yaml names from data/inputs.
    """
    from stages.resolve.stage import run

    run(loading.load(file))


@main.command()
@PARAMS_OPTION
def train(file: Path) -> None:
    """Train the embedded models, if this run uses them."""
    from stages.train.stage import EMBEDDED_MODELS_DIR, run

    params = loading.load(file)
    if params.uses_models_in(EMBEDDED_MODELS_DIR):
        run(params.train, EMBEDDED_MODELS_DIR)
    else:
        EMBEDDED_MODELS_DIR.mkdir(parents=True, exist_ok=True)  # DVC requires that a stage's output exists
        _echo("This run does not use the embedded models: nothing to train.")


def find_name(command: str, given: str | None, known: Sequence[str]) -> str:
    """The name on the command line; without one, that of the stage that DVC runs (`DVC_STAGE`: sample@base).

    So dvc.yaml pastes no name of params.yaml into a command, where a shell would read it as code."""
    if given is not None:
        return given
    # From another folder, DVC writes ../dvc.yaml:sample@base.
    stage = re.fullmatch(rf"(?:.*:)?{command}@(.*)", os.environ.get("DVC_STAGE", ""), re.DOTALL)
    if stage and stage[1] in known:
        return stage[1]
    raise UnnamedStageError(command, known)


@main.command()
@click.argument("dataset", required=False)
@click.option("--preview", is_flag=True, help="Only print a few problems as the model will see them.")
@click.option("--model", help="With --preview: the model whose prompts to show (default: the first of the run).")
@PARAMS_OPTION
def fetch(dataset: str | None, preview: bool, model: str | None, file: Path) -> None:
    """Load the problems of a data set.

    `dvc repro` runs it for each data set; by hand, name one.
    """
    from leash.datasets.preview import format_preview
    from leash.formatting import pluralize
    from stages.fetch.stage import run

    params = loading.load(file)
    dataset = find_name("fetch", dataset, params.run.datasets)
    if preview:
        _echo(format_preview(params, dataset, model))
        return
    fetched = run(params, dataset)
    for warning in fetched.warnings:
        _echo(f"Note: {warning}", err=True)
    count = pluralize(len(fetched.rows), "problem")
    _echo(f"{dataset}: {count}." + (f" {fetched.origin}" if fetched.origin else ""))


@main.command()
@click.argument("model", required=False)
@click.argument("datasets", nargs=-1, metavar="[DATASET...]")
@click.option("--resample", is_flag=True, help="Delete the samples on disk and start over.")
@click.option("--show-prompt", is_flag=True, help="Only print the complete prompt of the first problem.")
@PARAMS_OPTION
def sample(model: str | None, datasets: tuple[str, ...], resample: bool, show_prompt: bool, file: Path) -> None:
    """Sample a model on all data sets, or on some.

    `dvc repro` runs it for each model; by hand, name one. Only samples that are not on disk yet are drawn, so a stopped
    run resumes.
    """
    from leash.sampling import sampler
    from leash.sampling.duplicate_samples import find_repeat_warning
    from stages.sample import stage

    params = loading.load(file)
    model, chosen = find_name("sample", model, params.run.models), _known_datasets(params, datasets)
    if show_prompt:
        _echo("\n\n".join(sampler.format_first_prompt(params, model, dataset) for dataset in chosen))
        return
    drawn = stage.run(params, model, *chosen, resample=resample)
    for dataset, stats in drawn.by_dataset.items():
        _echo(f"{model} on {dataset}: {stats.samples:,} completions drawn.")
        if failures := sampler.describe_failures(model, dataset, stats.failed):
            _echo(f"Warning: {failures}", err=True)
        if stats.samples and (warning := find_repeat_warning(params, model, dataset)):
            _echo(f"Warning: {warning}", err=True)


def _known_datasets(params: groups.Params, datasets: tuple[str, ...]) -> list[str]:
    """The named data sets, each once, or all of the run. Raise if params.yaml does not have one."""
    for dataset in datasets:
        params.known_dataset(dataset)
    return list(dict.fromkeys(datasets)) or params.run.datasets


@main.command()
@click.argument("model", required=False)
@click.argument("datasets", nargs=-1, metavar="[DATASET...]")
@PARAMS_OPTION
def verify(model: str | None, datasets: tuple[str, ...], file: Path) -> None:
    """Grade a model's completions on all data sets, or on some.

    `dvc repro` runs it for each model; by hand, name one.
    """
    from leash.params.security import refuse_unlisted_graders
    from leash.problems import load_problems, load_question_hashes
    from leash.sample_ledger import Ledger
    from leash.sampling import metadata, sampler
    from leash.tables import completions_folder
    from stages.verify.stage import run

    params = loading.load(file)
    model, chosen = find_name("verify", model, params.run.models), _known_datasets(params, datasets)
    params.known_model(model)
    for dataset in chosen:
        refuse_unlisted_graders(params, dataset, (problem["grader"] for problem in load_problems(dataset).values()))
        again = sampler.resample_command(model, dataset)
        Ledger(completions_folder(model, dataset)).require_origin(load_question_hashes(dataset), again)
    for dataset in chosen:
        verified = run(params, model, dataset)
        metadata.copy_metadata_to_verdicts(model, dataset)
        _echo(f"{model} on {dataset}: {verified:,} completions verified.")


@main.command()
@PARAMS_OPTION
def reasoning(file: Path) -> None:
    """Ask a judge about the working of correct completions.

    Does nothing if `reasoning.judge` is not set. Prints the estimated cost before it asks.
    """
    from stages.reasoning.stage import run

    for sentence in run(loading.load(file)):
        _echo(sentence, err=True)


@main.command()
@PARAMS_OPTION
def mass(file: Path) -> None:
    """Compute exact probabilities of completions.

    Every correct completion gets its log-probability under every model of its pairs.
    """
    from stages.mass.stage import run

    _print_scored(*run(loading.load(file)), "completions")


@main.command()
@PARAMS_OPTION
def reach(file: Path) -> None:
    """Bound masses far below 1/k.

    Does nothing if `reach.rollouts` is 0. Rollouts are kept, so a stopped run resumes.
    """
    from stages.reach.stage import run

    drawn, sentences = run(loading.load(file))
    for sentence in sentences:
        _echo(sentence, err=True)
    _echo(f"{drawn:,} rollouts drawn.")


@main.command()
@PARAMS_OPTION
def categorize(file: Path) -> None:
    """Sort every problem of every pair into P, E, S or O."""
    from stages.categorize.stage import run

    for warning in run(loading.load(file)):
        _echo(warning, err=True)


@main.command()
@PARAMS_OPTION
def perplexity(file: Path) -> None:
    """Score reference solutions under every model."""
    from stages.perplexity.stage import run

    _print_scored(*run(loading.load(file)), "traces")


@main.command()
@PARAMS_OPTION
def entropy(file: Path) -> None:
    """Measure token and answer entropy of every model."""
    from stages.entropy.stage import run

    _print_scored(*run(loading.load(file)), "samples")


@main.command()
@click.option("--show", is_flag=True, help="Only print the headline of the existing report.")
@PARAMS_OPTION
def report(show: bool, file: Path) -> None:
    """Write the report and print its headline."""
    from leash.report.metrics import format_headline
    from stages.report.stage import run

    if not show:
        run(loading.load(file))
    _echo(format_headline())


@main.command()
@click.option("--start", is_flag=True, help="Also start every engine of the run and close it again.")
@PARAMS_OPTION
def doctor(start: bool, file: Path) -> None:
    """Check this machine and this run.

    The last line is the next command to type. It exits with code 2 if something this run needs is missing.
    """
    import shutil

    from leash.doctor.examine import examine, next_command
    from leash.doctor.lines import describe_missing, format_sections

    sections = examine(file, start=start)
    for row in format_sections(sections, shutil.get_terminal_size((100, 24)).columns):
        _echo(_sanitize(row))
    missing = describe_missing(sections)
    if missing:
        _echo(f"leash: {_sanitize(missing)}", err=True)
    elif file.exists():
        _echo("This run has what it needs.")
    _echo(f"Next: {_sanitize(next_command(sections, file))}")
    if missing:
        sys.exit(2)


def draw_pilot(params: groups.Params, samples: int) -> dict[tuple[str, str], float | None]:
    """Fetch missing data sets, draw the first samples of every problem, and return tokens per second by run."""
    from leash import tables
    from leash.sampling.cost_estimate import sampled_models
    from stages.fetch import stage as fetch_stage
    from stages.sample import stage

    models = sampled_models(params)
    for dataset in params.run.datasets if models else ():
        if not tables.problems_path(dataset).exists():
            for warning in fetch_stage.run(params, dataset).warnings:
                _echo(f"Note: {warning}", err=True)
    # One engine draws all data sets of a model at once, so its speed is that of each.
    speeds = {model: stage.run(params, model, pilot=samples).speed for model in models}
    return {(model, dataset): speed for model, speed in speeds.items() for dataset in params.run.datasets}


def describe_reach_cost(
    params: groups.Params,
    given: cost_estimate.CostAssumptions,
    speeds: dict[tuple[str, str], float | None],
    width: int,
) -> str | None:
    """What certificates cost or, if they are off, would bound. None if there is nothing to say."""
    from leash.reach import cost
    from stages.reach.stage import find_planned_tasks

    tasks, reasons = find_planned_tasks(params)
    if not params.reach.rollouts:
        return cost.describe_missed_certificates(tasks, width)
    costs = cost.estimate_reach_costs(params, tasks, given, speeds)
    return cost.format_reach_costs(params, tasks, costs, reasons, width)


@main.command()
@click.option("--pilot", type=click.IntRange(1), metavar="N", help="First draw N samples per problem, which are kept.")
@click.option("--mean-tokens", type=click.FloatRange(min=0, min_open=True), help="Mean tokens of a completion.")
@click.option("--tokens-per-second", type=click.FloatRange(min=0, min_open=True), help="Speed of one GPU or core.")
@click.option("--detect", type=float, metavar="SHARE", help="How many problems show a net change of this share?")
@click.option("--power", type=click.FloatRange(0, 1, True, True), default=0.8, show_default=True, help="Of --detect.")
@click.option("--prior", type=click.Choice(["aime", "math", "embedded"]), help="Masses for --detect, not the samples'.")
@PARAMS_OPTION
def plan(
    pilot: int | None,
    mean_tokens: float | None,
    tokens_per_second: float | None,
    detect: float | None,
    power: float,
    prior: str | None,
    file: Path,
) -> None:
    """Estimate tokens, hours and disk of the run.

    Prints both budgets: fixed (all k samples) and adaptive (`sample.stop_after`). With `reach.rollouts`, also prints
    what certificates cost.

    With --detect 0.03, also prints how many problems it takes to see a net change of 3% of the problems, for several k,
    and the smallest change that the run's own problems show. The masses come from the samples on disk, or from --prior.
    """
    import shutil

    from leash.doctor.capacity import check_capacity
    from leash.doctor.lines import Section, describe_missing
    from leash.doctor.requirements import check_requirements
    from leash.sampling import cost_estimate, power_plan

    params, width = loading.load(file), min(shutil.get_terminal_size((80, 24)).columns, 100)
    goal = None if detect is None else power_plan.PowerGoal(detect, power, prior)
    # A pilot does not need disk and time for the whole run: it measures them.
    requirements = Section("This run", check_requirements(params))
    if pilot and (missing := describe_missing([requirements])):
        raise LeashError(f"Cannot draw a pilot yet: {missing} Next: leash doctor")
    speeds = draw_pilot(params, pilot) if pilot else {}
    assumptions = cost_estimate.CostAssumptions(mean_tokens, tokens_per_second)
    costs = cost_estimate.run(params, assumptions, speeds)
    needed = power_plan.format_plans(params, goal, power_plan.run(params, goal), width) if goal else None
    _echo(cost_estimate.format_costs(params, costs, width))
    if certificates := describe_reach_cost(params, assumptions, speeds, width):
        _echo(f"\n{certificates}")
    if needed:
        _echo(f"\n{needed}")
    following = "leash plan --pilot 4" if cost_estimate.is_pilot_needed(costs) else "dvc repro"
    if lacking := [*requirements.missing, *Section("This run", check_capacity(params)).missing]:
        following = "leash doctor"
        _echo(f"\nCannot run yet. Missing: {', '.join(dict.fromkeys(line.subject for line in lacking))}.")
    _echo(f"\nNext: {following}")


@main.command()
@click.argument("file", default="-", metavar="[FILE]")
@click.option("--grader", default="math", show_default=True, help="The grader; mine:score is `score` of your mine.py.")
@click.option(
    "--reading",
    type=click.Choice(["strict", "lenient"]),
    default="strict",
    show_default=True,
    help="strict: the answer in a box, in tags or stated as one; lenient: or else the last one in any form.",
)
@click.option("--timeout", type=click.IntRange(1), default=5, show_default=True, help="Seconds per answer.")
def grade(file: str, grader: str, reading: str, timeout: int) -> None:
    """Grade JSON lines {"gold", "text"}.

    Reads FILE, or standard input by default.

    Prints each line with answer, correct, score and status by the chosen reading, and with correct_strict and
    correct_lenient, in the same order. `gold` is a string or a list of accepted answers. The object `meta` holds what
    else a grader needs.
    """
    from leash import grade_jsonl

    output = sys.stdout.buffer
    with grade_jsonl.open_input(file) as source:
        limits = {"timeout": timeout, "memory": groups.Verify().memory}
        for line in grade_jsonl.grade_lines(source, grader, reading=reading, **limits):
            output.write(line)
            output.flush()


@main.command()
@click.argument("counts", type=FILE_TYPE, metavar="COUNTS")
@click.option("--k", type=click.IntRange(min=1), help="Compare at K samples (default: the most that both have).")
@click.option("--epsilon", metavar="E|auto", help="Support means a mass above this (0: at least one hit).")
@click.option("--confidence", type=click.FloatRange(0.5, 1, True, True), default=0.95, show_default=True)
@click.option(
    "--margin",
    type=click.FloatRange(0, 1, True, True),
    default=0.02,
    show_default=True,
    help="A net change below this share of the problems is irrelevant.",
)
@click.option(
    "--clusters",
    type=click.Choice(["auto", "none"]),
    default="auto",
    show_default=True,
    help="auto: problems with the same `cluster` belong together; none: ignore that column.",
)
@click.option("--resamples", type=click.IntRange(min=10), default=1000, show_default=True, help="Bootstrap resamples.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; docs/compare.md explains the keys.")
def compare(
    counts: Path,
    k: int | None,
    epsilon: str | None,
    confidence: float,
    margin: float,
    clusters: Literal["auto", "none"],
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Compare two models from a table of counts.

    COUNTS is a CSV, JSON lines or Parquet file with the columns problem_id, n_base, c_base, n_rlvr, c_rlvr (samples and
    hits of the base and of the second model), and optionally dataset, level and cluster.
    """
    import json

    from leash.counts_comparison import compare_counts, parse_epsilon
    from leash.report.compare_text import format_comparison
    from leash.statistics.bootstrap_weights import AnalysisSettings

    settings = AnalysisSettings(k, parse_epsilon(epsilon), confidence, resamples, seed, margin, clusters)
    analysis = compare_counts(counts, settings)
    _echo(json.dumps(analysis, indent=1, allow_nan=False) if as_json else format_comparison(analysis))


@main.command("import")
@click.argument("files", nargs=-1, required=True, type=FILE_TYPE, metavar="FILE...")
@click.option("--model", required=True, help="The name of the model that wrote the completions.")
@click.option("--dataset", required=True, help="The name of the data set.")
@click.option("--format", type=click.Choice(FORMATS), default="auto", show_default=True, help=FORMAT_HELP)
@click.option("--grader", help="The grader of new problems (default: math).")
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Only such rows. Repeat it for alternatives.")
@click.option("--question", metavar="FIELD", help="The field with the question, in your own JSON lines.")
@click.option("--answer", metavar="FIELD", help="The field with the gold answer.")
@click.option("--text", metavar="FIELD", help="The field with the completion or a list of completions.")
@click.option("--id", metavar="FIELD", help="The field with the id of the problem.")
@click.option("--sample", metavar="FIELD", help="The field with the number of the sample.")
@click.option("--replace", is_flag=True, help="Delete the completions on disk and start over.")
def import_(files: tuple[Path, ...], model: str, dataset: str, **options: Any) -> None:
    """Import completions that you already have.

    The files come from another harness or are your own JSON lines.
    """
    from leash.importing.importer import run
    from leash.importing.jsonl import FieldMapping
    from leash.importing.summary import describe_import

    mapping = FieldMapping(**{name: options.pop(name) for name in ("question", "answer", "text", "id", "sample")})
    for sentence in describe_import(run(files, model, dataset, mapping=mapping, **options)):
        _echo(sentence)


@main.command()
@click.argument("sql")
@PARAMS_OPTION
def query(sql: str, file: Path) -> None:
    """Run SQL over all tables.

    The tables are problems, completions, verdicts, support, reach, perplexity and entropy.
    """
    import duckdb

    from leash.database import open_database

    try:
        with open_database(loading.load(file), only=_table_names(sql)) as connection:
            # Or a table that is not there would be looked up among the variables here: `reach` is a command.
            connection.execute("set python_enable_replacements = false")
            _echo(connection.sql(sql) or "Done.")
    except duckdb.Error as error:
        raise LeashError(f"DuckDB says: {first_line(error)}.") from None


def _table_names(sql: str) -> list[str]:
    """The tables that a query names: only these are opened and checked. Empty (all tables) if DuckDB can't tell."""
    import duckdb

    try:
        return sorted(duckdb.connect().get_table_names(sql))
    except duckdb.Error:  # several statements, or a mistake, which running the query explains better
        return []


def _targets(level: str) -> list[tuple[str, ...]]:
    """What DVC must be asked for, one call after the other: beside an output, DVC 3.67 leaves out most files of the
    stages that are named with it."""
    return [STAGES_BY_LEVEL[level], *([OUTPUTS_BY_LEVEL[level]] if level in OUTPUTS_BY_LEVEL else [])]


def _run_dvc(*command: str) -> None:
    _echo(shlex.join(["dvc", *command]), err=True)
    if code := subprocess.run([sys.executable, "-m", "dvc", *command], check=False).returncode:
        sys.exit(code)


@main.command()
@LEVEL_ARGUMENT
@REMOTE_OPTION
def push(level: str, remote: str | None) -> None:
    """Send results to a DVC remote.

    LEVEL: everything, verdicts (enough for every metric), report, or completions alone.
    """
    for targets in _targets(level):
        _run_dvc("push", *(("-r", remote) if remote else ()), *targets)


@main.command()
@LEVEL_ARGUMENT
@REMOTE_OPTION
def pull(level: str, remote: str | None) -> None:
    """Get results from a DVC remote.

    LEVEL: everything, verdicts (enough for every metric), report, or completions alone.

    Compares every file with dvc.lock before it puts any in place.
    """
    from leash.dvc_pull import FetchSummary, describe_trust, fetch_results

    loading.load()  # checks the names that DVC makes paths of
    fetched = [fetch_results(targets, remote) for targets in _targets(level)]
    for targets in _targets(level):
        _run_dvc("checkout", *targets)
    _echo(describe_trust(FetchSummary(*map(sum, zip(*fetched, strict=True)))), err=True)


@main.command()
@click.argument("target", type=FILE_TYPE, default=Path("bundle.zip"), metavar="[FILE.zip]")
@click.option("--without-texts", is_flag=True, help="Leave out questions, golds, completions and the page.")
@PARAMS_OPTION
def bundle(target: Path, without_texts: bool, file: Path) -> None:
    """Pack the report and its data into a zip.

    The zip holds all that is needed to recompute the numbers, for example as the appendix of a paper.
    """
    from leash.bundle.archive import write_bundle

    written = write_bundle(loading.load(file), file, target, texts=not without_texts)
    _echo(f"{target}: {written.files:,} files, {written.bytes / 1e6:,.1f} MB; its README.txt lists them.")


if __name__ == "__main__":
    main()
