// What the imitation's libraries ask of its libcuda beyond what NVIDIA's driver has, and what tests may ask.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Puts a function on a stream, to be called once with `argument` when the stream comes to it, as an operation that lasts so long where times
// are virtual. While it runs,
// no other operation does. It may call `imitation_reads` and `imitation_writes` and nothing else of this
// library. Returns a CUresult.
int imitation_push(void* stream, const char* what, void (*run)(void*), void* argument, uint64_t lasts_ns);

// The same for an operation that calls `imitation_spend` itself; it runs once `can_run` says so, which is asked when the stream has come to it, as often as it takes, under the same rules.
int imitation_push_when(
    void* stream, const char* what, int (*can_run)(void*), void (*run)(void*), void* argument
);

// Where times are virtual: when the operation that runs can begin. 0 elsewhere.
uint64_t imitation_free_ns(void);

// Where times are virtual: the operation that runs begins then at the earliest, and lasts so long.
void imitation_spend(uint64_t start_ns, uint64_t lasts_ns, const char* what);

// The point of the operation that runs, with all that comes before it, until it is forgotten.
void* imitation_point(void);

// The operation that runs, and so all that follows on its stream, comes after this point.
void imitation_come_after(void* point);

void imitation_forget(void* point);

// The host's number of the device whose context is current, -1 if there is none.
int imitation_current_device(void);

// Rows of so many bytes, that begin so far apart.
struct imitation_matrix {
    const void* address;
    size_t row_bytes, num_rows, distance_bytes;
};

// What the operation that runs accesses. It must lie in one live allocation of a device, or in page-locked
// memory of the host, and no other operation may access it without an order between the two, where one of them
// writes. Else the process ends with an explanation.
void imitation_reads(imitation_matrix matrix, const char* what);
void imitation_writes(imitation_matrix matrix, const char* what);

// Whether the library was built with a kernel of this name for elements of a type: `F32`, `BF16` or `F16`.
int imitation_has_kernel(const char* element, const char* name);

// Counts a call that can fail: 1 if this is the one that IMITATION_FAIL_AT says.
int imitation_fails(void);

// Whether the run has this fault: see `faults.h`.
int imitation_has_fault(const char* kind, const char* place);

// How many calls that can fail have been made.
uint64_t imitation_num_calls(void);

// From now on as with IMITATION_FAIL_AT: counts calls anew and fails the one of this number, counted from 1;
// 0 for none.
void imitation_fail_at(uint64_t number);

// From now on as with IMITATION_SEED.
void imitation_set_seed(uint64_t seed);

}
