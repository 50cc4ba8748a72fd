"""bundle: one zip for a paper's appendix, from which anyone can make the numbers again, without weights or DVC.

In:  params.yaml, dvc.lock, the report, and every table of the run but the completions.
Out: a zip of all that, with the counts of each pair for `leash compare`, and a README.txt that says what is in it.

    bundle(params, Path("params.yaml"), Path("bundle.zip"))  ->  Bundled(files=266, bytes=7981234)

The same run gives the same bytes: names are sorted, times are fixed. Nothing of this machine goes in: of full paths the
last part stays, of addresses all but the host, and a file that is a link into DVC's cache goes in as what it links to.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
from ruamel.yaml import YAML

from stages import disk, entropy, report, tables
from stages.bundle.readme import readme
from stages.categorize import several
from stages.categorize.counts import FIRST
from stages.errors import LeashError
from stages.params import Params
from stages.report.provenance import parameters, shareable
from stages.sample import facts
from stages.verify.audit import DECISIVE

Content = Path | Callable[[], bytes]  # a file that goes in as it is, or what is made when its turn comes

BEGINNING = (1980, 1, 1, 0, 0, 0)  # the first time that a zip knows
REGULAR = 0o100644 << 16  # a plain file that its owner may write and all may read
PACKED = (".parquet", ".png")  # compressed already
LONGEST = 10_000  # characters of a problem's golds, and of its meta: tests of programs are megabytes
COUNTS = (
    *("dataset", "problem_id", "k", "epsilon", "n_base", "c_base", "ended_base", "n_rlvr", "c_rlvr", "ended_rlvr"),
    *FIRST,
)
LOCK = Path("dvc.lock")
WHOLE = {  # tables of all models or pairs, without which there is no report
    several.TRAJECTORY: "leash categorize",
    several.PAIRED: "leash categorize",
    **dict.fromkeys((entropy.ANSWERS, entropy.PROFILE, entropy.INTERVALS, entropy.DECOUPLING), "leash entropy"),
}


class Bundled(NamedTuple):
    files: int
    bytes: int


def bundle(params: Params, file: Path, target: Path, *, texts: bool = True) -> Bundled:
    """Write the bundle of a run whose parameters are in `file`; without `texts`, no question, gold or completion."""
    if target.suffix != ".zip" or target.is_dir():
        raise LeashError(f"{target} can't be the bundle: name a file that ends in .zip, or none for bundle.zip.")
    metrics = _reported(params)
    found = contents(params, file, texts=texts)
    found["README.txt"] = lambda: readme(params, metrics, sorted(found), texts=texts).encode()
    with disk.whole(target) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(found):
            _add(archive, name, found[name])
    return Bundled(len(found), target.stat().st_size)


def contents(params: Params, file: Path, *, texts: bool) -> dict[str, Content]:
    """What goes in, by its name in the zip."""
    found: dict[str, Content] = {"params.yaml": lambda: shareable_yaml(file).encode()}
    if LOCK.is_file():
        found[LOCK.name] = lambda: shareable_yaml(LOCK).encode()
    for dataset in params.run.datasets:
        found[_name(tables.problems_path(dataset))] = partial(problems, dataset, texts=texts)
    for pair in params.run.pairs:
        found[f"counts/{pair}.csv"] = partial(counts, pair)
    for model, dataset in product(params.run.models, params.run.datasets):
        found |= _verdicts(model, dataset)
    found |= {_name(path): path for path in _tables(params)}
    return found | _report(texts=texts)


def counts(pair: str) -> bytes:
    """The counts of a pair as `leash compare` reads them."""
    support = tables.read(tables.support_path(pair), tables.SUPPORT, "leash categorize")
    return _csv(support.select(COUNTS))


def problems(dataset: str, *, texts: bool) -> bytes:
    """The problems table without images and without what is long; without texts only names, graders and the source."""
    schema = pa.schema([field for field in tables.PROBLEMS if field.name != "images"])
    rows = tables.read(tables.problems_path(dataset), schema, f"leash fetch {dataset}").to_pylist()
    kept = [{**row, "images": None, **(_told(row) if texts else _untold(row))} for row in rows]
    return tables.encoded(tables.table(kept, tables.PROBLEMS), tables.PROBLEMS)


def shareable_yaml(path: Path) -> str:
    """A YAML file as it is, where it names no full path and no host; else its values without them and its comments."""
    text = path.read_text(encoding="utf-8")
    yaml = YAML(typ="safe", pure=True)
    values = yaml.load(text)
    plain = shareable(values)
    if plain == values and shareable(f" {text}") == f" {text}":
        return text
    yaml.default_flow_style, yaml.sort_base_mapping_type_on_output = False, False  # type: ignore[assignment]
    written = BytesIO()
    yaml.dump(plain, written)
    return written.getvalue().decode()


def _reported(params: Params) -> dict[str, Any]:
    """The report's numbers, if they are those of these parameters and of the tables that are here."""
    path = report.REPORTS / "metrics.json"
    try:
        metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        made_with, pairs = metrics["provenance"]["params"], metrics["pairs"]
    except FileNotFoundError:
        raise LeashError(f"There is no report yet ({path} is not there); make it with `dvc repro`.") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise LeashError(f"{path} is damaged or of an older version; make it again with `leash report`.") from None
    chosen = json.loads(json.dumps(shareable(parameters(params))))
    for group in chosen:
        if made_with.get(group) != chosen[group]:
            raise LeashError(f"The report was made with another `{group}` than params.yaml has; run `dvc repro` first.")
    for pair, numbers in pairs.items():
        if _categories(pair) != {name: numbers[name] for name in "PESO"}:
            raise LeashError(f"{path} is not of the support table of {pair}; make it again with `leash report`.")
    return metrics


def _categories(pair: str) -> dict[str, int]:
    support = tables.read(tables.support_path(pair), tables.SUPPORT, "leash categorize")
    found = Counter(support["category"].to_pylist())
    return {name: found[name] for name in "PESO"}


def _verdicts(model: str, dataset: str) -> dict[str, Content]:
    """The verdicts of a model on a data set, and the facts of their sampling."""
    folder = tables.verdicts_folder(model, dataset)
    shards = tables.shards(folder)
    if not shards:
        raise LeashError(f"There are no verdicts of {model} on {dataset}; make them with `dvc repro`.")
    found: dict[str, Content] = {_name(shard): shard for shard in shards}
    if known := facts.known(model, dataset):
        plain = json.dumps(shareable(known), indent=1, sort_keys=True) + "\n"
        found[_name(folder / facts.FILE)] = plain.encode
    return found


def _tables(params: Params) -> Iterator[Path]:
    """The tables that go in as they are: those that a report needs, and of single models those that are there."""
    needed = dict(WHOLE)
    for pair in params.run.pairs:
        needed[tables.analysis_path(pair)] = "leash categorize"
        for unit in {"problem", *params.categorize.units}:
            needed[tables.support_path(pair, unit)] = "leash categorize"
    for model, dataset in product(params.run.models, params.run.datasets):
        needed[tables.perplexity_path(model, dataset)] = "leash perplexity"
    for path, made_by in needed.items():
        if not path.is_file():
            raise LeashError(f"{path} is not there; make it with `{made_by}`.")
        yield path
    for place in (tables.mass_path, tables.entropy_path):
        for model, dataset in product(params.run.models, params.run.datasets):
            if (path := place(model, dataset)).is_file():
                yield path


def _report(*, texts: bool) -> dict[str, Content]:
    """The report's files; the page and the texts of decisive hits only with texts."""
    page, hits = report.REPORTS / "index.html", report.REPORTS / "decisive_hits.csv"
    found: dict[str, Content] = {}
    for path in (report.REPORTS / "metrics.json", report.REPORTS / "summary.json", page, hits):
        if not path.is_file():
            raise LeashError(f"{path} is not there; make it with `leash report`.")
        found[_name(path)] = path
    for kind in ("tables", "figures", "plots"):
        files = (path for path in (report.REPORTS / kind).glob("*") if not path.name.startswith("."))
        found |= {_name(path): path for path in files}
    if not texts:
        del found[_name(page)]
        found[_name(hits)] = lambda: _without_texts(hits)
    return found


def _without_texts(hits: Path) -> bytes:
    """The list of decisive hits, its columns of texts empty."""
    options = pyarrow.csv.ConvertOptions(column_types=DECISIVE, strings_can_be_null=True)
    try:
        table = pyarrow.csv.read_csv(
            hits, convert_options=options, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True)
        )
        for name in ("gold", "text"):
            empty = pa.nulls(table.num_rows, pa.string())
            table = table.set_column(table.column_names.index(name), name, empty)
    except (pa.ArrowInvalid, ValueError):
        raise LeashError(f"{hits} is damaged; make it again with `leash report`.") from None
    return _csv(table)


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row keeps of its golds and its meta; of what is too long only the source is kept."""
    gold = row["gold"] if sum(map(len, row["gold"])) <= LONGEST else []
    meta = json.loads(row["meta"])
    if len(row["meta"]) > LONGEST:
        return {"gold": gold, "meta": _source(meta)}
    return {"gold": gold, "meta": json.dumps(meta | json.loads(_source(meta)), ensure_ascii=False)}


def _untold(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"question": "", "gold": [], "meta": _source(json.loads(row["meta"]))}


def _source(meta: Mapping[str, Any]) -> str:
    """Where a problem was read, without what is this machine's."""
    kept = {"source": shareable(meta["source"])} if "source" in meta else {}
    return json.dumps(kept, ensure_ascii=False)


def _csv(table: pa.Table) -> bytes:
    written = BytesIO()
    pyarrow.csv.write_csv(table, written)
    return written.getvalue()


def _name(path: Path) -> str:
    return path.as_posix()


def _add(archive: zipfile.ZipFile, name: str, content: Content) -> None:
    info = zipfile.ZipInfo(name, BEGINNING)
    info.create_system, info.external_attr = 3, REGULAR  # as Unix says it, on whatever machine
    info.compress_type = zipfile.ZIP_STORED if name.endswith(PACKED) else zipfile.ZIP_DEFLATED
    if not isinstance(content, Path):
        archive.writestr(info, content())
        return
    info.file_size = content.stat().st_size  # so that one of gigabytes gets the header it needs
    with content.open("rb") as source, archive.open(info, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)
