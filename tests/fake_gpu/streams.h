// Streams as queues that nobody hurries: an operation runs when somebody waits, in an order that a seed draws
// among all that streams and events allow. Streams have random priorities, drawn anew now and then, so that
// one runs as far ahead of the others as events let it, and another as late.
#pragma once

#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "orders.h"
#include "times.h"
#include "world.h"

namespace fake_gpu {

// Other processes may have to compute first where they share a host.
inline const std::chrono::seconds PATIENCE(getenv("FAKE_GPU_HOST") ? 60 : 3);

struct Stream;

// One use of an event: what a wait waits for, even if the event is recorded again.
struct Record {
    bool is_reached = false;
    uint64_t ns = 0;
    // Once it is reached.
    Clock before;
    Stream* stream;
    uint64_t round = 0;

    // In virtual times; one from before they began anew was at 0.
    uint64_t reached_ns() const { return round == times().round ? ns : 0; }
};

struct Event {
    int device;
    bool has_time;
    // None before the first record, which nobody waits for.
    std::shared_ptr<Record> latest;
};

struct Operation {
    const char* what;
    std::function<void()> run;
    // If there is one: whether it may run.
    std::function<bool()> can_run = nullptr;
    // Runs without the lock.
    bool is_host_function = false;
    // How long it lasts, where times are virtual.
    uint64_t lasts_ns = 0;
    // What the host had waited for when it put this, and until when.
    std::shared_ptr<const Clock> after = nullptr;
    uint64_t put_ns = 0;
};

struct Stream {
    int device;
    unsigned number;
    std::deque<Operation> queue;
    uint64_t num_done = 0;
    bool is_running = false, is_destroyed = false;
    // What comes before its next operation.
    Clock before;
    // When that can begin, where times are virtual.
    uint64_t free_ns = 0;
    // Whether it is one of NCCL's, and which stream it waited for last: that asked for its messages.
    bool has_messages = false;
    Stream* asks = nullptr;
};

struct Streams {
    // In the order of their priorities.
    std::vector<std::unique_ptr<Stream>> all;
    std::map<int, Stream*> defaults;
    std::set<Event*> events;
    unsigned num_created = 0;
    // Operations that were put or have run.
    uint64_t num_changes = 0;
    uint64_t latest_ns = 0;
    // That whose operation runs.
    Stream* current = nullptr;
};

inline Streams& streams() {
    static Streams* streams = new Streams;
    return *streams;
}

inline Stream* create_stream(int device) {
    auto& all = streams().all;
    all.push_back(std::unique_ptr<Stream>(new Stream{device, streams().num_created++, {}}));
    Stream* stream = all.back().get();
    std::swap(all[world().random.below(all.size())], all.back());
    return stream;
}

// A handle's stream, or null if there is none. 0, 1 and 2 are the default streams of the current context: one
// here, which has no order with the others.
inline Stream* find_stream(void* handle) {
    if ((uintptr_t)handle <= 2) {
        if (!current_context) {
            return nullptr;
        }
        Stream*& stream = streams().defaults[current_context->device];
        return stream ? stream : stream = create_stream(current_context->device);
    }
    for (auto& stream : streams().all) {
        if (stream.get() == handle && !stream->is_destroyed) {
            return stream.get();
        }
    }
    return nullptr;
}

inline Event* find_event(void* handle) {
    auto found = streams().events.find((Event*)handle);
    return found == streams().events.end() ? nullptr : *found;
}

inline void note_change() {
    streams().num_changes++;
    world().changed.notify_all();
}

inline void begin_times_if_asked() {
    if (!begin_times()) {
        return;
    }
    for (auto& stream : streams().all) {
        if (!stream->queue.empty()) {
            stop("FAKE_GPU_TIMES: times begin anew while operations are under way");
        }
        stream->free_ns = 0;
    }
}

inline void put(Stream* stream, Operation operation) {
    begin_times_if_asked();
    operation.after = seen_by_thread();
    operation.put_ns = host_ns();
    stream->queue.push_back(std::move(operation));
    note_change();
}

// Nanoseconds of a clock that never shows the same twice.
inline uint64_t now_ns() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    auto ns = uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    return streams().latest_ns = std::max(streams().latest_ns + 1, ns);
}

inline std::shared_ptr<Record> put_record(Stream* stream) {
    auto record = std::make_shared<Record>();
    record->stream = stream;
    put(stream, {"an event", [record, stream] {
        record->before = stream->before;
        record->ns = are_times_virtual() ? stream->free_ns : now_ns();
        record->round = times().round;
        record->is_reached = true;
    }});
    return record;
}

// Later operations of the stream wait for the event's record before this call.
inline void put_wait(Stream* stream, const Event* event) {
    if (auto record = event->latest) {
        auto wait = [record, stream] {
            join(stream->before, record->before);
            stream->free_ns = std::max(stream->free_ns, record->reached_ns());
            write_times(stream->device, stream->number, stream->free_ns, stream->free_ns, "wait");
        };
        put(stream, {"a wait for an event", wait, [record] { return record->is_reached; }});
        stream->asks = record->stream;
    }
}

inline void forget_destroyed() {
    auto is_gone = [](const Stream* stream) { return stream->is_destroyed && stream->queue.empty(); };
    for (auto& stream : streams().all) {
        stream->asks = stream->asks && is_gone(stream->asks) ? nullptr : stream->asks;
    }
    std::erase_if(streams().all, [&](auto& stream) { return is_gone(stream.get()); });
}

// The operation that runs begins at a time at the earliest, lasts so long, and is written down.
inline void spend(uint64_t start_ns, uint64_t lasts_ns, const char* what) {
    Stream* stream = streams().current;
    start_ns = std::max(start_ns, stream->free_ns);
    stream->free_ns = start_ns + lasts_ns;
    write_times(stream->device, stream->number, start_ns, stream->free_ns, what);
}

// Runs the first operation of a stream, which stays in the queue meanwhile.
inline void run_first(Stream* stream, Lock& lock) {
    Operation& operation = stream->queue.front();
    stream->is_running = true;
    Clock& before = stream->before;
    join(before, *operation.after);
    before.resize(std::max(before.size(), size_t(stream->number) + 1));
    before[stream->number] = stream->num_done + 1;
    begin_operation(operation.what, stream->number, before);
    stream->free_ns = std::max(stream->free_ns, operation.put_ns);
    streams().current = stream;
    if (operation.is_host_function) {
        lock.unlock();
        is_in_host_function = true;
        operation.run();
        is_in_host_function = false;
        lock.lock();
    } else {
        operation.run();
    }
    if (operation.lasts_ns != 0) {
        spend(0, operation.lasts_ns, operation.what);
    }
    stream->is_running = false;
    stream->queue.pop_front();
    stream->num_done++;
    forget_destroyed();
    note_change();
}

// Draws the streams' priorities.
inline void shuffle_streams() {
    auto& all = streams().all;
    for (size_t left = all.size(); left > 1; left--) {
        std::swap(all[left - 1], all[world().random.below(left)]);
    }
}

// Runs one operation that may run, if there is one.
inline bool run_one(Lock& lock) {
    if (world().random.below(256) == 0) {
        shuffle_streams();
    }
    for (auto& stream : streams().all) {
        if (stream->is_running || stream->queue.empty()) {
            continue;
        }
        const Operation& first = stream->queue.front();
        if (!first.can_run || first.can_run()) {
            run_first(stream.get(), lock);
            return true;
        }
    }
    return false;
}

// Runs a few operations: what a GPU does between two questions.
inline void run_some(Lock& lock) {
    for (size_t left = 1 + world().random.below(3); left > 0 && run_one(lock); left--) {
    }
}

inline void tell_what_waits() {
    fprintf(stderr, "fake GPU: nothing can go on;");
    for (auto& stream : streams().all) {
        if (!stream->queue.empty()) {
            const char* verb = stream->is_running ? "runs" : "is at";
            fprintf(stderr, " stream %u %s %s,", stream->number, verb, stream->queue.front().what);
        }
    }
    fprintf(stderr, " the others are empty\n");
}

// Runs operations until `is_done`. Operations that other threads put may help, for which it has some
// patience.
inline Result wait_until(Lock& lock, const std::function<bool()>& is_done) {
    using Clock = std::chrono::steady_clock;
    auto end = Clock::now() + PATIENCE;
    uint64_t num_changes = streams().num_changes;
    while (!is_done()) {
        if (run_one(lock)) {
            continue;
        }
        if (num_changes != streams().num_changes) {
            num_changes = streams().num_changes;
            end = Clock::now() + PATIENCE;
        } else if (Clock::now() > end) {
            tell_what_waits();
            return LAUNCH_TIMEOUT;
        }
        // In slices: a value that a stream waits for may be written by the host, which tells nobody.
        world().changed.wait_for(lock, std::chrono::milliseconds(2));
    }
    return SUCCESS;
}

// What other processes wait for comes to pass although nobody here asks: a thread runs operations where none has run for a while.
inline void go_on_alone() {
    const std::chrono::milliseconds WHILE(5);
    static std::once_flag once;
    std::call_once(once, [WHILE] {
        std::thread([WHILE] {
            for (uint64_t num_changes = 0;;) {
                std::this_thread::sleep_for(WHILE);
                Lock lock = lock_world();
                if (num_changes == streams().num_changes) {
                    run_some(lock);
                }
                num_changes = streams().num_changes;
            }
        }).detach();
    });
}

// The host waits for these points of streams, which it then knows to have come.
inline Result wait_for(Lock& lock, const std::vector<std::shared_ptr<Record>>& points) {
    auto is_reached = [](auto& point) { return point->is_reached; };
    Result result = wait_until(lock, [&] { return std::all_of(points.begin(), points.end(), is_reached); });
    if (result == SUCCESS) {
        for (auto& point : points) {
            host_has_seen(point->before);
            host_waited_until(point->reached_ns());
        }
    }
    return result;
}

// Waits for what the stream has been asked for so far.
inline Result wait_for_stream(Lock& lock, Stream* stream) { return wait_for(lock, {put_record(stream)}); }

}
