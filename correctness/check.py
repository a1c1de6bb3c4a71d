"""Check the models with TLC, the TLA+ model checker.

    python -m correctness.check                 all but the large configurations
    python -m correctness.check slots crash     those with one of these names
    python -m correctness.check --large         the large ones: minutes to hours

The configurations of a model lie in a folder of its name. One under `holds` or `large` must be
explored to the end without an objection. One under `refuted` describes a known mistake and names
one invariant; TLC must find a way to break that invariant.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent
FETCH = ROOT.parent / "tools" / "fetch-tlc"

HOLDS, REFUTED, LARGE = "holds", "refuted", "large"
# A run that ends within a minute is over before the optimising compiler has paid for itself.
SHORT_RUN = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LONG_RUN = ("-XX:+UseParallelGC",)
# What TLC exits with.
SUCCESS, INVARIANT_VIOLATED = 0, 12


@dataclass(frozen=True, slots=True)
class Configuration:
    """A model with bounds and, perhaps, a mistake; `text` is what TLC reads."""

    model: Path
    kind: str
    name: str
    text: str

    @classmethod
    def load(cls, path: Path) -> "Configuration":
        """Read `<model>/<kind>/<name>.cfg`."""
        folder = path.parent
        return cls(folder.parent.with_suffix(".tla"), folder.name, path.stem, path.read_text())

    @property
    def invariants(self) -> list[str]:
        """Names of what TLC shall look after."""
        found = re.search(r"^INVARIANTS? (.+)$", self.text, re.MULTILINE)
        return found[1].split() if found else []


@dataclass(frozen=True, slots=True)
class Verdict:
    """What TLC said."""

    exit_code: int
    broken: str | None
    states: int
    output: str

    def objection(self, kind: str, invariants: list[str]) -> str | None:
        """Say why this is not what a configuration of the kind should end with, or None."""
        if kind == REFUTED:
            if [self.broken] == invariants and self.exit_code == INVARIANT_VIOLATED:
                return None
            wanted = f"{' '.join(invariants)} broken"
        elif self.exit_code == SUCCESS and "No error has been found" in self.output:
            return None
        else:
            wanted = "no error"
        found = f"{self.broken} broken" if self.broken else f"exit code {self.exit_code}"
        return f"expected {wanted}, found {found}\n{self.output}"


def configurations(*kinds: str) -> Iterator[Configuration]:
    """Yield the configurations of all models, in order of their names."""
    for path in sorted(ROOT.glob("*/*/*/*.cfg")):
        if path.parent.name in kinds:
            yield Configuration.load(path)


def find_tlc() -> Path:
    """Return TLC's jar; fetches it if there is none. Raises CalledProcessError when it cannot."""
    found = subprocess.run([FETCH], stdout=subprocess.PIPE, text=True, check=True)
    return Path(found.stdout.strip())


def check(
    configuration: Configuration, tlc: Path, *, workers: int = 1, limit_seconds: float
) -> Verdict:
    """Let TLC explore a configuration; with one worker the way to an error is the shortest.

    Raises TimeoutExpired when the limit is over, and leaves no process and no file behind.
    """
    with tempfile.TemporaryDirectory(prefix="awa-tlc-") as name:
        folder = Path(name)
        (folder / configuration.model.name).write_text(configuration.model.read_text())
        (folder / "model.cfg").write_text(configuration.text)
        # TLC writes states, unpacked modules and error traces; all of it goes with the folder.
        java = LONG_RUN if configuration.kind == LARGE else SHORT_RUN
        command: list[str | Path] = [
            "java", *java, "-Xmx2g", f"-Djava.io.tmpdir={folder}", "-cp", tlc, "tlc2.TLC",
            "-nowarning", "-deadlock", "-workers", str(workers), "-metadir", folder / "states",
            "-config", "model.cfg", configuration.model.name,
        ]  # fmt: skip
        ran = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=limit_seconds, check=False
        )
    output = ran.stdout + ran.stderr
    broken = re.search(r"^Error: Invariant (\w+) is violated", output, re.MULTILINE)
    states = re.findall(r"(\d+) distinct states found", output)
    return Verdict(
        exit_code=ran.returncode,
        broken=broken[1] if broken else None,
        states=int(states[-1]) if states else 0,
        output=output,
    )


def main() -> int:
    """Check what the command line asks for; 1 if anything did not end as it should."""
    parser = argparse.ArgumentParser(prog="correctness.check", description="Check the models.")
    parser.add_argument("names", nargs="*", help="only these configurations")
    parser.add_argument("--large", action="store_true", help="the large ones, for hours")
    parser.add_argument("--trace", action="store_true", help="print what TLC prints")
    asked = parser.parse_args()
    kinds = [LARGE] if asked.large else [HOLDS, REFUTED]
    chosen = [c for c in configurations(*kinds) if not asked.names or c.name in asked.names]
    if not chosen:
        parser.error(f"no such configuration: {' '.join(asked.names)}")
    # An exception on the way out, so that TLC and its files go too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    tlc = find_tlc()
    failed = 0
    for configuration in chosen:
        began = time.monotonic()
        verdict = check(configuration, tlc, workers=os.cpu_count() or 1, limit_seconds=24 * 3600)
        objection = verdict.objection(configuration.kind, configuration.invariants)
        failed += objection is not None
        print(
            f"{'FAILED' if objection else 'ok':6} {configuration.model.stem:16}"
            f" {configuration.kind:8} {configuration.name:22}"
            f" {verdict.states:>10} states {time.monotonic() - began:6.0f} s"
            f"  {verdict.broken or ''}",
            flush=True,
        )
        if objection or asked.trace:
            print(objection or verdict.output)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
