"""Loads the modules of an example as its user would: from its own folder."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(example: str, module: str) -> ModuleType:
    """Return a module of `examples/<example>/`, loaded once."""
    name = f"{example}_{module}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / example / f"{module}.py")
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[name] = loaded
        spec.loader.exec_module(loaded)
    return sys.modules[name]
