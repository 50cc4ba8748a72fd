"""Run every benchmark and print the table. `make bench` calls this."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from result import NOT_MEASURED

HERE = Path(__file__).parent
NOT_BENCHMARKS = {"table", "result", "goals", "judge_server", "__init__"}
VLLM = HERE.parent.parent / ".venv-vllm" / "bin" / "python"  # made by `make test-vllm`


def main() -> None:
    files = sorted(p for p in HERE.glob("*.py") if p.stem not in NOT_BENCHMARKS)
    print(f"{'what':<48}{'ours':>14}{'theirs':>14}{'ratio':>10}  goal")
    failed = False
    for file in files:
        python = VLLM if file.stem.startswith("vllm_") else Path(sys.executable)
        if not python.exists():
            print(f"{file.stem:<48}not measured: `make test-vllm` makes the environment it needs")
            continue
        done = subprocess.run([python, file], capture_output=True, text=True, check=False)
        if done.returncode == NOT_MEASURED:
            print(f"{file.stem:<48}not measured: {done.stderr.strip().splitlines()[-1]}")
            continue
        if done.returncode:
            print(f"{file.stem:<48}failed: {done.stderr.strip().splitlines()[-1]}")
            failed = True
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        mark = "" if row["ok"] else "   MISSED"
        print(
            f"{row['name']:<48}{row['ours']:>14,.6g}{row['theirs']:>14,.6g}{row['ratio']:>10.3g}  {row['goal']}{mark}"
        )
        failed |= not row["ok"]
    sys.exit(failed)


if __name__ == "__main__":
    main()
