"""The Parquet files that a path names, as Spark reads them: which ones they are, and what their ends say."""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from isrr.data.columns import MADE_IDS
from isrr.engines.footers import Footer, footer_of, matching_files
from isrr.engines.jobs import run_job
from isrr.errors import DataError

FOOTERS_AT_ONCE = 16
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PATTERN = re.compile(r"[\\{}\[\]*?,^]")


def spark_files(spark: Any, name: str) -> tuple[Any, Sequence[Any], list[Footer]]:
    """The Parquet files that a path names: their rows, what they are called, what their ends say.

    Files of this machine are found here, as the local engine finds them, and Spark is given each by its name: left to
    itself it passes over some and takes others for patterns. A path with a scheme, or where another file system is
    Spark's own, is for Spark to resolve.
    """
    if _SCHEME.match(name) or not spark._jsc.hadoopConfiguration().get("fs.defaultFS").startswith("file:"):
        rows = run_job(lambda: spark.read.parquet(name), name, spark)
        remote = rows.inputFiles()
        footers = run_job(lambda: _remote_footers(spark, remote), name, spark)
        by_folder = {column: "text" for column in rows.columns if not any(column in each.columns for each in footers)}
        return rows, remote, [replace(each, columns=each.columns | by_folder) for each in footers]
    files = matching_files(name)
    footers = [footer_of(file) for file in files]
    given = [nameable(file) for file in files]
    rows = run_job(lambda: spark.read.parquet(*map(literal, given)), name, spark)
    taken = {unquote(urlsplit(file).path) for file in rows.inputFiles()}
    for file in given:
        if file not in taken:
            raise DataError(f"{file}: Spark passes over this file; give it a plain name")
    return rows, files, footers


def nameable(file: Path) -> str:
    """The whole path of a file; refused where Spark would pass over the file or could not find it."""
    path = os.path.abspath(file)
    if file.name.startswith(("_", ".")) or file.name.endswith("._COPYING_"):
        raise DataError(f"{file}: Spark passes over files of such a name; let it begin with a letter or a digit")
    if ":" in path:
        raise DataError(f"{file}: Spark reads no file with a colon in its path; rename it")
    return path


def literal(path: str) -> str:
    """A path as Spark takes it for itself, not for a pattern.

    Example:
        >>> print(literal("/data/part[1].parquet"))
        /data/part\\[1\\].parquet
    """
    return _PATTERN.sub(r"\\\g<0>", path)


def _remote_footers(spark: Any, files: Sequence[str]) -> list[Footer]:
    """What the ends of files say that Java alone can reach."""
    from py4j.protocol import Py4JJavaError

    java, configuration = spark._jvm, spark._jsc.hadoopConfiguration()
    parquet = java.org.apache.parquet.hadoop
    ((key, yes),) = ((key.decode(), yes.decode()) for key, yes in MADE_IDS.items())

    def footer(file: str) -> Footer:
        path = java.org.apache.hadoop.fs.Path(java.java.net.URI(file))
        try:
            source = parquet.util.HadoopInputFile.fromPath(path, configuration)
            with closing(parquet.ParquetFileReader.open(source)) as reader:
                said, n_rows = reader.getFileMetaData(), reader.getRecordCount()
        except Py4JJavaError as error:
            raise DataError(f"{file}: cannot be read: {error.java_exception.getMessage()}") from None
        columns = {column.getName(): _type(column) for column in said.getSchema().getFields()}
        return Footer(columns, said.getKeyValueMetaData().get(key) == yes, n_rows)

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        return list(pool.map(footer, files))


def _type(column: Any) -> str:
    meant = column.getLogicalTypeAnnotation()
    stored = column.asPrimitiveType().getPrimitiveTypeName().name().lower() if column.isPrimitive() else "nested"
    return stored if meant is None else f"{stored} ({meant.toString()})"
