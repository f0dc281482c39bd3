"""A disk whose reads take long: a library that is loaded before the C library."""

import subprocess
from pathlib import Path

SLOW_READS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* A disk whose every read of a range takes some milliseconds more. */
static ssize_t slow(const char *name, int fd, void *to, size_t size, off_t at) {
    ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, name);
    if (getenv("SLOW_READS")) usleep(atoi(getenv("SLOW_READS")));
    return real(fd, to, size, at);
}
ssize_t pread(int fd, void *to, size_t size, off_t at) {
    return slow("pread", fd, to, size, at);
}
ssize_t pread64(int fd, void *to, size_t size, off_t at) {
    return slow("pread64", fd, to, size, at);
}
"""


def slow_disk(folder: Path) -> Path:
    """The library, compiled: a read takes the microseconds that SLOW_READS says."""
    source, library = folder / "slow.c", folder / "slow.so"
    source.write_text(SLOW_READS)
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library
