"""Results of a score as numpy arrays: every output at every position, with context, position, token and stratum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._files import read_json, sha256_file
from .errors import AssayError
from .suites import Suite, load_suite

SUMMARY_NAME = "summary.json"
REPORT_NAME = "report.json"

F64_OUTPUTS = (
    "kl_ref_cand",
    "kl_cand_ref",
    "jsd_bits",
    "nll_ref",
    "nll_cand",
    "entropy_ref",
    "entropy_cand",
    "delta_p",
    "accept_rate",
)
"""Outputs stored as float64: KL, NLL and entropy in nats, JSD in bits, the others probabilities (docs/report.md)."""
I32_OUTPUTS = ("top1_ref", "top1_cand", "ties_ref", "ties_cand", "rank_top1_ref")
"""Outputs stored as int32: token ids and counts of columns."""
OUTPUTS = F64_OUTPUTS + I32_OUTPUTS

Array = npt.NDArray[Any]


class Where:
    """Which position each element of an output is. All arrays have one element per scored position, in file order."""

    def __init__(self, contexts: tuple[Mapping[str, Any], ...], score_from: int, suite: Suite | None) -> None:
        self.contexts = contexts
        """The report's rows of the scored contexts: index, stratum, source_cluster, partition, positions, means."""
        self.score_from = score_from
        """Positions before this one were left out of every context."""
        self.suite = suite

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Scored positions of each context, in order."""
        return np.array([row["positions"] for row in self.contexts], dtype=np.int64)

    @cached_property
    def context(self) -> npt.NDArray[np.int32]:
        """The context's index in the suite."""
        return np.repeat(np.array([row["index"] for row in self.contexts], dtype=np.int32), self.lengths)

    @cached_property
    def position(self) -> npt.NDArray[np.int32]:
        """The position in the context: position r has read tokens 0..r and predicts token r + 1."""
        starts = np.cumsum(self.lengths) - self.lengths
        inside = np.arange(int(self.lengths.sum()), dtype=np.int64) - np.repeat(starts, self.lengths)
        return (inside + self.score_from).astype(np.int32)

    @cached_property
    def strata(self) -> tuple[str, ...]:
        """The names that `stratum_id` counts, sorted."""
        return tuple(sorted({str(row["stratum"]) for row in self.contexts}))

    @cached_property
    def stratum_id(self) -> npt.NDArray[np.int16]:
        """The stratum as an index into `strata`: two bytes a position where `stratum` takes dozens."""
        of = {name: i for i, name in enumerate(self.strata)}
        return np.repeat(np.array([of[str(row["stratum"])] for row in self.contexts], dtype=np.int16), self.lengths)

    @property
    def stratum(self) -> npt.NDArray[np.str_]:
        """The stratum's name. Made anew each time."""
        return np.array(self.strata)[self.stratum_id]

    @cached_property
    def token(self) -> npt.NDArray[np.int32]:
        """The last token read at the position. SUITE_NEEDED unless `load` was given the suite."""
        return self._tokens(0)

    @cached_property
    def next_token(self) -> npt.NDArray[np.int32]:
        """The token that follows: the one whose probability nll and delta_p are about."""
        return self._tokens(1)

    def _tokens(self, ahead: int) -> npt.NDArray[np.int32]:
        if self.suite is None:
            raise AssayError("SUITE_NEEDED", "token ids are in the suite, not in the result: assay.load(OUT, suite=DIR)")
        of = {c.index: c.tokens for c in self.suite}
        pieces = []
        for row in self.contexts:
            begin = self.score_from + ahead
            pieces.append(np.array(of[row["index"]][begin : begin + row["positions"]], dtype=np.int32))
        return np.concatenate(pieces)


class Head(Mapping[str, Array]):
    """The outputs of one candidate through one head: head["kl_ref_cand"] is a read-only memory-mapped array.

    An array is mapped and its file's digest checked when it is first asked for. DIGEST_MISMATCH, SIZE_MISMATCH and
    FILE_MISSING name the file.
    """

    def __init__(self, folder: Path, name: str, report: Mapping[str, Any], positions: int, verify: bool) -> None:
        self.name = name
        self.statistics: Mapping[str, Any] = report["statistics"]
        """The report's statistics of this head, one entry per output."""
        self._folder = folder
        self._arrays: Mapping[str, Mapping[str, Any]] = report["arrays"]
        self._positions = positions
        self._verify = verify
        self._mapped: dict[str, Array] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(name for name in OUTPUTS if self._file(name) in self._arrays)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, output: str) -> Array:
        if output not in self._mapped:
            self._mapped[output] = self._map(output)
        return self._mapped[output]

    def __repr__(self) -> str:
        return f"<Head {self.name}: {', '.join(self)}>"

    @staticmethod
    def _file(output: str) -> str:
        return f"{output}.f64" if output in F64_OUTPUTS else f"{output}.i32"

    def _map(self, output: str) -> Array:
        file = self._file(output)
        if output not in OUTPUTS or file not in self._arrays:
            raise KeyError(f"there is no output {output!r}; there are {', '.join(self)}")
        path = self._folder / file
        dtype = np.dtype("<f8" if file.endswith(".f64") else "<i4")
        stated = self._arrays[file]
        if not path.is_file():
            raise AssayError("FILE_MISSING", f"{path}: the report names it, but it is not there; fetch the result again")
        size = path.stat().st_size
        if size != stated["bytes"] or size != self._positions * dtype.itemsize:
            raise AssayError(
                "SIZE_MISMATCH",
                f"{path}: {size} bytes instead of {self._positions} positions of {dtype.itemsize}; fetch it again",
            )
        if self._verify and sha256_file(path) != stated["sha256"]:
            raise AssayError(
                "DIGEST_MISMATCH", f"{path}: not the bytes that report.json names; it was changed or damaged, fetch it again"
            )
        return np.memmap(path, dtype=dtype, mode="r", shape=(self._positions,))


class Candidate(Where):
    """One candidate's result. `candidate["kl_ref_cand"]` is an output through the default head: own (as served) where it was
    scored, else shared (body only); `candidate.heads["shared"]` names one. `context`, `position`, `stratum` and, with the
    suite, `token` and `next_token` say what each element is."""

    def __init__(self, folder: Path, label: str, report: Mapping[str, Any], suite: Suite | None, verify: bool) -> None:
        some = next(iter(report["heads"].values()))
        super().__init__(tuple(some["contexts"]), int(report["coverage"].get("score_from", 0)), suite)
        positions = int(self.lengths.sum())
        self.label = label
        self.dir = folder
        self.report = report
        self.heads: Mapping[str, Head] = {
            name: Head(folder / "positions" / name, name, head, positions, verify) for name, head in report["heads"].items()
        }

    @property
    def head(self) -> Head:
        """The default head."""
        return self.heads["own" if "own" in self.heads else next(iter(self.heads))]

    def __getitem__(self, output: str) -> Array:
        return self.head[output]

    def __len__(self) -> int:
        return int(self.lengths.sum())

    def per_context(self, output: str, head: str | None = None) -> npt.NDArray[np.float64]:
        """The mean of an output over each scored context, in the order of `contexts`."""
        values = (self.heads[head] if head else self.head)[output]
        return np.add.reduceat(values, np.cumsum(self.lengths) - self.lengths, dtype=np.float64) / self.lengths

    def __repr__(self) -> str:
        return f"<Candidate {self.label}: {len(self)} positions in {len(self.contexts)} contexts, heads {list(self.heads)}>"


class Result(Mapping[str, Candidate]):
    """All candidates of a result folder by label. `failed` has the candidates without a result and why."""

    def __init__(self, folder: Path, summary: Mapping[str, Any], suite: Suite | None, verify: bool) -> None:
        self.dir = folder
        self.summary = summary
        self.suite = suite
        self.failed: dict[str, Mapping[str, Any]] = {}
        self._candidates: dict[str, Candidate] = {}
        for row in summary["candidates"]:
            label = str(row["label"])
            if row.get("failed"):
                self.failed[label] = row["failed"]
                continue
            path = folder / str(row["files"]["report"])
            self._candidates[label] = _load_candidate(path, label, str(row["report_sha256"]), suite, verify)

    def __getitem__(self, label: str) -> Candidate:
        if label not in self._candidates:
            why = f" (it failed: {self.failed[label]})" if label in self.failed else ""
            raise KeyError(f"there is no result {label!r}{why}; there are {', '.join(self) or 'none'}")
        return self._candidates[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._candidates)

    def __len__(self) -> int:
        return len(self._candidates)

    def __repr__(self) -> str:
        return f"<Result {self.dir}: {', '.join(self) or 'no candidate'}>"


def load(out: str | Path, suite: Suite | str | Path | None = None, *, verify: bool = True) -> Result:
    """Reads what `assay score`, `assay replay` or `assay report fetch` wrote to OUT.

        result = assay.load("result", suite="suite")
        int4 = result["int4"]
        worst = int4["kl_ref_cand"].argsort()[-10:]
        print(int4.context[worst], int4.position[worst], int4.next_token[worst], int4.stratum[worst])

    Nothing is read into memory but what is asked for. `suite` is needed for token ids only and must be the one that was
    scored (SUITE_MISMATCH). `verify=False` skips the digests of arrays; signatures are checked by `assay verify`.
    """
    folder = Path(out)
    if not (folder / SUMMARY_NAME).exists() and (folder / REPORT_NAME).exists():
        raise AssayError("FILE_MISSING", f"{folder} is the folder of one candidate; give the one above it, with {SUMMARY_NAME}")
    summary = read_json(folder / SUMMARY_NAME, "result (the --out of assay score or assay replay)")
    if not str(summary.get("schema", "")).startswith("assay-summary/"):
        raise AssayError("FIELD_INVALID", f"{folder / SUMMARY_NAME}: schema {summary.get('schema')!r} is no assay-summary")
    panel = load_suite(suite) if isinstance(suite, (str, Path)) else suite
    return Result(folder, summary, panel, verify)


def _load_candidate(path: Path, label: str, sha256: str, suite: Suite | None, verify: bool) -> Candidate:
    report = read_json(path, "candidate's result")
    if sha256_file(path) != sha256:
        raise AssayError("DIGEST_MISMATCH", f"{path}: not the report that {SUMMARY_NAME} names; fetch the result again")
    scored = report["suite"]["suite_token_sha256"]
    if suite is not None and suite.suite_token_sha256 != scored:
        raise AssayError(
            "SUITE_MISMATCH",
            f"{path}: scored over suite {scored[:16]}, {suite.dir} is {suite.suite_token_sha256[:16]}; give the suite that "
            "was scored",
        )
    return Candidate(path.parent, label, report, suite, verify)
