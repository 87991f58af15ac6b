// Loaded before the C library: the FAIL_AT-th write, fsync or rename below a folder called `out` fails, with the error
// number FAIL_WITH, or writes half if that is 0. Without FAIL_AT all succeed. Their number is left in COUNT_FILE.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long num_calls;

static int is_ours(const char *path) { return strstr(path, "/out/") != NULL || strncmp(path, "out/", 4) == 0; }

static int is_file_of_ours(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    return path[0] == '/' && is_ours(path);
}

// Whether this call is the one that fails.
static int fails(void) {
    const char *at = getenv("FAIL_AT");
    return atomic_fetch_add(&num_calls, 1) + 1 == (at ? atol(at) : 0);
}

static int error_number(void) { return atoi(getenv("FAIL_WITH")); }

ssize_t write(int fd, const void *bytes, size_t len) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (is_file_of_ours(fd) && fails()) {
        if (error_number() == 0) return real(fd, bytes, len > 1 ? len / 2 : len);
        errno = error_number();
        return -1;
    }
    return real(fd, bytes, len);
}

int fsync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    if (is_file_of_ours(fd) && fails() && error_number() != 0) {
        errno = error_number();
        return -1;
    }
    return real(fd);
}

int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    if (is_ours(to) && fails() && error_number() != 0) {
        errno = error_number();
        return -1;
    }
    return real(from, to);
}

__attribute__((destructor)) static void leave_count(void) {
    const char *path = getenv("COUNT_FILE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld", atomic_load(&num_calls));
        fclose(file);
    }
}
