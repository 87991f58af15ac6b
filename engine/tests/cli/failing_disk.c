// Loaded before the C library: the FAIL_AT-th write, fsync or rename below a folder called `out` fails, with the error
// number FAIL_WITH, or writes half if that is 0. Without FAIL_AT all succeed. Their number is left in COUNT_FILE.
//
// With KILL_AT the process is killed instead, before the KILL_AT-th call of these and of all others that change what is in the folder.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long num_calls;
static atomic_long num_changes;

static int is_ours(const char *path) { return strstr(path, "/out/") != NULL || strncmp(path, "out/", 4) == 0; }

static int is_file_of_ours(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    return path[0] == '/' && is_ours(path);
}

// A call that changes what is in the folder.
static void changes(void) {
    const char *at = getenv("KILL_AT");
    if (atomic_fetch_add(&num_changes, 1) + 1 == (at ? atol(at) : 0)) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
}

// Whether this call is the one that fails.
static int fails(void) {
    changes();
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

int fdatasync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    if (is_file_of_ours(fd)) changes();
    return real(fd);
}

int ftruncate64(int fd, off64_t len) {
    int (*real)(int, off64_t) = dlsym(RTLD_NEXT, "ftruncate64");
    if (is_file_of_ours(fd)) changes();
    return real(fd, len);
}

int unlink(const char *path) {
    int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
    if (is_ours(path)) changes();
    return real(path);
}

// The name of a file in a folder that is open.
int unlinkat(int folder, const char *name, int flags) {
    int (*real)(int, const char *, int) = dlsym(RTLD_NEXT, "unlinkat");
    if (folder == AT_FDCWD ? is_ours(name) : is_file_of_ours(folder)) changes();
    return real(folder, name, flags);
}

int mkdir(const char *path, mode_t mode) {
    int (*real)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");
    if (is_ours(path)) changes();
    return real(path, mode);
}

int rmdir(const char *path) {
    int (*real)(const char *) = dlsym(RTLD_NEXT, "rmdir");
    if (is_ours(path)) changes();
    return real(path);
}

int open64(const char *path, int flags, ...) {
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (flags & (O_CREAT | O_TRUNC) && is_ours(path)) changes();
    return real(path, flags, mode);
}

__attribute__((destructor)) static void leave_count(void) {
    const char *path = getenv("COUNT_FILE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld %ld", atomic_load(&num_calls), atomic_load(&num_changes));
        fclose(file);
    }
}
