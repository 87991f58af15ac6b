// Faults that are put into a run on purpose, to see whether tests find them: `mutations.py` does that. There
// is at most one kind of fault in a run, at one place, and none unless FAKE_GPU_FAULT says so.
//
// A fault is named `kind:place`. A run with FAKE_GPU_LIST_FAULTS writes down which faults it could have had:
// a line `kind:place count`, and behind it, where the place is one in the program's code, the addresses of
// the calls that lead there.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/auxv.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "fake_gpu.h"

namespace fake_gpu {

struct Faults {
    // Empty, where there is none.
    const std::string chosen = text_of("FAKE_GPU_FAULT");
    const std::string list = text_of("FAKE_GPU_LIST_FAULTS");

    struct Possible {
        uint64_t count = 0;
        std::string frames;
    };
    std::mutex mutex;
    std::map<std::string, Possible> possible;

    static std::string text_of(const char* variable) {
        const char* text = getenv(variable);
        return text ? text : "";
    }
};

inline void write_possible_faults();

// Never destroyed: threads may still call while the process ends.
inline Faults& faults() {
    static Faults* faults = [] {
        auto* faults = new Faults;
        if (!faults->list.empty()) {
            atexit(write_possible_faults);
        }
        return faults;
    }();
    return *faults;
}

inline void write_possible_faults() {
    std::lock_guard lock(faults().mutex);
    if (FILE* file = fopen(faults().list.c_str(), "w")) {
        for (auto& [name, found] : faults().possible) {
            fprintf(file, "%s %llu%s\n", name.c_str(), (unsigned long long)found.count, found.frames.c_str());
        }
        fclose(file);
    }
}

// Whether the run has this fault.
inline bool has_fault(const std::string& kind, const std::string& place, const std::string& frames = "") {
    std::string name = kind + ":" + place;
    if (!faults().list.empty()) {
        std::lock_guard lock(faults().mutex);
        auto& possible = faults().possible[name];
        possible.count++;
        possible.frames = frames;
    }
    return name == faults().chosen;
}

// As `has_fault`, the place being that in the program's code which has called the driver: all calls of the
// program that lead there, without those of libraries. So one line of code is several places, if it is
// reached from several others.
inline __attribute__((noinline)) bool has_fault_here(const std::string& kind) {
    bool is_of_interest = faults().chosen.compare(0, kind.size() + 1, kind + ":") == 0;
    if (faults().list.empty() && !is_of_interest) {
        return false;
    }
    static const void* program = [] {
        Dl_info info{};
        return dladdr((void*)getauxval(AT_ENTRY), &info) ? info.dli_fbase : nullptr;
    }();
    void* addresses[64];
    int count = backtrace(addresses, 64);
    uint64_t mark = 0xcbf29ce484222325u;
    std::string frames;
    for (int index = 0; index < count; index++) {
        Dl_info info{};
        if (!dladdr(addresses[index], &info) || info.dli_fbase != program) {
            continue;
        }
        uintptr_t place = (uintptr_t)addresses[index] - (uintptr_t)info.dli_fbase;
        mark = (mark ^ place) * 0x100000001b3u;
        char text[24];
        snprintf(text, sizeof text, " %llx", (unsigned long long)place);
        frames += text;
    }
    char place[24];
    snprintf(place, sizeof place, "%08llx", (unsigned long long)(mark >> 32));
    return has_fault(kind, place, frames);
}

// Kernels that `mutations.py` has rewritten ask at each place where it has put a fault, all of which have
// numbers.

inline const unsigned NUM_MUTATIONS_MAX = 4096;
// That of the kernel which runs; 0 for none.
inline unsigned active_mutation = 0;
inline bool is_reached[NUM_MUTATIONS_MAX];

// 1 where the kernel has this fault, 0 otherwise.
inline unsigned mutated(unsigned number) {
    is_reached[number] = true;
    return number == active_mutation;
}

// What is written to memory that had `before`: the value, or, where a kernel adds by mistake, both.
template <class T>
T stored(unsigned is_added, const T& before, T value) {
    if (is_added == 0) {
        return value;
    }
    if constexpr (std::is_arithmetic_v<T>) {
        return T(before + value);
    } else {
        for (size_t index = 0; index < sizeof value; index++) {
            ((unsigned char*)&value)[index] += ((const unsigned char*)&before)[index];
        }
        return value;
    }
}

// `kernel:NUMBER` is a fault in all kernels, `kernel:NUMBER:NAME` in one of them.
inline void choose_mutation(const std::string& kernel) {
    const std::string& chosen = faults().chosen;
    active_mutation = 0;
    if (chosen.compare(0, 7, "kernel:") == 0) {
        size_t end = chosen.find(':', 7);
        bool is_for_it = end == std::string::npos || chosen.substr(end + 1) == kernel;
        active_mutation = is_for_it ? unsigned(strtoul(chosen.c_str() + 7, nullptr, 10)) : 0;
    }
}

// After a kernel: which of its faults the run could have had.
inline void note_mutations(const std::string& kernel) {
    if (faults().list.empty()) {
        return;
    }
    for (unsigned number = 0; number < NUM_MUTATIONS_MAX; number++) {
        if (std::exchange(is_reached[number], false)) {
            has_fault("kernel", std::to_string(number) + ":" + kernel);
        }
    }
}

}
