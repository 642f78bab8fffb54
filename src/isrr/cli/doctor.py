"""`isrr doctor`: what is installed, what is missing, and the threads, kernel cache and memory in use."""

import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from isrr.cli import options as o
from isrr.cli.console import err, show
from isrr.counting import counted
from isrr.errors import EngineError, install_command

MEMORY, CONTAINER_LIMIT = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")


def doctor(
    as_json: o.AsJson = False,
    compile_now: Annotated[
        bool, o.option("Compile all kernels first, so that no later command has to.", "--compile")
    ] = False,
) -> None:
    """Show what is installed, how to install missing extras, and the threads, kernel cache and memory in use.

    isrr doctor
    """
    from isrr.cli.kernels import compile_all, kernel_cache

    if compile_now:
        if kernel_cache() is None:
            raise EngineError("compiled kernels cannot be kept: set NUMBA_CACHE_DIR to a writable folder")
        with err.status("compiling kernels"):
            compile_all()
    facts = _facts()
    show("\n".join(_lines(facts)), facts, as_json=as_json)


def _facts() -> dict[str, Any]:
    """Return what is shown, as plain values; what is unknown or missing is None."""
    import isrr
    from isrr.cli.kernels import kernel_cache
    from isrr.parallel import available_cores, threads

    packages = _packages()
    return {
        "isrr": isrr.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "core": packages.pop("core"),
        "extras": packages,
        "threads": threads(),
        "cores": available_cores(),
        "kernel_cache": kernel_cache(),
        "memory_gib": _memory(),
    }


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    yield f"isrr         {facts['isrr']}"
    yield f"python       {facts['python']}, {facts['executable']}"
    yield f"platform     {facts['platform']}"
    for extra, packages in {"core": facts["core"], **facts["extras"]}.items():
        missing = ", ".join(name for name, version in packages.items() if version is None)
        installed = ", ".join(f"{name} {version}" for name, version in packages.items())
        yield f"{extra:12} {f'missing: {missing}; {install_command(extra)}' if missing else installed}"
    yield f"threads      {facts['threads']} on {counted(facts['cores'], 'core')} (ISRR_THREADS changes it)"
    nowhere = "none: kernels are compiled in every process; set NUMBA_CACHE_DIR to a writable folder"
    yield f"kernel cache {facts['kernel_cache'] or nowhere}"
    free, total = (facts["memory_gib"][name] for name in ("available", "total"))
    yield f"memory       {'unknown' if total is None else f'{free:.1f} of {total:.1f} GiB free'}"


def _packages() -> dict[str, dict[str, str | None]]:
    """Return the versions of what isrr needs ("core") and of what each extra adds, from its own metadata."""
    from importlib.metadata import requires

    packages: dict[str, dict[str, str | None]] = {"core": {}}
    for requirement in requires("isrr") or []:
        name, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == ['\"](.+?)['\"]", requirement)
        assert name is not None, requirement
        packages.setdefault(extra[1] if extra else "core", {})[name[0]] = _version(name[0])
    packages.pop("all", None)  # the others together
    return packages


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory() -> dict[str, float | None]:
    """Return memory in GiB, in a container at most its limit; None where the system does not say."""
    if not MEMORY.exists():
        return {"total": None, "available": None}
    sizes = dict(re.findall(r"(\w+):\s+(\d+) kB", MEMORY.read_text()))
    total, available = int(sizes["MemTotal"]) << 10, int(sizes["MemAvailable"]) << 10
    limit = CONTAINER_LIMIT.read_text().strip() if os.access(CONTAINER_LIMIT, os.R_OK) else "max"
    total = min(total, int(limit)) if limit.isdigit() else total
    return {"total": round(total / 2**30, 2), "available": round(min(total, available) / 2**30, 2)}
