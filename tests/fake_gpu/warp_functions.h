// What kernels have in inline PTX on a GPU, by its definition in the PTX ISA: products of matrices and loads
// of matrices, which a warp does as one, and copies to shared memory that go on while their thread does.
#pragma once

#include <cstring>

#include "fibers.h"
#include "accesses.h"

// The linker puts these around all shared variables of all kernels.
extern "C" __attribute__((weak, visibility("hidden"))) char __start_fake_gpu_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) char __stop_fake_gpu_shared[];

namespace fake_gpu {

// What the lanes of a warp give to an instruction that it does as one, and what they get.
struct WarpWork {
    uint32_t left[LANES][4], right[LANES][2];
    float sums[LANES][4];
    const char* rows[LANES];
    uint32_t parts[LANES][4];
    // Lanes that have taken what they get. The first does the work of all, before any can give anew.
    unsigned num_taken;
};

inline WarpWork warp_works[NUM_THREADS_MAX / LANES];

// Loads of eight rows whose 16 bytes do not lie in all 32 banks: they take longer. Tests read and reset it.
inline unsigned long long num_bank_conflicts;

inline bool is_shared(const void* address, size_t num_bytes) {
    auto* first = (const char*)address;
    return first >= __start_fake_gpu_shared && first + num_bytes <= __stop_fake_gpu_shared;
}

// Waits for all lanes, and says whether the own lane is the first to go on. `.aligned`: all lanes are at the
// same instruction.
inline bool meet_warp(WarpWork& work, Site site) {
    wait_for_lanes(~0u, site);
    bool is_first = work.num_taken == 0;
    work.num_taken = (work.num_taken + 1) % LANES;
    if (!is_first) {
        return false;
    }
    unsigned first = block.current->number / LANES * LANES;
    if (block.warps[first / LANES].existing != ~0u) {
        stop_kernel("an instruction of a whole warp, which has fewer lanes", site);
    }
    for (unsigned number = first; number < first + LANES; number++) {
        Site other = block.fibers[number].site;
        if (other.line != site.line || strcmp(other.file, site.file) != 0) {
            stop_kernel("lanes of a warp are at different instructions of the whole warp", site);
        }
    }
    return true;
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type". Products of 16 bits are exact in
// f32; sums are in the order of k, which a GPU does not promise.
template <class Widened>
void multiply_warp(WarpWork& work, Widened widened) {
    float left[16][16], right[16][8], sums[16][8];
    for (unsigned lane = 0; lane < LANES; lane++) {
        unsigned row = lane / 4, column = lane % 4 * 2;
        for (unsigned half = 0; half < 2; half++) {
            for (unsigned part = 0; part < 4; part++) {
                auto bits = uint16_t(work.left[lane][part] >> 16 * half);
                left[row + part % 2 * 8][column + part / 2 * 8 + half] = widened(bits);
            }
            for (unsigned part = 0; part < 2; part++) {
                auto bits = uint16_t(work.right[lane][part] >> 16 * half);
                right[column + part * 8 + half][row] = widened(bits);
            }
            sums[row][column + half] = work.sums[lane][half];
            sums[row + 8][column + half] = work.sums[lane][2 + half];
        }
    }
    for (unsigned row = 0; row < 16; row++) {
        for (unsigned k = 0; k < 16; k++) {
            for (unsigned column = 0; column < 8; column++) {
                sums[row][column] += left[row][k] * right[k][column];
            }
        }
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        for (unsigned index = 0; index < 4; index++) {
            work.sums[lane][index] = sums[lane / 4 + index / 2 * 8][lane % 4 * 2 + index % 2];
        }
    }
}

// `mma.sync.aligned.m16n8k16.row.col.f32`, into the sums that it adds to.
template <class Widened>
void add_product(
    float* sums, const uint32_t* left, uint32_t right_upper, uint32_t right_lower, Widened widened,
    const char* file = __builtin_FILE(), int line = __builtin_LINE()
) {
    unsigned lane = block.current->number % LANES;
    WarpWork& work = warp_works[block.current->number / LANES];
    memcpy(work.left[lane], left, sizeof work.left[lane]);
    work.right[lane][0] = right_upper;
    work.right[lane][1] = right_lower;
    memcpy(work.sums[lane], sums, sizeof work.sums[lane]);
    if (meet_warp(work, {file, line})) {
        multiply_warp(work, widened);
    }
    memcpy(sums, work.sums[lane], sizeof work.sums[lane]);
}

// PTX ISA, "ldmatrix".
inline void load_warp(WarpWork& work, bool is_transposed, Site site) {
    for (unsigned part = 0; part < 4; part++) {
        unsigned banks = 0;
        for (unsigned row = 0; row < 8; row++) {
            const char* from = work.rows[8 * part + row];
            if ((uintptr_t)from % 16 != 0 || !is_shared(from, 16)) {
                stop_kernel("ldmatrix from an address that is not shared or not aligned to 16 bytes", site);
            }
            banks |= 1u << (uintptr_t)from / 16 % 8;
            uint16_t bits[8];
            memcpy(bits, from, sizeof bits);
            for (unsigned column = 0; column < 8; column++) {
                unsigned lane = is_transposed ? column * 4 + row / 2 : row * 4 + column / 2;
                unsigned half = (is_transposed ? row : column) % 2;
                memcpy((char*)&work.parts[lane][part] + 2 * half, &bits[column], sizeof bits[column]);
            }
        }
        num_bank_conflicts += banks != 0xff;
    }
}

// `ldmatrix.sync.aligned.m8n8.x4.shared.b16`, with `.trans` or without.
inline void load_parts(
    uint32_t* parts, const void* row, bool is_transposed, const char* file = __builtin_FILE(),
    int line = __builtin_LINE()
) {
    unsigned lane = block.current->number % LANES;
    WarpWork& work = warp_works[block.current->number / LANES];
    work.rows[lane] = (const char*)row;
    if (meet_warp(work, {file, line})) {
        load_warp(work, is_transposed, {file, line});
    }
    memcpy(parts, work.parts[lane], sizeof work.parts[lane]);
}

// `cp.async.shared.global`. It may write at once and as late as it is waited for: so there is poison at once,
// and the bytes come when it is waited for.
inline void start_copy(
    void* to, const void* from, size_t num_bytes, size_t num_copied, const char* file = __builtin_FILE(),
    int line = __builtin_LINE()
) {
    Site site = {file, line};
    bool is_size = num_bytes == 4 || num_bytes == 8 || num_bytes == 16;
    if (!is_size || num_copied > num_bytes) {
        stop_kernel("a copy to shared memory of a size that there is not", site);
    }
    if ((uintptr_t)to % num_bytes != 0 || (uintptr_t)from % num_bytes != 0 || !is_shared(to, num_bytes)) {
        stop_kernel("a copy to memory that is not shared, or of addresses that are not aligned", site);
    }
    memset(to, 0xff, num_bytes);
    block.current->copies.open.push_back({to, from, num_bytes, num_copied});
}

// `cp.async.commit_group`
inline void close_copy_group() {
    Copies& copies = block.current->copies;
    copies.groups.push_back(std::move(copies.open));
    copies.open.clear();
}

// `cp.async.wait_group`
inline void wait_for_copies(size_t num_open) {
    Copies& copies = block.current->copies;
    while (copies.groups.size() > num_open) {
        for (const Copy& copy : copies.groups.front()) {
            memset((char*)copy.to + copy.num_copied, 0, copy.num_bytes - copy.num_copied);
            if (copy.num_copied) {
                check_access((uintptr_t)copy.from, copy.num_copied, 1, Access::Read);
                memcpy(copy.to, copy.from, copy.num_copied);
            }
        }
        copies.groups.pop_front();
    }
}

}
