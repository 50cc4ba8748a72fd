"""Write one zip for a paper's appendix, from which anyone can compute the numbers again, without weights or DVC.

In:  params.yaml, dvc.lock, the report, and every table of the run except the completions.
Out: a zip of all that, with the counts of each pair for `leash compare`, and a README.txt that lists the contents.

    write_bundle(params, Path("params.yaml"), Path("bundle.zip"))  ->  BundleSummary(files=266, bytes=7981234)

The same run gives the same bytes: names are sorted and times are fixed. Nothing that identifies this machine goes in:
full paths keep their last part, addresses lose their host, and a link into DVC's cache goes in as the file itself.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
from ruamel.yaml import YAML

from leash import atomic_io, cross_pair, tables
from leash.bundle import pseudonyms
from leash.bundle.readme import format_readme
from leash.errors import LeashError, MissingVerdictsError
from leash.params.groups import Params
from leash.report import entropy_tables
from leash.report.audit import DECISIVE_HITS_SCHEMA
from leash.report.cells import encode_csv
from leash.report.metrics import REPORTS_DIR, read_metrics
from leash.report.provenance import collect_parameters, redact_paths_and_hosts
from leash.sampling import metadata
from leash.statistics.counts import FIRST_EIGHTH_COLUMNS, LABEL_COLUMNS

# A file that goes in as it is, or a function that makes its bytes when they are written: they need not all fit memory.
FileContent = Path | Callable[[], bytes]
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold
REGULAR_FILE_MODE = 0o100644 << 16
COMPRESSED_SUFFIXES = (".parquet", ".png")
# Tests of programs are megabytes; longer golds and metadata of a problem stay out.
MAX_FIELD_CHARS = 10_000
COUNT_COLUMNS = (
    *("dataset", "problem_id", "k", "epsilon", "n_base", "c_base", "ended_base", "n_rlvr", "c_rlvr", "ended_rlvr"),
    *FIRST_EIGHTH_COLUMNS,
    *LABEL_COLUMNS,
)
LOCK_FILE = Path("dvc.lock")
# What shows golds, answers and completions to people.
SHOWING_TEXTS = (
    REPORTS_DIR / "index.html",
    *(REPORTS_DIR / "tables" / f"reach_hits.{suffix}" for suffix in ("csv", "md")),
    *(REPORTS_DIR / "figures" / f"answers.{suffix}" for suffix in ("png", "svg")),
)
METRICS_FILE = REPORTS_DIR / "metrics.json"
PAGE_FILE, HITS_FILE = REPORTS_DIR / "index.html", REPORTS_DIR / "decisive_hits.csv"
REQUIRED_FILES = {  # files of all models or pairs, and the command that makes each
    cross_pair.TRAJECTORY_PATH: "leash categorize",
    cross_pair.PAIRED_PATH: "leash categorize",
    entropy_tables.ANSWERS_PATH: "leash entropy",
    entropy_tables.PROFILE_PATH: "leash entropy",
    entropy_tables.INTERVALS_PATH: "leash entropy",
    entropy_tables.DECOUPLING_PATH: "leash entropy",
    **dict.fromkeys((METRICS_FILE, REPORTS_DIR / "summary.json", PAGE_FILE, HITS_FILE), "leash report"),
}


class BundleNameError(LeashError):
    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} cannot be the bundle. Choose a file name that ends in .zip (default: bundle.zip).")


class BundleFileError(LeashError):
    """A file that the bundle needs is missing, damaged or out of date; `command` makes it again."""

    def __init__(self, path: Path, problem: str, command: str) -> None:
        self.path, self.command = path, command
        super().__init__(f"{path} {problem}. Make it with `{command}`.")


class StaleReportError(LeashError):
    """The report was made with other parameters than params.yaml has now."""

    def __init__(self, group: str) -> None:
        self.group = group
        super().__init__(f"The report was made with another `{group}` than params.yaml has. Run `dvc repro` first.")


class BundleSummary(NamedTuple):
    files: int
    bytes: int


def write_bundle(params: Params, file: Path, target: Path, *, texts: bool = True) -> BundleSummary:
    """Write the bundle of a run whose parameters are in `file`; without `texts`, no question, gold or completion."""
    if target.suffix != ".zip" or target.is_dir():
        raise BundleNameError(target)
    metrics = _read_report_metrics(params)
    contents = collect_contents(params, file, texts=texts)
    contents["README.txt"] = lambda: format_readme(params, metrics, sorted(contents), texts=texts).encode()
    with atomic_io.atomic_write(target) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        for name in sorted(contents):
            _add_to_archive(archive, name, contents[name])
    return BundleSummary(len(contents), target.stat().st_size)


def collect_contents(params: Params, file: Path, *, texts: bool) -> dict[str, FileContent]:
    """Everything that goes in except README.txt, by its name in the zip."""
    contents: dict[str, FileContent] = {"params.yaml": lambda: shareable_yaml(file).encode()}
    if LOCK_FILE.is_file():
        contents[LOCK_FILE.name] = lambda: shareable_yaml(LOCK_FILE).encode()
    for dataset in params.run.datasets:
        contents[tables.problems_path(dataset).as_posix()] = partial(encode_problems, dataset, texts=texts)
    for pair in params.run.pairs:
        contents[f"counts/{pair}.csv"] = partial(encode_counts, pair)
    for model, dataset in product(params.run.models, params.run.datasets):
        folder = tables.verdicts_folder(model, dataset)
        if not (shards := tables.verdict_files(model, dataset)):
            raise MissingVerdictsError(model, dataset)
        contents |= {shard.as_posix(): shard for shard in shards}
        if sampling := metadata.load_metadata(model, dataset):
            text = json.dumps(redact_paths_and_hosts(sampling), indent=1, sort_keys=True) + "\n"
            contents[(folder / metadata.SAMPLING_FILENAME).as_posix()] = text.encode
    for pair in params.run.pairs:
        if (path := tables.reach_path(pair)).is_file():  # empty without weights
            contents[path.as_posix()] = path
    contents |= {path.as_posix(): path for path in _unchanged_files(params)}
    if not texts:
        _hide_texts(params, contents)
    return contents


def encode_counts(pair: str) -> bytes:
    """The counts of a pair as CSV that `leash compare` reads."""
    return encode_csv(_read_support(pair).select(COUNT_COLUMNS))


def encode_problems(dataset: str, *, texts: bool) -> bytes:
    """The problems table without images and long fields; without texts, only names, graders and the source."""
    schema = pa.schema([field for field in tables.PROBLEMS_SCHEMA if field.name != "images"])
    rows = []
    for row in tables.read(tables.problems_path(dataset), schema, f"leash fetch {dataset}").to_pylist():
        meta, question, gold = json.loads(row["meta"]), row["question"], row["gold"]
        source = {"source": redact_paths_and_hosts(meta["source"])} if "source" in meta else {}
        kept = meta | source if texts and len(row["meta"]) <= MAX_FIELD_CHARS else source
        if not texts:
            question, gold = "", []
        elif sum(map(len, gold)) > MAX_FIELD_CHARS:
            gold = []
        changed = {"question": question, "gold": gold, "images": None, "meta": json.dumps(kept, ensure_ascii=False)}
        rows.append({**row, **changed})
    return tables.encode_parquet(tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA)


def shareable_yaml(path: Path) -> str:
    """The file as it is if it names no full path and no host; otherwise its values without them, and no comments."""
    text = path.read_text(encoding="utf-8")
    yaml = YAML(typ="safe", pure=True)
    values = yaml.load(text)
    redacted = redact_paths_and_hosts(values)
    # The text is checked, too: a comment may name a path. The space makes a path at the start of the text match.
    if redacted == values and redact_paths_and_hosts(f" {text}") == f" {text}":
        return text
    yaml.default_flow_style, yaml.sort_base_mapping_type_on_output = False, False  # type: ignore[assignment]
    written = BytesIO()
    yaml.dump(redacted, written)
    return written.getvalue().decode()


def _read_report_metrics(params: Params) -> dict[str, Any]:
    """The report's numbers, if they belong to these parameters and to the tables on disk."""
    try:
        metrics = read_metrics(METRICS_FILE)
        made_with, pairs = metrics["provenance"]["params"], metrics["pairs"]
    except FileNotFoundError:
        raise BundleFileError(METRICS_FILE, "is missing: there is no report yet", "dvc repro") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise BundleFileError(METRICS_FILE, "is damaged or of an older version", "leash report") from None
    # Compare as JSON, like the report: a tuple becomes a list.
    current = json.loads(json.dumps(redact_paths_and_hosts(collect_parameters(params))))
    for group in current:
        if made_with.get(group) != current[group]:
            raise StaleReportError(group)
    for pair, numbers in pairs.items():
        counted = Counter(_read_support(pair)["category"].to_pylist())
        if any(counted[name] != numbers[name] for name in "PESO"):
            raise BundleFileError(METRICS_FILE, f"does not match the support table of {pair}", "leash report")
    return metrics


def _read_support(pair: str) -> pa.Table:
    return tables.read(tables.support_path(pair), tables.SUPPORT_SCHEMA, "leash categorize")


def _unchanged_files(params: Params) -> Iterator[Path]:
    """The tables and the files of the report. Masses and token entropies exist only for models with weights."""
    required = dict(REQUIRED_FILES)
    for pair in params.run.pairs:
        required[tables.analysis_path(pair)] = "leash categorize"
        for unit in {"problem", *params.categorize.units}:
            required[tables.support_path(pair, unit)] = "leash categorize"
    models_and_datasets = list(product(params.run.models, params.run.datasets))
    required |= {tables.perplexity_path(*names): "leash perplexity" for names in models_and_datasets}
    for path, command in required.items():
        if not path.is_file():
            raise BundleFileError(path, "is missing", command)
        yield path
    optional = (path_of(*names) for path_of in (tables.mass_path, tables.entropy_path) for names in models_and_datasets)
    yield from (path for path in optional if path.is_file())
    for folder in ("tables", "figures", "plots"):
        yield from (path for path in (REPORTS_DIR / folder).glob("*") if not path.name.startswith("."))


def _hide_texts(params: Params, contents: dict[str, FileContent]) -> None:
    """Replace answers and completions by numbers in all tables, and leave out what shows them to people."""
    for path in SHOWING_TEXTS:
        contents.pop(path.as_posix(), None)
    contents[HITS_FILE.as_posix()] = _encode_hits_without_texts
    answers = {dataset: pseudonyms.number_answers(params, dataset) for dataset in params.run.datasets}
    completions = {dataset: pseudonyms.number_completions(params, dataset) for dataset in params.run.datasets}
    for model, dataset in product(params.run.models, params.run.datasets):
        for shard in tables.verdict_files(model, dataset):
            contents[shard.as_posix()] = partial(pseudonyms.encode_verdicts, shard, answers[dataset])
        hidden: dict[Path, Callable[[], bytes]] = {}
        for path, schema, command in (
            (tables.perplexity_path(model, dataset), tables.PERPLEXITY_SCHEMA, "leash perplexity"),
            (tables.entropy_path(model, dataset), tables.ENTROPY_SCHEMA, "leash entropy"),
        ):
            hidden[path] = partial(pseudonyms.encode_scores, path, schema, command)
        mass = tables.mass_path(model, dataset)
        hidden[mass] = partial(pseudonyms.encode_mass, mass, completions[dataset])
        contents |= {path.as_posix(): encode for path, encode in hidden.items() if path.as_posix() in contents}
    for pair, (unit, numbers) in product(params.run.pairs, (("answer", answers), ("completion", completions))):
        support = tables.support_path(pair, unit)
        if support.as_posix() in contents:
            contents[support.as_posix()] = partial(pseudonyms.encode_support, support, numbers)


def _encode_hits_without_texts() -> bytes:
    """The list of decisive hits with empty columns for all that quotes a problem or a completion."""
    options = pyarrow.csv.ConvertOptions(column_types=DECISIVE_HITS_SCHEMA, strings_can_be_null=True)
    try:
        parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
        table = pyarrow.csv.read_csv(HITS_FILE, convert_options=options, parse_options=parsing)
        for name in ("flaw", "answer", "gold", "text"):
            table = table.set_column(table.column_names.index(name), name, pa.nulls(table.num_rows, pa.string()))
    except (pa.ArrowInvalid, ValueError):
        raise BundleFileError(HITS_FILE, "is damaged", "leash report") from None
    return encode_csv(table)


def _add_to_archive(archive: zipfile.ZipFile, name: str, content: FileContent) -> None:
    info = zipfile.ZipInfo(name, ZIP_EPOCH)
    info.create_system, info.external_attr = 3, REGULAR_FILE_MODE  # 3 is Unix: the same bytes on every machine
    info.compress_type = zipfile.ZIP_STORED if name.endswith(COMPRESSED_SUFFIXES) else zipfile.ZIP_DEFLATED
    if not isinstance(content, Path):
        archive.writestr(info, content())
        return
    info.file_size = content.stat().st_size  # zipfile needs the size in advance to choose a header for large files
    with content.open("rb") as source, archive.open(info, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)
