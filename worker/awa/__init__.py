"""Awa: a PostgreSQL-native job queue.

The public names are listed in `__init__.pyi` and imported when first used, so that the command
line and the operator start with the parts that they need.
"""

import lazy_loader

from awa.environment import release

__version__ = release()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__.append("__version__")
