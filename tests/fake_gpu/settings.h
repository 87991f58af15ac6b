// Settings from the environment, and how the fake GPU stops a program that does what is undefined.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace fake_gpu {

// Ends the process: the program did what CUDA leaves undefined.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void stop(const char* format, ...) {
    va_list values;
    va_start(values, format);
    fputs("fake GPU: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    abort();
}

inline uint64_t setting(const char* name, uint64_t otherwise) {
    const char* text = getenv(name);
    if (!text || !*text) {
        return otherwise;
    }
    char* end;
    uint64_t value = strtoull(text, &end, 0);
    if (*end) {
        stop("%s=%s: not a whole number", name, text);
    }
    return value;
}

}
