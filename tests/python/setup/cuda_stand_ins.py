"""Build stand-ins for the CUDA libraries that a torch wheel is linked against.

    cuda_stand_ins.py TORCH_DIRECTORY OUTPUT_DIRECTORY

`import torch` loads every library that torch was linked with and resolves all of their functions at once. On a machine
without GPU none of them does anything, so each is replaced by a small library whose functions say "no device". Needs a C
compiler and objdump.
"""

import collections
import pathlib
import re
import subprocess
import sys

# Names of libraries that the CUDA wheels bring. The driver (libcuda) is not among them: nothing loads it at import.
CUDA_LIBRARY = re.compile(r"lib(cu(?!da\.so)|nv|nccl)")

# Functions without a symbol version belong to the library whose functions are called so. Longer names first: a function
# of cuBLASLt begins like one of cuBLAS.
PREFIXES = {
    "libcublasLt": ("cublasLt",),
    "libcublas": ("cublas",),
    "libcudart": ("cuda", "__cuda"),
    "libcudnn": ("cudnn",),
    "libcufft": ("cufft",),
    "libcufile": ("cuFile",),
    "libcupti": ("cupti",),
    "libcurand": ("curand",),
    "libcusolver": ("cusolver",),
    "libcusparseLt": ("cusparseLt",),
    "libcusparse": ("cusparse",),
    "libnccl": ("nccl", "pnccl"),
    "libnvrtc": ("nvrtc",),
    "libnvshmem_host": ("nvshmem",),
}

# cudaErrorNoDevice, and an error code that no other library takes for success.
NO_DEVICE = 100

# What is called while torch is imported, and must return something better than an error code.
SPECIAL = {
    "cudaGetDeviceCount": f"int cudaGetDeviceCount(int *count) {{ if (count) *count = 0; return {NO_DEVICE}; }}",
    "cudaGetLastError": "int cudaGetLastError(void) { return 0; }",
    "cudaPeekAtLastError": "int cudaPeekAtLastError(void) { return 0; }",
    "cudaDriverGetVersion": "int cudaDriverGetVersion(int *version) { if (version) *version = 0; return 0; }",
    "cudaRuntimeGetVersion": "int cudaRuntimeGetVersion(int *version) { if (version) *version = 0; return 0; }",
    "cudaGetErrorName": 'const char *cudaGetErrorName(int error) { (void)error; return "stand-in"; }',
    "cudaGetErrorString": 'const char *cudaGetErrorString(int error) { (void)error; return "stand-in"; }',
    "ncclGetErrorString": 'const char *ncclGetErrorString(int error) { (void)error; return "stand-in"; }',
    "ncclGetVersion": "int ncclGetVersion(int *version) { if (version) *version = 0; return 0; }",
    # Every kernel registers itself when its library is loaded.
    "__cudaRegisterFatBinary": (
        "static void *handle[4];\n"
        "void **__cudaRegisterFatBinary(void *binary) { (void)binary; return handle; }"
    ),
}


def objdump(option: str, library: pathlib.Path) -> list[str]:
    listed = subprocess.run(["objdump", option, library], check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


def needed_by(library: pathlib.Path) -> set[str]:
    """The libraries that this one is linked against."""
    words = (line.split() for line in objdump("-p", library))
    return {word[1] for word in words if len(word) == 2 and word[0] == "NEEDED"}


def symbols_of(library: pathlib.Path) -> tuple[set[str], set[tuple[str, str]]]:
    """The functions it defines, and those it wants from others as (version or "", name)."""
    defined, wanted = set(), set()
    for line in objdump("-T", library):
        words = line.split()
        if "*UND*" in words:
            # …*UND* SIZE [VERSION] NAME
            after = words[words.index("*UND*") + 2 :]
            version = after[0].strip("()") if len(after) > 1 else ""
            wanted.add((version if version != "Base" else "", after[-1]))
        elif words and re.fullmatch(r"[0-9a-f]{8,16}", words[0]):
            defined.add(words[-1])
    return defined, wanted


def owner(version: str, name: str, missing: set[str]) -> str | None:
    """Which of the missing libraries this function is expected in."""
    if version in missing:
        return version
    if version.startswith(("GLIBC", "GCC", "CXX")):
        return None
    for base, prefixes in PREFIXES.items():
        if name.startswith(prefixes):
            return next((library for library in missing if library.split(".so")[0] == base), None)
    return None


def build(library: str, versions: dict[str, set[str]], output: pathlib.Path) -> None:
    names = sorted(name for group in versions.values() for name in group)
    lines = [SPECIAL.get(name, f"int {name}(void) {{ return {NO_DEVICE}; }}") for name in names]
    source = output / f"{library}.c"
    source.write_text("\n".join(lines) + "\n")
    script = output / f"{library}.map"
    tagged = {version: sorted(group) for version, group in versions.items() if version}
    script.write_text("".join(f"{tag} {{ global: {'; '.join(group)}; }};\n" for tag, group in tagged.items()))
    command = ["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library}", "-o", output / library, source]
    if tagged:
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)
    source.unlink()
    script.unlink()


def main(torch: str, output_directory: str) -> None:
    output = pathlib.Path(output_directory)
    output.mkdir(parents=True, exist_ok=True)
    libraries = sorted((pathlib.Path(torch) / "lib").glob("*.so*"))
    present = {library.name for library in libraries}
    needed = set().union(*(needed_by(library) for library in libraries))
    missing = {name for name in needed - present if CUDA_LIBRARY.match(name)}

    defined, wanted = set(), set()
    for library in libraries:
        own, others = symbols_of(library)
        defined |= own
        wanted |= others
    functions = {library: collections.defaultdict(set) for library in missing}
    for version, name in wanted:
        library = owner(version, name, missing) if name not in defined else None
        if library is not None:
            functions[library][version].add(name)
    for library in sorted(missing):
        build(library, functions[library], output)
    total = sum(len(group) for versions in functions.values() for group in versions.values())
    print(f"{len(missing)} libraries with {total} functions: {', '.join(sorted(missing))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
