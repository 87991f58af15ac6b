// Operations of several streams at one place, one of which writes there, that nothing orders: a wait for an
// event is missing, whether or not the two have met in this run.
//
// For each four bytes the latest operations are kept that wrote and read them (as in FastTrack, Flanagan and
// Freund, PLDI 2009). What copies, sets and products touch is known in any case, and what kernels touch where the
// fake GPU was built to look at their accesses.
#pragma once

#include <map>

#include "memory.h"
#include "orders.h"

// The compiler puts no checks into a function with this mark.
#define FAKE_GPU_UNCHECKED __attribute__((no_sanitize("kernel-address")))

namespace fake_gpu {

enum class Access { Read, Write };

inline const size_t CELL_BYTES = 4;

// Operations by their places in `Orders::ran`; 0 is none.
struct Cell {
    uint32_t writer, reader;
};

struct Races {
    // Of the whole arena. Pages begin with zeros.
    Cell* const cells = (Cell*)Memory::reserve(ARENA_BYTES / CELL_BYTES * sizeof(Cell));
    // Of cells, the readers beside the latest, where nothing orders them.
    std::map<const Cell*, std::vector<uint32_t>> more_readers;
};

inline Races& races() {
    static Races* races = new Races;
    return *races;
}

// Once a call has failed, streams go on with what the program has given up.
inline void stop_race(uint32_t first, const char* has, const char* what, const char* does) {
    const Ran& ran = orders().ran[first];
    if (world().fail_at != 0 && world().num_calls >= world().fail_at) {
        return;
    }
    stop("a race: %s %s what %s on stream %u has %s, and nothing orders the two", what, does, ran.what,
         ran.stream, has);
}

// Of operations that have accessed this cell, all come before these.
inline void require_before(const Cell& cell, const Clock& before, const char* what, const char* does) {
    if (!is_before(cell.writer, before)) {
        stop_race(cell.writer, "written", what, does);
    }
    if (!is_before(cell.reader, before)) {
        stop_race(cell.reader, "read", what, does);
    }
    auto more = races().more_readers.find(&cell);
    if (more != races().more_readers.end()) {
        for (uint32_t reader : more->second) {
            if (!is_before(reader, before)) {
                stop_race(reader, "read", what, does);
            }
        }
    }
}

// The first access of a cell by the operation that runs.
inline void note_first(Cell& cell, Access access) {
    uint32_t now = uint32_t(orders().ran.size() - 1);
    const Clock& before = *orders().before;
    const char* what = orders().ran[now].what;
    if (access == Access::Write) {
        require_before(cell, before, what, "writes");
        races().more_readers.erase(&cell);
        cell = {now, 0};
        return;
    }
    if (!is_before(cell.writer, before)) {
        stop_race(cell.writer, "written", what, "reads");
    }
    if (!is_before(cell.reader, before)) {
        auto& more = races().more_readers[&cell];
        std::erase_if(more, [&](uint32_t reader) { return is_before(reader, before); });
        more.push_back(cell.reader);
    }
    cell.reader = now;
}

// The operation that runs accesses these bytes. The host's own memory is let pass.
FAKE_GPU_UNCHECKED inline void note_access(uintptr_t address, size_t num_bytes, Access access) {
    size_t offset = address - (uintptr_t)memory().arena;
    if (num_bytes == 0 || offset >= ARENA_BYTES) {
        return;
    }
    uint32_t now = uint32_t(orders().ran.size() - 1);
    Cell* end = races().cells + (offset + num_bytes - 1) / CELL_BYTES + 1;
    for (Cell* cell = races().cells + offset / CELL_BYTES; cell < end; cell++) {
        bool is_known = access == Access::Write ? cell->writer == now && cell->reader == 0
                                                : cell->writer == now || cell->reader == now;
        if (!is_known) {
            note_first(*cell, access);
        }
    }
}

// As `note_access`, of bytes that lie in one live allocation, or the process stops.
inline void accessed(const void* address, size_t num_bytes, Access access, const char* what) {
    require_live(address, num_bytes, what);
    note_access((uintptr_t)address, num_bytes, access);
}

// Memory is freed behind these operations: nothing else may still have to do with it. Its addresses are never used again.
inline void end_accesses(const void* address, bool is_pinned, const Clock& before) {
    auto found = memory().live.find((uintptr_t)address);
    if (found == memory().live.end() || found->second.is_pinned != is_pinned || found->second.is_foreign) {
        return;
    }
    size_t offset = (uintptr_t)address - (uintptr_t)memory().arena;
    Cell* first = races().cells + offset / CELL_BYTES;
    Cell* end = first + (found->second.num_bytes + CELL_BYTES - 1) / CELL_BYTES;
    for (const Cell* cell = first; cell < end; cell++) {
        require_before(*cell, before, "a call", "frees");
    }
    races().more_readers.erase(races().more_readers.lower_bound(first), races().more_readers.lower_bound(end));
    give_back((char*)first, (end - first) * sizeof(Cell));
}

}
