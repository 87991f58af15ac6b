// A fake CUDA driver in host memory: it proves the logic of a program against what NVIDIA's
// documents say. README.md says what it models.

#include "fake_gpu.h"

#include "faults.h"
#include "memory.h"
#include "modules.h"
#include "races.h"
#include "streams.h"
#include "times.h"
#include "world.h"

using namespace fake_gpu;

// Each file has the calls of one part of the driver, with the signatures of cuda.h (CUDA 13). Handles are
// `void*`, and device addresses are `void*` too, which are passed as `CUdeviceptr` is.
#include "calls_devices.h"
#include "calls_memory.h"
#include "calls_modules.h"
#include "calls_streams.h"
#include "calls_transfers.h"

static Result push(void* stream, Operation operation) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    Stream* found = find_stream(stream);
    if (!found) {
        return INVALID_HANDLE;
    }
    found->has_messages = found->has_messages || operation.can_run;
    put(found, std::move(operation));
    return SUCCESS;
}

EXPORTED int fake_gpu_push(
    void* stream, const char* what, void (*run)(void*), void* argument, uint64_t lasts_ns
) {
    Operation operation{what, [=] { run(argument); }};
    operation.lasts_ns = lasts_ns;
    return push(stream, std::move(operation));
}

EXPORTED int fake_gpu_push_when(
    void* stream, const char* what, int (*can_run)(void*), void (*run)(void*), void* argument
) {
    return push(stream, {what, [=] { run(argument); }, [=] { return can_run(argument) != 0; }});
}

EXPORTED uint64_t fake_gpu_free_ns(void) { return are_times_virtual() ? streams().current->free_ns : 0; }

EXPORTED void fake_gpu_spend(uint64_t start_ns, uint64_t lasts_ns, const char* what) {
    if (are_times_virtual()) {
        spend(start_ns, lasts_ns, what);
    }
}

EXPORTED void* fake_gpu_point(void) { return new Clock(*orders().before); }

EXPORTED void fake_gpu_come_after(void* point) { join(*orders().before, *(const Clock*)point); }

EXPORTED void fake_gpu_forget(void* point) { delete (Clock*)point; }

EXPORTED int fake_gpu_current_device(void) {
    return current_context ? world().devices[size_t(current_context->device)] : -1;
}

static void accessed_matrix(const fake_gpu_matrix& matrix, Access access, const char* what) {
    if (matrix.row_bytes == 0 || matrix.num_rows == 0) {
        return;
    }
    require_live(matrix.address, matrix.distance_bytes * (matrix.num_rows - 1) + matrix.row_bytes, what);
    for (size_t row = 0; row < matrix.num_rows; row++) {
        note_access((uintptr_t)matrix.address + row * matrix.distance_bytes, matrix.row_bytes, access);
    }
}

EXPORTED void fake_gpu_reads(fake_gpu_matrix matrix, const char* what) {
    accessed_matrix(matrix, Access::Read, what);
}

EXPORTED void fake_gpu_writes(fake_gpu_matrix matrix, const char* what) {
    accessed_matrix(matrix, Access::Write, what);
}

EXPORTED int fake_gpu_has_kernel(const char* element, const char* name) {
    return find_kernel(element, name) != nullptr;
}

EXPORTED int fake_gpu_fails(void) { return is_chosen_to_fail(); }

EXPORTED int fake_gpu_has_fault(const char* kind, const char* place) { return has_fault(kind, place); }

EXPORTED uint64_t fake_gpu_num_calls(void) { return world().num_calls; }

EXPORTED void fake_gpu_fail_at(uint64_t number) {
    world().fail_at = number;
    world().num_calls = 0;
}

EXPORTED void fake_gpu_set_seed(uint64_t seed) {
    Lock lock = lock_world();
    world().random.set_seed(seed);
}
