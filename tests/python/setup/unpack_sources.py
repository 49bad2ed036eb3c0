"""Lay the Python side of a wheel out as a source tree.

    unpack_sources.py WHEEL DIRECTORY

vLLM's wheel is mostly compiled CUDA kernels. What the tests run (schedulers, engine core, output processing) is Python,
so only that is unpacked, with the metadata that entry points are found by, and small data files.
"""

import pathlib
import sys
import zipfile

DATA_SUFFIXES = {".json", ".yaml", ".yml", ".txt", ".jinja"}
DATA_BYTES_MAX = 200_000


def is_wanted(member: zipfile.ZipInfo) -> bool:
    path = pathlib.PurePosixPath(member.filename)
    if path.suffix == ".py" or (path.parts and path.parts[0].endswith(".dist-info")):
        return True
    return path.suffix in DATA_SUFFIXES and member.file_size <= DATA_BYTES_MAX


def main(wheel: str, directory: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        wanted = [member for member in archive.infolist() if is_wanted(member)]
        archive.extractall(directory, members=wanted)
    print(f"{pathlib.Path(wheel).name}: {len(wanted)} files")


if __name__ == "__main__":
    main(*sys.argv[1:])
