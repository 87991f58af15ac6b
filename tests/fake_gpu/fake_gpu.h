// What the fake libraries ask of the fake libcuda beyond what NVIDIA's driver has, and what tests may ask.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Puts a function on a stream, to be called once with `argument` when the stream comes to it, as an operation that lasts so long where times
// are virtual. While it runs,
// no other operation does. It may call `fake_gpu_reads` and `fake_gpu_writes` and nothing else of this
// library. Returns a CUresult.
int fake_gpu_push(void* stream, const char* what, void (*run)(void*), void* argument, uint64_t lasts_ns);

// The same for an operation that calls `fake_gpu_spend` itself; it runs once `can_run` says so, which is asked when the stream has come to it, as often as it takes, under the same rules.
int fake_gpu_push_when(
    void* stream, const char* what, int (*can_run)(void*), void (*run)(void*), void* argument
);

// Where times are virtual: when the operation that runs can begin. 0 elsewhere.
uint64_t fake_gpu_free_ns(void);

// Where times are virtual: the operation that runs begins then at the earliest, and lasts so long.
void fake_gpu_spend(uint64_t start_ns, uint64_t lasts_ns, const char* what);

// The point of the operation that runs, with all that comes before it, until it is forgotten.
void* fake_gpu_point(void);

// The operation that runs, and so all that follows on its stream, comes after this point.
void fake_gpu_come_after(void* point);

void fake_gpu_forget(void* point);

// The host's number of the device whose context is current, -1 if there is none.
int fake_gpu_current_device(void);

// Rows of so many bytes, that begin so far apart.
struct fake_gpu_matrix {
    const void* address;
    size_t row_bytes, num_rows, distance_bytes;
};

// What the operation that runs accesses. It must lie in one live allocation of a device, or in page-locked
// memory of the host, and no other operation may access it without an order between the two, where one of them
// writes. Else the process ends with an explanation.
void fake_gpu_reads(fake_gpu_matrix matrix, const char* what);
void fake_gpu_writes(fake_gpu_matrix matrix, const char* what);

// Whether the library was built with a kernel of this name for elements of a type: `F32`, `BF16` or `F16`.
int fake_gpu_has_kernel(const char* element, const char* name);

// Counts a call that can fail: 1 if this is the one that FAKE_GPU_FAIL_AT says.
int fake_gpu_fails(void);

// Whether the run has this fault: see `faults.h`.
int fake_gpu_has_fault(const char* kind, const char* place);

// How many calls that can fail have been made.
uint64_t fake_gpu_num_calls(void);

// From now on as with FAKE_GPU_FAIL_AT: counts calls anew and fails the one of this number, counted from 1;
// 0 for none.
void fake_gpu_fail_at(uint64_t number);

// From now on as with FAKE_GPU_SEED.
void fake_gpu_set_seed(uint64_t seed);

}
