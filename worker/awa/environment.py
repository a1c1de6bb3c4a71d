"""Whether Awa can run in this Python environment."""

from importlib.metadata import PackageNotFoundError, version

# Another distribution that installs a package named `awa`: pip lets each overwrite the other's
# files, and what is left then is neither.
CONFLICTING = "awa-pg"


def conflict() -> str | None:
    """Return why Awa must not start here and what to do, or None when it may."""
    try:
        found = version(CONFLICTING)
    except PackageNotFoundError:
        return None
    return (
        f"{CONFLICTING} {found} and awa-worker both provide the Python package `awa` and cannot"
        f" share an environment. Uninstall both ({CONFLICTING} and awa-worker), then install the"
        " one you want again."
    )


def release() -> str:
    """Return the version of this distribution."""
    return version("awa-worker")
