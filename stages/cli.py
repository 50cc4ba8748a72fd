"""The `leash` commands: one per stage, and those for people.

Heavy imports live inside the commands, so that `leash --help` is instant. An error is one sentence and exit
code 2.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

import click

from stages import params as parameters
from stages.errors import LeashError, Stopped, first_line
from stages.sharing import LEVELS, transfer

FILE = click.option(
    "--params", "file", type=click.Path(path_type=Path), default=Path("params.yaml"), help="The parameter file."
)


LEVEL = click.argument("level", type=click.Choice(list(LEVELS)))
REMOTE = click.option("-r", "--remote", metavar="NAME", help="The DVC remote; the default one where nothing is said.")
HEAD, TAIL = 500, 400  # characters of a sentence that tells something long: what is wrong, and what to do


class Sentences(click.Group):
    """A group whose errors are sentences."""

    def invoke(self, ctx: click.Context) -> object:
        signal.signal(signal.SIGTERM, _stop)
        try:
            return super().invoke(ctx)
        except LeashError as error:
            click.echo(f"leash: {_one_line(str(error))}", err=True)
            sys.exit(2)
        except Stopped:
            click.echo(
                "leash: stopped by SIGTERM; what was finished is kept: run the command again to go on.", err=True
            )
            sys.exit(128 + signal.SIGTERM)
        except OSError as error:
            click.echo(f"leash: {_one_line(_said(error))}", err=True)
            sys.exit(2)


def _said(error: OSError) -> str:
    """What the system refuses, as a sentence: a full disk, a folder that may not be written, too long a name."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full; what was finished is kept: free some space and run the command again."
    if error.filename is None:
        raise error
    name = os.fsdecode(error.filename)
    return f"{name} can't be used here ({error.strerror}); make it so that it can, or name another."


def _one_line(sentence: str) -> str:
    """A sentence in which what a file holds can't end the line, fill the screen or reach the terminal: \\x1b for an
    escape."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in sentence)
    return plain if len(plain) <= HEAD + TAIL else f"{plain[:HEAD]} … {plain[-TAIL:]}"


def _stop(*_: object) -> None:
    raise Stopped


def _say(scored: int, sentences: list[str], what: str) -> None:
    """What a stage that scores has to say, and how much it did."""
    for sentence in sentences:
        click.echo(sentence, err=True)
    click.echo(f"{scored:,} {what} scored.")


@click.group(cls=Sentences, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="leash")
def main() -> None:
    """Did RLVR make new correct solutions reachable, or only sharpen what the base could already do?

    `dvc repro` runs every stage that needs to; the stages below also run by hand.
    """


@main.command()
@FILE
def resolve(file: Path) -> None:
    """Check params.yaml, fill in its defaults for the other stages, and link the files that it names."""
    from stages.resolve import run

    run(parameters.load(file))


@main.command()
@FILE
def train(file: Path) -> None:
    """Train the embedded base, RLVR and SFT models from scratch, if this run uses them."""
    from stages.train import FOLDER, run

    params = parameters.load(file)
    if params.uses_models_in(FOLDER):
        run(params.train, FOLDER)
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)  # DVC wants a stage's output to exist
        click.echo("This run uses none of the embedded models: nothing to train.")


@main.command()
@click.argument("dataset")
@click.option("--preview", "previewed", is_flag=True, help="Only print a few problems as the model will see them.")
@click.option("--model", help="With --preview: whose prompts to show (the run's first model where nothing is said).")
@FILE
def fetch(dataset: str, previewed: bool, model: str | None, file: Path) -> None:
    """Bring a data set into the problems table."""
    from stages.fetch import run
    from stages.fetch.preview import preview

    params = parameters.load(file)
    if previewed:
        click.echo(preview(params, dataset, model))
        return
    fetched = run(params, dataset)
    for warning in fetched.warnings:
        click.echo(f"Note: {warning}", err=True)
    click.echo(f"{dataset}: {len(fetched.rows):,} problems." + (f" {fetched.origin}" if fetched.origin else ""))


@main.command()
@click.argument("model")
@click.argument("dataset")
@click.option("--resample", is_flag=True, help="Throw away what was sampled before and start anew.")
@click.option("--show-prompt", is_flag=True, help="Only print the first problem's prompt, in full.")
@FILE
def sample(model: str, dataset: str, resample: bool, show_prompt: bool, file: Path) -> None:
    """Draw the completions of a model on a data set that are not there yet."""
    from stages import sample as stage
    from stages.sample.repeats import repeated

    params = parameters.load(file)
    params.known_dataset(dataset)
    if show_prompt:
        click.echo(stage.show_prompt(params, model, dataset))
        return
    drawn = stage.run(params, model, dataset, resample=resample)
    click.echo(f"{model} on {dataset}: {drawn.samples:,} completions drawn.")
    if drawn.samples and (warning := repeated(params, model, dataset)):
        click.echo(f"Warning: {warning}", err=True)


@main.command()
@click.option("--pilot", type=click.IntRange(1), help="Draw so many samples of every problem first; they are kept.")
@click.option("--mean-tokens", type=click.FloatRange(min=0, min_open=True), help="Tokens a completion has on average.")
@click.option("--tokens-per-second", type=click.FloatRange(min=0, min_open=True), help="Speed of one GPU (or core).")
@FILE
def plan(pilot: int | None, mean_tokens: float | None, tokens_per_second: float | None, file: Path) -> None:
    """What the run will cost: completions, tokens, hours and disk, with a fixed and an adaptive budget."""
    import shutil

    from stages.doctor import Section, trouble
    from stages.doctor.limits import limits
    from stages.doctor.needs import needs
    from stages.sample import plan as planning

    params = parameters.load(file)
    # A pilot may go where disk or time would not do for the whole run: that is what it measures.
    required = Section("This run", needs(params))
    if pilot and (lack := trouble([required])):
        raise LeashError(f"Cannot draw a pilot yet: {lack} Next: leash doctor")
    costs = planning.run(params, planning.Given(mean_tokens, tokens_per_second), pilot)
    click.echo(planning.shown(params, costs, min(shutil.get_terminal_size((80, 24)).columns, 100)))
    lacking = [*required.missing, *Section("This run", limits(params)).missing]
    if lacking:
        click.echo(f"\nCannot run yet. Missing: {', '.join(dict.fromkeys(line.what for line in lacking))}.")
    following = "leash doctor" if lacking else "leash plan --pilot 4" if planning.wants_pilot(costs) else "dvc repro"
    click.echo(f"\nNext: {following}")


@main.command()
@click.argument("model")
@click.argument("dataset")
@FILE
def verify(model: str, dataset: str, file: Path) -> None:
    """Grade the completions of a model on a data set."""
    from stages.safety import refuse_strange_graders
    from stages.sample import facts
    from stages.verify import problems_of, run

    params = parameters.load(file)
    params.known_model(model)
    params.known_dataset(dataset)
    refuse_strange_graders(params, dataset, (problem["grader"] for problem in problems_of(dataset).values()))
    verified = run(params, model, dataset)
    facts.keep(model, dataset)
    click.echo(f"{model} on {dataset}: {verified:,} completions verified.")


@main.command()
@click.argument("file", default="-", metavar="[FILE]")
@click.option("--grader", default="math", show_default=True, help="Who grades; your own function as module:function.")
@click.option("--timeout", type=click.IntRange(1), default=5, show_default=True, help="Seconds an answer may take.")
def grade(file: str, grader: str, timeout: int) -> None:
    """Grade JSON lines {"gold", "text"} from a file or standard input.

    Each line comes out with answer, correct, score and status added, in the same order. `gold` is a string or a list of
    accepted ones; a grader that needs to know more finds it in the object `meta`.
    """
    from stages.verify import lines

    output = sys.stdout.buffer
    with lines.opened(file) as source:
        for line in lines.graded(source, grader, timeout=timeout, memory=parameters.Verify().memory):
            output.write(line)
            output.flush()


@main.command()
@FILE
def mass(file: Path) -> None:
    """Measure how likely every model is to write each correct completion that was seen."""
    from stages.mass import run

    _say(*run(parameters.load(file)), "completions")


@main.command()
@FILE
def categorize(file: Path) -> None:
    """Sort every problem of every pair into P, E, S or O."""
    from stages.categorize import run

    for sentence in run(parameters.load(file)):
        click.echo(sentence, err=True)


@main.command()
@FILE
def perplexity(file: Path) -> None:
    """Score reference solutions under every model."""
    from stages.perplexity import run

    _say(*run(parameters.load(file)), "traces")


@main.command()
@FILE
def entropy(file: Path) -> None:
    """Measure token and answer entropy of every model."""
    from stages.entropy import run

    _say(*run(parameters.load(file)), "samples")


@main.command()
@click.option("--show", is_flag=True, help="Only print the headline of the report that is there.")
@FILE
def report(show: bool, file: Path) -> None:
    """Write the report and print its headline."""
    from stages.report import headline, run

    if not show:
        run(parameters.load(file))
    click.echo(headline())


@main.command()
@click.argument("target", type=click.Path(path_type=Path), default=Path("bundle.zip"), metavar="[FILE.zip]")
@click.option("--without-texts", is_flag=True, help="Leave out questions, golds, completions and the page.")
@FILE
def bundle(target: Path, without_texts: bool, file: Path) -> None:
    """Put the report and all that it takes to make its numbers again into one zip, for a paper's appendix."""
    from stages.bundle import bundle

    done = bundle(parameters.load(file), file, target, texts=not without_texts)
    click.echo(f"{target}: {done.files:,} files, {done.bytes / 1e6:,.1f} MB; its README.txt says what is in it.")


@main.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--model", required=True, help="The name of the model whose completions these are.")
@click.option("--dataset", required=True, help="The name of the data set.")
@click.option(
    "--format",
    type=click.Choice(["auto", "jsonl", "qwen-math", "reasoning-gym", "lm-eval", "lighteval", "nemo-skills"]),
    default="auto",
    help="Which harness wrote the files; auto sees it from their fields.",
)
@click.option("--grader", help="The grader of new problems (math where nothing is said).")
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Only rows with this value; any of several.")
@click.option("--question", metavar="FIELD", help="The field with the question, in JSON lines of your own.")
@click.option("--answer", metavar="FIELD", help="The field with the gold answer.")
@click.option("--text", metavar="FIELD", help="The field with the completion or a list of completions.")
@click.option("--id", metavar="FIELD", help="The field that names the problem.")
@click.option("--sample", metavar="FIELD", help="The field with the number of the sample.")
@click.option("--replace", is_flag=True, help="Throw away the completions that are there and start anew.")
def import_(
    files: tuple[Path, ...],
    model: str,
    dataset: str,
    format: str,
    grader: str | None,
    where: tuple[str, ...],
    replace: bool,
    **fields: str | None,
) -> None:
    """Bring in completions that you already have: of other harnesses, or JSON lines of your own."""
    from stages.importing import run
    from stages.importing.reading.jsonl import Mapping
    from stages.importing.sentences import sentences

    mapping = Mapping(**fields)
    done = run(files, model, dataset, format=format, grader=grader, where=where, mapping=mapping, replace=replace)
    for sentence in sentences(done):
        click.echo(sentence)


@main.command()
@LEVEL
@REMOTE
def push(level: str, remote: str | None) -> None:
    """Send a level of this run to a DVC remote: everything, verdicts (enough for every metric) or the report."""
    sys.exit(transfer("push", level, remote))


@main.command()
@LEVEL
@REMOTE
def pull(level: str, remote: str | None) -> None:
    """Get a level of this run from a DVC remote: everything, verdicts (enough for every metric) or the report."""
    sys.exit(transfer("pull", level, remote))


@main.command()
@click.argument("counts", type=click.Path(path_type=Path), metavar="COUNTS")
@click.option("--k", type=click.IntRange(min=1), help="Compare at so many samples; the most that both models have.")
@click.option("--epsilon", metavar="E|auto", help="The mass that support must exceed (0: any hit).")
@click.option("--confidence", type=click.FloatRange(0, 1, True, True), default=0.95, show_default=True)
@click.option("--resamples", type=click.IntRange(min=10), default=1000, show_default=True, help="Of the bootstrap.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="For programs; docs/compare.md has the keys.")
def compare(
    counts: Path, k: int | None, epsilon: str | None, confidence: float, resamples: int, seed: int, as_json: bool
) -> None:
    """Compare two models from a table of counts: CSV, JSON lines or Parquet with problem_id, n_base, c_base, n_rlvr,
    c_rlvr (samples and hits of the base and of the second model), and perhaps dataset."""
    import json

    from stages.categorize.compare import compare, epsilon_asked
    from stages.categorize.saying import text
    from stages.categorize.statistics.resampling import Settings

    settings = Settings(k, epsilon_asked(epsilon), confidence, resamples, seed)
    found = compare(counts, settings)
    click.echo(json.dumps(found, indent=1, allow_nan=False) if as_json else text(found))


@main.command()
@click.argument("sql")
@FILE
def query(sql: str, file: Path) -> None:
    """Run SQL over every table there is: problems, completions, verdicts, support, perplexity, entropy."""
    import duckdb

    from stages.tables import database

    try:
        with database(parameters.load(file)) as connection:
            click.echo(connection.sql(sql) or "Done.")
    except duckdb.Error as error:
        raise LeashError(f"DuckDB says: {first_line(error)}.") from None


@main.command()
@click.option("--start", is_flag=True, help="Also start every engine of the run, draw nothing, and close it.")
@FILE
def doctor(start: bool, file: Path) -> None:
    """Check this machine, and whether it has what the run needs; the last line is the next command to type.

    It exits with code 2 if something this run needs is missing.
    """
    import shutil

    from stages.doctor import examine, next_command, rows, trouble

    sections = examine(file, start=start)
    for row in rows(sections, shutil.get_terminal_size((100, 24)).columns):
        click.echo(_one_line(row))
    lack = trouble(sections)
    if lack:
        click.echo(f"leash: {_one_line(lack)}", err=True)
    elif file.exists():
        click.echo("This run has what it needs.")
    click.echo(f"Next: {_one_line(next_command(sections, file))}")
    if lack:
        sys.exit(2)


if __name__ == "__main__":
    main()
