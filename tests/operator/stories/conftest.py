"""Fixtures of stories on the cluster: an operator process, images of real workers, a database."""

from support.operating import site
from support.stories import apply, image

__all__ = ["apply", "image", "site"]
