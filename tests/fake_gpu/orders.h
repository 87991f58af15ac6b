// Which operations come before which: by the order of their stream, by events that streams wait for, and by
// what the host has waited for before it asked for an operation.
//
// It is kept as vector clocks (Mattern 1989): for each stream, how many of its operations have come before. A
// thread of the host knows what it has waited for itself, and what any had waited for when it first called. What
// it learns from another thread later, or from a word that a stream has written, is not seen here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace fake_gpu {

// By the streams' numbers.
using Clock = std::vector<uint64_t>;

inline void join(Clock& clock, const Clock& other) {
    clock.resize(std::max(clock.size(), other.size()));
    for (size_t stream = 0; stream < other.size(); stream++) {
        clock[stream] = std::max(clock[stream], other[stream]);
    }
}

// An operation that runs or has run.
struct Ran {
    const char* what;
    unsigned stream;
    // How many of its stream have run before it, and itself.
    uint64_t count;
};

struct Orders {
    // Of all streams, as they ran. The first is none.
    std::vector<Ran> ran{{"nothing", 0, 0}};
    // Of the operation that runs.
    Clock* before = nullptr;
    // What all threads of the host together have waited for.
    Clock host;
};

inline Orders& orders() {
    static Orders* orders = new Orders;
    return *orders;
}

// From now on an operation runs that these come before, itself counted.
inline void begin_operation(const char* what, unsigned stream, Clock& before) {
    orders().ran.push_back({what, stream, before[stream]});
    orders().before = &before;
}

// Nothing comes before everything.
inline bool is_before(uint32_t ran, const Clock& clock) {
    const Ran& found = orders().ran[ran];
    return ran == 0 || (found.stream < clock.size() && found.count <= clock[found.stream]);
}

// What this thread of the host knows. Replaced, never changed: operations keep what it was when they were put.
inline std::shared_ptr<const Clock>& seen_by_thread() {
    thread_local std::shared_ptr<const Clock> seen = std::make_shared<Clock>(orders().host);
    return seen;
}

// This thread of the host has waited for these.
inline void host_has_seen(const Clock& seen) {
    auto joined = std::make_shared<Clock>(*seen_by_thread());
    join(*joined, seen);
    seen_by_thread() = joined;
    join(orders().host, seen);
}

}
