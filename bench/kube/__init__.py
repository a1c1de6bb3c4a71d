"""The operator's own levels on a real API server; the cluster is that of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
