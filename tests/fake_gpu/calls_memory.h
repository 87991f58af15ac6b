// The driver's calls that allocate and free memory.
#pragma once

static Result allocate_here(void** address, size_t num_bytes, bool is_pinned) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    return allocate(address, num_bytes, current_context->device, is_pinned);
}

// A program whose calls fail cannot wait for what it frees.
static Result release_here(void* address, bool is_pinned) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    if (world().fail_at == 0) {
        end_accesses(address, is_pinned, orders().host);
    }
    return release(address, is_pinned);
}

EXPORTED Result cuMemAlloc_v2(void** address, size_t num_bytes) {
    return allocate_here(address, num_bytes, false);
}

// The driver may wait for streams here, which programs must not lean on; this one never does.
EXPORTED Result cuMemFree_v2(void* address) {
    return release_here(address, false);
}

// The memory is there at once, not only when the stream comes to it: too early a use from elsewhere is not
// found.
EXPORTED Result cuMemAllocAsync(void** address, size_t num_bytes, void* stream) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    Stream* found = find_stream(stream);
    return found ? allocate(address, num_bytes, found->device, false) : INVALID_HANDLE;
}

EXPORTED Result cuMemFreeAsync(void* address, void* stream) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    Stream* found = find_stream(stream);
    if (!found) {
        return INVALID_HANDLE;
    }
    put(found, {"a free", [=] {
        end_accesses(address, false, *orders().before);
        if (release(address, false) != SUCCESS) {
            stop("cuMemFreeAsync: %p is not a live allocation of a device", address);
        }
    }});
    return SUCCESS;
}

EXPORTED Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    *total_bytes = world().memory_bytes;
    *free_bytes = world().memory_bytes - host().used_bytes(world().devices[size_t(current_context->device)]);
    return SUCCESS;
}

EXPORTED Result cuMemHostAlloc(void** address, size_t num_bytes, unsigned) {
    return allocate_here(address, num_bytes, true);
}

EXPORTED Result cuMemAllocHost_v2(void** address, size_t num_bytes) {
    return allocate_here(address, num_bytes, true);
}

EXPORTED Result cuMemFreeHost(void* address) {
    return release_here(address, true);
}

EXPORTED Result cuMemHostRegister_v2(void* address, size_t num_bytes, unsigned) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    if (!address || num_bytes == 0) {
        return INVALID_VALUE;
    }
    if (find_live(address, 1)) {
        return HOST_MEMORY_ALREADY_REGISTERED;
    }
    memory().live[(uintptr_t)address] = {num_bytes, current_context->device, true, true};
    return SUCCESS;
}

EXPORTED Result cuMemHostUnregister(void* address) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    auto found = memory().live.find((uintptr_t)address);
    if (found == memory().live.end() || !found->second.is_foreign) {
        return HOST_MEMORY_NOT_REGISTERED;
    }
    memory().live.erase(found);
    return SUCCESS;
}

EXPORTED Result cuMemHostGetDevicePointer_v2(void** device_address, void* address, unsigned) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    *device_address = address;
    return is_pinned(address, 1) ? SUCCESS : INVALID_VALUE;
}
